//! The other client: it asks at a steady pace, whatever its last request waits for.

use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use sluicegate_testkit::{HttpResponse, Latencies, raw_socket};

use super::super::running::Sluicegate;
use super::upstream::CountedUpstream;
use super::ways::Door;

/// Two requests in each: eight a second are below the limit that is there by default.
const PACE: Duration = Duration::from_millis(250);

/// What became of the requests.
#[derive(Default)]
pub struct GoodAnswers {
    /// From the moment when a request was due, so that one that comes late counts as late.
    pub latencies: Latencies,
    /// Those of requests to the server itself.
    pub direct: Latencies,
    pub failures: Vec<String>,
}

impl GoodAnswers {
    pub fn failed(reason: String) -> Self {
        Self {
            failures: vec![reason],
            ..Self::default()
        }
    }

    fn record(&mut self, due: Instant, response: &HttpResponse) {
        self.latencies.record(due.elapsed());
        if response.is_empty() || response.status() != 200 {
            self.failures
                .push(format!("the other client got {response}"));
        }
    }
}

/// Asks on a new connection and on one that stays open, and for the health where the admin API is
/// attacked.
pub fn ask_steadily(
    sluicegate: &Sluicegate,
    upstream: &CountedUpstream,
    attacked: Door,
    until: Instant,
) -> GoodAnswers {
    let mut answers = GoodAnswers::default();
    let mut kept = raw_socket::connect(sluicegate.proxy);
    let mut due = Instant::now();
    while due < until {
        // bounded wait: until the next request is due
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let begun = Instant::now();
        ask_on(&mut raw_socket::connect(upstream.address));
        let direct = begun.elapsed();
        answers.direct.record(direct);
        let due_behind = due + direct;
        answers.record(due_behind, &sluicegate.get("/good", &[]));
        if attacked == Door::Admin {
            answers.record(due_behind, &sluicegate.admin_get("/healthz"));
        }
        answers.record(due_behind, &ask_on(&mut kept));
        due += PACE;
        // Requests that were due meanwhile would have waited, too. They are not made up for: that
        // would be more than the limit allows.
        while due + PACE < Instant::now() {
            answers.latencies.record(due.elapsed());
            due += PACE;
        }
    }
    answers
}

fn ask_on(kept: &mut TcpStream) -> HttpResponse {
    // An end of the connection is seen when the answer is read.
    let _ = kept.write_all(b"GET /good HTTP/1.1\r\nHost: a.example\r\n\r\n");
    raw_socket::read_response(kept)
}
