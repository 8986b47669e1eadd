//! One table: the same situations at every front door, and what each door does.
//!
//! A cell is the answer, what it tells about the limit, the counters that changed and the lines that
//! were written. Every cell equals what its row expects, or its difference is marked with a reason;
//! a marked cell must differ in exactly the marked way. `--no-capture` shows the table.

mod counters;
mod doors;
mod layer;
mod situations;
mod spans;

use std::fmt;
use std::fs;

use serde_json::json;
use sluicegate_server::messages::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use sluicegate_testkit::{UpstreamRecorder, UpstreamResponse, free_port};

use crate::decisions;
use crate::envoy_rls;
use crate::operator;
use crate::running::Sluicegate;
use counters::{Counters, rate_limit_lines, wait_for_lines};
use doors::FrontDoor;
use situations::{Preparation, Situation};
use spans::SpanRecorder;

/// What a door does in a situation.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Observation {
    verdict: String,
    /// What a client learns about its limit.
    tells: String,
    /// The limits that decided, each with its outcome, as `sluicegate_limit_decisions_total` has them.
    limits: String,
    /// The answer as `sluicegate_requests_total` or `sluicegate_decisions_total` has it.
    counted: String,
    /// The number of `RATE_LIMIT` lines.
    lines: usize,
    /// The `sluicegate.outcome` of its span; `None` where nothing is traced.
    span: Option<String>,
}

impl Observation {
    /// An answer that is counted as what it is, and writes no line.
    fn new(verdict: &str, tells: &str, limits: &str) -> Self {
        Self {
            verdict: verdict.to_owned(),
            tells: tells.to_owned(),
            limits: limits.to_owned(),
            counted: verdict.to_owned(),
            lines: 0,
            span: None,
        }
    }
}

impl fmt::Display for Observation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            verdict,
            tells,
            limits,
            counted,
            lines,
            span,
        } = self;
        let span = span.as_deref().unwrap_or("");
        write!(
            f,
            "{verdict:12} {tells:16} {limits:25} {counted:12} {lines:5} {span:8}"
        )
    }
}

/// A cell that is not as its row expects.
enum Mark {
    /// The door does exactly this instead.
    Differs {
        reason: &'static str,
        expected: Observation,
    },
    /// The situation cannot be put into the words of the door.
    NotAsked { reason: &'static str },
}

/// Differences of a door in every row.
const IN_EVERY_ROW: [(FrontDoor, &str); 2] = [
    (
        FrontDoor::Layer,
        "the layer is a library: its program counts and traces",
    ),
    (
        FrontDoor::Resp,
        "commands carry no trace, so they have no span",
    ),
];

/// The expectation as far as a door can meet it in any row.
fn within_reach(door: FrontDoor, mut expected: Observation) -> Observation {
    let nothing = || "-".to_owned();
    if door == FrontDoor::Layer {
        (expected.limits, expected.counted) = (nothing(), nothing());
    }
    if matches!(door, FrontDoor::Layer | FrontDoor::Resp) {
        expected.span = expected.span.map(|_| nothing());
    }
    expected
}

#[test]
fn every_front_door_does_the_same_in_every_situation_or_has_a_reason() {
    let service = UpstreamRecorder::answering(|_| {
        UpstreamResponse::ok(r#"{"average": 1, "burst": 4, "period": "1h"}"#)
            .header("content-type", "application/json")
    });
    let mut table = Table::default();
    for row in situations::all(free_port(), &service.address.to_string()) {
        let observations = observe(&row);
        table.add(&row, &observations);
    }
    println!("{}", table.text);
    for (door, reason) in IN_EVERY_ROW {
        println!("{} in every row: {reason}", door.name());
    }
    assert!(table.faults.is_empty(), "\n{}", table.faults.join("\n"));
}

#[test]
fn a_question_that_cannot_be_read_is_counted_as_refused_over_json_and_grpc() {
    let rows = situations::all(free_port(), "127.0.0.1:1");
    let (_, sluicegate) = start(&rows[0], None);
    let before = Counters::read(&sluicegate);
    let request = decisions::request("/v1/check", &[], "{}");
    let response = decisions::exchange(&sluicegate, request.as_bytes());
    assert_eq!(response.status(), 400, "{response}");
    let after_json = before.after_an_answer(&sluicegate);
    assert_eq!(
        after_json.answers_since(&before, FrontDoor::Json),
        "refused"
    );

    // A descriptor has at least one entry.
    let empty = envoy_rls::request([RateLimitDescriptor::default()]);
    let status = envoy_rls::client(&sluicegate, async |channel| {
        envoy_rls::ask_with(&channel, empty, None)
            .await
            .unwrap_err()
    });
    assert_eq!(status.code(), tonic::Code::InvalidArgument, "{status:?}");
    let after_grpc = after_json.after_an_answer(&sluicegate);
    assert_eq!(
        after_grpc.answers_since(&after_json, FrontDoor::Grpc),
        "refused"
    );
}

/// The rows so far, as text, and the cells that are neither as expected nor as marked.
#[derive(Default)]
struct Table {
    text: String,
    faults: Vec<String>,
}

impl Table {
    fn add(&mut self, row: &Situation, observations: &[(FrontDoor, Option<Observation>)]) {
        self.text += &format!(
            "\n{:20} {:12} {:16} {:25} {:12} {:5} {}\n",
            row.name.to_uppercase(),
            "verdict",
            "tells",
            "limits",
            "counted",
            "lines",
            "span"
        );
        for (door, observed) in observations {
            let mark = row.marks.iter().find(|(own, _)| own == door);
            let (expected, reason) = match mark {
                None => (Some(&row.expected), None),
                Some((_, Mark::Differs { reason, expected })) => (Some(expected), Some(reason)),
                Some((_, Mark::NotAsked { reason })) => (None, Some(reason)),
            };
            let expected = expected.map(|expected| {
                let span = row.is_traced.then(|| expected.verdict.clone());
                within_reach(
                    *door,
                    Observation {
                        span,
                        ..expected.clone()
                    },
                )
            });
            let cell = observed
                .as_ref()
                .map_or("not asked".to_owned(), ToString::to_string);
            let because = reason
                .map(|reason| format!("  ({reason})"))
                .unwrap_or_default();
            let line = format!("  {:18} {cell}{because}", door.name());
            self.text += line.trim_end();
            self.text += "\n";
            if *observed != expected {
                self.faults.push(format!(
                    "{}, {}:\n  found    {observed:?}\n  expected {expected:?}",
                    row.name,
                    door.name(),
                ));
            }
        }
    }
}

/// Brings every door into a situation, each with a client of its own, and asks.
fn observe(row: &Situation) -> Vec<(FrontDoor, Option<Observation>)> {
    let spans = row.is_traced.then(SpanRecorder::start);
    let (config, mut sluicegate) = start(row, spans.as_ref());
    let mut observations = Vec::new();
    for door in FrontDoor::ALL {
        let is_asked = !row
            .marks
            .iter()
            .any(|(own, mark)| *own == door && matches!(mark, Mark::NotAsked { .. }));
        let observed = is_asked.then(|| match door {
            FrontDoor::Layer => observe_layer(row, &config),
            _ => observe_program(row, &sluicegate, door),
        });
        observations.push((door, observed));
    }
    if let Some(spans) = spans {
        // Spans that wait are sent before the program ends.
        sluicegate.signal("TERM");
        assert!(sluicegate.wait().success());
        for (door, observed) in &mut observations {
            if let Some(observed) = observed {
                observed.span = Some(spans.outcome(&door.trace_id()));
            }
        }
    }
    observations
}

fn start(row: &Situation, spans: Option<&SpanRecorder>) -> (String, Sluicegate) {
    let listeners = "
proxy: { listen: '127.0.0.1:0' }
admin: { listen: '127.0.0.1:0' }
decisions: { http: '127.0.0.1:0', grpc: '127.0.0.1:0', resp: '127.0.0.1:0' }
client_ip: { trusted_proxies: [127.0.0.1/32] }
log: { access: true, format: text }
";
    let traces = spans.map(SpanRecorder::config).unwrap_or_default();
    let config = format!("{listeners}{traces}{}", row.config);
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("sluicegate.yaml"), &config).unwrap();
    let keys = format!("- {{ id: ann, sha256: {} }}\n", "ab".repeat(32));
    fs::write(directory.path().join("keys.yaml"), keys).unwrap();
    (config, Sluicegate::start_in(directory))
}

fn observe_program(row: &Situation, sluicegate: &Sluicegate, door: FrontDoor) -> Observation {
    prepare(row.preparation, sluicegate, door);
    let (before, lines_before) = (Counters::read(sluicegate), rate_limit_lines(sluicegate));
    let answer = doors::ask(sluicegate, door, &row.question);
    let after = before.after_an_answer(sluicegate);
    wait_for_lines(sluicegate, door as usize);
    Observation {
        verdict: answer.verdict,
        tells: answer.tells,
        limits: after.limits_since(&before),
        counted: after.answers_since(&before, door),
        lines: rate_limit_lines(sluicegate) - lines_before,
        span: None,
    }
}

fn observe_layer(row: &Situation, config: &str) -> Observation {
    let is_spent = matches!(row.preparation, Preparation::Spend | Preparation::Override);
    let (answer, lines) = layer::ask(config, row.store_away, is_spent, &row.question);
    Observation {
        verdict: answer.verdict,
        tells: answer.tells,
        limits: "-".to_owned(),
        counted: "-".to_owned(),
        lines,
        span: None,
    }
}

/// Brings the client of a door into the situation, by counters that are named and by the operator, so
/// that no other door has a part in it.
fn prepare(preparation: Preparation, sluicegate: &Sluicegate, door: FrontDoor) {
    let client = door.client();
    let limits = ["per-client", "per-client-by-descriptor"];
    if matches!(preparation, Preparation::Spend | Preparation::Override) {
        for limit in limits {
            let question = json!({ "limit": limit, "key": [client] }).to_string();
            let request = decisions::request("/v1/check", &[], &question);
            let response = decisions::exchange(sluicegate, request.as_bytes());
            assert_eq!(decisions::body(&response)["allowed"], true, "{response}");
        }
    }
    let order = |path: &str, order: serde_json::Value| {
        let (status, granted) = operator::ask(sluicegate, "POST", path, Some(&order.to_string()));
        assert_eq!(status, 201, "{granted}");
    };
    match preparation {
        Preparation::Nothing | Preparation::Spend => {}
        Preparation::Ban => order(
            "/v1/bans",
            json!({ "client_ip": client, "for": "1h", "by": "ann", "reason": "scraping" }),
        ),
        Preparation::Override => {
            for limit in limits {
                order(
                    "/v1/overrides",
                    json!({
                        "limit": limit, "key": [client], "rate": "1/h", "burst": 5,
                        "for": "1h", "by": "ann", "reason": "load test",
                    }),
                );
            }
        }
    }
}
