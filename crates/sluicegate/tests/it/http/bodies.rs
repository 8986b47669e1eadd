//! The bodies of rejections: plain text and problem details.

use serde_json::{Value, json};
use sluicegate::{KeyPart, Limit, Quota};

use super::{App, get, header};

const CLIENT: &str = "203.0.113.7";

/// A server with nothing left for the client.
async fn spent() -> App {
    let app = App::new([
        Limit::per_client("per-ip", Quota::per_minute(1)),
        Limit::per_client("daily", Quota::per_day(9)),
    ]);
    assert_eq!(app.status(get(CLIENT, "/")).await, 200);
    app
}
#[tokio::test]
async fn a_denial_is_429_with_exactly_these_words() {
    let app = spent().await;
    let response = app.send(get(CLIENT, "/")).await;
    assert_eq!(
        (response.status().as_u16(), response.body().as_str()),
        (429, "Too Many Requests")
    );
    assert_eq!(
        header(&response, "content-type"),
        "text/plain; charset=utf-8"
    );
    assert_eq!(header(&response, "retry-after"), "60");
}
#[tokio::test]
async fn problem_details_are_for_those_who_prefer_json() {
    let app = spent().await;
    for accept in [
        "application/json",
        "application/problem+json",
        "text/plain;q=0.5, application/json",
    ] {
        let response = app.send(get(CLIENT, "/").header("accept", accept)).await;
        assert_eq!(response.status(), 429);
        assert_eq!(
            header(&response, "content-type"),
            "application/problem+json"
        );
        let expected = json!({
            "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
            "title": "Quota exceeded",
            "status": 429,
            "violated-policies": ["per-ip"],
            "retry_after": 60,
        });
        assert_eq!(
            serde_json::from_str::<Value>(response.body()).unwrap(),
            expected,
            "{accept}"
        );
    }
    for accept in [
        "*/*",
        "text/html, */*;q=0.8",
        "application/json, text/plain",
    ] {
        let response = app.send(get(CLIENT, "/").header("accept", accept)).await;
        assert_eq!(response.body(), "Too Many Requests", "{accept}");
    }
}
#[tokio::test]
async fn every_limit_that_denied_is_named() {
    let per_ip = Limit::per_client("per-ip", Quota::per_minute(1));
    let all = Limit::new("all", Quota::per_hour(1));
    let app = App::new([
        per_ip,
        all,
        Limit::per_client("roomy", Quota::per_second(9)),
    ]);
    app.send(get(CLIENT, "/")).await;
    let response = app
        .send(get(CLIENT, "/").header("accept", "application/json"))
        .await;
    let problem: Value = serde_json::from_str(response.body()).unwrap();
    assert_eq!(problem["violated-policies"], json!(["per-ip", "all"]));
    assert_eq!(
        (&problem["retry_after"], header(&response, "retry-after")),
        (&json!(3600), "3600")
    );
}
#[tokio::test]
async fn a_request_that_never_passes_is_told_so_and_still_gets_a_wait() {
    let app = App::with(
        [Limit::per_client("per-ip", Quota::per_second(2).burst(10))],
        |layer| layer.cost(|_| 11),
    );
    let response = app
        .send(get(CLIENT, "/").header("accept", "application/json"))
        .await;
    assert_eq!(response.status(), 429);
    assert_eq!(
        header(&response, "retry-after"),
        "1",
        "the counter is full already, so the least there is"
    );
    let problem: Value = serde_json::from_str(response.body()).unwrap();
    assert_eq!(
        problem["detail"],
        "the request costs more than the limit ever holds"
    );
}
#[tokio::test]
async fn names_of_headers_cannot_break_the_json() {
    let odd = KeyPart::Header("x\"\\\n".to_owned());
    let app = App::new([Limit::new("tenant", Quota::per_second(1)).key([odd])]);
    let response = app
        .send(get(CLIENT, "/").header("accept", "application/json"))
        .await;
    let problem: Value = serde_json::from_str(response.body()).unwrap();
    assert_eq!(
        (response.status().as_u16(), &problem["part"]),
        (400, &json!("header:x\"\\\n"))
    );
    let grpc = app
        .send(get(CLIENT, "/").header("content-type", "application/grpc"))
        .await;
    assert!(header(&grpc, "grpc-message").ends_with("header:x\"\\%0A is missing"));
}
