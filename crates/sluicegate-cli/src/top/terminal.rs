//! The live view on a terminal. One thread polls the admin API, the other draws and reads keys, so a slow
//! server never blocks the keyboard.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::style::Color;
use serde_json::json;

use super::app::{App, AppAction};
use super::draw::draw;
use super::status::{StatusReport, TopQuery, fetch_status};
use crate::admin_client::{AdminClient, path_of};
use crate::color;
use crate::exit_code::FINE;
use crate::sanitize::sanitize;

/// Pause between two requests.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Longest delay until a response is drawn.
const EVENT_WAIT: Duration = Duration::from_millis(50);

/// Runs until the user quits.
pub fn run(client: AdminClient, url: String, query: TopQuery) -> Result<u8, String> {
    let app = App::new(url, query.by);
    let (command_sender, commands) = channel();
    let (result_sender, results) = channel();
    // Not joined: a request that is still waiting must not delay the exit.
    std::thread::spawn(move || poll_loop(&client, query, &commands, &result_sender));
    let mut terminal = ratatui::try_init().map_err(|error| format!("terminal: {error}"))?;
    let ended = screen_loop(app, &mut terminal, &command_sender, &results);
    ratatui::restore();
    ended
        .map(|()| FINE)
        .map_err(|error| format!("terminal: {error}"))
}

/// Message to the polling thread.
enum PollCommand {
    /// Fetch the keys in this order from now on.
    Sort(super::Order),
    /// Delete this counter, then report the result as a notice.
    Reset { limit: String, parts: Vec<String> },
}

/// Message from the polling thread.
enum PollResult {
    /// The result of one request.
    Status(Result<StatusReport, String>),
    /// The result of a command, for the bottom line.
    Notice(String),
}

/// Fetches the status every [`POLL_INTERVAL`] and carries out commands in between, until the receiver is
/// gone.
fn poll_loop(
    client: &AdminClient,
    mut query: TopQuery,
    commands: &Receiver<PollCommand>,
    results: &Sender<PollResult>,
) {
    loop {
        if results
            .send(PollResult::Status(fetch_status(client, &query)))
            .is_err()
        {
            return;
        }
        match commands.recv_timeout(POLL_INTERVAL) {
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
            Ok(PollCommand::Sort(by)) => query.by = by,
            Ok(PollCommand::Reset { limit, parts }) => {
                let _ = results.send(PollResult::Notice(reset(client, &limit, &parts)));
            }
        }
    }
}

/// Resets a key and returns the text for the bottom line.
fn reset(client: &AdminClient, limit: &str, parts: &[String]) -> String {
    let path = path_of(
        "/v1/keys",
        std::iter::once(limit).chain(parts.iter().map(String::as_str)),
    );
    let by = std::env::var("USER").unwrap_or_else(|_| "operator".to_owned());
    match client.delete(
        &path,
        Some(&json!({ "by": by, "reason": "sluicegate top" })),
    ) {
        Ok(response) => format!("{} is reset", crate::admin_args::text(&response["text"])),
        Err(error) => sanitize(&error),
    }
}

/// Draws after every change and handles keys until the user quits.
fn screen_loop(
    mut app: App,
    terminal: &mut DefaultTerminal,
    commands: &Sender<PollCommand>,
    results: &Receiver<PollResult>,
) -> std::io::Result<()> {
    let has_colors = color::is_wanted(&std::io::stdout());
    let mut has_changed = true;
    loop {
        for result in results.try_iter() {
            has_changed = true;
            match result {
                PollResult::Status(status) => app.update(status),
                PollResult::Notice(notice) => app.notice = Some(notice),
            }
        }
        if has_changed {
            terminal.draw(|frame| {
                draw(&app, frame);
                if !has_colors {
                    remove_colors(frame.buffer_mut());
                }
            })?;
        }
        has_changed = event::poll(EVENT_WAIT)?;
        if !has_changed {
            continue;
        }
        let Event::Key(key) = event::read()? else {
            continue;
        };
        if key.kind == KeyEventKind::Release {
            continue;
        }
        // Sending fails only when the polling thread has ended, which happens when the process ends.
        match app.press(key) {
            AppAction::Nothing => {}
            AppAction::Quit => return Ok(()),
            AppAction::Sort => drop(commands.send(PollCommand::Sort(app.by))),
            AppAction::Reset { limit, parts } => {
                drop(commands.send(PollCommand::Reset { limit, parts }))
            }
        }
    }
}

/// Leaves bold and reversed text only.
fn remove_colors(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        cell.fg = Color::Reset;
        cell.bg = Color::Reset;
    }
}
