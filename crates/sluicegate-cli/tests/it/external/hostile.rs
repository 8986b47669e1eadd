//! An external service that answers what no service should: the limit's own quota holds, in time and
//! in bounded memory.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use sluicegate_testkit::raw_socket::serve_connections;
use sluicegate_testkit::{RedisServer, UpstreamRecorder};

use super::super::running::Sluicegate;
use super::{config, passes};

/// A service that reads a question and then writes what it likes.
fn service(write: impl Fn(&mut dyn Write) + Send + 'static) -> SocketAddr {
    serve_connections(move |_, mut stream| {
        let _ = stream.read(&mut [0; 4_096]);
        write(&mut stream);
    })
}

fn whole(headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{headers}\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// The requests that pass for a tenant with such a service, the time of the first answer, and the growth
/// of the process in KiB.
fn met(write: impl Fn(&mut dyn Write) + Send + Sync + 'static) -> (usize, Duration, u64) {
    let (redis, upstream) = (RedisServer::start(), UpstreamRecorder::start());
    let at = service(write);
    let sluicegate = Sluicegate::start(&config(&format!("http://{at}/"), &redis, &upstream, ""));
    let (before, began) = (sluicegate.resident_kib(), Instant::now());
    let first = super::ask(&sluicegate, "acme");
    let took = began.elapsed();
    assert_eq!(first, 200, "the limit's own quota lets one pass");
    let grown = sluicegate.resident_kib().saturating_sub(before);
    assert!(
        sluicegate.metric("sluicegate_external_errors_total") >= 1,
        "it is an error of the service"
    );
    (1 + passes(&sluicegate, "acme"), took, grown)
}

/// The timeout is 2 s; a busy machine gets five times that.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
const MOST_KIB: u64 = 16 * 1_024;

fn holds(what: &str, write: impl Fn(&mut dyn Write) + Send + Sync + 'static) {
    let (passed, took, grown) = met(write);
    assert_eq!(passed, 1, "{what}: the limit's own quota holds");
    assert!(took < ANSWER_TIMEOUT, "{what}: answered after {took:?}");
    assert!(grown < MOST_KIB, "{what}: {grown} KiB more");
}

#[test]
fn control_characters_in_values_are_refused() {
    for field in ["tenant_key", "period", "backend_url", "request_timeout"] {
        let body = format!(
            r#"{{"average": 1000, "burst": 1000, "period": "1s", "{field}": "a\u0000\r\nX-Admin: yes\u001b[31m"}}"#
        );
        holds(field, move |stream| {
            drop(stream.write_all(&whole("", body.as_bytes())))
        });
    }
}

#[test]
fn an_answer_that_is_too_deep_or_too_long_is_refused() {
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    holds("deep", move |stream| {
        let body = format!(r#"{{"average": 1000, "burst": 1000, "period": "1s", "more": {deep}}}"#);
        drop(stream.write_all(&whole("", body.as_bytes())));
    });
    holds("100 MB", |stream| {
        let _ =
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000000\r\n\r\n");
        let piece = [b' '; 65_536];
        for _ in 0..100_000_000 / piece.len() {
            if stream.write_all(&piece).is_err() {
                return;
            }
        }
    });
}

#[test]
fn a_body_without_an_end_is_given_up() {
    holds("endless", |stream| {
        let _ = stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
        let piece = [&b"10000\r\n"[..], &[b' '; 65_536], b"\r\n"].concat();
        while stream.write_all(&piece).is_ok() {}
    });
    holds("a byte now and then", |stream| {
        let _ = stream.write_all(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 4096\r\n\r\n",
        );
        while stream.write_all(b" ").and_then(|()| stream.flush()).is_ok() {
            // bounded wait: a slow server on purpose, until the other side hangs up
            thread::sleep(Duration::from_millis(100));
        }
    });
}

#[test]
fn what_is_compressed_is_not_unpacked() {
    // Ten bytes of header, then what would unpack to far more; nobody looks.
    let bomb = [
        &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3][..],
        &[0xed, 0xc1, 1, 13, 0, 0, 0, 0xc2, 0xa0][..],
        &[0; 4_000],
    ]
    .concat();
    holds("gzip", move |stream| {
        drop(stream.write_all(&whole("Content-Encoding: gzip\r\n", &bomb)))
    });
}

#[test]
fn numbers_that_are_none_are_refused() {
    let wrong = [
        r#"{"average": -1, "burst": 10, "period": "1s"}"#,
        r#"{"average": 1e30, "burst": 10, "period": "1s"}"#,
        r#"{"average": 10, "burst": 99999999999999999999, "period": "1s"}"#,
        r#"{"average": "many", "burst": 10, "period": "1s"}"#,
        r#"{"average": 10, "burst": 10, "period": "-1s"}"#,
        r#"{"average": 10, "burst": 10, "period": "0s"}"#,
        r#"{"average": 10, "burst": 10, "period": "forever"}"#,
        r#"[1, 2]"#,
        "",
    ];
    for body in wrong {
        holds(body, move |stream| {
            drop(stream.write_all(&whole("", body.as_bytes())))
        });
    }
}
