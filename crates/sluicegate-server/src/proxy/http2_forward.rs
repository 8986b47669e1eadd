//! Sends requests to servers that speak HTTP/2; `forward.rs` chooses the server and the connection.

use http::request::Parts;
use http::{Method, Request};
use sluicegate_net::http2_client::RequestSender;
use sluicegate_net::{ForwardedBody, HttpResponse, ResponseLines};

use super::body::BodySource;
use super::forward::{ForwardContext, in_time, record_failure, to_http2};
use super::forward_failure::ForwardFailure;
use super::rewrite;
use super::server_clock::ServerClock;
use super::upstream::UpstreamServer;

/// Sends a request over an open connection, and waits for the head of the response.
pub(super) async fn send(
    forwarding: &ForwardContext<'_>,
    server: &UpstreamServer,
    mut sender: RequestSender,
    parts: &mut Parts,
    body: ForwardedBody,
) -> Result<HttpResponse<BodySource>, ForwardFailure> {
    let (upload, steady) = (body.progress(), body.steady_progress());
    let is_head = parts.method == Method::HEAD;
    let request = Request::from_parts(to_http2(parts, forwarding.hop, server), body);
    let exchange = async {
        sender.ready().await?;
        sender.send_request(request).await
    };
    let mut response = in_time(forwarding, steady, exchange)
        .await
        .inspect_err(|failure| record_failure(forwarding, server, upload.as_deref(), failure))?;
    server.succeeded();
    rewrite::to_client(&mut response, is_head);
    let (head, body) = response.into_parts();
    Ok(HttpResponse::new(
        head.status,
        ResponseLines::from_map(&head.headers),
        BodySource::Stream(
            body,
            ServerClock::new(forwarding.server_stall_timeout(), upload),
        ),
    ))
}
