//! Keys of tokens from a URL, with real servers: good ones, and some that lie, hang and drip.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use sluicegate_config::{Principals, Source, Syntax, load};
use sluicegate_gate::auth::{AuthFailure, Authenticator, Forwarder, Identity, KeysGap};
use sluicegate_gate::telemetry::Metrics;
use sluicegate_testkit::{HttpRequest, TlsFiles, UpstreamRecorder, UpstreamResponse, eventually};
use tokio::runtime::Handle;
use tokio_rustls::TlsAcceptor;

use super::credential_files::{headers, known, noon, refused};
use super::signer::{Signer, ann};
use crate::edge::Edge;
use crate::external::http::server_config;
use crate::external::service::{HttpLimits, Manner, pour, unruly};

/// A server of keys whose answer a test changes.
struct Issuer {
    server: UpstreamRecorder,
    answer: Arc<Mutex<UpstreamResponse>>,
}

impl Issuer {
    fn with(signers: &[&Signer]) -> Self {
        let answer = Arc::new(Mutex::new(key_set(signers)));
        let current = Arc::clone(&answer);
        let server = UpstreamRecorder::answering(move |_| current.lock().unwrap().clone());
        Self { server, answer }
    }

    fn answers(&self, answer: UpstreamResponse) {
        *self.answer.lock().unwrap() = answer;
    }

    fn url(&self) -> String {
        format!("{}/keys?v=1", self.server.url())
    }

    fn fetches(&self) -> usize {
        self.server.count()
    }
}

fn key_set(signers: &[&Signer]) -> UpstreamResponse {
    let keys: Vec<&Value> = signers.iter().map(|signer| &signer.jwk).collect();
    UpstreamResponse::ok(json!({ "keys": keys }).to_string())
}

/// The section `principals` of a configuration with this URL.
fn principals(url: &str, more: &str) -> Principals {
    let source = Source {
        name: "test".to_owned(),
        text: format!("principals: {{ jwt: {{ jwks_url: '{url}', leeway: 0s{more} }} }}"),
        syntax: Syntax::Yaml,
        base_dir: "/".into(),
    };
    load(&source, &|_| None).unwrap().principals
}

/// An authenticator that fetches, and its metrics.
fn fetching(url: &str, more: &str) -> (Authenticator, Arc<Metrics>) {
    let metrics = Metrics::new();
    let authenticator = Authenticator::load(&principals(url, more)).unwrap();
    let authenticator = authenticator.counted_in(Arc::clone(&metrics));
    authenticator.start_fetching(&Handle::current());
    (authenticator, metrics)
}

/// Waits until the first fetch has ended, well or badly.
fn first_fetch(authenticator: &Authenticator) {
    eventually("the first fetch has ended", || {
        let status = authenticator.keys_status().unwrap();
        status.gap.is_none() || status.last_error.is_some()
    });
}

async fn ask(authenticator: &Authenticator, signer: &Signer) -> Identity {
    let bearer = signer.bearer(&ann());
    let headers = headers(&[("authorization", &bearer)]);
    let authenticated = authenticator.authenticate(&headers, noon(), Forwarder::Proxy);
    authenticated.await.identity
}

fn counted(metrics: &Metrics, result: &str) -> bool {
    let line = format!("sluicegate_jwks_fetches_total{{result=\"{result}\"}} 1\n");
    metrics.encode().contains(&line)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_key_is_usable_at_once_and_an_old_one_goes_with_the_next_fetch() {
    let (old, new) = (Signer::es256("old"), Signer::ed25519("new"));
    let issuer = Issuer::with(&[&old]);
    let (authenticator, metrics) = fetching(&issuer.url(), "");
    first_fetch(&authenticator);
    assert_eq!(known(ask(&authenticator, &old).await).id, "ann");
    issuer.answers(key_set(&[&new]));
    assert_eq!(known(ask(&authenticator, &new).await).id, "ann");
    assert_eq!(refused(ask(&authenticator, &old).await), AuthFailure::KeyId);
    let requests = issuer.server.requests();
    assert_eq!(requests.len(), 2, "{requests:#?}");
    let request = &requests[0];
    assert_eq!(
        (request.method.as_str(), request.target.as_str()),
        ("GET", "/keys?v=1")
    );
    assert_eq!(request.header("accept-encoding"), Some("identity"));
    assert!(request.header("authorization").is_none());
    let text = metrics.encode();
    assert!(text.contains("sluicegate_jwks_fetches_total{result=\"changed\"} 2\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_invented_keys_costs_one_fetch() {
    let signer = Signer::ed25519("known");
    let issuer = Issuer::with(&[&signer]);
    let (authenticator, _) = fetching(&issuer.url(), "");
    first_fetch(&authenticator);
    let claims = ann().to_string();
    let flood = (0..2_000).map(|number| {
        let header = json!({ "alg": "EdDSA", "kid": format!("invented-{number}") });
        let token = signer.token_with(&header, &claims);
        let headers = headers(&[("authorization", &token)]);
        let authenticator = &authenticator;
        async move {
            let authenticated = authenticator.authenticate(&headers, noon(), Forwarder::Proxy);
            authenticated.await.identity
        }
    });
    let flood: Vec<_> = flood.collect();
    let mut refusals = [0; 2];
    for identity in futures_util::future::join_all(flood).await {
        match identity {
            Identity::Refused(refusal) => {
                assert_eq!(refusal.reason, AuthFailure::KeyId);
                refusals[0] += 1;
            }
            Identity::Unverifiable(_) => refusals[1] += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(refusals.iter().sum::<usize>(), 2_000);
    assert!(refusals[0] >= 1_000, "so many may wait: {refusals:?}");
    assert_eq!(known(ask(&authenticator, &signer).await).id, "ann");
    assert_eq!(issuer.fetches(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_gets_wrong_leaves_the_keys_in_force() {
    let (good, unknown) = (Signer::es256("good"), Signer::es256("unknown"));
    let elsewhere = UpstreamRecorder::start();
    let set = key_set(&[&good, &unknown]);
    let text = |text: &str| UpstreamResponse::ok(text.to_owned());
    let status = |status| UpstreamResponse {
        status,
        ..set.clone()
    };
    let private = json!({ "keys": [{ "kty": "EC", "crv": "P-256", "d": "AA" }] });
    let too_long = format!("{{\"keys\":[]{}}}", " ".repeat(256 << 10));
    for (lie, result, error) in [
        (status(500), "status", "replied with status 500"),
        (status(204), "status", "replied with status 204"),
        (
            status(302).header("location", &elsewhere.url()),
            "status",
            "replied with status 302",
        ),
        (
            set.clone().header("content-encoding", "gzip"),
            "invalid",
            "the reply has a content encoding",
        ),
        (
            text(&too_long),
            "invalid",
            "the reply is longer than 262144 bytes",
        ),
        (
            text("<html>"),
            "invalid",
            "line 1, column 1: expected valid JSON",
        ),
        (text(&"[".repeat(100_000)), "invalid", "expected valid JSON"),
        (text("{}"), "invalid", "keys: expected a list of keys"),
        (
            text("{\"keys\":[]}"),
            "invalid",
            "keys: expected at least one key for",
        ),
        (
            text(&private.to_string()),
            "invalid",
            "keys[0].d: expected a public key",
        ),
        (
            text("{\"keys\":[1,2,3]}"),
            "invalid",
            "keys[0]: expected an object, and 2 more mistakes",
        ),
    ] {
        let issuer = Issuer::with(&[&good]);
        let (authenticator, metrics) = fetching(&issuer.url(), "");
        first_fetch(&authenticator);
        issuer.answers(lie);
        assert_eq!(
            refused(ask(&authenticator, &unknown).await),
            AuthFailure::KeyId,
            "{error}"
        );
        assert_eq!(known(ask(&authenticator, &good).await).id, "ann", "{error}");
        assert_eq!(issuer.fetches(), 2, "{error}");
        let told = authenticator.keys_status().unwrap().last_error.unwrap();
        assert!(told.contains(error), "{told} is not about {error}");
        assert!(counted(&metrics, result), "{error}");
    }
    assert_eq!(elsewhere.count(), 0, "no redirect is followed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_or_drips_or_pours_is_given_up() {
    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n";
    /// Longer than the timeout below, shorter than a test waits.
    const WHILE: Duration = Duration::from_secs(3);
    let hangs = unruly(|_| std::thread::park_timeout(WHILE));
    let drips = unruly(|stream| {
        let _ = stream.write_all(HEAD);
        let begun = std::time::Instant::now();
        while begun.elapsed() < WHILE && stream.write_all(b" ").is_ok() {
            std::thread::park_timeout(Duration::from_millis(20));
        }
    });
    let pours = unruly(|stream| {
        let _ = stream.write_all(HEAD);
        pour(stream, &[b' '; 8192]);
    });
    let breaks_off = unruly(|stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{");
    });
    let signer = Signer::ed25519("a");
    for (port, timeout, result, error) in [
        (hangs, "500ms", "timed_out", "no response in time"),
        (drips, "500ms", "timed_out", "no response in time"),
        (pours, "20s", "invalid", "longer than 262144 bytes"),
        (breaks_off, "20s", "unreachable", "cannot be reached"),
    ] {
        let url = format!("http://127.0.0.1:{port}/keys");
        let options = format!(", jwks: {{ timeout: {timeout} }}");
        let (authenticator, metrics) = fetching(&url, &options);
        first_fetch(&authenticator);
        let status = authenticator.keys_status().unwrap();
        let told = status.last_error.unwrap();
        assert!(told.contains(error), "{told} is not about {error}");
        assert_eq!((status.gap, status.age), (Some(KeysGap::NotLoaded), None));
        assert!(counted(&metrics, result), "{error}");
        match ask(&authenticator, &signer).await {
            Identity::Unverifiable(missing) => {
                assert_eq!(missing.to_string(), "keys not yet loaded");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn over_https_the_server_of_the_keys_must_be_trusted() {
    let signer = Signer::ed25519("a");
    let files = TlsFiles::generate();
    let body = key_set(&[&signer]).body;
    let manner = Manner {
        body: String::from_utf8(body.to_vec()).unwrap(),
        tls: Some(TlsAcceptor::from(server_config(&files))),
        ..Manner::default()
    };
    let server = HttpLimits::start(manner).await;
    let url = format!("https://localhost:{}/keys", server.port);
    let with = |ca_file: &std::path::Path| {
        let options = format!(", jwks: {{ ca_file: '{}' }}", ca_file.display());
        fetching(&url, &options).0
    };
    let trusting = with(&files.authority());
    first_fetch(&trusting);
    assert_eq!(known(ask(&trusting, &signer).await).id, "ann");
    let others = TlsFiles::generate();
    for authenticator in [with(&others.authority()), fetching(&url, "").0] {
        first_fetch(&authenticator);
        let told = authenticator.keys_status().unwrap().last_error.unwrap();
        assert!(told.contains("certificate"), "{told}");
    }
    assert_eq!(server.calls(), 1);
    let missing = principals(&url, ", jwks: { ca_file: /no/such/file }");
    let mistakes = Authenticator::load(&missing).unwrap_err();
    assert!(
        mistakes[0].starts_with("principals.jwt.jwks_url: /no/such/file: "),
        "{mistakes:?}"
    );
}

/// A good token of this signer now.
fn bearer_now(signer: &Signer) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let claims = json!({ "sub": "ann", "exp": now.as_secs() + 3_600 });
    format!("Authorization: {}", signer.bearer(&claims))
}

#[test]
fn through_the_proxy_tokens_get_503_until_there_are_keys_and_keys_rotate() {
    let (old, new) = (Signer::es256("old"), Signer::ed25519("new"));
    let issuer = Issuer::with(&[&old]);
    let keys = key_set(&[&old]);
    issuer.answers(UpstreamResponse {
        status: 503,
        ..keys.clone()
    });
    let upstream = UpstreamRecorder::start();
    let principals = principals(&issuer.url(), "");
    let edge = Edge::with(upstream.address, Vec::new(), |config| {
        config.principals = principals;
    });
    let get = |lines: &[String]| HttpRequest::get("/").headers(lines).send(edge.address);
    eventually("the issuer was asked", || issuer.fetches() > 0);
    let early = get(&[bearer_now(&old)]);
    assert_eq!((early.status(), early.body()), (503, "keys not yet loaded"));
    assert!(early.header("retry-after").is_some(), "{}", early.head());
    assert_eq!(get(&[]).status(), 200, "without a token nothing is missing");
    assert_eq!(get(&["Authorization: Bearer x".to_owned()]).status(), 401);
    let call = [
        "Content-Type: application/grpc".to_owned(),
        bearer_now(&old),
    ];
    let call = get(&call);
    assert_eq!(
        (call.status(), call.header("grpc-status")),
        (200, Some("14"))
    );
    issuer.answers(keys);
    eventually("the keys are there", || {
        get(&[bearer_now(&old)]).status() == 200
    });
    issuer.answers(key_set(&[&new]));
    assert_eq!(get(&[bearer_now(&new)]).status(), 200);
    assert_eq!(get(&[bearer_now(&old)]).status(), 401);
}
