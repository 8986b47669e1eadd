//! Gateways that ask whether a request of theirs may go on.

use std::fs;

use sluicegate_testkit::{HttpResponse, RedisServer, eventually};

use super::decisions::exchange;
use super::running::Sluicegate;

/// The gateway is this machine, and its word about clients is taken.
const LIMITS: &str = "
proxy: { listen: '127.0.0.1:0' }
decisions: { http: '127.0.0.1:0' }
admin: { listen: '127.0.0.1:0' }
client_ip: { trusted_proxies: [127.0.0.1/32] }
access: { deny: { cidrs: [192.0.2.0/24] } }
limits:
  - { name: per-ip, key: [client_ip], rate: 1/h, burst: 2 }
  - { name: sign-in, replaces: per-ip, match: { path: /signin, methods: [POST], hosts: [a.example] }, key: [client_ip], rate: 1/h, burst: 1 }
";

/// The paths of the gateways, each with the header lines that tell about a request.
pub const FLAVOURS: [(&str, &str); 3] = [
    ("nginx", "X-Original-"),
    ("forward-auth", "X-Forwarded-"),
    ("envoy", ""),
];

/// A gateway's question about a request.
fn question(flavour: &str, method: &str, target: &str, client: &str, more: &[&str]) -> String {
    let set = FLAVOURS
        .iter()
        .find(|(name, _)| *name == flavour)
        .unwrap()
        .1;
    let more: String = more.iter().map(|line| format!("{line}\r\n")).collect();
    let end = format!("Connection: close\r\nX-Forwarded-For: {client}\r\n{more}\r\n");
    match set {
        "" => format!("{method} /v1/authorize/envoy{target} HTTP/1.1\r\nHost: a.example\r\n{end}"),
        set => format!(
            "GET /v1/authorize/{flavour} HTTP/1.1\r\nHost: sluicegate\r\n{set}Method: {method}\r\n{set}Uri: {target}\r\n\
             {set}Host: a.example\r\n{end}"
        ),
    }
}

pub fn ask(
    sluicegate: &Sluicegate,
    flavour: &str,
    method: &str,
    target: &str,
    client: &str,
    more: &[&str],
) -> HttpResponse {
    exchange(
        sluicegate,
        question(flavour, method, target, client, more).as_bytes(),
    )
}

#[test]
fn a_request_passes_with_200_and_nothing_more_until_its_limit_is_spent() {
    let sluicegate = Sluicegate::start(LIMITS);
    for (place, (flavour, _)) in FLAVOURS.into_iter().enumerate() {
        let client = format!("203.0.113.{place}");
        for _ in 0..2 {
            let passed = ask(&sluicegate, flavour, "GET", "/", &client, &[]);
            assert_eq!(passed.status(), 200, "{flavour} {passed}");
            assert_eq!(passed.body(), "", "{passed}");
            assert!(
                passed.header("ratelimit").is_some() && passed.header("retry-after").is_none(),
                "{passed}"
            );
        }
        let refused = ask(&sluicegate, flavour, "GET", "/", &client, &[]);
        let expected = if flavour == "nginx" { 403 } else { 429 };
        assert_eq!(refused.status(), expected, "{flavour}");
        for name in ["retry-after", "ratelimit", "ratelimit-policy"] {
            assert!(refused.header(name).is_some(), "{name} in {refused}");
        }
    }
    let of = |outcome: &str| {
        format!("sluicegate_decisions_total{{protocol=\"authorize\",outcome=\"{outcome}\"}}")
    };
    assert_eq!(
        ["allowed", "limited"].map(|outcome| sluicegate.metric(&of(outcome))),
        [6, 3]
    );
}

#[test]
fn limits_match_the_request_that_is_asked_about() {
    let sluicegate = Sluicegate::start(LIMITS);
    for (place, (flavour, _)) in FLAVOURS.into_iter().enumerate() {
        let client = format!("203.0.113.{place}");
        let sign_in =
            |target: &str| ask(&sluicegate, flavour, "POST", target, &client, &[]).status();
        assert_eq!(sign_in("/signin?a=b"), 200, "{flavour}");
        let spent = sign_in("/x/..//signin");
        assert!(
            matches!(spent, 403 | 429),
            "{flavour}: another spelling is the same path: {spent}"
        );
        assert_eq!(
            ask(&sluicegate, flavour, "GET", "/signin", &client, &[]).status(),
            200,
            "{flavour}: another method"
        );
    }
}

#[test]
fn each_flavour_believes_its_own_headers_and_no_others() {
    let sluicegate = Sluicegate::start(LIMITS);
    let foreign = [
        "X-Original-Method: POST",
        "X-Original-URI: /signin",
        "X-Original-Host: a.example",
        "X-Forwarded-Method: POST",
        "X-Forwarded-Uri: /signin",
        "X-Forwarded-Host: a.example",
        "X-Original-Url: /signin",
        "X-Rewrite-Url: /signin",
        "X-HTTP-Method-Override: POST",
    ];
    for (place, (flavour, set)) in FLAVOURS.into_iter().enumerate() {
        let client = format!("203.0.113.{place}");
        let others: Vec<&str> = foreign
            .into_iter()
            .filter(|line| set.is_empty() || !line.starts_with(set) || line.contains("Url"))
            .collect();
        // As sign-ins there would be one.
        for _ in 0..2 {
            let passed = ask(&sluicegate, flavour, "GET", "/", &client, &others);
            assert_eq!(passed.status(), 200, "{flavour} {passed}");
        }
    }
}

#[test]
fn a_gateway_that_does_not_say_what_it_asks_about_is_told_which_header() {
    let sluicegate = Sluicegate::start(LIMITS);
    for (flavour, set) in &FLAVOURS[..2] {
        for name in ["Method", "Uri", "Host"] {
            let whole = question(flavour, "GET", "/", "203.0.113.7", &[]);
            let line = whole
                .lines()
                .find(|line| line.starts_with(&format!("{set}{name}:")))
                .unwrap();
            let without = exchange(
                &sluicegate,
                whole.replace(&format!("{line}\r\n"), "").as_bytes(),
            );
            let twice = exchange(
                &sluicegate,
                whole.replace(line, &format!("{line}\r\n{line}")).as_bytes(),
            );
            for answer in [without, twice] {
                assert_eq!(answer.status(), 400, "{answer}");
                let field = format!("\"field\":\"{}\"", format!("{set}{name}").to_lowercase());
                assert!(answer.contains(&field), "{field} in {answer}");
            }
        }
    }
}

#[test]
fn refusals_reach_the_client_in_a_way_that_its_gateway_understands() {
    let sluicegate = Sluicegate::start(LIMITS);
    for (flavour, ambiguous, denied) in [
        ("nginx", 403, 403),
        ("forward-auth", 400, 403),
        ("envoy", 400, 403),
    ] {
        let answer = ask(&sluicegate, flavour, "GET", "/a%2Fb", "203.0.113.7", &[]);
        assert_eq!(
            (answer.status(), answer.header("retry-after")),
            (ambiguous, None),
            "{flavour} {answer}"
        );
        assert_eq!(
            ask(&sluicegate, flavour, "GET", "/", "192.0.2.1", &[]).status(),
            denied,
            "{flavour}"
        );
    }
    let odd = question("nginx", "GET", "/é", "203.0.113.7", &[]);
    assert_eq!(
        exchange(&sluicegate, odd.as_bytes()).status(),
        403,
        "nothing that a client sends is an error of the gateway"
    );
}

#[test]
fn a_refusal_is_never_200_also_to_callers_of_grpc() {
    let sluicegate = Sluicegate::start(LIMITS);
    let call = ["Content-Type: application/grpc", "TE: trailers"];
    for (place, (flavour, _)) in FLAVOURS.into_iter().enumerate() {
        let client = format!("203.0.113.{place}");
        let answers: Vec<u16> = (0..3)
            .map(|_| ask(&sluicegate, flavour, "POST", "/", &client, &call).status())
            .collect();
        assert!(
            answers[..2] == [200, 200] && matches!(answers[2], 403 | 429),
            "{flavour} {answers:?}"
        );
    }
}

#[test]
fn every_method_and_a_body_are_taken() {
    let sluicegate = Sluicegate::start(&LIMITS.replace("burst: 2", "burst: 100"));
    for method in [
        "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "ODD",
    ] {
        for (flavour, _) in FLAVOURS {
            let asked = question(flavour, "GET", "/", "203.0.113.7", &["Content-Length: 4"]);
            let asked = asked.replacen(asked.split(' ').next().unwrap(), method, 1) + "body";
            assert_eq!(
                exchange(&sluicegate, asked.as_bytes()).status(),
                200,
                "{flavour} {method}"
            );
        }
    }
}

#[test]
fn a_client_that_is_not_behind_a_trusted_gateway_is_the_gateway() {
    let sluicegate = Sluicegate::start(&LIMITS.replace("[127.0.0.1/32]", "[]"));
    let answers: Vec<u16> = (0..3)
        .map(|turn| {
            ask(
                &sluicegate,
                "forward-auth",
                "GET",
                "/",
                &format!("203.0.113.{turn}"),
                &[],
            )
            .status()
        })
        .collect();
    assert_eq!(
        answers,
        [200, 200, 429],
        "what is said about the client is not believed"
    );
}

#[test]
fn credentials_are_verified_and_principals_limited() {
    let directory = tempfile::tempdir().unwrap();
    // The SHA-256 of `secret-of-ann`.
    let keys =
        "- { id: ann, sha256: 70b418541da77d413246ec0d700eebb8b23852493cfaa4ab4f39009cd68360f0 }\n";
    fs::write(directory.path().join("keys.yaml"), keys).unwrap();
    let who = "  - { name: who, key: [principal], rate: 1/h, burst: 3 }\n";
    let principals = "principals: { required: true, api_keys: { file: keys.yaml } }\n";
    let config = LIMITS.replace("limits:\n", &format!("{principals}limits:\n{who}"));
    fs::write(directory.path().join("sluicegate.yaml"), config).unwrap();
    let sluicegate = Sluicegate::start_in(directory);
    let ask = |turn: usize, flavour: &str, key: &str| {
        let client = format!("2001:db8:0:{turn}::1");
        ask(
            &sluicegate,
            flavour,
            "GET",
            "/",
            &client,
            &[&format!("X-Api-Key: {key}")],
        )
    };
    for (turn, (flavour, _)) in FLAVOURS.into_iter().enumerate() {
        let unknown = ask(turn, flavour, "wrong");
        assert_eq!(unknown.status(), 401, "{flavour} {unknown}");
        assert!(unknown.header("www-authenticate").is_some(), "{unknown}");
        assert_eq!(
            ask(turn, flavour, "secret-of-ann").status(),
            200,
            "{flavour}"
        );
    }
    for (turn, (flavour, _)) in FLAVOURS.into_iter().enumerate() {
        let spent = ask(turn + 10, flavour, "secret-of-ann").status();
        assert!(
            matches!(spent, 403 | 429),
            "{flavour}: whoever it is, from every address: {spent}"
        );
    }
}

#[test]
fn with_a_token_a_gateway_shows_it_in_a_header_of_its_own() {
    const TOKEN: &str = "0123456789abcdef";
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("token"), TOKEN).unwrap();
    let config = LIMITS.replace(
        "{ http: '127.0.0.1:0' }",
        "{ http: '127.0.0.1:0', token_file: token }",
    );
    fs::write(directory.path().join("sluicegate.yaml"), config).unwrap();
    let sluicegate = Sluicegate::start_in(directory);
    for (flavour, _) in FLAVOURS {
        let of =
            |line: &str| ask(&sluicegate, flavour, "GET", "/", "203.0.113.7", &[line]).status();
        assert_eq!(of("X-A: b"), 403, "{flavour}");
        assert_eq!(of("X-Sluicegate-Token: 0123456789abcdeF"), 403, "{flavour}");
        assert_eq!(
            of(&format!("Authorization: Bearer {TOKEN}")),
            403,
            "{flavour}: that is the client's"
        );
    }
    assert_eq!(
        ask(
            &sluicegate,
            "nginx",
            "GET",
            "/",
            "203.0.113.7",
            &[&format!("X-Sluicegate-Token: {TOKEN}")]
        )
        .status(),
        200
    );
}

#[test]
fn without_the_store_a_closed_policy_refuses_whatever_the_gateway_makes_of_errors() {
    let server = RedisServer::start();
    let store = format!(
        "store: {{ kind: redis, deadline: 1s, redis: {{ endpoints: ['{}'] }} }}\n",
        server.address()
    );
    let sluicegate = Sluicegate::start(&format!("{LIMITS}{store}"));
    assert_eq!(
        ask(&sluicegate, "forward-auth", "GET", "/", "203.0.113.7", &[]).status(),
        200
    );
    drop(server);
    let away = || ask(&sluicegate, "forward-auth", "GET", "/", "203.0.113.8", &[]);
    eventually("the policy decides", || away().status() == 503);
    assert_eq!(away().header("retry-after"), Some("1"));
    for flavour in ["nginx", "envoy"] {
        let refused = ask(&sluicegate, flavour, "GET", "/", "203.0.113.8", &[]);
        assert_eq!(
            (refused.status(), refused.header("retry-after")),
            (403, Some("1")),
            "{flavour}"
        );
    }
}
