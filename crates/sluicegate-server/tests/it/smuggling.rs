//! Requests in whose bytes somebody could find another request.
//!
//! Each case is sent on a connection of its own. Whatever the proxy makes of it, the server behind gets at most that one
//! request, in a form that no reader takes for anything else.

use sluicegate_testkit::{UpstreamRecorder, raw_socket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::corpus::{self, Expected};
use super::edge::Edge;

/// Cases under way at a time; most of their time is spent waiting for the proxy to end a connection.
const THREADS: usize = 128;

struct Case {
    expected: Expected,
    /// With `{case}` and `{next}` in it, and escapes.
    text: String,
}

/// All cases of the corpus, and mixtures of them.
#[test]
fn nobody_sees_two_requests_where_one_was_sent() {
    let cases = cases();
    assert!(cases.len() >= 300, "{} cases", cases.len());
    let recorder = UpstreamRecorder::start();
    let edge = Edge::start(recorder.address, Vec::new());
    let next = AtomicUsize::new(0);
    let play_all = || {
        let mut failures = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(case) = cases.get(number) else {
                return failures;
            };
            failures.extend(play(case, number, &edge, &recorder));
        }
    };
    let failures: Vec<String> = thread::scope(|scope| {
        let players: Vec<_> = (0..THREADS).map(|_| scope.spawn(play_all)).collect();
        players
            .into_iter()
            .flat_map(|player| player.join().unwrap())
            .collect()
    });
    // Looked at once more when everything is over: nothing came late, and nothing else came at all.
    let strangers: Vec<_> = recorder
        .requests()
        .into_iter()
        .filter(|recorded| !recorded.target.starts_with("/case/"))
        .collect();
    let strangers: Vec<_> = strangers
        .iter()
        .filter(|recorded| !is_announced(&recorded.target, &cases))
        .collect();
    assert!(strangers.is_empty(), "{strangers:#?}");
    assert!(
        failures.is_empty(),
        "{} of {} cases:\n{}",
        failures.len(),
        cases.len(),
        failures.join("\n")
    );
}

fn is_announced(target: &str, cases: &[Case]) -> bool {
    let number = target
        .strip_prefix("/next/")
        .and_then(|number| number.parse::<usize>().ok());
    number.is_some_and(|number| cases[number].expected == Expected::Twice)
}

/// Plays a case; returns the failure, if there is one.
fn play(case: &Case, number: usize, edge: &Edge, recorder: &UpstreamRecorder) -> Option<String> {
    let answers = raw_socket::exchange(edge.address, &bytes(case, number));
    let of = |kind: &str| {
        let target = format!("/{kind}/{number}");
        recorder
            .requests()
            .into_iter()
            .filter(|recorded| recorded.target == target)
            .collect::<Vec<_>>()
    };
    let (own, next) = (of("case"), of("next"));
    let statuses = answers.statuses();
    let fails = |what: &str| {
        Some(format!(
            "{what}: {:?} {:?}, answered {statuses:?}, recorded {own:#?}",
            case.expected, case.text
        ))
    };
    if own
        .iter()
        .any(|recorded| recorded.fault.is_some() || recorded.version != "HTTP/1.1")
    {
        return fails("the request behind is malformed");
    }
    if own.len() > 1 || next.len() > usize::from(case.expected == Expected::Twice) {
        return fails("more than one request behind");
    }
    let whole = own.iter().filter(|recorded| recorded.is_complete).count();
    let first = statuses.first().copied().unwrap_or(0);
    let is_refused = own.is_empty() && matches!(first, 0 | 400..=499 | 501);
    let is_once = whole == 1 && first == 200;
    let fine = match case.expected {
        Expected::Refused => is_refused,
        Expected::Once => is_once && statuses.len() == 1,
        Expected::Either => is_refused || is_once || whole == 0,
        Expected::Broken => whole == 0 && first != 200,
        Expected::Twice => is_once && next.len() == 1 && statuses[..] == [200, 200],
    };
    if fine { None } else { fails("not as expected") }
}

fn bytes(case: &Case, number: usize) -> Vec<u8> {
    let next = format!("GET /next/{number} HTTP/1.1\\r\\nHost: a.example\\r\\n\\r\\n");
    let length = corpus::bytes(&next).len();
    let text = case.text.replace("{case}", &format!("/case/{number}"));
    let text = text
        .replace("{len}", &length.to_string())
        .replace("{hex}", &format!("{length:x}"));
    // The length of an empty last chunk and what follows it.
    let text = text.replace("{all}", &(b"0\r\n\r\n".len() + length).to_string());
    corpus::bytes(
        &text
            .replace("{next-hex}", &format!("{length:x}"))
            .replace("{next}", &next),
    )
}

fn cases() -> Vec<Case> {
    let head = r"POST {case} HTTP/1.1\r\nHost: a.example\r\n";
    let mut cases = Vec::new();
    let mut add = |expected, text: String| cases.push(Case { expected, text });
    for (expected, coding) in corpus::expectations("codings.txt") {
        add(
            expected,
            format!(r"{head}{coding}\r\n\r\n{{next-hex}}\r\n{{next}}\r\n0\r\n\r\n"),
        );
        // A reader that goes by the length takes the next request for a part of this body; one that goes by the
        // coding does not.
        let short = r"0\r\n\r\n{next}";
        for lines in mixtures(&coding, "Content-Length: {all}") {
            add(Expected::Either, format!(r"{head}{lines}\r\n\r\n{short}"));
        }
        // The other way round.
        let long = r"{next-hex}\r\n{next}\r\n0\r\n\r\n";
        for lines in mixtures(&coding, "Content-Length: 4") {
            add(Expected::Either, format!(r"{head}{lines}\r\n\r\n{long}"));
        }
    }
    for (expected, length) in corpus::expectations("lengths.txt") {
        add(expected, format!(r"{head}{length}\r\n\r\n{{next}}"));
        for lines in mixtures(&length, "Content-Length: 0") {
            add(Expected::Refused, format!(r"{head}{lines}\r\n\r\n{{next}}"));
        }
        for lines in mixtures(&length, "Transfer-Encoding: chunked") {
            add(
                Expected::Either,
                format!(r"{head}{lines}\r\n\r\n{{next-hex}}\r\n{{next}}\r\n0\r\n\r\n"),
            );
        }
    }
    for (expected, body) in corpus::expectations("chunks.txt") {
        add(
            expected,
            format!(r"{head}Transfer-Encoding: chunked\r\n\r\n{body}"),
        );
    }
    for (expected, request) in corpus::expectations("heads.txt") {
        add(expected, request);
    }
    cases
}

/// Both orders.
fn mixtures(one: &str, other: &str) -> [String; 2] {
    [format!(r"{one}\r\n{other}"), format!(r"{other}\r\n{one}")]
}
