//! One request in HTTP/2 on a connection of its own.

use std::fmt::Write;
use std::net::SocketAddr;

use bytes::Bytes;
use h2::RecvStream;
use http::{HeaderMap, HeaderName, HeaderValue, Request};

use super::{HttpRequest, HttpResponse};
use crate::STEP_TIMEOUT;
use crate::http_response::split_line;

pub(super) fn send(request: &HttpRequest, address: SocketAddr) -> HttpResponse {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime can be built");
    // An error is the end of the stream or the connection without a response.
    runtime
        .block_on(async { tokio::time::timeout(STEP_TIMEOUT, exchange(request, address)).await })
        .unwrap_or_else(|_| panic!("no response within {STEP_TIMEOUT:?} to {request:?}"))
        .unwrap_or_default()
}

async fn exchange(request: &HttpRequest, address: SocketAddr) -> Result<HttpResponse, h2::Error> {
    let Ok(stream) = tokio::net::TcpStream::connect(address).await else {
        return Ok(HttpResponse::default());
    };
    let _ = stream.set_nodelay(true);
    let (sender, connection) = h2::client::handshake(stream).await?;
    tokio::spawn(connection);
    let body = request.body.clone();
    let has_body = body.is_some() || !request.trailers.is_empty();
    let (response, mut sending) = sender
        .ready()
        .await?
        .send_request(head(request), !has_body)?;
    if let Some(body) = body {
        sending.send_data(body.into(), request.trailers.is_empty())?;
    }
    if !request.trailers.is_empty() {
        sending.send_trailers(header_map(&request.trailers))?;
    }
    let (parts, mut body) = response.await?.into_parts();
    let mut text = format!("HTTP/2 {}\r\n", parts.status.as_u16());
    for (name, value) in &parts.headers {
        let value = String::from_utf8_lossy(value.as_bytes());
        write!(text, "{name}: {value}\r\n").expect("a string takes everything");
    }
    // A body that breaks off keeps what came.
    let (content, _) = read_body(&mut body).await;
    let trailers = body.trailers().await.ok().flatten().unwrap_or_default();
    Ok(HttpResponse::from_http2(&text, &content, lines(&trailers)))
}

fn head(request: &HttpRequest) -> Request<()> {
    let mut head = Request::builder()
        .method(request.method.as_str())
        .uri(format!("http://{}{}", request.host, request.target))
        .body(())
        .unwrap_or_else(|error| panic!("{request:?}: {error}"));
    *head.headers_mut() = header_map(&request.lines);
    head
}

fn header_map(lines: &[String]) -> HeaderMap {
    let pair = |line: &String| -> Option<(HeaderName, HeaderValue)> {
        let (name, value) = split_line(line)?;
        Some((
            name.parse().ok()?,
            HeaderValue::from_bytes(value.as_bytes()).ok()?,
        ))
    };
    let pairs = lines
        .iter()
        .map(|line| pair(line).unwrap_or_else(|| panic!("not a header line: {line:?}")));
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(name, value);
    }
    headers
}

/// Reads a body to its end, or up to where it breaks off; the flag is true at its end.
pub(crate) async fn read_body(body: &mut RecvStream) -> (Vec<u8>, bool) {
    let mut content = Vec::new();
    while let Some(part) = body.data().await {
        let Ok(part) = part else {
            return (content, false);
        };
        content.extend_from_slice(&part);
        give_back(body, &part);
    }
    (content, true)
}

/// Lets the peer send as much again. An error means that the stream is over, which the next read tells.
fn give_back(body: &mut RecvStream, part: &Bytes) {
    let _ = body.flow_control().release_capacity(part.len());
}

/// Names and values as text.
pub(crate) fn lines(headers: &HeaderMap) -> Vec<(String, String)> {
    headers
        .iter()
        .map(|(name, value)| {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            (name.to_string(), value)
        })
        .collect()
}
