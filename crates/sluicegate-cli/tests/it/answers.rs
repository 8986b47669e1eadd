//! Responses to requests that do not pass.

use std::fs;

use sluicegate_testkit::HttpResponse;

use super::running::Sluicegate;

/// A Sluicegate that has let its only request pass.
fn spent(response: &str) -> Sluicegate {
    let sluicegate = Sluicegate::start(&format!(
        "
proxy: {{ listen: '127.0.0.1:0' }}
admin: off
{response}
limits:
  - {{ name: per-client, key: [client_ip], rate: 1/h, burst: 1 }}
"
    ));
    assert_eq!(sluicegate.get("/", &[]).status(), 200);
    sluicegate
}

const WANTS_JSON: &[&str] = &["Accept: application/json"];
const WANTS_TEXT: &[&str] = &["Accept: text/plain"];
const WANTS_NOTHING: &[&str] = &[];
const CALLS: &[&str] = &["Content-Type: application/grpc", "Accept: application/json"];

#[track_caller]
fn is_text(answer: &HttpResponse) {
    assert_eq!(
        (answer.status(), answer.body()),
        (429, "Too Many Requests"),
        "{answer}"
    );
    assert_eq!(
        answer.header("content-type"),
        Some("text/plain; charset=utf-8")
    );
}

#[track_caller]
fn is_json(answer: &HttpResponse) {
    assert_eq!(
        (answer.status(), answer.header("content-type")),
        (429, Some("application/problem+json")),
        "{answer}"
    );
    let problem: serde_json::Value = serde_json::from_str(answer.body()).unwrap();
    assert_eq!(
        (&problem["status"], &problem["violated-policies"][0]),
        (&429.into(), &"per-client".into())
    );
    assert!(problem["retry_after"].as_u64().unwrap() > 3000, "{problem}");
}

/// Callers of gRPC understand nothing else, whatever the operator prefers.
#[track_caller]
fn is_status(answer: &HttpResponse) {
    assert_eq!(
        (answer.status(), answer.header("grpc-status"), answer.body()),
        (200, Some("8"), ""),
        "{answer}"
    );
}

#[test]
fn by_default_the_caller_chooses_the_form() {
    for setting in ["", "response: { body: auto }"] {
        let sluicegate = spent(setting);
        is_text(&sluicegate.get("/", WANTS_NOTHING));
        is_text(&sluicegate.get("/", WANTS_TEXT));
        is_json(&sluicegate.get("/", WANTS_JSON));
        is_status(&sluicegate.get("/", CALLS));
    }
}

#[test]
fn the_operator_may_choose_text() {
    let sluicegate = spent("response: { body: text }");
    is_text(&sluicegate.get("/", WANTS_NOTHING));
    is_text(&sluicegate.get("/", WANTS_JSON));
    is_status(&sluicegate.get("/", CALLS));
}

#[test]
fn the_operator_may_choose_json() {
    let sluicegate = spent("response: { body: json }");
    is_json(&sluicegate.get("/", WANTS_NOTHING));
    is_json(&sluicegate.get("/", WANTS_TEXT));
    is_status(&sluicegate.get("/", CALLS));
}

#[test]
fn a_credential_that_is_not_accepted_is_counted_by_its_reason() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(
        directory.path().join("keys.yaml"),
        format!("- {{ id: ann, sha256: {} }}\n", "ab".repeat(32)),
    )
    .unwrap();
    let config = "
proxy: { listen: '127.0.0.1:0' }
admin: { listen: '127.0.0.1:0' }
principals: { required: true, api_keys: { file: keys.yaml } }
limits:
  - { name: per-client, key: [client_ip], rate: 1000/s, burst: 1000 }
";
    fs::write(directory.path().join("sluicegate.yaml"), config).unwrap();
    let sluicegate = Sluicegate::start_in(directory);
    assert_eq!(sluicegate.get("/", &[]).status(), 401);
    assert_eq!(sluicegate.get("/", &["X-Api-Key: guessed"]).status(), 401);
    assert_eq!(
        sluicegate.get("/", &["X-Api-Key: guessed again"]).status(),
        401
    );
    let refused = |reason: &str| {
        sluicegate.metric(&format!(
            "sluicegate_auth_refused_total{{reason=\"{reason}\"}}"
        ))
    };
    assert_eq!(
        (
            refused("missing"),
            refused("unknown_key"),
            refused("expired")
        ),
        (1, 2, 0)
    );
}
