//! The header lines that change between client and server, in both directions.
//!
//! HTTP/1 servers get their lines as text, HTTP/2 servers as a map; [`write_lines`] decides for
//! both, so that no protocol forwards a line that the other removes.

mod forwarded;
mod kept_lines;
mod key_headers;
mod twins;

pub use kept_lines::KeptLines;
pub use key_headers::key_headers;
pub use twins::trailer_filter;

use std::net::IpAddr;

use http::header::{self, HeaderName, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, Response, StatusCode, Uri, Version};
use sluicegate_net::{HeaderText, UpgradeRequest, hop_by_hop};
use smallvec::SmallVec;

static X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The facts about a request that its own header lines do not tell.
#[derive(Clone, Copy, Debug)]
pub struct Hop<'a> {
    /// The caller's address, after trusted proxies were walked; the peer's if `None`.
    pub client_ip: Option<IpAddr>,
    /// The address at the other end of the connection.
    pub peer: IpAddr,
    /// True when the peer is a trusted proxy, whose `X-Forwarded-*` and `Forwarded` are kept.
    pub peer_is_trusted: bool,
    /// The scheme of the peer's connection: `http` or `https`.
    pub scheme: &'static str,
    /// The name of this request in logs, here and behind.
    pub request_id: &'a str,
    /// The change of protocol, if the server agrees; see [`sluicegate_net::upgrade_of`].
    pub upgrade: Option<&'a UpgradeRequest>,
    /// True when a body follows, be it announced by a length or not.
    pub has_body: bool,
    /// The headers that limits and credentials are read from, as [`key_headers`] lists them. A
    /// client cannot have them removed by naming them in `Connection`, and their twins are dropped.
    pub key_headers: &'a [HeaderName],
}

/// The destination of a request's header lines: text of HTTP/1, or the map that HTTP/2 takes.
pub trait HeaderSink {
    /// A line that the client sent.
    fn sent(&mut self, name: &HeaderName, value: &HeaderValue);
    /// A line of ours, whose value comes in parts.
    fn ours(&mut self, name: &HeaderName, parts: &[&[u8]]);
}

/// Writes the lines that a server gets of a request that was validated.
///
/// Hop-by-hop lines are removed. `X-Forwarded-For`, `-Proto`, `-Host`, `-Port`, `X-Real-IP`,
/// `Forwarded`, `Via`, `X-Request-Id` and `Host` are written by the proxy. Of these, a trusted
/// peer's `X-Forwarded-*` and `Forwarded` are kept or added to. `Expect` was answered already.
pub fn write_lines(parts: &Parts, hop: &Hop<'_>, lines: &mut impl HeaderSink) {
    let named = hop_by_hop::named(&parts.headers, hop.key_headers);
    let mut trusted = forwarded::TrustedForwarding::default();
    let (mut takes_trailers, mut has_length) = (false, false);
    let mut cookies: SmallVec<[&[u8]; 8]> = SmallVec::new();
    for (name, value) in &parts.headers {
        match name.as_str() {
            "te" => takes_trailers |= hop_by_hop::has_option(value, "trailers"),
            // A length without a body would make the next request a part of this one.
            "content-length" if !hop.has_body && value != "0" => {}
            "content-length" => {
                has_length = true;
                lines.sent(name, value);
            }
            "host" | "expect" | "x-request-id" | "x-real-ip" => {}
            "cookie" => cookies.extend([b"; ", value.as_bytes()]),
            // Frameworks behind IIS and ISAPI take the path from these, which no limit has seen.
            "x-original-url" | "x-rewrite-url" if !hop.peer_is_trusted => {}
            // CGI programs would read it as `HTTP_PROXY`; no client has reason to send it.
            "proxy" => {}
            other if hop_by_hop::is_hop_by_hop(other) => {}
            other if forwarded::is_family(other) => {
                if hop.peer_is_trusted && !trusted.take(other, value) {
                    lines.sent(name, value);
                }
            }
            other if named.contains(&other) || twins::is_twin(other, hop.key_headers) => {}
            _ => lines.sent(name, value),
        }
    }
    // One line (RFC 9113, section 8.2.3): HTTP/2 splits cookies, and servers of HTTP/1 read one.
    if let Some((_, one_line)) = cookies.split_first() {
        lines.ours(&header::COOKIE, one_line);
    }
    let host = host(parts);
    lines.ours(&header::HOST, &[host]);
    forwarded::write(&trusted, hop, host, lines);
    lines.ours(&header::VIA, &[via(parts.version)]);
    lines.ours(&X_REQUEST_ID, &[hop.request_id.as_bytes()]);
    if takes_trailers {
        lines.ours(&header::TE, &[b"trailers"]);
    }
    if hop.has_body && !has_length {
        lines.ours(&header::TRANSFER_ENCODING, &[b"chunked"]);
    }
    if let Some(upgrade) = hop.upgrade {
        lines.ours(&header::UPGRADE, &[upgrade.protocol.as_bytes()]);
        lines.ours(&header::CONNECTION, &[b"upgrade"]);
    }
}

/// Makes a request that was validated into the one that a server of HTTP/2 gets; see
/// [`write_lines`].
pub fn to_upstream(parts: &mut Parts, hop: &Hop<'_>) {
    const OURS: usize = 12;
    let mut headers = HeaderMap::with_capacity(parts.headers.len() + OURS);
    write_lines(parts, hop, &mut headers);
    parts.headers = headers;
    if let Some(path) = parts.uri.path_and_query() {
        parts.uri = Uri::from(path.clone());
    }
}

/// Makes the response of an HTTP/2 server into the one that the client gets: hop-by-hop lines are
/// removed, and so is a length, which the body itself tells. The length stays where there is no
/// body to tell it: in responses to HEAD and in 304.
pub fn to_client<B>(response: &mut Response<B>, is_head: bool) {
    let is_about_another = is_head || response.status() == StatusCode::NOT_MODIFIED;
    if !is_about_another {
        response.headers_mut().remove(header::CONTENT_LENGTH);
    }
    hop_by_hop::strip(response.headers_mut());
}

impl HeaderSink for HeaderText<'_> {
    fn sent(&mut self, name: &HeaderName, value: &HeaderValue) {
        self.header(name, value);
    }

    fn ours(&mut self, name: &HeaderName, parts: &[&[u8]]) {
        self.header_of_parts(name, parts);
    }
}

impl HeaderSink for HeaderMap {
    fn sent(&mut self, name: &HeaderName, value: &HeaderValue) {
        self.append(name.clone(), value.clone());
    }

    fn ours(&mut self, name: &HeaderName, parts: &[&[u8]]) {
        if let Ok(value) = HeaderValue::from_maybe_shared(bytes::Bytes::from(parts.concat())) {
            self.append(name.clone(), value);
        }
    }
}

/// The version in which the request reached us, and our name.
fn via(version: Version) -> &'static [u8] {
    match version {
        Version::HTTP_2 => b"2 sluicegate",
        Version::HTTP_11 => b"1.1 sluicegate",
        _ => b"1.0 sluicegate",
    }
}

/// The requested host, with its port if it was sent. Empty if a request of HTTP/1.0 has none, since
/// HTTP/1.1 requires the line in every request.
fn host(parts: &Parts) -> &[u8] {
    let line = || parts.headers.get(header::HOST).map(HeaderValue::as_bytes);
    parts
        .uri
        .authority()
        .map(|authority| authority.as_str().as_bytes())
        .or_else(line)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
