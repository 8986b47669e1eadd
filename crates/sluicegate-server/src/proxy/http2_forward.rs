//! Sends requests to servers that speak HTTP/2; `forward.rs` chooses the server and the connection.

use http::{Method, Request};
use sluicegate_config::UpstreamHttp;
use sluicegate_gate::telemetry::metrics::UpstreamFailure;
use sluicegate_net::http2_client::{self, Http2Error, OpenStream};
use sluicegate_net::{ForwardedBody, HttpResponse, RequestParts, ResponseLines};
use tokio::time::Instant;

use super::body::BodySource;
use super::connect::{NewConnection, take_connection};
use super::forward::{ForwardContext, in_time, record_failure, to_http2};
use super::forward_failure::ForwardFailure;
use super::rewrite;
use super::server_clock::ServerClock;
use super::upstream::UpstreamServer;

/// Sends a request over an open connection, and waits for the head of the response. A request that
/// the connection did not take any more, because the server ends it, goes over a new one.
pub(super) async fn send(
    forwarding: &ForwardContext<'_>,
    server: &UpstreamServer,
    stream: OpenStream,
    parts: &mut RequestParts,
    body: ForwardedBody,
) -> Result<HttpResponse<BodySource>, ForwardFailure> {
    let (upload, steady) = (body.progress(), body.steady_progress());
    let is_head = parts.method == Method::HEAD;
    let request = Request::from_parts(to_http2(parts.edit(), forwarding.hop, server), body);
    let (connection, begun) = (stream.connection().clone(), Instant::now());
    let exchange = async {
        let unsent = match stream.send(request).await {
            Err(Http2Error::Unsent(unsent)) => *unsent,
            answered => return answered.map_err(ForwardFailure::from),
        };
        let stream = redial(forwarding, server).await?;
        stream.send(unsent).await.map_err(ForwardFailure::from)
    };
    let mut response = in_time(forwarding, steady, exchange)
        .await
        .inspect_err(|failure| {
            if matches!(failure, ForwardFailure::TooLate) {
                connection.retire_if_silent(begun);
            }
            record_failure(forwarding, server, upload.as_deref(), failure);
        })?;
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

/// A stream of a new connection to a server that spoke HTTP/2 before.
async fn redial(
    forwarding: &ForwardContext<'_>,
    server: &UpstreamServer,
) -> Result<OpenStream, ForwardFailure> {
    let not_http2 = || ForwardFailure::Broken {
        reason: UpstreamFailure::Protocol,
        words: "the server speaks HTTP/2 no more".to_owned(),
    };
    // Another request may have been quicker.
    if let Some(connection) = http2_client::open_connection(server.id)
        && let Some(stream) = connection.try_stream()
    {
        return Ok(stream);
    }
    let NewConnection::Dialled(stream, slot) = take_connection(forwarding, server).await? else {
        return Err(not_http2());
    };
    if !stream.chose_http2() && server.http != UpstreamHttp::Http2 {
        return Err(not_http2());
    }
    let connection = http2_client::start(stream, server.id, slot).await?;
    connection.try_stream().ok_or_else(not_http2)
}
