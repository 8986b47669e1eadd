//! What changes about a request on its way to a server, and about the answer on its way back.

mod forwarded;
mod hop_by_hop;
mod key_headers;
mod twins;
mod upgrade;

pub use key_headers::key_headers;
pub use upgrade::{Upgrade, upgrade_of};

use std::net::IpAddr;

use http::header::{self, HeaderName, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, Response, StatusCode, Uri, Version};

static X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Where CGI programs look for `HTTP_PROXY`; no client has reason to send it.
static PROXY: HeaderName = HeaderName::from_static("proxy");

/// What is known about a request besides its own words.
#[derive(Clone, Copy, Debug)]
pub struct Hop<'a> {
    /// The caller's address, after trusted proxies were walked; the peer's if `None`.
    pub client_ip: Option<IpAddr>,
    /// The address at the other end of the connection.
    pub peer: IpAddr,
    /// Whether what the peer says about those before it is believed.
    pub peer_is_trusted: bool,
    /// How the peer reached us: `http` or `https`.
    pub scheme: &'static str,
    /// The name of this request in logs, here and behind.
    pub request_id: &'a HeaderValue,
    /// The change of protocol, if the server agrees; see [`upgrade_of`].
    pub upgrade: Option<&'a Upgrade>,
    /// Whether a body follows, be it announced or not.
    pub has_body: bool,
    /// The headers that callers are told apart by, as [`key_headers`] lists them: they cannot be taken away, and have no twins.
    pub key_headers: &'a [HeaderName],
}

/// Makes a request that was validated into the one that a server gets.
///
/// What belongs to the client's connection goes. `X-Forwarded-For`, `-Proto`, `-Host`, `-Port`, `X-Real-IP`, `Forwarded`,
/// `Via`, `X-Request-Id` and `Host` are ours; what a trusted peer said in the first six is kept or added to. `Expect` was
/// answered already. The target becomes a path, the version HTTP/1.1.
pub fn to_upstream(parts: &mut Parts, hop: &Hop<'_>) {
    let host = host(parts);
    let headers = &mut parts.headers;
    let takes_trailers = hop_by_hop::lists(headers, &header::TE, "trailers");
    let is_unsized = hop.has_body && !headers.contains_key(header::CONTENT_LENGTH);

    hop_by_hop::strip(headers, hop.key_headers);
    twins::drop_from(headers, hop.key_headers);
    headers.remove(header::EXPECT);
    headers.remove(&PROXY);

    forwarded::set(headers, hop, &host);
    headers.append(header::VIA, via(parts.version));
    headers.insert(header::HOST, host);
    headers.insert(&X_REQUEST_ID, hop.request_id.clone());

    if takes_trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
    if is_unsized {
        // Without it, a GET would lose its body: clients do not expect one there. HTTP/2 connections leave it out.
        headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
    if let Some(upgrade) = hop.upgrade {
        announce_upgrade(headers, upgrade.protocol.clone());
    }
    if let Some(path) = parts.uri.path_and_query() {
        parts.uri = Uri::from(path.clone());
    }
    // Bodies without a length exist from HTTP/1.1 on, and HTTP/2 connections do not look at it.
    parts.version = Version::HTTP_11;
}

/// Makes a server's answer into the one that the client gets: what belongs to the server's connection goes.
pub fn to_client<B>(response: &mut Response<B>, request_id: &HeaderValue) {
    let switches = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    *response.version_mut() = Version::HTTP_11;
    let headers = response.headers_mut();
    let upgrade = if switches { headers.remove(header::UPGRADE) } else { None };
    hop_by_hop::strip(headers, &[]);
    headers.insert(&X_REQUEST_ID, request_id.clone());
    if let Some(protocol) = upgrade {
        announce_upgrade(headers, protocol);
    }
}

fn announce_upgrade(headers: &mut HeaderMap, protocol: HeaderValue) {
    headers.insert(header::UPGRADE, protocol);
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
}

/// The version in which the request reached us, and our name.
fn via(version: Version) -> HeaderValue {
    HeaderValue::from_static(match version {
        Version::HTTP_2 => "2 tollgate",
        Version::HTTP_11 => "1.1 tollgate",
        _ => "1.0 tollgate",
    })
}

/// The host that was asked for, with its port if it was sent. Empty if HTTP/1.0 sent none: HTTP/1.1 has the line in every
/// request.
fn host(parts: &Parts) -> HeaderValue {
    let authority = parts.uri.authority().and_then(|authority| HeaderValue::from_str(authority.as_str()).ok());
    let line = || parts.headers.get(header::HOST).cloned();
    authority.or_else(line).unwrap_or_else(|| HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests;
