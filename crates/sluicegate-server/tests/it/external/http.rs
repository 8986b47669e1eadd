//! Questions over HTTP.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use http::HeaderMap;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sluicegate_config::{ExternalService, HeaderFilter, ServiceAddress};
use sluicegate_core::{Nanos, Quota};
use sluicegate_gate::external::{ResolvedLimits, TenantPolicy};
use sluicegate_testkit::TlsFiles;
use tokio_rustls::TlsAcceptor;

use super::service::{HttpLimits, Manner};
use super::{ask, asks, at, external, over_http, settings, told};

const GOLD: &str = r#"{"average": 100, "burst": 20, "period": "1m", "tenant_key": "acme", "failure_policy": "passthrough",
    "backend_url": "https://gold.example", "request_timeout": "3s"}"#;

/// The service gets key, method, path and the headers that are no secret; every field of its answer counts.
#[tokio::test]
async fn a_question_and_its_answer_over_http() {
    let service = HttpLimits::saying(GOLD).await;
    let external = external(&over_http(service.port));
    let mut headers = HeaderMap::new();
    headers.insert("x-plan", "gold".parse().unwrap());
    headers.insert("authorization", "Bearer hunter2".parse().unwrap());
    headers.insert("cookie", "a=hunter2".parse().unwrap());
    let ResolvedLimits::External(told) = external.resolve(asks("tenant-7", &headers)).await else {
        panic!("nothing was told")
    };
    assert_eq!(
        told.quota,
        Some(Quota::new(100, Nanos::MINUTE, 20).unwrap())
    );
    assert_eq!(
        (told.tenant.as_deref(), told.on_failure),
        (Some("acme"), Some(TenantPolicy::Open))
    );
    assert_eq!(
        told.backend.as_ref().map(|backend| backend.host.as_str()),
        Some("gold.example")
    );
    assert_eq!(told.request_timeout, Some(Nanos::from_secs(3)));

    let (line, head, body) = service.seen.questions.lock().unwrap().pop().unwrap();
    assert_eq!(line, "POST /limits?v=1");
    assert_eq!(head["content-type"], "application/json");
    assert_eq!(head["host"], format!("127.0.0.1:{}", service.port));
    assert_eq!(head["x-sluicegate-limit"], "tenant");
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    let expected = serde_json::json!({
        "key": "tenant-7", "method": "POST", "path": "/orders", "headers": {"x-plan": "gold"},
        "key_parts": ["tenant-7"]
    });
    assert_eq!(body, expected);
}

/// With an allow list no other header is sent, secret or not.
#[tokio::test]
async fn an_allow_list_is_exclusive() {
    let service = HttpLimits::saying(r#"{"average": 0}"#).await;
    let mut settings = over_http(service.port);
    settings.headers = HeaderFilter::Only(vec!["x-plan".to_owned()]);
    let mut headers = HeaderMap::new();
    headers.insert("x-plan", "gold".parse().unwrap());
    headers.insert("x-other", "1".parse().unwrap());
    let known = external(&settings).resolve(asks("a", &headers)).await;
    assert_eq!(told(&known), Some((0, false)), "unlimited");
    let body = service.seen.questions.lock().unwrap().pop().unwrap().2;
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["headers"], serde_json::json!({"x-plan": "gold"}));
}

#[tokio::test]
async fn connections_are_used_again() {
    let service = HttpLimits::saying(GOLD).await;
    let external = external(&over_http(service.port));
    for number in 0..10 {
        assert!(told(&ask(&external, &number.to_string()).await).is_some());
    }
    assert_eq!(
        (service.calls(), service.seen.connections.load(SeqCst)),
        (10, 1)
    );
}

/// Requests of one caller that come while the service is asked wait for the same answer.
#[tokio::test]
async fn a_thousand_first_requests_are_one_call() {
    let service = HttpLimits::start(Manner {
        body: GOLD.to_owned(),
        takes: Duration::from_millis(300),
        ..Manner::default()
    })
    .await;
    let external = external(&over_http(service.port));
    let answers = futures_util::future::join_all((0..1_000).map(|_| ask(&external, "a"))).await;
    assert!(answers.iter().all(|known| told(known) == Some((20, false))));
    assert_eq!(service.calls(), 1);
}

/// `max_concurrent_requests` bounds the calls of all callers together.
#[tokio::test]
async fn a_thousand_tenants_are_asked_for_fifty_at_a_time() {
    let service = HttpLimits::start(Manner {
        body: GOLD.to_owned(),
        takes: Duration::from_millis(20),
        ..Manner::default()
    })
    .await;
    let external = external(&over_http(service.port));
    let keys: Vec<String> = (0..1_000)
        .map(|number| format!("tenant-{number}"))
        .collect();
    let answers = futures_util::future::join_all(keys.iter().map(|key| ask(&external, key))).await;
    assert!(answers.iter().all(|known| told(known) == Some((20, false))));
    let most = service.seen.most_under_way.load(SeqCst);
    assert!((2..=50).contains(&most), "{most}");
    assert!(service.seen.connections.load(SeqCst) <= 50);
}

/// The breaker of the service opens after twenty errors.
#[tokio::test]
async fn where_nobody_listens_few_are_asked_for_and_nobody_waits() {
    let port = sluicegate_testkit::free_port();
    let external = external(&over_http(port));
    let begun = Instant::now();
    for number in 0..2_000 {
        assert_eq!(
            ask(&external, &number.to_string()).await,
            ResolvedLimits::Configured
        );
    }
    let counts = external.counts();
    // One more may try every five seconds.
    let tries = 20 + begun.elapsed().as_secs() / 5;
    assert!((20..=tries).contains(&counts.calls), "{counts:?}");
    assert_eq!(counts.statics, 2_000);
}

pub fn server_config(files: &TlsFiles) -> Arc<rustls::ServerConfig> {
    let cert = CertificateDer::pem_file_iter(files.server_certificate()).unwrap();
    let key = PrivateKeyDer::from_pem_file(files.server_key()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    Arc::new(
        config
            .with_no_client_auth()
            .with_single_cert(cert.map(Result::unwrap).collect(), key)
            .unwrap(),
    )
}

#[tokio::test]
async fn over_https_the_certificate_is_verified() {
    let files = TlsFiles::generate();
    let manner = Manner {
        body: GOLD.to_owned(),
        tls: Some(TlsAcceptor::from(server_config(&files))),
        ..Manner::default()
    };
    let service = HttpLimits::start(manner).await;
    let with = |ca_file| {
        let at = ServiceAddress {
            tls: true,
            host: "localhost".to_owned(),
            ca_file,
            ..at(service.port)
        };
        external(&settings(ExternalService::Http {
            at,
            path: "/".to_owned(),
        }))
    };
    assert_eq!(
        told(&ask(&with(Some(files.authority())), "a").await),
        Some((20, false))
    );
    let others = TlsFiles::generate();
    for ca_file in [None, Some(others.authority())] {
        let external = with(ca_file);
        assert_eq!(ask(&external, "a").await, ResolvedLimits::Configured);
        assert_eq!(external.counts().errors, 1);
    }
    assert_eq!(service.calls(), 1);
}
