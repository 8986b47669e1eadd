//! The decision service over HTTP, asked in JSON.

mod described;
mod http2;
mod mistakes;
mod outages;
mod tls;

use std::io::Write;
use std::net::TcpStream;

use serde_json::{Value, json};
use sluicegate_testkit::{HttpRequest, HttpResponse, eventually, raw_socket};

use super::running::Sluicegate;

/// A few limits, of which a subject at `/` meets the first.
pub const LIMITS: &str = "
proxy: { listen: '127.0.0.1:0' }
decisions: { http: '127.0.0.1:0' }
admin: { listen: '127.0.0.1:0' }
access: { deny: { cidrs: [192.0.2.0/24] }, allow: { keys: [vip] } }
limits:
  - { name: per-ip, key: [client_ip], rate: 1/h, burst: 3 }
  - { name: tenant, key: ['header:X-Tenant', 'descriptor:plan'], rate: 1/h, burst: 2, match: { path: /tenant } }
  - { name: watched, key: [global], rate: 1/h, burst: 1, mode: shadow, match: { path: /watched } }
  - { name: by-header, key: ['header:X-Who'], rate: 1/h, match: { path: /header } }
";

/// Everything that comes back for these bytes until the connection is closed.
pub fn exchange(sluicegate: &Sluicegate, request: &[u8]) -> HttpResponse {
    raw_socket::exchange_on(connect(sluicegate), request)
}

/// A connection to the decision service.
pub fn connect(sluicegate: &Sluicegate) -> TcpStream {
    raw_socket::connect(sluicegate.decisions.expect("it says where decisions are"))
}

/// The bytes of a question in JSON.
pub fn request(path: &str, headers: &[&str], body: &str) -> String {
    let request = HttpRequest::post(path, body)
        .host("sluicegate")
        .headers(&["Content-Type: application/json"])
        .headers(headers);
    String::from_utf8(request.to_http1()).unwrap()
}

/// The JSON of an answer.
#[track_caller]
pub fn body(answer: &HttpResponse) -> Value {
    serde_json::from_str(answer.body()).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

/// Asks, and is answered with 200.
#[track_caller]
fn ask(sluicegate: &Sluicegate, path: &str, question: &Value) -> Value {
    let answer = exchange(
        sluicegate,
        request(path, &[], &question.to_string()).as_bytes(),
    );
    assert_eq!(answer.status(), 200, "{answer}");
    body(&answer)
}

/// How many answers of a batch are yes.
pub fn allowed_in(batch: &Value) -> usize {
    let answers = batch["answers"].as_array().unwrap();
    answers
        .iter()
        .filter(|answer| answer["allowed"] == true)
        .count()
}

fn counter(limit: &str, key: &[&str], cost: u64) -> Value {
    json!({ "limit": limit, "key": key, "cost": cost })
}

#[test]
fn a_subject_is_charged_to_its_limits_until_they_are_spent() {
    let sluicegate = Sluicegate::start(LIMITS);
    let question = json!({ "subject": { "client_ip": "203.0.113.7", "path": "/" } });
    let first = ask(&sluicegate, "/v1/check", &question);
    assert_eq!(
        (
            &first["allowed"],
            &first["retry_after_us"],
            &first["degraded"]
        ),
        (&json!(true), &json!(0), &json!(false))
    );
    let limit = &first["limits"][0];
    assert_eq!(
        (&limit["name"], &limit["limit"], &limit["remaining"]),
        (&json!("per-ip"), &json!(3), &json!(2))
    );
    assert_eq!(limit["reset_after_us"], 3_600_000_000_u64);
    for _ in 0..2 {
        assert_eq!(ask(&sluicegate, "/v1/check", &question)["allowed"], true);
    }
    let denied = ask(&sluicegate, "/v1/check", &question);
    assert_eq!(
        (&denied["allowed"], &denied["limits"][0]["allowed"]),
        (&json!(false), &json!(false))
    );
    let wait = denied["retry_after_us"].as_u64().unwrap();
    assert!((3_000_000_000..=3_600_000_000).contains(&wait), "{denied}");
    let other = ask(
        &sluicegate,
        "/v1/check",
        &json!({ "subject": { "client_ip": "203.0.113.8" }, "cost": 4 }),
    );
    assert_eq!(
        (&other["allowed"], &other["retry_after_us"]),
        (&json!(false), &json!(null)),
        "no wait helps"
    );
}

#[test]
fn the_proxy_and_the_decision_service_count_together() {
    let sluicegate = Sluicegate::start(LIMITS);
    assert_eq!(sluicegate.get("/", &[]).status(), 200);
    let answer = ask(
        &sluicegate,
        "/v1/check",
        &counter("per-ip", &["127.0.0.1"], 2),
    );
    assert_eq!(
        (&answer["allowed"], &answer["limits"][0]["remaining"]),
        (&json!(true), &json!(0))
    );
    assert_eq!(sluicegate.get("/", &[]).status(), 429);
}

#[test]
fn keys_are_made_of_what_the_subject_says_and_shadow_limits_stop_nobody() {
    let sluicegate = Sluicegate::start(LIMITS);
    let of = |tenant: &str, plan: &str| {
        json!({ "subject": { "client_ip": format!("2001:db8:{tenant}::1"), "path": "/tenant?x=1",
            "headers": { "x-TENANT": tenant }, "descriptors": { "plan": plan } } })
    };
    assert_eq!(
        ask(&sluicegate, "/v1/check", &of("1", "gold"))["limits"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    let by_name = ask(
        &sluicegate,
        "/v1/peek",
        &counter("tenant", &["1", "gold"], 1),
    );
    assert_eq!(by_name["limits"][0]["remaining"], 1);
    assert_eq!(
        ask(
            &sluicegate,
            "/v1/peek",
            &counter("tenant", &["1", "iron"], 1)
        )["limits"][0]["remaining"],
        2
    );
    let watched = json!({ "subject": { "client_ip": "203.0.113.7", "path": "/watched" } });
    assert_eq!(ask(&sluicegate, "/v1/check", &watched)["allowed"], true);
    let again = ask(&sluicegate, "/v1/check", &watched);
    assert_eq!(
        (&again["allowed"], &again["limits"][1]["allowed"]),
        (&json!(true), &json!(false)),
        "{again}"
    );
}

#[test]
fn lists_hold_as_at_the_proxy() {
    let sluicegate = Sluicegate::start(LIMITS);
    let denied = ask(
        &sluicegate,
        "/v1/check",
        &json!({ "subject": { "client_ip": "192.0.2.9" } }),
    );
    assert_eq!(
        denied,
        json!({ "allowed": false, "retry_after_us": null, "degraded": false, "limits": [] })
    );
    let exempt = json!({ "subject": { "client_ip": "203.0.113.7", "principal": "vip" } });
    for _ in 0..5 {
        let answer = ask(&sluicegate, "/v1/check", &exempt);
        assert_eq!(
            answer,
            json!({ "allowed": true, "retry_after_us": 0, "degraded": false, "limits": [] })
        );
    }
}

#[test]
fn peek_takes_nothing_and_refund_and_reset_give_back() {
    let sluicegate = Sluicegate::start(LIMITS);
    let (key, left) = (["203.0.113.7"], |answer: &Value| {
        answer["limits"][0]["remaining"].as_u64()
    });
    for _ in 0..5 {
        let seen = ask(&sluicegate, "/v1/peek", &counter("per-ip", &key, 3));
        assert_eq!((&seen["allowed"], left(&seen)), (&json!(true), Some(3)));
    }
    let too_much = ask(&sluicegate, "/v1/peek", &counter("per-ip", &key, 4));
    assert_eq!(
        (&too_much["allowed"], &too_much["retry_after_us"]),
        (&json!(false), &json!(null))
    );
    assert_eq!(
        left(&ask(&sluicegate, "/v1/check", &counter("per-ip", &key, 3))),
        Some(0)
    );
    assert_eq!(
        ask(&sluicegate, "/v1/peek", &counter("per-ip", &key, 1))["allowed"],
        false
    );
    assert_eq!(
        left(&ask(&sluicegate, "/v1/refund", &counter("per-ip", &key, 2))),
        Some(2)
    );
    let long_ago = json!({ "limit": "per-ip", "key": key, "age_us": 7_200_000_000_u64 });
    assert_eq!(
        left(&ask(&sluicegate, "/v1/refund", &long_ago)),
        Some(2),
        "they have come back already"
    );
    assert_eq!(
        left(&ask(&sluicegate, "/v1/refund", &counter("per-ip", &key, 9))),
        Some(3),
        "never beyond full"
    );
    ask(&sluicegate, "/v1/check", &counter("per-ip", &key, 3));
    let reset = ask(
        &sluicegate,
        "/v1/reset",
        &json!({ "limit": "per-ip", "key": key }),
    );
    assert_eq!(reset, json!({ "reset": true }));
    assert_eq!(
        left(&ask(&sluicegate, "/v1/peek", &counter("per-ip", &key, 1))),
        Some(3)
    );
}

#[test]
fn a_batch_is_answered_one_by_one_in_order() {
    let sluicegate = Sluicegate::start(LIMITS);
    let mut checks = vec![counter("per-ip", &["203.0.113.7"], 1); 5];
    checks[1] = json!({ "limit": "per-ip" });
    checks[3] = json!({ "subject": { "client_ip": "203.0.113.8", "path": "x" } });
    checks.push(json!([[]]));
    checks.extend(vec![counter("per-ip", &["203.0.113.7"], 1); 2]);
    let answers = ask(&sluicegate, "/v1/check/batch", &json!({ "checks": checks }));
    let told: Vec<String> = answers["answers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|answer| match &answer["problem"] {
            Value::Null => answer["allowed"].to_string(),
            problem => problem["field"].as_str().unwrap_or("whole").to_owned(),
        })
        .collect();
    assert_eq!(
        told,
        [
            "true",
            "key",
            "true",
            "subject.path",
            "true",
            "whole",
            "false",
            "false"
        ]
    );
    let many = vec![json!({ "limit": "per-ip", "key": ["::1"] }); 1_000];
    let answers = ask(&sluicegate, "/v1/check/batch", &json!({ "checks": many }));
    let allowed = allowed_in(&answers);
    assert_eq!(
        (answers["answers"].as_array().unwrap().len(), allowed),
        (1_000, 3)
    );
}

#[test]
fn questions_are_counted_by_answer_and_by_limit() {
    let sluicegate = Sluicegate::start(LIMITS);
    for cost in [3, 1] {
        ask(
            &sluicegate,
            "/v1/check",
            &counter("per-ip", &["203.0.113.7"], cost),
        );
    }
    exchange(&sluicegate, request("/v1/check", &[], "{}").as_bytes());
    let of = |outcome: &str| {
        format!("sluicegate_decisions_total{{protocol=\"http\",outcome=\"{outcome}\"}}")
    };
    let counted =
        ["allowed", "limited", "refused", "denied"].map(|outcome| sluicegate.metric(&of(outcome)));
    assert_eq!(counted, [1, 1, 1, 0]);
    assert_eq!(
        sluicegate.metric("sluicegate_limit_decisions_total{limit=\"per-ip\",outcome=\"denied\"}"),
        1
    );
}

#[test]
fn one_connection_asks_many_times_and_what_was_asked_is_answered_before_the_end() {
    let mut sluicegate = Sluicegate::start(LIMITS);
    let question = counter("per-ip", &["203.0.113.7"], 0).to_string();
    let head = format!(
        "POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        question.len()
    );
    let mut stream = connect(&sluicegate);
    for _ in 0..3 {
        stream
            .write_all(format!("{head}{question}").as_bytes())
            .unwrap();
        assert_eq!(raw_socket::read_response(&mut stream).status(), 200);
    }
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&question.as_bytes()[..5]).unwrap();
    // It no longer listens once it has the signal.
    sluicegate.signal("TERM");
    eventually("nobody listens any more", || {
        TcpStream::connect(sluicegate.decisions.unwrap()).is_err()
    });
    stream.write_all(&question.as_bytes()[5..]).unwrap();
    let answer = raw_socket::read_to_end(stream);
    assert_eq!(answer.status(), 200, "{answer}");
    assert!(sluicegate.wait().success());
}

#[test]
fn a_process_that_replaces_another_listens_at_the_same_door() {
    // The ports have to stay the same for the successor.
    let [proxy, decisions] = [0; 2].map(|_| raw_socket::closed_address());
    let config = format!(
        "proxy: {{ listen: '{proxy}' }}\ndecisions: {{ http: '{decisions}' }}\nadmin: off\n"
    );
    let mut sluicegate = Sluicegate::start(&config);
    sluicegate.signal("USR2");
    assert!(sluicegate.wait().success());
    let question = json!({ "subject": {} });
    assert_eq!(ask(&sluicegate, "/v1/check", &question)["allowed"], true);
}
