//! Options of limits at the doors of the running program: keys and conditions by query, cookie, TLS
//! name and caller, and costs.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use sluicegate_testkit::{HttpRequest, HttpResponse, UpstreamRecorder};

use super::authorize::{self, FLAVOURS};
use super::decisions;
use super::envoy_rls;
use super::operator;
use super::resp;
use super::running::{Sluicegate, write_certificate};

const LISTENERS: &str = "
decisions: { http: '127.0.0.1:0', grpc: '127.0.0.1:0', resp: '127.0.0.1:0' }
admin: { listen: '127.0.0.1:0' }
client_ip: { trusted_proxies: [127.0.0.1/32] }
";

fn start(config: &str) -> Sluicegate {
    Sluicegate::start(&format!(
        "proxy: {{ listen: '127.0.0.1:0' }}\n{LISTENERS}{config}"
    ))
}

/// Asks about a request and tells its status, where every refusal of a gateway is one of ours.
type Door<'a> = &'a dyn Fn(&str, &[&str]) -> u16;

/// Every door that gets a request with its target and headers. `number` tells them apart.
fn at_every_door(sluicegate: &Sluicegate, mut ask: impl FnMut(&str, usize, Door<'_>)) {
    ask("HTTP/1", 0, &|target, lines| {
        HttpRequest::get(target)
            .headers(lines)
            .send(sluicegate.proxy)
            .status()
    });
    ask("HTTP/2", 1, &|target, lines| {
        HttpRequest::get(target)
            .headers(lines)
            .send_http2(sluicegate.proxy)
            .status()
    });
    // Of nginx, which gets 403 for every refusal, only what passes can be told.
    for (place, flavour) in ["forward-auth", "envoy"].into_iter().enumerate() {
        ask(flavour, 2 + place, &|target, lines| {
            authorize::ask(sluicegate, flavour, "GET", target, "203.0.113.1", lines).status()
        });
    }
    ask("JSON", 4, &|target, lines| {
        json_status(sluicegate, target, lines)
    });
}

/// The status that the proxy would have answered with.
fn json_status(sluicegate: &Sluicegate, target: &str, lines: &[&str]) -> u16 {
    let mut headers = serde_json::Map::new();
    for line in lines {
        let (name, value) = line.split_once(": ").unwrap();
        if let Some(Value::String(before)) = headers.get(name) {
            // In JSON a header stands once; cookies in one line are the same cookies.
            let joined = format!("{before}; {value}");
            headers.insert(name.to_owned(), joined.into());
        } else {
            headers.insert(name.to_owned(), value.into());
        }
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let subject =
        json!({ "client_ip": "203.0.113.1", "path": path, "query": query, "headers": headers });
    let answer = json_check(sluicegate, "/v1/check", &json!({ "subject": subject }));
    match (answer.status(), answer.contains("\"allowed\":true")) {
        (200, true) => 200,
        (200, false) => 429,
        (other, _) => other,
    }
}

fn json_check(sluicegate: &Sluicegate, path: &str, question: &Value) -> HttpResponse {
    let request = decisions::request(path, &[], &question.to_string());
    decisions::exchange(sluicegate, request.as_bytes())
}

#[test]
fn a_query_parameter_and_a_cookie_tell_callers_apart_at_every_door() {
    let sluicegate = start(
        "limits:
  - { name: by-user, match: { path: /q }, key: ['query:user'], rate: 1/h, burst: 1 }
  - { name: by-visit, match: { path: /c }, key: ['cookie:sid'], rate: 1/h, burst: 1 }
",
    );
    at_every_door(&sluicegate, |door, number, ask| {
        let query = |query: &str| ask(&format!("/q?{query}"), &[]);
        assert_eq!(query(&format!("a=1&user=ann{number}")), 200, "{door}");
        assert_eq!(
            query(&format!("user=%61nn{number}&x")),
            429,
            "{door}: the same caller"
        );
        assert_eq!(query(&format!("user=ben{number}")), 200, "{door}");
        for missing in [
            "",
            "user=",
            "User=x",
            "user=x&user=x",
            "user=x;y",
            "user=x%00",
        ] {
            assert_eq!(query(missing), 400, "{door}: {missing}");
        }
        assert_eq!(ask("/q", &[]), 400, "{door}");
        let sid = format!("Cookie: sid=\"s{number}\"");
        assert_eq!(ask("/c", &["Cookie: a=b", &sid]), 200, "{door}");
        let bare = format!("Cookie: a=b; sid=s{number}");
        assert_eq!(ask("/c", &[&bare]), 429, "{door}: the same caller");
        for missing in ["sid=", "a=sid", "sid=x; sid=x", "sid=x,y"] {
            assert_eq!(
                ask("/c", &[&format!("Cookie: {missing}")]),
                400,
                "{door}: {missing}"
            );
        }
        assert_eq!(
            ask("/c", &["Cookie: sid=x", "Cookie: sid=x"]),
            400,
            "{door}: twice"
        );
    });
    let refused = HttpRequest::get("/q?user=hunter2&user=x").send(sluicegate.proxy);
    assert!(
        refused.contains("limit \"by-user\": query:user has more than one value")
            && !refused.contains("hunter2"),
        "{refused}"
    );
}

#[test]
fn conditions_on_query_principal_and_claims_hold_at_every_door() {
    let directory = tempfile::tempdir().unwrap();
    // The SHA-256 of `secret-of-ann` and of `secret-of-cy`.
    let keys = "
- { id: ann, sha256: 70b418541da77d413246ec0d700eebb8b23852493cfaa4ab4f39009cd68360f0, claims: { plan: gold } }
- { id: cy, sha256: a9d65a0aa75c0971df7808a240a7bd08c119a48e09c175d5c167585fe555a513 }
";
    fs::write(directory.path().join("keys.yaml"), keys).unwrap();
    let config = "proxy: { listen: '127.0.0.1:0' }
principals: { api_keys: { file: keys.yaml } }
limits:
  - { name: debug, match: { query: { debug: \"1\" } }, key: [path], rate: 1/h, burst: 1 }
  - { name: gold, match: { claim: { plan: [gold, silver] } }, key: [path], rate: 1/h, burst: 2 }
  - { name: named, match: { principal: [bob, cy] }, key: [path], rate: 1/h, burst: 3 }
";
    fs::write(
        directory.path().join("sluicegate.yaml"),
        format!("{config}{LISTENERS}"),
    )
    .unwrap();
    let sluicegate = Sluicegate::start_in(directory);
    at_every_door(&sluicegate, |door, number, ask| {
        // Over JSON there are no credentials, only principals that are named.
        if door == "JSON" {
            return;
        }
        let passed = |query: &str, lines: &[&str]| {
            let path = format!("/{number}/{query}");
            let passed = (0..5).filter(|_| ask(&path, lines) == 200);
            passed.count()
        };
        assert_eq!(passed("?debug=1", &[]), 1, "{door}");
        assert_eq!(passed("?debug=2", &[]), 5, "{door}");
        assert_eq!(passed("", &["X-Api-Key: secret-of-ann"]), 2, "{door}");
        assert_eq!(passed("x", &["X-Api-Key: secret-of-cy"]), 3, "{door}");
        assert_eq!(passed("x", &[]), 5, "{door}: nobody");
    });
    let check = |principal: Value| {
        let subject = json!({ "path": "/json", "query": "debug=1", "principal": principal });
        let answer = decisions::body(&json_check(
            &sluicegate,
            "/v1/peek",
            &json!({ "subject": subject }),
        ));
        let limits = answer["limits"].as_array().unwrap().iter();
        limits
            .map(|limit| limit["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(check(json!(null)), ["debug"]);
    let silver = json!({ "id": "bob", "claims": { "plan": "dev,silver" } });
    assert_eq!(check(silver), ["debug", "gold", "named"]);
}

#[test]
fn the_tls_name_tells_callers_apart() {
    let limits = "limits:
  - { name: by-name, key: [sni], rate: 1/h, burst: 2 }
";
    let directory = tempfile::tempdir().unwrap();
    write_certificate(directory.path(), "a.example");
    let config = format!(
        "proxy: {{ listen: '127.0.0.1:0', tls: {{ cert: cert.pem, key: key.pem }} }}\nadmin: off\n{limits}"
    );
    fs::write(directory.path().join("sluicegate.yaml"), config).unwrap();
    let sluicegate = Sluicegate::start_in(directory);
    let port = sluicegate.proxy.port();
    let status = |name: &str, version: &str| {
        let to = format!("{name}:{port}:127.0.0.1");
        let url = format!("https://{name}:{port}/");
        let output = Command::new("curl")
            .args(["-sSk", "-o", "/dev/null", "-w", "%{http_code}"])
            .args(["--max-time", "20", version, "--resolve", &to, &url])
            // The host is not the name of the handshake.
            .args(["-H", "Host: other.example"])
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(status("a.example", "--http1.1"), "200");
    assert_eq!(status("A.Example", "--http2"), "200");
    assert_eq!(status("a.example", "--http2"), "429");
    assert_eq!(status("b.example", "--http2"), "200");
    assert_eq!(
        status("127.0.0.1", "--http1.1"),
        "400",
        "an address is no name"
    );

    let plain = start(limits);
    let without = HttpRequest::get("/").send(plain.proxy);
    assert_eq!(without.status(), 400, "{without}");
    assert!(
        without.contains("limit \"by-name\": sni is missing"),
        "{without}"
    );
    let check = |sni: Value| {
        let subject = json!({ "subject": { "sni": sni } });
        json_check(&plain, "/v1/check", &subject).status()
    };
    assert_eq!(check(json!("a.example")), 200);
    assert_eq!(check(json!(null)), 400);
}

const COSTS: &str = "limits:
  - { name: upload, match: { path: /upload }, key: ['header:X-Who'], rate: 1/h, burst: 10, cost: 5 }
  - name: batch
    match: { path: /batch }
    key: ['header:X-Who']
    rate: 1/h
    burst: 50
    cost: { header: X-Cost, default: 2, max: 40 }
  - { name: by-plan, match: { domain: edge }, key: ['descriptor:plan'], rate: 1/h, burst: 10, cost: 5 }
";

#[test]
fn a_request_takes_the_units_of_its_limit_at_every_door() {
    let sluicegate = start(COSTS);
    at_every_door(&sluicegate, |door, number, ask| {
        let who = format!("X-Who: {number}");
        let uploads: Vec<u16> = (0..3).map(|_| ask("/upload", &[&who])).collect();
        assert_eq!(uploads, [200, 200, 429], "{door}: five of ten each");
        let batch = |cost: &str| ask("/batch", &[&who, &format!("X-Cost: {cost}")]);
        assert_eq!(batch("40"), 200, "{door}");
        assert_eq!(batch("11"), 429, "{door}: ten are left");
        assert_eq!(batch("0"), 200, "{door}: counts as the default");
        assert_eq!(batch("7"), 200, "{door}: eight are left");
        assert_eq!(
            ask("/batch", &[&who]),
            429,
            "{door}: one is left, the default is two"
        );
        for refused in ["41", "-1", "1.5", "x", ""] {
            assert_eq!(batch(refused), 400, "{door}: {refused:?}");
        }
    });
    let refused = HttpRequest::get("/batch")
        .headers(&["X-Who: ann", "X-Cost: hunter2"])
        .send(sluicegate.proxy);
    assert!(
        refused.contains("limit \"batch\": header:x-cost is no whole number")
            && !refused.contains("hunter2"),
        "{refused}"
    );
    for lines in [
        &["X-Who: ann", "X-Cost: 1", "X-Cost: 1"][..],
        &["X-Who: ann", "X-Cost: 1, 1"],
        &["X-Who: ann", "X-Cost: 40", "X_Cost: 1"],
        &["X-Who: ann", "X_Cost: 1"],
    ] {
        for status in [
            HttpRequest::get("/batch")
                .headers(lines)
                .send(sluicegate.proxy)
                .status(),
            HttpRequest::get("/batch")
                .headers(lines)
                .send_http2(sluicegate.proxy)
                .status(),
        ] {
            assert_eq!(status, 400, "{lines:?}");
        }
    }
}

/// The header that the cost was read from is the one that the server sees.
#[test]
fn a_client_cannot_have_the_header_of_its_cost_dropped() {
    let recorder = UpstreamRecorder::start();
    let sluicegate = Sluicegate::start(&format!(
        "proxy: {{ listen: '127.0.0.1:0', upstream: 'http://{}' }}\nadmin: off\n{COSTS}",
        recorder.address
    ));
    let lines = ["X-Who: ann", "X-Cost: 3", "Connection: close, x-cost"];
    let response = HttpRequest::get("/batch")
        .headers(&lines)
        .send(sluicegate.proxy);
    assert_eq!(response.status(), 200, "{response}");
    assert_eq!(recorder.requests()[0].header("x-cost"), Some("3"));
}

#[test]
fn named_charges_take_the_fixed_number_and_say_what_a_header_would() {
    let sluicegate = start(COSTS);
    let json = |path: &str, limit: &str, cost: u64| {
        let question = json!({ "limit": limit, "key": ["ann"], "cost": cost });
        let answer = decisions::body(&json_check(&sluicegate, path, &question));
        let left = answer["limits"][0]["remaining"].as_u64().unwrap();
        (answer["allowed"].as_bool().unwrap(), left)
    };
    assert_eq!(json("/v1/check", "upload", 1), (true, 5));
    assert_eq!(json("/v1/peek", "upload", 1), (true, 5));
    assert_eq!(json("/v1/peek", "upload", 2), (false, 5), "ten are needed");
    assert_eq!(json("/v1/check", "upload", 2), (false, 5));
    assert_eq!(json("/v1/refund", "upload", 1), (true, 10));
    assert_eq!(json("/v1/check", "batch", 7), (true, 43), "as it is said");
    assert_eq!(json("/v1/refund", "batch", 7), (true, 50));
    // denied, limit, remaining, then times
    let say = |command: &str| {
        let reply = resp::say(&sluicegate, format!("{command}\r\n").as_bytes());
        let numbers: Vec<String> = reply.lines().skip(1).take(3).map(str::to_owned).collect();
        numbers.join(" ")
    };
    assert_eq!(say("SG.CHECK upload ben"), ":0 :10 :5");
    assert_eq!(say("SG.CHECK upload ben COST 2"), ":1 :10 :5");
    assert_eq!(say("SG.PEEK upload ben COST 2"), ":1 :10 :5");
    assert_eq!(say("SG.PEEK upload ben"), ":0 :10 :5");
    assert_eq!(say("SG.REFUND upload ben"), ":0 :10 :10");
    assert_eq!(say("SG.CHECK batch ben 7"), ":0 :50 :43");
    // Envoy's hits, times the number.
    let codes = envoy_rls::client(&sluicegate, async |channel| {
        let mut codes = Vec::new();
        for _ in 0..3 {
            let request = envoy_rls::request([envoy_rls::descriptor("plan", "gold")]);
            let response = envoy_rls::ask_with(&channel, request, None).await.unwrap();
            codes.push(response.overall_code() as i32);
        }
        codes
    });
    assert_eq!(codes, [1, 1, 2], "two of five units each, and no more");
}

#[test]
fn a_peek_at_a_described_request_asks_for_the_units_of_each_limit() {
    let sluicegate = start(COSTS);
    let peek = |path: &str, headers: Value, cost: u64| {
        let question = json!({ "subject": { "path": path, "headers": headers }, "cost": cost });
        decisions::body(&json_check(&sluicegate, "/v1/peek", &question))["allowed"].clone()
    };
    let ann = json!({ "x-who": "ann" });
    assert_eq!(peek("/upload", ann.clone(), 2), true);
    assert_eq!(peek("/upload", ann, 3), false);
    let with_cost = |cost: &str| json!({ "x-who": "ann", "x-cost": cost });
    assert_eq!(peek("/batch", with_cost("25"), 2), true);
    assert_eq!(peek("/batch", with_cost("26"), 2), false);
}

#[test]
fn costs_are_explained() {
    let sluicegate = start(COSTS);
    let explain = |path: &str, headers: Value| {
        let question = json!({ "subject": { "path": path, "headers": headers }, "cost": 2 });
        let body = question.to_string();
        operator::ask(&sluicegate, "POST", "/v1/explain", Some(&body)).1
    };
    let upload = explain("/upload", json!({ "x-who": "ann" }));
    let limit = &upload["limits"][0];
    assert_eq!(limit["cost"], 10);
    assert_eq!(limit["after"]["remaining"], 0);
    let words = limit["words"].as_str().unwrap();
    assert!(
        words.contains("at most 10 units at once") && words.contains("each request costs 5 units"),
        "{words}"
    );
    let batch = explain("/batch", json!({ "x-who": "ann", "x-cost": "7" }));
    assert_eq!(batch["limits"][1]["cost"], 14);
    let unreadable = explain("/batch", json!({ "x-who": "ann", "x-cost": "x" }));
    assert_eq!(unreadable["verdict"], "unidentified");
    let words = unreadable["limits"][1]["words"].as_str().unwrap();
    assert!(
        words.contains("cannot tell what the request costs: the header x-cost is no whole number"),
        "{words}"
    );
}

#[test]
fn gateways_of_every_flavour_pass_the_query_on() {
    let sluicegate =
        start("limits: [{ name: by-user, key: ['query:user'], rate: 1/h, burst: 1 }]\n");
    for (flavour, _) in FLAVOURS {
        let ask = |target: &str| {
            authorize::ask(&sluicegate, flavour, "GET", target, "203.0.113.1", &[]).status()
        };
        let target = format!("/x?a=b?c&user={flavour}#user=other");
        // A client sends no fragment; a gateway that passes one on means the same.
        let target = if flavour == "envoy" {
            target.split('#').next().unwrap().to_owned()
        } else {
            target
        };
        assert_eq!(ask(&target), 200, "{flavour}");
        assert_ne!(ask(&target), 200, "{flavour}");
        assert_ne!(ask("/x"), 200, "{flavour}");
    }
}
