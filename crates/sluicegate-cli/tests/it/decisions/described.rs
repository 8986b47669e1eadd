//! Responses are as the OpenAPI document and the guide describe them.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use sluicegate_testkit::HttpResponse;

use super::{LIMITS, body, exchange, request};
use crate::running::Sluicegate;

const GUIDE: &str = include_str!("../../../../../docs/decisions.md");

fn document(sluicegate: &Sluicegate) -> Value {
    let answer = exchange(
        sluicegate,
        b"GET /openapi.json HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    );
    assert_eq!(
        (answer.status(), answer.header("content-type")),
        (200, Some("application/json"))
    );
    body(&answer)
}

/// The value at a reference, or the value itself.
fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"].as_str() {
        Some(reference) => document
            .pointer(reference.trim_start_matches('#'))
            .expect("a reference leads somewhere"),
        None => value,
    }
}

#[track_caller]
fn is_valid(document: &Value, schema: &Value, value: &Value) -> bool {
    let mut schema = schema.clone();
    schema["components"] = document["components"].clone();
    jsonschema::draft202012::new(&schema)
        .unwrap_or_else(|error| panic!("{error}"))
        .is_valid(value)
}

/// The answer is one of those that are declared for this path and method.
#[track_caller]
fn is_declared(document: &Value, path: &str, method: &str, answer: &HttpResponse) {
    let responses = &document["paths"][path][method]["responses"];
    let code = answer.status().to_string();
    let declared = responses.get(&code).or_else(|| responses.get("default"));
    let declared = resolved(
        document,
        declared.unwrap_or_else(|| panic!("{code} is not declared: {path} {answer}")),
    );
    let text = answer.body();
    let Some(contents) = declared["content"].as_object() else {
        return assert!(text.is_empty(), "{path}: a body is not declared: {answer}");
    };
    let kind = answer
        .header("content-type")
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap();
    let content = contents
        .get(kind)
        .unwrap_or_else(|| panic!("{kind} is not declared: {path} {answer}"));
    let value = if kind == "text/plain" {
        json!(text)
    } else {
        body(answer)
    };
    assert!(
        is_valid(document, &content["schema"], &value),
        "{path}: {answer}"
    );
}

#[test]
fn every_route_answers_as_the_document_says() {
    let sluicegate = Sluicegate::start(LIMITS);
    let document = document(&sluicegate);
    let counter = r#"{"limit": "per-ip", "key": ["203.0.113.7"], "cost": 2}"#;
    let batch = format!("{{\"checks\": [{counter}, {counter}, {{}}]}}");
    let mut seen = BTreeSet::new();
    for (path, good) in [
        ("/v1/check", counter),
        (
            "/v1/check",
            r#"{"subject": {"client_ip": "::1", "headers": {"a": "b"}, "principal": {"id": "a"}}}"#,
        ),
        ("/v1/check/batch", &batch),
        ("/v1/peek", counter),
        ("/v1/refund", counter),
        (
            "/v1/reset",
            r#"{"limit": "per-ip", "key": ["203.0.113.7"]}"#,
        ),
    ] {
        let schema = &document["paths"][path]["post"]["requestBody"]["content"]["application/json"]
            ["schema"];
        let question: Value = serde_json::from_str(good).unwrap();
        let is_checked = path != "/v1/check/batch";
        assert!(
            !is_checked || is_valid(&document, schema, &question),
            "{path} {good}"
        );
        let asked = request(path, &[], good);
        for (sent, expected) in [
            (asked.clone(), 200),
            (request(path, &[], "{}"), 400),
            (request(path, &["Origin: a"], good), 403),
            (asked.replace("application/json", "text/plain"), 415),
            (
                format!(
                    "{}Content-Length: 99999\r\n\r\n",
                    asked.split("Content-Length").next().unwrap()
                ),
                413,
            ),
        ] {
            let answer = exchange(&sluicegate, sent.as_bytes());
            assert_eq!(answer.status(), expected, "{path} {answer}");
            is_declared(&document, path, "post", &answer);
        }
        assert!(!is_valid(&document, schema, &json!({})), "{path}");
        assert!(
            !is_valid(
                &document,
                schema,
                &json!({ "limit": "a", "key": [], "odd": 1 })
            ),
            "{path}"
        );
        seen.insert(path.to_owned());
    }
    for (path, asked) in [
        ("/v1/authorize/nginx", "/v1/authorize/nginx"),
        ("/v1/authorize/forward-auth", "/v1/authorize/forward-auth"),
        ("/v1/authorize/envoy/{path}", "/v1/authorize/envoy/x/y?z"),
    ] {
        for method in ["get", "post", "put", "patch", "delete"] {
            for with_origin in [true, false] {
                let origin = match with_origin {
                    true => ["X-Original-", "X-Forwarded-"]
                        .map(|set| format!("{set}Method: GET\r\n{set}Uri: /\r\n{set}Host: a\r\n")),
                    false => ["", ""].map(str::to_owned),
                };
                let verb = method.to_uppercase();
                let asked = format!(
                    "{verb} {asked} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{}\r\n",
                    origin.concat()
                );
                is_declared(
                    &document,
                    path,
                    method,
                    &exchange(&sluicegate, asked.as_bytes()),
                );
            }
        }
        seen.insert(path.to_owned());
    }
    seen.insert("/openapi.json".to_owned());
    assert_eq!(
        seen,
        document["paths"]
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect()
    );
}

/// Blocks of the guide with this mark, which may go on.
fn blocks(mark: &str) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    let mut lines = GUIDE.lines();
    while let Some(line) = lines.next() {
        let Some(rest) = line
            .strip_prefix("```")
            .and_then(|line| line.strip_prefix(mark))
        else {
            continue;
        };
        let block: Vec<&str> = lines
            .by_ref()
            .take_while(|line| !line.starts_with("```"))
            .collect();
        blocks.push((rest.trim().to_owned(), block.join("\n")));
    }
    blocks
}

/// The guide's configuration, on free ports.
fn guides_config() -> String {
    let (_, config) = blocks("yaml").remove(0);
    let config = config.replace("127.0.0.1:8081", "127.0.0.1:0");
    // So slowly that a busy machine sees the same numbers.
    config.replace("100/s", "100/h") + "\nproxy: { listen: '127.0.0.1:0' }\nadmin: off\n"
}

#[test]
fn the_examples_of_the_guide_are_true() {
    for (_, text) in blocks("yaml") {
        let source = sluicegate_config::Source {
            text,
            ..sluicegate_config::Source::embedded()
        };
        sluicegate_config::load(&source, &|_| None).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    }
    let sluicegate = Sluicegate::start(&guides_config());
    let examples = blocks("json");
    assert!(examples.len() >= 12, "{}", examples.len());
    for pair in examples.chunks(2) {
        let [(asked, question), (answered, expected)] = pair else {
            panic!("a question without its answer")
        };
        let path = asked
            .strip_prefix("POST ")
            .expect("a question says where it goes");
        assert_eq!(answered, "answer");
        let answer = exchange(&sluicegate, request(path, &[], question).as_bytes());
        assert_eq!(answer.status(), 200, "{answer}");
        let (mut told, mut expected) = (body(&answer), serde_json::from_str(expected).unwrap());
        without_times(&mut told);
        without_times(&mut expected);
        assert_eq!(told, expected, "{path} {question}");
    }
}

/// Waits pass while the test runs.
fn without_times(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.remove("reset_after_us");
            map.values_mut().for_each(without_times);
        }
        Value::Array(list) => list.iter_mut().for_each(without_times),
        _ => {}
    }
}
