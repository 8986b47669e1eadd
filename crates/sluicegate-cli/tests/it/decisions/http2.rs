//! The same questions over HTTP/2 without TLS; `tls.rs` has those that agree on it in the handshake.

use std::io::Write;

use serde_json::json;
use sluicegate_testkit::h2_frames::{
    END_HEADERS, END_STREAM, GOAWAY, HEADERS, PREFACE, SETTINGS, frame, post_fields, read_frame,
};
use sluicegate_testkit::{HttpRequest, HttpResponse, raw_socket};

use super::{LIMITS, body};
use crate::running::Sluicegate;

/// Asks with and without a body that waits for its end.
fn ask(sluicegate: &Sluicegate, path: &str, question: &str) -> HttpResponse {
    HttpRequest::post(path, question)
        .host("sluicegate")
        .headers(&["Content-Type: application/json"])
        .send_http2(sluicegate.decisions.unwrap())
}

#[test]
fn questions_over_http2_have_the_answers_of_http1() {
    let sluicegate = Sluicegate::start(LIMITS);
    let check = r#"{"limit": "per-ip", "key": ["203.0.113.7"], "cost": 2}"#;
    let answer = ask(&sluicegate, "/v1/check", check);
    assert_eq!(answer.status(), 200, "{answer}");
    assert_eq!(body(&answer)["limits"][0]["remaining"], 1);
    let subject = r#"{"subject": {"client_ip": "203.0.113.7"}, "cost": 2}"#;
    let batch = format!(r#"{{"checks": [{check}, {subject}, {{"cost": 1}}]}}"#);
    let answers = &body(&ask(&sluicegate, "/v1/check/batch", &batch))["answers"];
    assert_eq!(answers[0]["allowed"], false, "{answers}");
    assert_eq!(answers[1]["allowed"], false);
    assert_eq!(answers[2]["problem"]["field"], "subject");
    let refund = ask(&sluicegate, "/v1/refund", check);
    assert_eq!(body(&refund)["limits"][0]["remaining"], 3, "{refund}");
    let wrong = ask(&sluicegate, "/v1/check", "{");
    assert_eq!(wrong.status(), 400, "{wrong}");
    let large = ask(&sluicegate, "/v1/check", &" ".repeat(70_000));
    assert_eq!(large.status(), 413, "{large}");
    let nginx = HttpRequest::get("/v1/authorize/nginx")
        .host("sluicegate")
        .headers(&[
            "X-Original-Method: GET",
            "X-Original-URI: /",
            "X-Original-Host: a.example",
        ])
        .send_http2(sluicegate.decisions.unwrap());
    assert_eq!(nginx.status(), 200, "{nginx}");
    assert_eq!(
        body(&ask(
            &sluicegate,
            "/v1/reset",
            r#"{"limit": "per-ip", "key": ["203.0.113.7"]}"#
        )),
        json!({"reset": true})
    );
}

/// Whoever cannot ask must not hold a place that belongs to gateways.
#[test]
fn a_connection_over_http2_ends_with_the_answer_to_a_stranger() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("token"), "0123456789abcdef").unwrap();
    let config = LIMITS.replace(
        "{ http: '127.0.0.1:0' }",
        "{ http: '127.0.0.1:0', token_file: token }",
    );
    std::fs::write(directory.path().join("sluicegate.yaml"), config).unwrap();
    let sluicegate = Sluicegate::start_in(directory);
    let mut stream = raw_socket::connect(sluicegate.decisions.unwrap());
    // The body of the first never comes, and is not waited for.
    for (number, flags) in [(1, END_HEADERS), (3, END_HEADERS | END_STREAM)] {
        let head = frame(HEADERS, flags, number, &post_fields("/v1/check"));
        let begin = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
        let begin = if number == 1 { begin } else { Vec::new() };
        stream.write_all(&[begin, head].concat()).unwrap();
        if number == 1 {
            while read_frame(&mut stream).unwrap().kind != HEADERS {}
        }
    }
    let mut is_told = false;
    while let Ok(frame) = read_frame(&mut stream) {
        is_told |= frame.kind == GOAWAY;
        assert!(frame.kind != HEADERS, "nobody is answered after that");
    }
    assert!(is_told);
}
