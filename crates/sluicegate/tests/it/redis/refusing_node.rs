//! A node that accepts connections, passes every check, and then refuses every call.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sluicegate::{
    Endpoint, FailurePolicy, Limit, Limiter, MonotonicClock, Policy, Quota, RedisOptions,
    RedisStore, Subject, Verdict,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Answers the questions of a new connection as a primary does, and refuses everything else.
async fn refuse(mut connection: TcpStream) {
    let mut bytes = [0; 4_096];
    // The client waits for each reply before the next question, so a read has one of them.
    while let Ok(length @ 1..) = connection.read(&mut bytes).await {
        let question = String::from_utf8_lossy(&bytes[..length]).into_owned();
        let reply = match question.lines().nth(2) {
            Some("ROLE") => "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n",
            Some("PING") => "+PONG\r\n",
            Some("DEL") => ":0\r\n",
            _ => "-CLUSTERDOWN The cluster is down\r\n",
        };
        if connection.write_all(reply.as_bytes()).await.is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn a_node_that_refuses_every_call_is_dialled_at_the_pace_of_the_waits() {
    let node = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = node.local_addr().unwrap().port();
    let dials = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&dials);
    tokio::spawn(async move {
        while let Ok((connection, _)) = node.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(refuse(connection));
        }
    });
    let options = RedisOptions::standalone(Endpoint::new("127.0.0.1", port));
    let limiter = Limiter::with_failure_policy(
        Policy::new([Limit::new("all", Quota::per_second(1))]).unwrap(),
        RedisStore::new(options).unwrap(),
        MonotonicClock::new(),
        FailurePolicy::default(),
    );
    let end = Instant::now() + Duration::from_secs(3);
    while Instant::now() < end {
        let verdict = limiter.check(&Subject::ANONYMOUS, 1).await;
        assert!(
            matches!(verdict, Verdict::Unavailable { .. }),
            "{verdict:?}"
        );
        // bounded wait: until the end above
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // Waits of 50 ms and more, doubled up to half a second and more: eight fit in.
    let dials = dials.load(Ordering::Relaxed);
    assert!((2..=10).contains(&dials), "{dials} dials in three seconds");
}
