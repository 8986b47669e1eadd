//! Whoever guesses credentials, or shows none, meets a limit; callers with a valid one do not.

use std::fs;

use serde_json::json;
use sluicegate_testkit::{HttpRequest, HttpResponse, eventually};

use super::authorize::{self, FLAVOURS};
use super::decisions;
use super::operator;
use super::running::Sluicegate;

/// Five units for each address, and twenty for each known caller in their place.
const LIMITS: &str = "
proxy: { listen: '127.0.0.1:0' }
decisions: { http: '127.0.0.1:0' }
admin: { listen: '127.0.0.1:0' }
client_ip: { trusted_proxies: [127.0.0.1/32] }
access: { allow: { cidrs: [198.51.100.0/24] } }
limits:
  - { name: per-ip, key: [client_ip], rate: 1/h, burst: 5 }
  - { name: per-user, replaces: per-ip, key: [principal], rate: 1/h, burst: 20 }
";

/// A token of bob until the year 2100, signed with the key below.
const TOKEN_OF_BOB: &str = "eyJhbGciOiJIUzI1NiIsImtpZCI6ImsxIiwidHlwIjoiSldUIn0.eyJzdWIiOiJib2IiLCJleHAiOjQxMDI0NDQ4MDAsInBsYW4iOiJnb2xkIn0.H_jkgUgMoBLkU6pqDLJb_lXVJt7MvwTMLTdaeIQMEQ0";

/// Starts it with an API key of ann, a token of bob, and these rules about credentials.
fn start(limits: &str, rules: &str) -> Sluicegate {
    let directory = tempfile::tempdir().unwrap();
    // The SHA-256 of `secret-of-ann`.
    let keys =
        "- { id: ann, sha256: 70b418541da77d413246ec0d700eebb8b23852493cfaa4ab4f39009cd68360f0 }\n";
    fs::write(directory.path().join("keys.yaml"), keys).unwrap();
    let jwks = json!({ "keys": [{
        "kty": "oct", "kid": "k1", "k": "YS1zZWNyZXQtZm9yLXRlc3RzLW9mLXRoaXJ0eS10d28tYnl0ZXMh",
    }] });
    fs::write(directory.path().join("jwks.json"), jwks.to_string()).unwrap();
    let principals = format!(
        "principals: {{ api_keys: {{ file: keys.yaml }}, jwt: {{ jwks_file: jwks.json, algorithms: [HS256] }}{rules} }}\n"
    );
    fs::write(
        directory.path().join("sluicegate.yaml"),
        format!("{principals}{limits}"),
    )
    .unwrap();
    Sluicegate::start_in(directory)
}

/// A front door that verifies credentials.
type Door<'a> = &'a dyn Fn(&str, &[&str]) -> HttpResponse;

/// Asks every such door with clients of its own, and with the status that it refuses with in place
/// of 429.
fn at_every_door(sluicegate: &Sluicegate, mut ask: impl FnMut(&str, u8, u16, Door<'_>)) {
    let lines = |client: &str, more: &[&str]| {
        let own = [format!("X-Forwarded-For: {client}")];
        let more = more.iter().map(ToString::to_string);
        own.into_iter().chain(more).collect::<Vec<_>>()
    };
    ask("HTTP/1", 0, 429, &|client, more| {
        HttpRequest::get("/")
            .headers(&lines(client, more))
            .send(sluicegate.proxy)
    });
    ask("HTTP/2", 1, 429, &|client, more| {
        HttpRequest::get("/")
            .headers(&lines(client, more))
            .send_http2(sluicegate.proxy)
    });
    for (place, (flavour, _)) in FLAVOURS.into_iter().enumerate() {
        let limited = if flavour == "nginx" { 403 } else { 429 };
        ask(flavour, 2 + place as u8, limited, &|client, more| {
            authorize::ask(sluicegate, flavour, "GET", "/", client, more)
        });
    }
}

/// How often each status came, in the order of their first time.
fn counted(statuses: impl Iterator<Item = u16>) -> Vec<(u16, usize)> {
    let mut counts: Vec<(u16, usize)> = Vec::new();
    for status in statuses {
        match counts.last_mut() {
            Some((last, count)) if *last == status => *count += 1,
            _ => counts.push((status, 1)),
        }
    }
    counts
}

#[test]
fn a_hundred_wrong_keys_meet_a_limit_and_the_owner_of_a_key_does_not() {
    let sluicegate = start(LIMITS, "");
    at_every_door(&sluicegate, |door, place, limited, ask| {
        let client = format!("203.0.113.{place}");
        let guess = |number: usize| ask(&client, &[&format!("X-Api-Key: guess-{number}")]).status();
        assert_eq!(
            counted((0..100).map(guess)),
            [(401, 5), (limited, 95)],
            "{door}"
        );
        let last = ask(&client, &["X-Api-Key: guess-100"]);
        assert!(last.header("retry-after").is_some(), "{door}: {last}");
        // The owner of a key at the same address, and who stays there without one.
        let known = ask(&client, &["X-Api-Key: secret-of-ann"]);
        assert_eq!(known.status(), 200, "{door}: {known}");
        assert_eq!(ask(&client, &[]).status(), limited, "{door}");
    });
    // Of the twenty units of ann each door took one.
    let left = HttpRequest::get("/")
        .headers(&["X-Api-Key: secret-of-ann"])
        .send(sluicegate.proxy);
    assert_eq!(left.header("x-ratelimit-remaining"), Some("14"), "{left}");
}

#[test]
fn wrong_tokens_meet_a_limit_and_valid_ones_do_not() {
    let sluicegate = start(LIMITS, "");
    let wrong = format!("{}A", &TOKEN_OF_BOB[..TOKEN_OF_BOB.len() - 1]);
    at_every_door(&sluicegate, |door, place, limited, ask| {
        let client = format!("203.0.113.{place}");
        let with =
            |token: &str| ask(&client, &[&format!("Authorization: Bearer {token}")]).status();
        let guesses = (0..20).map(|_| with(&wrong));
        assert_eq!(counted(guesses), [(401, 5), (limited, 15)], "{door}");
        assert_eq!(with("not.a.token"), limited, "{door}");
        assert_eq!(with(TOKEN_OF_BOB), 200, "{door}");
    });
}

#[test]
fn a_missing_credential_leaves_the_limit_of_the_address() {
    let sluicegate = start(LIMITS, "");
    at_every_door(&sluicegate, |door, place, limited, ask| {
        let client = format!("203.0.113.{place}");
        let without = (0..10).map(|_| ask(&client, &[]).status());
        assert_eq!(counted(without), [(200, 5), (limited, 5)], "{door}");
    });
    let required = start(LIMITS, ", required: true");
    at_every_door(&required, |door, place, limited, ask| {
        let client = format!("203.0.113.{place}");
        let without = (0..10).map(|_| ask(&client, &[]).status());
        assert_eq!(counted(without), [(401, 5), (limited, 5)], "{door}");
        // Whoever is never limited is still asked for a credential.
        let exempt = (0..10).map(|_| ask("198.51.100.7", &[]).status());
        assert_eq!(counted(exempt), [(401, 10)], "{door}");
    });
}

#[test]
fn a_wrong_key_that_counts_as_none_is_charged_like_none() {
    let sluicegate = start(LIMITS, ", on_invalid: anonymous");
    at_every_door(&sluicegate, |door, place, limited, ask| {
        let client = format!("203.0.113.{place}");
        let guesses = (0..10).map(|_| ask(&client, &["X-Api-Key: guess"]).status());
        assert_eq!(counted(guesses), [(200, 5), (limited, 5)], "{door}");
    });
}

/// A limit that nobody can replace is charged before a credential is looked at, and once.
#[test]
fn limits_that_do_not_wait_for_the_caller_are_charged_once() {
    let path = "  - { name: login, replaces: per-ip, match: { path: /login }, key: [client_ip], rate: 1/h, burst: 3 }\n";
    let limits = format!("{LIMITS}{path}").replace(
        "replaces: per-ip, key: [principal]",
        "replaces: per-ip, match: { path: /api }, key: [principal]",
    );
    let sluicegate = start(&limits, "");
    let ask = |path: &str, key: &str| {
        HttpRequest::get(path)
            .headers(&["X-Forwarded-For: 203.0.113.9", &format!("X-Api-Key: {key}")])
            .send(sluicegate.proxy)
            .status()
    };
    let guesses = (0..6).map(|_| ask("/login", "guess"));
    assert_eq!(counted(guesses), [(401, 3), (429, 3)]);
    assert_eq!(
        ask("/login", "secret-of-ann"),
        429,
        "for everybody at /login"
    );
    let denied = "sluicegate_limit_decisions_total{limit=\"login\",outcome=\"denied\"}";
    assert_eq!(sluicegate.metric(denied), 4);
    assert_eq!(ask("/api", "secret-of-ann"), 200);
}

/// Over JSON the caller of the service has verified the principal, or has found none.
#[test]
fn a_described_request_without_a_principal_is_charged_to_its_address() {
    let sluicegate = start(LIMITS, "");
    let check = |principal: serde_json::Value| {
        let subject = json!({ "client_ip": "203.0.113.7", "principal": principal });
        let question = json!({ "subject": subject }).to_string();
        let request = decisions::request("/v1/check", &[], &question);
        let answer = decisions::body(&decisions::exchange(&sluicegate, request.as_bytes()));
        let limit = answer["limits"][0]["name"].as_str().unwrap().to_owned();
        (limit, answer["allowed"].as_bool().unwrap())
    };
    for turn in 0..7 {
        let expected = ("per-ip".to_owned(), turn < 5);
        assert_eq!(check(json!(null)), expected, "{turn}");
    }
    assert_eq!(check(json!("ann")), ("per-user".to_owned(), true));
}

#[test]
fn a_guess_is_explained_and_writes_its_line() {
    let sluicegate = start(LIMITS, "");
    let explain = |headers: serde_json::Value| {
        let subject = json!({ "client_ip": "203.0.113.7", "headers": headers });
        let question = json!({ "subject": subject }).to_string();
        let (status, told) = operator::ask(&sluicegate, "POST", "/v1/explain", Some(&question));
        assert_eq!(status, 200, "{told}");
        told
    };
    let guess = explain(json!({ "x-api-key": "guess" }));
    assert_eq!(guess["verdict"], "unauthorized");
    let summary = guess["summary"].as_str().unwrap();
    assert!(
        summary.ends_with("It is charged to per-ip all the same, so that guessing ends with 429."),
        "{summary}"
    );
    assert_eq!(guess["limits"][0]["standing"], "charged");
    assert_eq!(guess["limits"][1]["standing"], "missing_key");
    let words = guess["limits"][1]["words"].as_str().unwrap();
    assert!(
        words.ends_with("the principal is missing. So it does not take the place of per-ip."),
        "{words}"
    );
    let known = explain(json!({ "x-api-key": "secret-of-ann" }));
    assert_eq!(known["limits"][0]["standing"], "replaced");
    for _ in 0..6 {
        let lines = ["X-Forwarded-For: 203.0.113.7", "X-Api-Key: guess"];
        sluicegate.get("/", &lines);
    }
    eventually("the line is written", || {
        let printed = sluicegate.printed.lock().unwrap();
        let is_line = |line: &String| line.contains("RATE_LIMIT client_ip=203.0.113.7");
        printed.iter().any(is_line)
    });
    let limited = explain(json!({ "x-api-key": "guess" }));
    assert_eq!(limited["verdict"], "reject", "{limited}");
}
