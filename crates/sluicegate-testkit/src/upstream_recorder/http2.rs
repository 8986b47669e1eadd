//! HTTP/2 as an upstream reads it, on one thread.

use std::net::TcpListener;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{RecvStream, server};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};

use super::{RecordedRequest, Service, UpstreamResponse};
use crate::http_client::http2::{lines, read_body};

pub(super) fn serve(listener: TcpListener, service: Service) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime can be built");
    runtime.block_on(async {
        listener
            .set_nonblocking(true)
            .expect("a listener can be set");
        let listener =
            tokio::net::TcpListener::from_std(listener).expect("a runtime takes a listener");
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            let service = service.clone();
            tokio::spawn(async move {
                // An error is the end of the connection, of which the proxy tells its client.
                let Ok(mut connection) = server::handshake(stream).await else {
                    return;
                };
                while let Some(Ok((request, respond))) = connection.accept().await {
                    tokio::spawn(answer(request, respond, service.clone()));
                }
            });
        }
    });
}

async fn answer(request: Request<RecvStream>, mut respond: SendResponse<Bytes>, service: Service) {
    let (mut request, mut body) = record(request);
    let place = service.requests.add(request.clone());
    let (content, is_whole) = read_body(&mut body).await;
    if !is_whole {
        return;
    }
    let trailers = body.trailers().await.ok().flatten().unwrap_or_default();
    (request.body, request.trailers, request.is_complete) = (content, lines(&trailers), true);
    service.requests.replace(place, request.clone());
    let response = (service.answer)(&request);
    // An error means that the proxy no longer wants the response.
    let _ = send(&mut respond, response);
}

fn record(request: Request<RecvStream>) -> (RecordedRequest, RecvStream) {
    let (parts, body) = request.into_parts();
    let target = parts
        .uri
        .path_and_query()
        .map_or_else(|| parts.uri.path().to_owned(), ToString::to_string);
    let headers = lines(&parts.headers);
    let mut head = format!("{} {target} HTTP/2", parts.method);
    for (name, value) in &headers {
        head += &format!("\r\n{name}: {value}");
    }
    let request = RecordedRequest {
        head,
        method: parts.method.to_string(),
        target,
        version: "HTTP/2".to_owned(),
        authority: parts.uri.authority().map(ToString::to_string),
        headers,
        ..RecordedRequest::default()
    };
    (request, body)
}

fn send(respond: &mut SendResponse<Bytes>, answer: UpstreamResponse) -> Result<(), h2::Error> {
    let mut response = Response::new(());
    *response.status_mut() = answer.status.try_into().expect("a status has three digits");
    *response.headers_mut() = header_map(&answer.headers);
    let has_trailers = !answer.trailers.is_empty();
    let mut stream = respond.send_response(response, false)?;
    stream.send_data(answer.body, !has_trailers)?;
    if has_trailers {
        stream.send_trailers(header_map(&answer.trailers))?;
    }
    Ok(())
}

fn header_map(lines: &[(String, String)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        let name: HeaderName = name.parse().expect("the test chose a header name");
        let value = HeaderValue::from_str(value).expect("the test chose a header value");
        headers.append(name, value);
    }
    headers
}
