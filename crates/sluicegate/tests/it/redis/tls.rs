//! The store over TLS: which certificates are accepted, and the errors when one is not.

use std::time::{Duration, Instant};

use sluicegate::{
    ClientCert, Limiter, MonotonicClock, Nanos, NodeState, RedisOptions, RedisStore, TlsOptions,
};
use sluicegate_testkit::{ClientAuth, RedisServer, TlsFiles};

use super::operations::{endpoint, limiter, patient, run};

fn options(server: &RedisServer, files: &TlsFiles, shows: Option<&TlsFiles>) -> RedisOptions {
    let mut options = patient(RedisOptions::standalone(endpoint(server)));
    let client_cert = shows.map(|own| ClientCert {
        cert_file: own.client_certificate(),
        key_file: own.client_key(),
    });
    options.tls = Some(TlsOptions {
        ca_file: Some(files.authority()),
        client_cert,
        server_name: None,
    });
    options
}

#[tokio::test]
async fn a_certificate_of_the_named_authority_is_enough() {
    let files = TlsFiles::generate();
    let server = RedisServer::builder().tls(&files, ClientAuth::None).start();
    run(&limiter(options(&server, &files, None))).await.unwrap();

    let url = format!(
        "rediss://localhost:{}?ca_file={}",
        server.port(),
        files.authority().display()
    );
    run(&limiter(patient(RedisOptions::from_url(&url).unwrap())))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_server_that_requires_a_certificate_gets_ours() {
    let files = TlsFiles::generate();
    let server = RedisServer::builder()
        .tls(&files, ClientAuth::Required)
        .start();
    run(&limiter(options(&server, &files, Some(&files))))
        .await
        .unwrap();
}

/// The error of decisions, which is also that of the health page. Each decision returns within the
/// deadline.
async fn refusal(mut options: RedisOptions) -> String {
    const DEADLINE: Duration = Duration::from_millis(200);
    /// Enough for a busy machine.
    const SLACK: Duration = Duration::from_millis(300);
    options.deadline = Nanos::from(DEADLINE);
    let limiter: Limiter<RedisStore, MonotonicClock> = limiter(options);
    let give_up = Instant::now() + Duration::from_secs(10);
    loop {
        let asked = Instant::now();
        let error = run(&limiter).await.expect_err("not let in");
        assert!(
            asked.elapsed() < DEADLINE + SLACK,
            "answered after {:?}",
            asked.elapsed()
        );
        let health = limiter.store().health();
        if let Some(NodeState::Away { error }) = health.nodes.first().map(|node| node.state.clone())
        {
            assert!(!health.is_up());
            let decision_error = run(&limiter).await.expect_err("not let in").to_string();
            assert!(
                decision_error.contains(&error),
                "{decision_error} is not {error}"
            );
            return error;
        }
        assert!(Instant::now() < give_up, "health does not tell: {error}");
    }
}

#[tokio::test]
async fn a_server_of_another_authority_is_refused_in_words_and_in_time() {
    let (files, others) = (TlsFiles::generate(), TlsFiles::generate());
    let server = RedisServer::builder().tls(&files, ClientAuth::None).start();
    let error = refusal(options(&server, &others, None)).await;
    let begins = format!(
        "{}: cannot agree on TLS: invalid peer certificate",
        endpoint(&server)
    );
    assert!(error.starts_with(&begins), "{error}");
}

#[tokio::test]
async fn without_a_certificate_of_ours_a_server_that_asks_for_one_is_away() {
    let (files, others) = (TlsFiles::generate(), TlsFiles::generate());
    let server = RedisServer::builder()
        .tls(&files, ClientAuth::Required)
        .start();
    for shown in [None, Some(&others)] {
        let error = refusal(options(&server, &files, shown)).await;
        assert!(error.starts_with(&endpoint(&server).to_string()), "{error}");
        assert!(
            error.to_lowercase().contains("cert") || error.contains("UnknownCA"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn tls_to_a_server_without_it_and_the_other_way_round_end_in_time() {
    let files = TlsFiles::generate();
    let plain = RedisServer::start();
    let error = refusal(options(&plain, &files, None)).await;
    assert!(error.contains("cannot agree on TLS"), "{error}");

    let encrypted = RedisServer::builder().tls(&files, ClientAuth::None).start();
    let mut options = RedisOptions::standalone(endpoint(&encrypted));
    options.deadline = Nanos::from_millis(200);
    let asked = Instant::now();
    run(&limiter(options))
        .await
        .expect_err("it speaks TLS only");
    assert!(
        asked.elapsed() < Duration::from_secs(1),
        "answered after {:?}",
        asked.elapsed()
    );
}
