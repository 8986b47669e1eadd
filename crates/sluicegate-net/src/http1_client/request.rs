//! Heads of requests, as a server of HTTP/1 gets them.

use http::Uri;
use http::header::{CONTENT_LENGTH, HeaderValue, TRAILER};
use http::request::Parts;
use http_body::Body;

use crate::hop_by_hop;
use crate::request_body::ForwardedBody;
use crate::wire::{HeaderText, Outgoing, OutgoingFraming};

/// Starts a request. Its body is framed as the client framed it: by a length, or in chunks.
pub(super) fn begin(
    outgoing: &mut Outgoing<ForwardedBody>,
    parts: &Parts,
    body: ForwardedBody,
    write_headers: impl FnOnce(&mut HeaderText<'_>),
) {
    let length = || {
        parts
            .headers
            .get(CONTENT_LENGTH)
            .and_then(|line| line.to_str().ok()?.parse().ok())
    };
    let body = (!body.is_end_stream()).then_some(body);
    let framing = body
        .as_ref()
        .and_then(|_| length())
        .map_or(OutgoingFraming::Chunked, OutgoingFraming::Length);
    let has_body = body.is_some();
    outgoing.begin(|text| write_head(text, parts, write_headers), body, framing);
    if has_body {
        let lines = parts
            .headers
            .get_all(TRAILER)
            .into_iter()
            .map(HeaderValue::as_bytes);
        outgoing.announce(hop_by_hop::trailers(lines));
    }
}

fn write_head(text: &mut Vec<u8>, parts: &Parts, write_headers: impl FnOnce(&mut HeaderText<'_>)) {
    text.extend_from_slice(parts.method.as_str().as_bytes());
    text.push(b' ');
    text.extend_from_slice(target(&parts.uri).as_bytes());
    text.extend_from_slice(b" HTTP/1.1\r\n");
    write_headers(&mut HeaderText(text));
}

/// The target as a path, as servers expect it.
fn target(uri: &Uri) -> &str {
    uri.path_and_query().map_or("/", |path| path.as_str())
}
