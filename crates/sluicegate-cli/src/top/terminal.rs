//! The live view: asks in one thread, shows and listens in the other.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use serde_json::json;

use super::app::{App, AppAction};
use super::draw::draw;
use super::status::{StatusReport, TopQuery, fetch_status};
use crate::FINE;
use crate::admin_client::{AdminClient, path_of};
use crate::sanitize::sanitize;

/// How often the door is asked.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How soon a key press or an answer is seen.
const EVENT_WAIT: Duration = Duration::from_millis(50);

/// Runs until somebody has seen enough.
pub fn run(remote: AdminClient, url: String, question: TopQuery) -> Result<u8, String> {
    let app = App::new(url, question.by);
    let (command_sender, commands) = channel();
    let (result_sender, results) = channel();
    // It ends with the process: an answer that is waited for keeps nobody here.
    std::thread::spawn(move || poll_loop(&remote, question, &commands, &result_sender));
    let mut terminal = ratatui::try_init().map_err(|error| format!("the terminal: {error}"))?;
    let ended = screen_loop(app, &mut terminal, &command_sender, &results);
    ratatui::restore();
    ended
        .map(|()| FINE)
        .map_err(|error| format!("the terminal: {error}"))
}

/// What the asking thread is told.
enum PollCommand {
    Sort(super::Order),
    Reset { limit: String, parts: Vec<String> },
}

/// What it tells.
enum PollResult {
    Status(Result<StatusReport, String>),
    Notice(String),
}

fn poll_loop(
    remote: &AdminClient,
    mut question: TopQuery,
    commands: &Receiver<PollCommand>,
    results: &Sender<PollResult>,
) {
    loop {
        if results
            .send(PollResult::Status(fetch_status(remote, &question)))
            .is_err()
        {
            return;
        }
        match commands.recv_timeout(POLL_INTERVAL) {
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
            Ok(PollCommand::Sort(by)) => question.by = by,
            Ok(PollCommand::Reset { limit, parts }) => {
                let _ = results.send(PollResult::Notice(reset(remote, &limit, &parts)));
            }
        }
    }
}

fn reset(remote: &AdminClient, limit: &str, parts: &[String]) -> String {
    let path = path_of(
        "/v1/keys",
        std::iter::once(limit).chain(parts.iter().map(String::as_str)),
    );
    let by = std::env::var("USER").unwrap_or_else(|_| "operator".to_owned());
    match remote.delete(
        &path,
        Some(&json!({ "by": by, "reason": "sluicegate top" })),
    ) {
        Ok(answer) => format!("{} is reset", crate::admin_args::text(&answer["text"])),
        Err(why) => sanitize(&why),
    }
}

fn screen_loop(
    mut app: App,
    terminal: &mut DefaultTerminal,
    commands: &Sender<PollCommand>,
    results: &Receiver<PollResult>,
) -> std::io::Result<()> {
    let mut has_changed = true;
    loop {
        for report in results.try_iter() {
            has_changed = true;
            match report {
                PollResult::Status(status) => app.update(status),
                PollResult::Notice(notice) => app.notice = Some(notice),
            }
        }
        if has_changed {
            terminal.draw(|frame| draw(&app, frame))?;
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
        // Nobody is left to run an errand only when the process ends.
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
