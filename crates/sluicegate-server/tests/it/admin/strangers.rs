//! Strangers hold connections of the admin API in every way, and nobody else notices.

use sluicegate_testkit::HttpResponse;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{AdminServer, TOKEN, in_time, start_at, state};

/// More than there is room for, so that places change hands.
const STRANGERS: usize = 300;

/// Opens connections that send these bytes and then nothing.
async fn strangers(admin: &AdminServer, bytes: &[u8]) -> Vec<TcpStream> {
    let mut held = Vec::new();
    for _ in 0..STRANGERS {
        let mut stream = in_time(TcpStream::connect(admin.address)).await.unwrap();
        // One whose place was given to another may refuse it.
        let _ = stream.write_all(bytes).await;
        held.push(stream);
    }
    held
}

/// Health checks and operators are answered.
async fn assert_open(admin: &AdminServer, during: &str) {
    let token = format!("Authorization: Bearer {TOKEN}\r\n");
    for _ in 0..3 {
        assert_eq!(admin.get("/healthz").await.status(), 200, "{during}");
        for path in ["/readyz", "/metrics", "/v1/version"] {
            let response = admin.ask("GET", path, &token).await;
            assert_eq!(response.status(), 200, "{path} during {during}");
        }
    }
}

#[tokio::test]
async fn strangers_keep_nobody_out() {
    let host = "Host: a.example\r\n";
    let ways = [
        ("silence", String::new()),
        ("one byte", "G".to_owned()),
        ("half a request line", "GET /hea".to_owned()),
        ("half a header", format!("GET /healthz HTTP/1.1\r\n{host}")),
        ("empty lines", "\r\n\r\n".to_owned()),
        ("no token", format!("GET /metrics HTTP/1.1\r\n{host}\r\n")),
        (
            "a wrong token",
            format!("GET /metrics HTTP/1.1\r\n{host}Authorization: Bearer wrong\r\n\r\n"),
        ),
        (
            "a body that does not come",
            format!("POST /v1/reload HTTP/1.1\r\n{host}Content-Length: 10\r\n\r\n1"),
        ),
        ("health", format!("GET /healthz HTTP/1.1\r\n{host}\r\n")),
        (
            "the page, not read",
            format!("GET /app.js HTTP/1.1\r\n{host}\r\n"),
        ),
        ("no HTTP", "\x16\x03\x01\x02\x00".to_owned()),
        (
            "the preface of HTTP/2",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        ),
    ];
    for (name, bytes) in ways {
        let admin = start_at("127.0.0.1:0", true, state()).await;
        let held = strangers(&admin, bytes.as_bytes()).await;
        assert_open(&admin, name).await;
        drop(held);
    }
}

#[tokio::test]
async fn the_oldest_silent_connection_is_closed_and_not_the_newest() {
    let admin = start_at("127.0.0.1:0", true, state()).await;
    let mut held = strangers(&admin, b"").await;
    let mut newest = held.pop().unwrap();
    let mut rest = Vec::new();
    in_time(held[0].read_to_end(&mut rest)).await.unwrap();
    assert!(rest.is_empty(), "it is closed long before it is too slow");
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", admin.address);
    newest.write_all(request.as_bytes()).await.unwrap();
    in_time(newest.read_to_end(&mut rest)).await.unwrap();
    assert_eq!(HttpResponse::from_bytes(rest).status(), 200);
}

/// A stranger cannot become an operator by asking for what everybody may see.
#[tokio::test]
async fn operators_have_a_share_that_ends_and_health_does_not_need_one() {
    let (reload, _started, _go_on) = super::reload_that_waits();
    let admin = start_at(
        "127.0.0.1:0",
        true,
        sluicegate_server::admin::AdminState { reload, ..state() },
    )
    .await;
    let request = format!(
        "POST /v1/reload HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 10\r\n\r\n1",
        admin.address
    );
    let mut operators = Vec::new();
    for _ in 0..64 {
        let mut stream = TcpStream::connect(admin.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        operators.push(stream);
    }
    let token = format!("Authorization: Bearer {TOKEN}\r\n");
    in_time(async {
        // bounded wait: by in_time
        while admin.ask("GET", "/v1/version", &token).await.status() != 503 {}
    })
    .await;
    assert_eq!(admin.get("/healthz").await.status(), 200);
    assert_eq!(admin.ask("GET", "/readyz", &token).await.status(), 200);
    drop(operators);
    in_time(async {
        // bounded wait: by in_time
        while admin.ask("GET", "/v1/version", &token).await.status() != 200 {}
    })
    .await;
}

#[tokio::test]
async fn reads_of_other_sites_are_refused_by_what_the_browser_says() {
    let admin = start_at("127.0.0.1:0", false, state()).await;
    for (lines, expected) in [
        ("", 200),
        ("Sec-Fetch-Site: none\r\n", 200),
        ("Sec-Fetch-Site: same-origin\r\n", 200),
        ("Sec-Fetch-Site: same-site\r\n", 403),
        ("Sec-Fetch-Site: cross-site\r\n", 403),
        ("Sec-Fetch-Site: CROSS-SITE\r\n", 403),
        ("Sec-Fetch-Site: \r\n", 403),
        ("Sec-Fetch-Site: something\r\n", 403),
        (
            "Sec-Fetch-Site: none\r\nSec-Fetch-Site: cross-site\r\n",
            403,
        ),
        (
            "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: image\r\n",
            403,
        ),
        (
            "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n",
            403,
        ),
        ("Origin: http://attacker.example\r\n", 403),
        ("Origin: null\r\n", 403),
    ] {
        for path in ["/metrics", "/healthz", "/readyz", "/v1/version"] {
            for method in ["GET", "HEAD"] {
                let status = admin.ask(method, path, lines).await.status();
                assert_eq!(status, expected, "{method} {path} {lines:?}");
            }
        }
    }
}
