//! Bounds and timeouts of connections, and their end.

use sluicegate_server::admin::AdminState;
use sluicegate_testkit::HttpResponse;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{in_time, reload_that_waits, start, state};

#[tokio::test]
async fn requests_beyond_the_bounds_are_refused() {
    let admin = start(state()).await;
    let large = format!("X: {}\r\n", "x".repeat(64 * 1024));
    assert_eq!(admin.ask("GET", "/healthz", &large).await.status(), 431);
    let many = "X: x\r\n".repeat(200);
    assert_eq!(admin.ask("GET", "/healthz", &many).await.status(), 431);
    let body = format!("Content-Length: 100000\r\n\r\n{}", "x".repeat(100_000));
    assert_eq!(admin.ask("POST", "/v1/reload", &body).await.status(), 413);
}

#[tokio::test]
async fn a_connection_answers_once_and_pipelined_requests_are_dropped() {
    let admin = start(state()).await;
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", admin.address).repeat(3);
    assert_eq!(admin.raw(request.as_bytes()).await.statuses(), [200]);
}

/// Time stands still but for timers, so the test takes no longer than the work.
#[tokio::test(start_paused = true)]
async fn clients_that_dawdle_are_let_go_and_others_served() {
    let admin = start(state()).await;
    let mut slow = Vec::new();
    for _ in 0..70 {
        let mut stream = TcpStream::connect(admin.address).await.unwrap();
        stream
            .write_all(b"GET /healthz HTTP/1.1\r\n")
            .await
            .unwrap();
        slow.push(stream);
    }
    assert_eq!(admin.get("/healthz").await.status(), 200);
    for mut stream in slow {
        let mut rest = Vec::new();
        // Closed, or reset with what it had sent unread.
        let _ = in_time(stream.read_to_end(&mut rest)).await;
        assert!(!rest.starts_with(b"HTTP/1.1 200"));
    }
}

#[tokio::test]
async fn at_the_end_what_is_under_way_is_answered() {
    let (reload, has_started, go_on) = reload_that_waits();
    let mut admin = start(AdminState { reload, ..state() }).await;
    let request = format!(
        "POST /v1/reload HTTP/1.1\r\nHost: {}\r\n\r\n",
        admin.address
    );
    let mut stream = TcpStream::connect(admin.address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    in_time(has_started).await.unwrap();
    drop(admin.end.take());
    go_on.send(()).unwrap();
    let mut answer = Vec::new();
    in_time(stream.read_to_end(&mut answer)).await.unwrap();
    assert_eq!(HttpResponse::from_bytes(answer).status(), 200);
    in_time(admin.served).await.unwrap().unwrap();
    assert!(
        TcpStream::connect(admin.address).await.is_err(),
        "nobody listens any more"
    );
}
