//! Every credential that is shown is verified, or does not reach the server behind.

use std::time::{SystemTime, UNIX_EPOCH};

use http::header::HeaderMap;
use serde_json::json;
use sluicegate_config::{CredentialPolicy, OnInvalid, Principals};
use sluicegate_gate::auth::{Forwarder, Identity};
use sluicegate_testkit::{HttpRequest, UpstreamProtocol, UpstreamRecorder};

use super::api_keys::sha256;
use super::credential_files::{CredentialFiles, authenticate, headers, noon};
use super::signer::{Signer, ann};
use crate::edge::Edge;

const KEY: &str = "bob's key";

/// Bob has a key, Ann has a token.
fn files(signer: &Signer) -> CredentialFiles {
    let keys = format!("- {{ id: bob, sha256: {} }}", sha256(KEY));
    CredentialFiles::new()
        .with_key_file(keys)
        .with_jwks(&[&signer.jwk])
}

/// The caller, and the credential headers that are left for the server behind.
fn outcome(
    files: &CredentialFiles,
    lines: &[(&str, &str)],
    forwarder: Forwarder,
) -> (String, String) {
    let authenticator = files.load();
    let mut headers = headers(lines);
    let authenticated = authenticate(&authenticator, &headers, noon(), forwarder);
    let caller = match authenticated.identity {
        Identity::Anonymous => "anonymous".to_owned(),
        Identity::Known(principal) => principal.id.clone(),
        Identity::Refused(refusal) => return (refusal.reason.to_string(), String::new()),
        Identity::Unverifiable(missing) => return (missing.to_string(), String::new()),
    };
    authenticator.strip(authenticated.unverified, &mut headers);
    (caller, left(&headers))
}

fn left(headers: &HeaderMap) -> String {
    let names = ["x-api-key", "authorization", "x-other"];
    let left = names.into_iter().filter(|name| headers.contains_key(*name));
    left.collect::<Vec<_>>().join("+")
}

/// Key and token, each absent, good, wrong or shown twice, under each setting.
#[test]
fn no_credential_passes_that_was_not_found_valid() {
    let signer = Signer::ed25519("ed");
    let mut files = files(&signer);
    let good = signer.bearer(&ann());
    let keys: [(&str, &[&str]); 4] = [
        ("-", &[]),
        ("good", &[KEY]),
        ("wrong", &["no key"]),
        ("twice", &[KEY, KEY]),
    ];
    let tokens: [(&str, &[&str]); 5] = [
        ("-", &[]),
        ("good", &[&good]),
        ("wrong", &["Bearer x"]),
        ("twice", &[&good, &good]),
        ("basic", &["Basic YW5uOmE="]),
    ];
    let mut table = String::new();
    for (policy, on_invalid) in [
        (CredentialPolicy::VerifyAll, OnInvalid::Reject),
        (CredentialPolicy::StripUnverified, OnInvalid::Reject),
        (CredentialPolicy::VerifyAll, OnInvalid::Anonymous),
        (CredentialPolicy::StripUnverified, OnInvalid::Anonymous),
    ] {
        files.principals.credentials = policy;
        files.principals.on_invalid = on_invalid;
        table += &format!("{policy:?} {on_invalid:?}\n");
        for (key, key_lines) in keys {
            for (token, token_lines) in tokens {
                let key_lines = key_lines.iter().map(|line| ("x-api-key", *line));
                let token_lines = token_lines.iter().map(|line| ("authorization", *line));
                let lines: Vec<_> = key_lines
                    .chain(token_lines)
                    .chain([("x-other", "1")])
                    .collect();
                let (caller, left) = outcome(&files, &lines, Forwarder::Proxy);
                table += format!("  {key:5} {token:5} {caller} {left}").trim_end();
                table += "\n";
            }
        }
    }
    let expected = include_str!("shown_credentials.txt");
    assert_eq!(table, expected, "{table}");
}

#[test]
fn a_gateway_cannot_remove_headers_so_everything_must_be_valid() {
    let signer = Signer::ed25519("ed");
    let mut files = files(&signer);
    files.principals.credentials = CredentialPolicy::StripUnverified;
    let lines = [("x-api-key", KEY), ("authorization", "Bearer x")];
    let (proxy, gateway) = (Forwarder::Proxy, Forwarder::Gateway);
    assert_eq!(
        outcome(&files, &lines, proxy),
        ("bob".to_owned(), "x-api-key".to_owned())
    );
    assert_eq!(outcome(&files, &lines, gateway).0, "malformed");
    let basic = [("authorization", "Basic YW5uOmE=")];
    assert_eq!(outcome(&files, &basic, proxy).0, "anonymous");
    assert_eq!(outcome(&files, &basic, gateway).0, "scheme");
}

#[test]
fn one_header_for_both_is_valid_as_either() {
    let signer = Signer::ed25519("ed");
    for policy in [
        CredentialPolicy::VerifyAll,
        CredentialPolicy::StripUnverified,
    ] {
        let mut files = files(&signer);
        files.principals.credentials = policy;
        files.principals.api_keys.as_mut().unwrap().header = "authorization".into();
        let outcome = |line: &str| outcome(&files, &[("authorization", line)], Forwarder::Proxy);
        let kept = "authorization".to_owned();
        assert_eq!(outcome(KEY), ("bob".to_owned(), kept.clone()));
        assert_eq!(outcome(&signer.bearer(&ann())), ("ann".to_owned(), kept));
        assert_eq!(outcome("Bearer x").0, "unknown_key");
        assert_eq!(outcome("Basic x").0, "unknown_key");
    }
}

/// What the server behind the proxy reads of a request with these lines; `None` if it gets none.
fn behind(
    principals: &Principals,
    protocol: UpstreamProtocol,
    lines: &[&str],
) -> (u16, Option<String>) {
    let upstream = UpstreamRecorder::start_with(protocol);
    let edge = Edge::with(upstream.address, Vec::new(), |config| {
        config.principals = principals.clone();
        let proxy = config.proxy.as_mut().unwrap();
        let sluicegate_config::Upstream::Server { http, .. } = &mut proxy.routes[0].upstreams[0]
        else {
            panic!("a server")
        };
        *http = match protocol {
            UpstreamProtocol::Http1 => sluicegate_config::UpstreamHttp::Http1,
            UpstreamProtocol::Http2 => sluicegate_config::UpstreamHttp::Http2,
        };
    });
    let response = HttpRequest::get("/").headers(lines).send(edge.address);
    let requests = upstream.requests();
    let read = requests.first().map(|request| {
        let names = ["x-api-key", "authorization", "x-other"];
        let read = names
            .into_iter()
            .filter(|name| request.header(name).is_some());
        read.collect::<Vec<_>>().join("+")
    });
    (response.status(), read)
}

#[test]
fn the_server_behind_gets_verified_credentials_only() {
    let signer = Signer::ed25519("ed");
    let mut files = files(&signer);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let claims = json!({ "sub": "ann", "exp": now.as_secs() + 3_600 });
    let good = format!("Authorization: {}", signer.bearer(&claims));
    let key = format!("X-Api-Key: {KEY}");
    let forged = "Authorization: Bearer e30.e30.e30";
    for protocol in UpstreamProtocol::ALL {
        let mut ask = |policy, lines: &[&str]| {
            files.principals.credentials = policy;
            behind(&files.principals, protocol, lines)
        };
        let verify_all = CredentialPolicy::VerifyAll;
        let both = Some("x-api-key+authorization+x-other".to_owned());
        assert_eq!(ask(verify_all, &[&key, &good, "X-Other: 1"]), (200, both));
        assert_eq!(ask(verify_all, &[&key, forged]), (401, None));
        assert_eq!(
            ask(verify_all, &["Authorization: Token a.b.c"]),
            (401, None)
        );
        let strip = CredentialPolicy::StripUnverified;
        let key_only = Some("x-api-key+x-other".to_owned());
        assert_eq!(
            ask(strip, &[&key, forged, "X-Other: 1"]),
            (200, key_only.clone())
        );
        // A client cannot keep it by naming it as a header of its connection.
        let lines = [
            &key,
            forged,
            "X-Other: 1",
            "Connection: close, authorization",
        ];
        assert_eq!(ask(strip, &lines), (200, key_only));
        assert_eq!(
            ask(strip, &["X-Api-Key: no key", &good]),
            (200, Some("authorization".to_owned()))
        );
        let nothing = Some(String::new());
        assert_eq!(ask(strip, &["Authorization: Token a.b.c"]), (200, nothing));
    }
    files.principals.credentials = CredentialPolicy::VerifyAll;
    files.principals.on_invalid = OnInvalid::Anonymous;
    let wrong = behind(
        &files.principals,
        UpstreamProtocol::Http1,
        &[forged, "X-Other: 1"],
    );
    assert_eq!(wrong, (200, Some("x-other".to_owned())));
}
