//! Questions that have no answer, and callers who may not ask.

use std::io::Write;

use serde_json::{Value, json};
use sluicegate_testkit::HttpResponse;
use sluicegate_testkit::raw_socket::read_to_end;

use super::{LIMITS, body, connect, exchange, request};
use crate::running::Sluicegate;

const GOOD: &str = r#"{"limit": "per-ip", "key": ["203.0.113.7"], "cost": 0}"#;

/// The status and the field of a refusal, which is always a problem.
#[track_caller]
fn refusal(answer: &HttpResponse) -> (u16, Option<String>) {
    assert_eq!(
        answer.header("content-type"),
        Some("application/problem+json"),
        "{answer}"
    );
    let problem = body(answer);
    assert_eq!(problem["status"], answer.status(), "{answer}");
    assert!(
        problem["title"].is_string() && problem["detail"].is_string(),
        "{answer}"
    );
    (
        answer.status(),
        problem["field"].as_str().map(str::to_owned),
    )
}

#[test]
fn every_mistake_is_a_problem_that_names_its_field() {
    let sluicegate = Sluicegate::start(LIMITS);
    for (path, question, field) in [
        ("/v1/check", "{}", Some("subject")),
        ("/v1/check", "", None),
        ("/v1/check", "[]", None),
        ("/v1/check", r#"[null, "per-ip", ["::1"], 1]"#, None),
        (
            "/v1/check",
            r#"{"limit": "none", "key": []}"#,
            Some("limit"),
        ),
        (
            "/v1/check",
            r#"{"limit": "per-ip", "key": []}"#,
            Some("key"),
        ),
        (
            "/v1/check",
            r#"{"limit": "per-ip", "key": ["ann"]}"#,
            Some("key"),
        ),
        (
            "/v1/check",
            r#"{"limit": "per-ip", "key": ["::1", "::2"]}"#,
            Some("key"),
        ),
        (
            "/v1/check",
            r#"{"subject": {"path": "/header", "client_ip": "::1"}}"#,
            Some("subject"),
        ),
        (
            "/v1/check",
            r#"{"subject": {"headers": {"X_Tenant": "a"}}}"#,
            Some("subject.headers"),
        ),
        (
            "/v1/check",
            r#"{"subject": {"client_ip": "nobody"}}"#,
            Some("subject.client_ip"),
        ),
        (
            "/v1/peek",
            r#"{"subject": {"cost": 1}}"#,
            Some("subject.cost"),
        ),
        ("/v1/refund", r#"{"limit": "per-ip"}"#, Some("key")),
        (
            "/v1/refund",
            r#"{"limit": "none", "key": ["a"]}"#,
            Some("limit"),
        ),
        (
            "/v1/reset",
            r#"{"limit": "per-ip", "key": ["::1"], "age_us": 1}"#,
            Some("age_us"),
        ),
        ("/v1/check/batch", r#"{"checks": {}}"#, Some("checks")),
    ] {
        let answer = exchange(&sluicegate, request(path, &[], question).as_bytes());
        assert_eq!(
            refusal(&answer),
            (400, field.map(str::to_owned)),
            "{path} {question} {answer}"
        );
    }
}

#[test]
fn other_paths_methods_types_and_pages_are_refused() {
    let sluicegate = Sluicegate::start(LIMITS);
    let good = request("/v1/check", &[], GOOD);
    assert_eq!(exchange(&sluicegate, good.as_bytes()).status(), 200);
    for path in [
        "/",
        "/v1/check/",
        "/v1/checks",
        "/V1/check",
        "/v1/authorize",
        "/v1/authorize/envoyx",
        "//v1/check",
    ] {
        assert_eq!(
            refusal(&exchange(&sluicegate, request(path, &[], GOOD).as_bytes())).0,
            404,
            "{path}"
        );
    }
    let got = exchange(&sluicegate, good.replace("POST", "GET").as_bytes());
    assert_eq!((refusal(&got).0, got.header("allow")), (405, Some("POST")));
    let posted = exchange(&sluicegate, request("/openapi.json", &[], "").as_bytes());
    assert_eq!(
        (refusal(&posted).0, posted.header("allow")),
        (405, Some("GET, HEAD"))
    );
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/jsonx",
        "",
    ] {
        let other = good.replace("application/json", kind);
        assert_eq!(
            refusal(&exchange(&sluicegate, other.as_bytes())).0,
            415,
            "{kind}"
        );
    }
    let with_charset = good.replace("application/json", "Application/JSON; charset=utf-8");
    assert_eq!(exchange(&sluicegate, with_charset.as_bytes()).status(), 200);
    let page = request("/v1/reset", &["Origin: http://localhost:8081"], GOOD);
    assert_eq!(refusal(&exchange(&sluicegate, page.as_bytes())).0, 403);
}

#[test]
fn bodies_are_bounded_in_length_and_depth() {
    let sluicegate = Sluicegate::start(LIMITS);
    let head = "POST /v1/check HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\n";
    let announced = exchange(
        &sluicegate,
        format!("{head}Content-Length: 65537\r\n\r\n").as_bytes(),
    );
    assert_eq!(refusal(&announced).0, 413);
    let chunk = format!("10001\r\n{}", " ".repeat(0x10001));
    let streamed = exchange(
        &sluicegate,
        format!("{head}Transfer-Encoding: chunked\r\n\r\n{chunk}").as_bytes(),
    );
    assert_eq!(refusal(&streamed).0, 413);
    let padded = format!("{GOOD}{}", " ".repeat(65_536 - GOOD.len()));
    assert_eq!(
        exchange(&sluicegate, request("/v1/check", &[], &padded).as_bytes()).status(),
        200
    );
    for (depth, expected) in [(100_000, 413), (60_000, 400), (1_000, 400)] {
        for path in ["/v1/check", "/v1/check/batch", "/v1/reset"] {
            let deep = "[".repeat(depth);
            let announced_only = if expected == 413 { "" } else { &deep };
            let question = format!("{head}Content-Length: {depth}\r\n\r\n{announced_only}")
                .replace("/v1/check", path);
            assert_eq!(
                refusal(&exchange(&sluicegate, question.as_bytes())).0,
                expected,
                "{path} {depth}"
            );
        }
    }
    let nested = format!(
        "{{\"checks\": [{}{}]}}",
        "[".repeat(30_000),
        "]".repeat(30_000)
    );
    let answer = exchange(
        &sluicegate,
        request("/v1/check/batch", &[], &nested).as_bytes(),
    );
    assert_eq!(body(&answer)["answers"][0]["problem"]["status"], 400);
}

#[test]
fn a_question_that_comes_byte_by_byte_is_the_same_question() {
    let sluicegate = Sluicegate::start(LIMITS);
    let question = request("/v1/check", &[], GOOD);
    let whole = body(&exchange(&sluicegate, question.as_bytes()));
    for split in 1..question.len() {
        let mut stream = connect(&sluicegate);
        stream.write_all(&question.as_bytes()[..split]).unwrap();
        stream.write_all(&question.as_bytes()[split..]).unwrap();
        assert_eq!(body(&read_to_end(stream)), whole, "split at {split}");
    }
}

#[test]
fn what_is_no_http_or_too_much_of_it_is_refused() {
    let sluicegate = Sluicegate::start(LIMITS);
    assert_eq!(exchange(&sluicegate, b"HELLO\r\n\r\n").status(), 400);
    let long = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}", "x".repeat(70_000));
    assert!(matches!(
        exchange(&sluicegate, long.as_bytes()).status(),
        431 | 0
    ));
    let many = format!(
        "GET / HTTP/1.1\r\nHost: a\r\n{}\r\n",
        "X: y\r\n".repeat(201)
    );
    assert!(matches!(
        exchange(&sluicegate, many.as_bytes()).status(),
        431 | 0
    ));
}

#[test]
fn with_a_token_nobody_asks_without_it() {
    const TOKEN: &str = "0123456789abcdef";
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("token"), TOKEN).unwrap();
    let config = LIMITS.replace(
        "{ http: '127.0.0.1:0' }",
        "{ http: '127.0.0.1:0', token_file: token }",
    );
    std::fs::write(directory.path().join("sluicegate.yaml"), config).unwrap();
    let sluicegate = Sluicegate::start_in(directory);
    let ask = |path: &str, line: &str| {
        let lines: &[&str] = if line.is_empty() { &[] } else { &[line] };
        exchange(&sluicegate, request(path, lines, GOOD).as_bytes())
    };
    for path in [
        "/v1/check",
        "/v1/check/batch",
        "/v1/peek",
        "/v1/refund",
        "/v1/reset",
        "/openapi.json",
    ] {
        for wrong in [
            "",
            "Authorization: Bearer",
            "Authorization: Bearer 0123456789abcdeF",
            "Authorization: Basic 0123456789abcdef",
            "X-Sluicegate-Token: 0123456789abcde",
        ] {
            let answer = ask(path, wrong);
            assert_eq!(refusal(&answer).0, 401, "{path} {wrong}");
            assert!(
                answer
                    .header("www-authenticate")
                    .is_some_and(|value| value.starts_with("Bearer")),
                "{answer}"
            );
        }
    }
    for right in [
        format!("Authorization: Bearer {TOKEN}"),
        format!("X-Sluicegate-Token: {TOKEN}"),
    ] {
        assert_eq!(ask("/v1/check", &right).status(), 200, "{right}");
    }
    let unauthorized = "sluicegate_decisions_total{protocol=\"http\",outcome=\"unauthorized\"}";
    assert_eq!(sluicegate.metric(unauthorized), 30);
    assert!(
        body(&ask("/v1/check", ""))
            .to_string()
            .find(TOKEN)
            .is_none()
    );
    std::fs::write(sluicegate.file("token"), "fedcba9876543210").unwrap();
    assert_eq!(
        ask("/v1/check", "X-Sluicegate-Token: fedcba9876543210").status(),
        200,
        "another token needs no restart"
    );
    assert_eq!(
        ask("/v1/check", &format!("X-Sluicegate-Token: {TOKEN}")).status(),
        401
    );
}

#[test]
fn a_token_that_cannot_be_used_is_told_before_anything_listens() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("sluicegate.yaml");
    std::fs::write(directory.path().join("token"), "short").unwrap();
    std::fs::write(
        &file,
        "decisions: { http: '127.0.0.1:0', token_file: token }\nadmin: off\n",
    )
    .unwrap();
    let mut serve = std::process::Command::new(env!("CARGO_BIN_EXE_sluicegate"));
    let output = serve
        .args(["serve", "--config", file.to_str().unwrap()])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        told.contains("decisions.token_file: ") && told.contains("at least 16"),
        "{told}"
    );
}

#[test]
fn numbers_and_texts_of_any_kind_are_answered() {
    let sluicegate = Sluicegate::start(LIMITS);
    for cost in [json!(0), json!(4_294_967_295_u64), json!(null)] {
        let question = json!({ "limit": "per-ip", "key": ["::1"], "cost": cost }).to_string();
        assert_eq!(
            exchange(&sluicegate, request("/v1/peek", &[], &question).as_bytes()).status(),
            200,
            "{question}"
        );
    }
    let odd = json!({ "subject": { "client_ip": "::1", "path": "/tenant", "method": "ODD",
        "headers": { "X-Tenant": "a b" }, "descriptors": { "plan": "\u{0}é😀\n:{}" } } });
    let answer = exchange(
        &sluicegate,
        request("/v1/check", &[], &odd.to_string()).as_bytes(),
    );
    assert_eq!(
        (answer.status(), &body(&answer)["allowed"]),
        (200, &Value::Bool(true)),
        "{answer}"
    );
}
