//! The live view: asks in one thread, shows and listens in the other.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use serde_json::json;

use super::app::{App, Wish};
use super::draw::draw;
use super::seen::{Question, Seen, look};
use crate::FINE;
use crate::plain::plain;
use crate::remote::{Remote, path_of};

/// How often the door is asked.
const EVERY: Duration = Duration::from_secs(1);
/// How soon a key press or an answer is seen.
const GLANCE: Duration = Duration::from_millis(50);

/// Runs until somebody has seen enough.
pub fn run(remote: Remote, place: String, question: Question) -> Result<u8, String> {
    let app = App::new(place, question.by);
    let (errands, to_do) = channel();
    let (reports, came) = channel();
    // It ends with the process: an answer that is waited for keeps nobody here.
    std::thread::spawn(move || ask_on(&remote, question, &to_do, &reports));
    let mut terminal = ratatui::try_init().map_err(|error| format!("the terminal: {error}"))?;
    let ended = show_on(app, &mut terminal, &errands, &came);
    ratatui::restore();
    ended
        .map(|()| FINE)
        .map_err(|error| format!("the terminal: {error}"))
}

/// What the asking thread is told.
enum Errand {
    Sort(super::Order),
    Reset { limit: String, parts: Vec<String> },
}

/// What it tells.
enum Report {
    Looked(Result<Seen, String>),
    News(String),
}

fn ask_on(
    remote: &Remote,
    mut question: Question,
    errands: &Receiver<Errand>,
    reports: &Sender<Report>,
) {
    loop {
        if reports
            .send(Report::Looked(look(remote, &question)))
            .is_err()
        {
            return;
        }
        match errands.recv_timeout(EVERY) {
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
            Ok(Errand::Sort(by)) => question.by = by,
            Ok(Errand::Reset { limit, parts }) => {
                let _ = reports.send(Report::News(reset(remote, &limit, &parts)));
            }
        }
    }
}

fn reset(remote: &Remote, limit: &str, parts: &[String]) -> String {
    let path = path_of(
        "/v1/keys",
        std::iter::once(limit).chain(parts.iter().map(String::as_str)),
    );
    let by = std::env::var("USER").unwrap_or_else(|_| "operator".to_owned());
    match remote.delete(
        &path,
        Some(&json!({ "by": by, "reason": "sluicegate top" })),
    ) {
        Ok(answer) => format!("{} is reset", crate::door::text(&answer["text"])),
        Err(why) => plain(&why),
    }
}

fn show_on(
    mut app: App,
    terminal: &mut DefaultTerminal,
    errands: &Sender<Errand>,
    came: &Receiver<Report>,
) -> std::io::Result<()> {
    let mut has_changed = true;
    loop {
        for report in came.try_iter() {
            has_changed = true;
            match report {
                Report::Looked(seen) => app.take(seen),
                Report::News(news) => app.news = Some(news),
            }
        }
        if has_changed {
            terminal.draw(|frame| draw(&app, frame))?;
        }
        has_changed = event::poll(GLANCE)?;
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
            Wish::Nothing => {}
            Wish::Quit => return Ok(()),
            Wish::Sort => drop(errands.send(Errand::Sort(app.by))),
            Wish::Reset { limit, parts } => drop(errands.send(Errand::Reset { limit, parts })),
        }
    }
}
