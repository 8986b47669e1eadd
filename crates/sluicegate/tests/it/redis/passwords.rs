//! Passwords: changed while the store runs, wrong, and never printed.

use std::fs;
use std::time::{Duration, Instant};

use sluicegate::{
    Credentials, Limiter, MonotonicClock, Nanos, NodeState, RedisOptions, RedisStore, Secret,
    StoreError,
};
use sluicegate_testkit::RedisServer;

use super::operations::{endpoint, limiter, patient, run};
use crate::log::Log;

/// Repeats a decision until its result is as wanted, without blocking the runtime.
async fn until(
    limiter: &Limiter<RedisStore, MonotonicClock>,
    is_so: impl Fn(Result<(), StoreError>) -> bool,
) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !is_so(run(limiter).await) {
        assert!(Instant::now() < deadline, "not so after ten seconds");
        // bounded wait: until the deadline above
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_password_that_is_changed_in_its_file_needs_no_restart() {
    let server = RedisServer::start();
    let set = |password: &str| {
        let rule = format!("on resetpass >{password} ~* +@all");
        let words: Vec<&str> = ["ACL", "SETUSER", "rotated"]
            .into_iter()
            .chain(rule.split(' '))
            .collect();
        server.command::<()>(&words);
    };
    let file = tempfile::NamedTempFile::new().unwrap();
    set("first");
    fs::write(file.path(), "first\n").unwrap();
    let mut options = patient(RedisOptions::standalone(endpoint(&server)));
    let password = Some(Secret::from_file(file.path()).unwrap());
    options.credentials = Credentials {
        username: Some("rotated".to_owned()),
        password,
    };
    let limiter = limiter(options);
    run(&limiter).await.unwrap();

    set("second");
    run(&limiter).await.expect("who is in stays in");
    server.command::<u64>(&["CLIENT", "KILL", "USER", "rotated"]);
    const WHY: &str = "cannot authenticate: wrong user or password (WRONGPASS)";
    // A request that was in flight when the connection ended may fail with another error.
    until(&limiter, |done| {
        done.is_err_and(|error| error.to_string().contains(WHY))
    })
    .await;
    let health = limiter.store().health();
    let NodeState::Away { error } = &health.nodes[0].state else {
        panic!("{health:?}")
    };
    assert!(error.contains(WHY), "{error}");

    fs::write(file.path(), "second\n").unwrap();
    until(&limiter, |done| done.is_ok()).await;
    assert!(limiter.store().health().is_up());
}

#[tokio::test]
async fn a_wrong_password_is_told_everywhere_and_printed_nowhere() {
    let server = RedisServer::builder().password("right").start();
    // The lines are logged once without a subscriber: a test on another thread that reached them
    // first could otherwise switch them off.
    for turn in 0..2 {
        let log = Log::default();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_writer(log.clone())
            .with_ansi(false)
            .finish();
        let _guard = (turn == 1).then(|| tracing::subscriber::set_default(subscriber));
        let url = format!("redis://somebody:hunter22@127.0.0.1:{}", server.port());
        let mut by_url = patient(RedisOptions::from_url(&url).unwrap());
        by_url.recovery.base = Nanos::from_millis(10);
        let limiter = limiter(by_url);
        let error = run(&limiter).await.unwrap_err();
        let verdict = limiter.check_named("token", &["203.0.113.1"], 1).await;
        let health = limiter.store().health();
        let advice = limiter.store().advice().await.unwrap_err();
        let store = limiter.store();
        let logged = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        let printed = format!(
            "{error} {error:?} {verdict:?} {health:?} {advice} {advice:?} {store:?} {logged}"
        );
        assert!(
            error.to_string().contains("WRONGPASS") && advice.to_string().contains("WRONGPASS"),
            "{printed}"
        );
        assert!(
            !printed.contains("hunter22") && !printed.contains("right"),
            "{printed}"
        );
        assert!(turn == 0 || logged.contains("redis node away"), "{logged}");
    }
}

#[tokio::test]
async fn a_store_is_made_while_its_server_is_down_and_works_once_it_is_up() {
    let server = RedisServer::start();
    server.kill();
    let mut options = RedisOptions::standalone(endpoint(&server));
    options.deadline = Nanos::from_secs(1);
    let limiter = limiter(options);
    let error = run(&limiter).await.unwrap_err();
    assert!(error.to_string().contains("cannot connect"), "{error}");
    server.restart();
    until(&limiter, |done| done.is_ok()).await;
    assert!(limiter.store().health().is_up());
}
