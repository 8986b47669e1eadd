//! Rejections of gRPC calls: the status is in a header, not the one of HTTP.

use sluicegate::{KeyPart, Limit, Quota};

use super::{App, get, header, header_lines};

const CLIENT: &str = "203.0.113.7";
#[tokio::test]
async fn a_denied_grpc_call_ends_with_resource_exhausted() {
    let app = App::new([Limit::per_client("per-ip", Quota::per_second(1))]);
    app.send(get(CLIENT, "/")).await;
    for (sent, answered) in [
        ("application/grpc", "application/grpc"),
        ("application/grpc+proto", "application/grpc"),
        ("Application/GRPC", "application/grpc"),
        ("application/grpc-web+proto", "application/grpc-web"),
    ] {
        let call = get(CLIENT, "/pkg.Service/Method")
            .header("content-type", sent)
            .header("accept", "application/json");
        let response = app.send(call).await;
        assert_eq!(
            (response.status().as_u16(), response.body().as_str()),
            (200, "")
        );
        assert_eq!(header(&response, "content-type"), answered);
        assert_eq!(header(&response, "grpc-status"), "8");
        assert_eq!(header(&response, "grpc-message"), "Too Many Requests");
        assert_eq!(header(&response, "retry-after"), "1");
        assert_eq!(header(&response, "x-ratelimit-remaining"), "0");
    }
    assert_eq!(app.handler.calls(), 1);
}
#[tokio::test]
async fn an_unidentified_grpc_call_ends_with_invalid_argument() {
    let app =
        App::new(
            [Limit::new("tenant", Quota::per_second(1)).key([KeyPart::header("x-tenant-id")])],
        );
    let response = app
        .send(get(CLIENT, "/").header("content-type", "application/grpc"))
        .await;
    assert_eq!(
        (response.status().as_u16(), header(&response, "grpc-status")),
        (200, "3")
    );
    let message = "key_extraction_failed: limit \"tenant\": header:x-tenant-id is missing";
    assert_eq!(header(&response, "grpc-message"), message);
    assert!(header_lines(&response, "retry-after").is_empty());
}
#[tokio::test]
async fn other_content_types_are_no_grpc() {
    let app = App::new([Limit::per_client("per-ip", Quota::per_second(1))]);
    app.send(get(CLIENT, "/")).await;
    for content_type in [
        "application/json",
        "text/application/grpc",
        "application/grp",
        "",
    ] {
        assert_eq!(
            app.status(get(CLIENT, "/").header("content-type", content_type))
                .await,
            429,
            "{content_type}"
        );
    }
}
