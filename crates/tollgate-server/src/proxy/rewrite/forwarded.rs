//! What a server is told about those before it.
//!
//! A peer that is not trusted has said nothing: whatever it sent here is replaced. A trusted one is believed, and added to
//! the chain.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::IpAddr;

use http::HeaderMap;
use http::header::{self, HeaderName, HeaderValue};
use smallvec::SmallVec;

use super::Hop;

static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
static X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
static X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
static X_FORWARDED_PORT: HeaderName = HeaderName::from_static("x-forwarded-port");
static X_REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");

/// Sets `X-Forwarded-For`, `-Proto`, `-Host`, `-Port`, `X-Real-IP` and `Forwarded`.
pub(super) fn set(headers: &mut HeaderMap, hop: &Hop<'_>, host: &HeaderValue) {
    if !hop.peer_is_trusted {
        forget(headers);
    }
    let peer = address(hop.peer);
    let client = match hop.client_ip {
        Some(client) if client != hop.peer => address(client),
        _ => peer.clone(),
    };
    let host = if is_host(host.as_bytes()) { host.to_str().unwrap_or_default() } else { "" };
    headers.insert(&X_REAL_IP, client);
    extend(headers, &X_FORWARDED_FOR, peer);
    extend(headers, &header::FORWARDED, element(hop, host));
    keep_or(headers, &X_FORWARDED_PROTO, is_scheme, || Some(HeaderValue::from_static(hop.scheme)));
    keep_or(headers, &X_FORWARDED_HOST, is_host, || HeaderValue::from_str(host).ok());
    keep_or(headers, &X_FORWARDED_PORT, is_port, || Some(port(hop.scheme, host)));
}

/// Also those that we do not set, such as `X-Forwarded-Prefix`: servers that read them expect a proxy's word.
fn forget(headers: &mut HeaderMap) {
    let is_family = |name: &&HeaderName| name.as_str().starts_with("x-forwarded-");
    let names: SmallVec<[HeaderName; 6]> = headers.keys().filter(is_family).cloned().collect();
    for name in names {
        headers.remove(name);
    }
    headers.remove(header::FORWARDED);
}

/// Adds an element to a list, in one line: some servers read only the first or the last.
fn extend(headers: &mut HeaderMap, name: &HeaderName, last: HeaderValue) {
    let value = match headers.contains_key(name) {
        false => last,
        true => {
            let mut list = Vec::with_capacity(128);
            let lines = headers.get_all(name).iter().filter(|line| !line.is_empty());
            for line in lines.chain([&last]) {
                if !list.is_empty() {
                    list.extend_from_slice(b", ");
                }
                list.extend_from_slice(line.as_bytes());
            }
            HeaderValue::from_maybe_shared(bytes::Bytes::from(list)).unwrap_or(last)
        }
    };
    headers.insert(name, value);
}

/// Keeps what a trusted peer said if it is one line that makes sense, else writes ours.
fn keep_or(
    headers: &mut HeaderMap,
    name: &HeaderName,
    makes_sense: fn(&[u8]) -> bool,
    ours: impl FnOnce() -> Option<HeaderValue>,
) {
    let mut lines = headers.get_all(name).iter();
    if let (Some(line), None) = (lines.next(), lines.next())
        && makes_sense(line.as_bytes())
    {
        return;
    }
    match ours() {
        Some(value) if !value.is_empty() => headers.insert(name, value),
        _ => headers.remove(name),
    };
}

fn is_scheme(value: &[u8]) -> bool {
    value == b"http" || value == b"https"
}

fn is_host(value: &[u8]) -> bool {
    !value.is_empty() && value.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(byte))
}

fn is_port(value: &[u8]) -> bool {
    (1..=5).contains(&value.len()) && value.iter().all(u8::is_ascii_digit)
}

/// The port that was asked for, or the usual one.
fn port(scheme: &str, host: &str) -> HeaderValue {
    let after_name = host.rsplit(']').next().unwrap_or_default();
    match after_name.split_once(':').and_then(|(_, port)| port.parse::<u16>().ok()) {
        Some(port) => HeaderValue::from(port),
        None => HeaderValue::from_static(if scheme == "https" { "443" } else { "80" }),
    }
}

fn address(ip: IpAddr) -> HeaderValue {
    // The longest spelling of an address has 45 bytes.
    let mut text = [0; 48];
    let mut rest = &mut text[..];
    write!(rest, "{}", ip.to_canonical()).expect("48 bytes hold any address");
    let used = 48 - rest.len();
    HeaderValue::from_bytes(&text[..used]).expect("an address is visible ASCII")
}

/// An element of `Forwarded` (RFC 7239): `for=192.0.2.60;host=a.example;proto=http`. What has a colon is quoted.
fn element(hop: &Hop<'_>, host: &str) -> HeaderValue {
    let mut text = String::with_capacity(96);
    let written = match hop.peer.to_canonical() {
        IpAddr::V4(v4) => write!(text, "for={v4}"),
        IpAddr::V6(v6) => write!(text, "for=\"[{v6}]\""),
    };
    written.expect("a string takes any text");
    if !host.is_empty() {
        let quote = if host.contains([':', '[', ']']) { "\"" } else { "" };
        text.extend([";host=", quote, host, quote]);
    }
    text.extend([";proto=", hop.scheme]);
    HeaderValue::try_from(text).expect("addresses, checked hosts and schemes are visible ASCII")
}
