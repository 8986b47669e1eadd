//! A request as a server of HTTP/1 gets it.

use http::Uri;
use http::header::{CONTENT_LENGTH, HeaderValue, TRAILER};
use http::request::Parts;
use http_body::Body;

use crate::proxy::body::RequestBody;
use crate::proxy::rewrite::{self, Hop};
use crate::proxy::wire::{Ends, Outgoing, Text};

/// Writes the head, and sends the body after it.
pub(super) fn begin(
    outgoing: &mut Outgoing<RequestBody>,
    parts: &Parts,
    hop: &Hop<'_>,
    body: RequestBody,
) {
    let length = || {
        parts
            .headers
            .get(CONTENT_LENGTH)
            .and_then(|line| line.to_str().ok()?.parse().ok())
    };
    let body = (!body.is_end_stream()).then_some(body);
    let ends = body
        .as_ref()
        .and_then(|_| length())
        .map_or(Ends::Chunked, Ends::Length);
    let has_body = body.is_some();
    outgoing.begin(|text| write_head(text, parts, hop), body, ends);
    if has_body {
        let lines = parts
            .headers
            .get_all(TRAILER)
            .into_iter()
            .map(HeaderValue::as_bytes);
        outgoing.announce(rewrite::trailers(lines));
    }
}

fn write_head(text: &mut Vec<u8>, parts: &Parts, hop: &Hop<'_>) {
    text.extend_from_slice(parts.method.as_str().as_bytes());
    text.push(b' ');
    text.extend_from_slice(target(&parts.uri).as_bytes());
    text.extend_from_slice(b" HTTP/1.1\r\n");
    rewrite::write_lines(parts, hop, &mut Text(text));
}

/// The target as a path, as servers expect it.
fn target(uri: &Uri) -> &str {
    uri.path_and_query().map_or("/", |path| path.as_str())
}
