//! Decisions as they happen, as a stream of events.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use serde_json::{Value, json};
use sluicegate_testkit::{HttpRequest, eventually, raw_socket};

use super::super::running::Sluicegate;
use super::{CONFIG, ask, from};

/// The response to a request for events, of which nothing has been read.
fn request_events(sluicegate: &Sluicegate, query: &str) -> BufReader<TcpStream> {
    let address = sluicegate.admin.unwrap();
    let request = HttpRequest::get(&format!("/v1/events{query}"))
        .host(address)
        .keep_open();
    let mut stream = raw_socket::connect(address);
    stream.write_all(&request.to_http1()).unwrap();
    BufReader::new(stream)
}

/// A stream of events that has begun.
fn watch(sluicegate: &Sluicegate, query: &str) -> BufReader<TcpStream> {
    let mut lines = request_events(sluicegate, query);
    let mut head = String::new();
    while !head.contains(": welcome") {
        assert!(lines.read_line(&mut head).unwrap() > 0, "it ended: {head}");
    }
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert!(head.contains("content-type: text/event-stream"), "{head}");
    lines
}

/// The next decision in the stream.
fn next(lines: &mut BufReader<TcpStream>) -> Value {
    loop {
        let mut line = String::new();
        assert!(lines.read_line(&mut line).unwrap() > 0, "it ended");
        if let Some(data) = line.strip_prefix("data: ") {
            return serde_json::from_str(data).unwrap();
        }
    }
}

#[test]
fn whoever_watches_sees_decisions_as_they_are_made() {
    let sluicegate = Sluicegate::start(CONFIG);
    let mut all = watch(&sluicegate, "?limit=per-client");
    let mut denied = watch(&sluicegate, "?outcome=denied&key=113.7");
    for _ in 0..6 {
        from(&sluicegate, "203.0.113.7");
    }
    let first = next(&mut all);
    assert_eq!(
        (&first["key"], &first["outcome"]),
        (&json!("per-client:203.0.113.7"), &json!("allowed"))
    );
    assert_eq!(
        (&first["remaining"], &first["stands_for"]),
        (&json!(4), &json!(1))
    );
    let refused = next(&mut denied);
    assert_eq!(
        (&refused["outcome"], &refused["limit"]),
        (&json!("denied"), &json!("per-client"))
    );
    assert!(refused["retry_after_us"].as_u64().unwrap() > 3_000_000_000);
    assert_eq!(ask(&sluicegate, "GET", "/v1/stats", None).1["watching"], 2);
    drop((all, denied));
    eventually("nobody watches any more", || {
        from(&sluicegate, "203.0.113.7");
        ask(&sluicegate, "GET", "/v1/stats", None).1["watching"] == 0
    });
}

/// A caller's text is data, one line of it.
#[test]
fn a_hostile_key_stays_one_event() {
    let sluicegate = Sluicegate::start(CONFIG);
    let mut events = watch(&sluicegate, "?limit=watched");
    let hostile = "X-Tenant: <img src=x onerror=alert(1)>\\u001b[31m\"};data: x";
    sluicegate.get("/", &[hostile]);
    let event = next(&mut events);
    let key = event["key"].as_str().unwrap();
    assert!(key.starts_with("watched:%3Cimg"), "{key}");
    assert!(!key.contains(['<', '"', '\n', '\u{1b}']), "{key}");
}

#[test]
fn a_watcher_who_reads_nothing_holds_up_nobody() {
    let sluicegate = Sluicegate::start(CONFIG);
    let silent: Vec<_> = (0..8).map(|_| watch(&sluicegate, "")).collect();
    let mut refused = String::new();
    request_events(&sluicegate, "")
        .read_line(&mut refused)
        .unwrap();
    assert!(refused.starts_with("HTTP/1.1 429 "), "{refused}");
    for number in 0..300 {
        assert_eq!(
            from(&sluicegate, &format!("198.51.100.{}", number % 250)),
            200
        );
    }
    drop(silent);
}
