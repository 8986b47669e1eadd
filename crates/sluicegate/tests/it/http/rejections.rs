//! Rejections of a limit's own.

use sluicegate::{Limit, OwnRejection, Quota};

use super::{App, get, header, header_lines};
use crate::log::Log;

const CLIENT: &str = "203.0.113.7";

/// A limit with a rejection of its own before one without, both spent.
async fn spent(own: OwnRejection) -> App {
    let app = App::new([
        Limit::per_client("login", Quota::per_minute(1)).reject(own),
        Limit::per_client("per-ip", Quota::per_hour(1)),
    ]);
    app.send(get(CLIENT, "/")).await;
    app
}

fn own(body: &str) -> OwnRejection {
    OwnRejection::default()
        .with_status(403)
        .and_then(|own| own.with_body(body, None))
        .and_then(|own| own.with_header("X-Support", "mail us about {request_id}"))
        .unwrap()
}

#[tokio::test]
async fn a_limit_answers_in_its_own_words() {
    let log = Log::default();
    let _guard = log.start();
    let body = "<html>{limit}: {retry_after}s, {request_id}";
    let app = spent(own(body)).await;
    for accept in ["text/html", "application/json"] {
        let request = get(CLIENT, "/")
            .header("accept", accept)
            .header("x-request-id", "7dec");
        let response = app.send(request).await;
        assert_eq!(response.status(), 403);
        // The wait is that of all denials together, as in the header.
        assert_eq!(response.body(), "<html>login: 3600s, 7dec");
        assert_eq!(
            header(&response, "content-type"),
            "text/html; charset=utf-8"
        );
        assert_eq!(header(&response, "x-support"), "mail us about 7dec");
        assert_eq!(header(&response, "retry-after"), "3600");
        assert_eq!(header(&response, "x-ratelimit-remaining"), "0");
        assert_eq!(header_lines(&response, "ratelimit").len(), 1);
    }
    assert_eq!(app.handler.calls(), 1);
    let lines = log.lines();
    assert!(lines[0].ends_with("path=/ status=403"), "{lines:?}");
}

#[tokio::test]
async fn an_id_that_is_not_plain_is_not_repeated() {
    let app = spent(own("{request_id}")).await;
    for id in ["<script>", "a b", "\"", ""] {
        let response = app.send(get(CLIENT, "/").header("x-request-id", id)).await;
        assert_eq!(response.body(), "-", "{id}");
        assert_eq!(header(&response, "x-support"), "mail us about -");
    }
    let twice = get(CLIENT, "/")
        .header("x-request-id", "a")
        .header("x-request-id", "b");
    assert_eq!(app.send(twice).await.body(), "-");
}

#[tokio::test]
async fn what_is_left_out_is_as_usual() {
    let app = spent(OwnRejection::default().with_status(499).unwrap()).await;
    let response = app.send(get(CLIENT, "/")).await;
    assert_eq!(
        (response.status().as_u16(), response.body().as_str()),
        (499, "Too Many Requests")
    );
    let response = app
        .send(get(CLIENT, "/").header("accept", "application/json"))
        .await;
    assert_eq!(
        header(&response, "content-type"),
        "application/problem+json"
    );
    assert!(
        response.body().contains("\"status\":499"),
        "{}",
        response.body()
    );
    let app = spent(OwnRejection::default().with_body("sorry", None).unwrap()).await;
    let response = app.send(get(CLIENT, "/")).await;
    assert_eq!(
        (response.status().as_u16(), response.body().as_str()),
        (429, "sorry")
    );
}

#[tokio::test]
async fn callers_of_grpc_keep_their_status() {
    let app = spent(own("sorry")).await;
    let call = get(CLIENT, "/a.B/C").header("content-type", "application/grpc");
    let response = app.send(call).await;
    assert_eq!(
        (response.status().as_u16(), response.body().as_str()),
        (200, "")
    );
    assert_eq!(header(&response, "content-type"), "application/grpc");
    assert_eq!(header(&response, "grpc-status"), "8");
    assert_eq!(header(&response, "grpc-message"), "Too Many Requests");
    assert_eq!(header(&response, "x-support"), "mail us about -");
}

#[tokio::test]
async fn the_first_limit_that_denies_has_the_say() {
    let app = App::new([
        Limit::per_client("wide", Quota::per_hour(1).burst(2)).reject(own("wide")),
        Limit::per_client("tight", Quota::per_hour(1)),
        Limit::per_client("last", Quota::per_hour(1)).reject(own("last")),
    ]);
    app.send(get(CLIENT, "/")).await;
    let response = app.send(get(CLIENT, "/")).await;
    assert_eq!(
        (response.status().as_u16(), response.body().as_str()),
        (429, "Too Many Requests")
    );
}
