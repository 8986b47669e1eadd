//! Services that misbehave: an error by name, within the timeout, and never more read than there is room for.

use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use sluicegate_gate::external::{ExternalCounts, ResolvedLimits};

use super::service::{pour, unruly};
use super::{ask, external, over_http, told};

const TIMEOUT: Duration = Duration::from_millis(500);
/// Bytes in the buffers of both ends may be on their way when we close the connection.
const BUFFERS: usize = 24 << 20;

fn ok(body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Asks once, and says how long it took and what was counted.
async fn asked(
    behave: impl Fn(&mut TcpStream) + Send + Sync + 'static,
) -> (ResolvedLimits, Duration, ExternalCounts) {
    let mut settings = over_http(unruly(behave));
    settings.timeout = TIMEOUT.into();
    let external = external(&settings);
    let begun = Instant::now();
    let known = ask(&external, "a").await;
    (known, begun.elapsed(), external.counts())
}

/// Asks once for nothing; how long it took.
async fn fails(name: &str, behave: impl Fn(&mut TcpStream) + Send + Sync + 'static) -> Duration {
    let (known, took, counts) = asked(behave).await;
    assert_eq!(known, ResolvedLimits::Configured, "{name}");
    assert!(
        took < TIMEOUT + Duration::from_secs(3),
        "{name} took {took:?}"
    );
    // The waiting caller gets its answer a moment before the call itself is over.
    assert!(
        counts.calls >= 1 && counts.errors + u64::from(took >= TIMEOUT) >= 1,
        "{name}: {counts:?}"
    );
    took
}

/// Each is an error of the service: broken HTTP, broken JSON, values that are not valid.
#[tokio::test]
async fn replies_that_make_no_sense_are_errors() {
    let gzip =
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 14\r\n\r\n{\"average\": 1}"
            .to_vec();
    let deep = format!(
        "{{\"average\": 1, \"x\": {}1{}}}",
        "[".repeat(30_000),
        "]".repeat(30_000)
    );
    let deepest = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let long = format!("{{\"average\": 1, \"x\": \"{}\"}}", "a".repeat(64 * 1024));
    let statuses = [
        "201 Created",
        "204 No Content",
        "302 Found",
        "404 Not Found",
        "429 Too Many",
        "500 Broken",
    ];
    let with_status = |status: &str| {
        format!(
            "HTTP/1.1 {status}\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 14\r\n\r\n{{\"average\": 1}}"
        )
    };
    let mut replies: Vec<(String, Vec<u8>)> = vec![
        ("nothing".into(), Vec::new()),
        ("no HTTP".into(), b"hello\r\n\r\n".to_vec()),
        ("HTTP/2".into(), b"\0\0\0\x04\0\0\0\0\0".to_vec()),
        (
            "half an answer".into(),
            b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"average\": 1}".to_vec(),
        ),
        (
            "two lengths".into(),
            b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n{}".to_vec(),
        ),
        ("no JSON".into(), ok("hello")),
        ("an empty body".into(), ok("")),
        ("nothing of ours".into(), ok("{}")),
        ("wrong types".into(), ok(r#"{"average": {}, "burst": []}"#)),
        ("negative".into(), ok(r#"{"average": -1}"#)),
        (
            "huge".into(),
            ok(
                r#"{"average": 9223372036854775807, "burst": 9223372036854775807, "period": "1ns"}"#,
            ),
        ),
        (
            "control characters".into(),
            ok(r#"{"average": 1, "tenant_key": "a\r\nb"}"#),
        ),
        (
            "bare control characters".into(),
            ok("{\"average\": 1, \"tenant_key\": \"a\nb\"}"),
        ),
        ("encoded".into(), gzip),
        ("deep".into(), ok(&deep)),
        ("deepest".into(), ok(&deepest)),
        ("long".into(), ok(&long)),
    ];
    replies.extend(statuses.map(|status| (status.to_owned(), with_status(status).into_bytes())));
    let mut believed = Vec::new();
    for (name, reply) in replies {
        let (known, took, counts) = asked(move |stream| drop(stream.write_all(&reply))).await;
        if known != ResolvedLimits::Configured || counts.errors != 1 {
            believed.push((name, took, counts));
        }
    }
    assert!(believed.is_empty(), "{believed:#?}");
}

/// The largest body is 64 KiB.
#[tokio::test]
async fn a_reply_as_long_as_there_is_room_for_is_read() {
    let body = format!("{{\"average\": 7{}}}", " ".repeat(64 * 1024 - 14));
    let port = unruly(move |stream| drop(stream.write_all(&ok(&body))));
    assert_eq!(
        told(&ask(&external(&over_http(port)), "a").await),
        Some((7, false))
    );
}

/// The service learns how much was read by how much it could send.
#[tokio::test]
async fn of_endless_replies_no_more_is_read_than_there_is_room_for() {
    let heads = [
        (
            "an endless body",
            "HTTP/1.1 200 OK\r\n\r\n{\"average\": 1, \"x\": \"",
        ),
        (
            "100 MB",
            "HTTP/1.1 200 OK\r\ncontent-length: 104857600\r\n\r\n{\"average\": 1, \"x\": \"",
        ),
        (
            "endless chunks",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        ),
        ("an endless head", "HTTP/1.1 200 OK\r\n"),
    ];
    for (name, head) in heads {
        let (tell, told) = mpsc::channel();
        let lump = match name {
            "endless chunks" => format!("400\r\n{}\r\n", "a".repeat(0x400)),
            "an endless head" => format!("x: {}\r\n", "a".repeat(1_000)),
            _ => "a".repeat(1_024),
        };
        fails(name, move |stream| {
            let _ = stream.write_all(head.as_bytes());
            let _ = tell.send(pour(stream, lump.as_bytes()));
        })
        .await;
        let poured = told.recv_timeout(sluicegate_testkit::STEP_TIMEOUT).unwrap();
        assert!(poured < BUFFERS, "{name}: {poured}");
    }
}

/// A byte now and then does not make the timeout longer.
#[tokio::test]
async fn a_service_that_drips_or_says_nothing_costs_the_timeout_and_no_more() {
    let drips = |stream: &mut TcpStream| {
        for byte in ok("{\"average\": 1}").iter().cycle() {
            if stream.write_all(&[*byte]).is_err() {
                return;
            }
            // bounded wait: until the other side hangs up
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let says_nothing = |stream: &mut TcpStream| {
        let mut rest = [0; 1];
        let _ = std::io::Read::read(stream, &mut rest);
    };
    for took in [
        fails("drips", drips).await,
        fails("says nothing", says_nothing).await,
    ] {
        assert!(took >= TIMEOUT - Duration::from_millis(50), "{took:?}");
    }
}

/// Interim responses (103) without a final one.
#[tokio::test]
async fn endless_promises_of_an_answer_end_with_the_timeout() {
    let hundreds = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&hundreds);
    fails("promises", move |stream| {
        count.fetch_add(pour(stream, b"HTTP/1.1 103 Early Hints\r\n\r\n"), SeqCst);
    })
    .await;
    assert!(hundreds.load(SeqCst) < 200 << 20);
}
