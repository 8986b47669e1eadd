//! Somebody in front of the dashboard of a running Sluicegate, while others use it.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_testkit::{HttpRequest, raw_socket};

use super::browser::Browser;
use crate::running::Sluicegate;

/// The page of a Sluicegate, open.
pub struct Visit {
    pub browser: Browser,
    admin: SocketAddr,
}

impl Visit {
    /// Opens it, and waits until it shows something.
    pub fn of(sluicegate: &Sluicegate) -> Self {
        let visit = Self {
            browser: Browser::start(),
            admin: sluicegate.admin.unwrap(),
        };
        visit.browser.open(visit.admin);
        visit
            .browser
            .wait_for("document.querySelector('#config').textContent.startsWith('version')");
        visit
    }

    /// Says that the page complained of nothing and asked nobody else.
    pub fn end(self) {
        assert_eq!(self.browser.complaints(), [""; 0]);
        let requested = self.browser.requested();
        let own = format!("http://{}/", self.admin);
        assert!(requested.len() > 5, "requests are seen: {requested:?}");
        // Pages of the browser's own, such as the empty one, are no requests.
        let is_sent = |url: &&String| {
            ["http:", "https:", "ws:", "wss:"]
                .iter()
                .any(|scheme| url.starts_with(scheme))
        };
        let is_foreign = |url: &&String| is_sent(url) && !url.starts_with(&own);
        assert_eq!(
            requested.iter().filter(is_foreign).collect::<Vec<_>>(),
            [""; 0]
        );
    }

    /// The first row of the busiest keys.
    pub fn first_key(&self) -> String {
        self.browser.text("#keys tbody tr:first-child .key")
    }

    /// The button of the row of a key.
    pub fn button(&self, key: &str, act: &str) -> String {
        let row = format!(
            "return [...document.querySelectorAll('#keys tbody tr')].findIndex((row) => row.querySelector('.key').textContent === {}) + 1",
            json!(key)
        );
        let number = self
            .browser
            .run(&row)
            .as_u64()
            .filter(|number| *number > 0)
            .expect("the key is in the table");
        format!("#keys tbody tr:nth-child({number}) button[data-act={act}]")
    }
}

/// Callers that ask the decision service all the time, `busy` ten times as often as `calm`.
pub struct Callers {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Callers {
    pub fn start(decisions: SocketAddr) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut stream = raw_socket::connect(decisions);
            for number in (0_u32..).take_while(|_| !told.load(Relaxed)) {
                let caller = if number.is_multiple_of(10) {
                    "calm"
                } else {
                    "busy"
                };
                ask(
                    &mut stream,
                    decisions,
                    &json!({ "limit": "per-caller", "key": [caller], "cost": 1 }),
                );
                // bounded wait: the pace of the callers; nothing waits for it
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Callers {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            ended.unwrap().unwrap();
        }
    }
}

/// Charges one unit; returns true when it is allowed.
pub fn check(sluicegate: &Sluicegate, key: &str) -> bool {
    let decisions = sluicegate.decisions.unwrap();
    let mut stream = raw_socket::connect(decisions);
    let answer = ask(
        &mut stream,
        decisions,
        &json!({ "limit": "per-caller", "key": [key], "cost": 1 }),
    );
    answer["allowed"]
        .as_bool()
        .unwrap_or_else(|| panic!("{answer}"))
}

/// One question on a connection that stays open.
pub fn ask(stream: &mut TcpStream, address: SocketAddr, question: &Value) -> Value {
    let request = HttpRequest::post("/v1/check", question.to_string())
        .host(address)
        .headers(&["Content-Type: application/json"])
        .keep_open();
    stream.write_all(&request.to_http1()).unwrap();
    let answer = raw_socket::read_response(stream);
    assert!(matches!(answer.status(), 200 | 503), "{answer}");
    serde_json::from_str(answer.body()).unwrap()
}
