//! The headers that tell a server about the client and the proxies before it: `X-Forwarded-*`,
//! `X-Real-IP` and `Forwarded`.
//!
//! The lines of an untrusted peer are replaced. Those of a trusted peer are kept, and its address
//! is added to the chain.

use std::net::IpAddr;

use http::header::{self, HeaderName, HeaderValue};
use sluicegate_core::address::write_v4;
use smallvec::SmallVec;

use super::{HeaderSink, Hop};

static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
static X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
static X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
static X_FORWARDED_PORT: HeaderName = HeaderName::from_static("x-forwarded-port");
static X_REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");

/// Returns true when only proxies may send a header, also for those that we do not set, such as
/// `X-Forwarded-Prefix`.
pub(super) fn is_family(name: &str) -> bool {
    name == "forwarded" || name.starts_with("x-forwarded-")
}

/// The lines in which a trusted peer tells about the client and the proxies before it.
#[derive(Default)]
pub(super) struct TrustedForwarding<'a> {
    chain: SmallVec<[&'a [u8]; 2]>,
    forwarded: SmallVec<[&'a [u8]; 2]>,
    proto: SmallVec<[&'a [u8]; 1]>,
    host: SmallVec<[&'a [u8]; 1]>,
    port: SmallVec<[&'a [u8]; 1]>,
}

impl<'a> TrustedForwarding<'a> {
    /// Keeps a line; returns false if it is none of those that we write.
    pub(super) fn take(&mut self, name: &str, value: &'a HeaderValue) -> bool {
        let value = value.as_bytes();
        match name {
            "x-forwarded-for" => self.chain.push(value),
            "forwarded" => self.forwarded.push(value),
            "x-forwarded-proto" => self.proto.push(value),
            "x-forwarded-host" => self.host.push(value),
            "x-forwarded-port" => self.port.push(value),
            _ => return false,
        }
        true
    }
}

/// Writes `X-Forwarded-For`, `-Proto`, `-Host`, `-Port`, `X-Real-IP` and `Forwarded`.
pub(super) fn write(
    trusted: &TrustedForwarding<'_>,
    hop: &Hop<'_>,
    host: &[u8],
    lines: &mut impl HeaderSink,
) {
    let peer_ip = hop.peer.to_canonical();
    let peer = AddressText::of(peer_ip);
    match hop.client_ip {
        Some(client) if client != hop.peer => {
            lines.ours(&X_REAL_IP, &[AddressText::of(client.to_canonical()).text()])
        }
        _ => lines.ours(&X_REAL_IP, &[peer.text()]),
    }
    let host = if is_host(host) { host } else { b"" };
    chain(&trusted.chain, &X_FORWARDED_FOR, &[peer.text()], lines);
    // An element of `Forwarded` (RFC 7239): `for=192.0.2.60;host=a.example;proto=http`.
    // A value with a colon is quoted.
    let (before, after): (&[u8], &[u8]) = if peer_ip.is_ipv6() {
        (b"\"[", b"]\"")
    } else {
        (b"", b"")
    };
    let (host_is, quote): (&[u8], &[u8]) = match host {
        [] => (b"", b""),
        _ if host.iter().any(|byte| b":[]".contains(byte)) => (b";host=", b"\""),
        _ => (b";host=", b""),
    };
    let proto = hop.scheme.as_bytes();
    let element = [
        b"for=",
        before,
        peer.text(),
        after,
        host_is,
        quote,
        host,
        quote,
        b";proto=",
        proto,
    ];
    chain(&trusted.forwarded, &header::FORWARDED, &element, lines);
    kept_or(&trusted.proto, &X_FORWARDED_PROTO, is_scheme, proto, lines);
    kept_or(&trusted.host, &X_FORWARDED_HOST, is_host, host, lines);
    kept_or(
        &trusted.port,
        &X_FORWARDED_PORT,
        is_port,
        port(hop.scheme, host),
        lines,
    );
}

/// Adds an element to a list, in one line: some servers read only the first or the last.
fn chain(received: &[&[u8]], name: &HeaderName, last: &[&[u8]], lines: &mut impl HeaderSink) {
    if received.is_empty() {
        return lines.ours(name, last);
    }
    let before = received
        .iter()
        .copied()
        .filter(|part| !part.is_empty())
        .flat_map(|part| [part, b", "]);
    let list: SmallVec<[&[u8]; 16]> = before.chain(last.iter().copied()).collect();
    lines.ours(name, &list);
}

/// Keeps a trusted peer's line if it is the only one and valid, else writes ours, if there is any.
fn kept_or(
    received: &[&[u8]],
    name: &HeaderName,
    makes_sense: fn(&[u8]) -> bool,
    ours: &[u8],
    lines: &mut impl HeaderSink,
) {
    match received {
        [line] if makes_sense(line) => lines.ours(name, &[line]),
        _ if ours.is_empty() => {}
        _ => lines.ours(name, &[ours]),
    }
}

fn is_scheme(value: &[u8]) -> bool {
    value == b"http" || value == b"https"
}

fn is_host(value: &[u8]) -> bool {
    !value.is_empty()
        && value
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(byte))
}

fn is_port(value: &[u8]) -> bool {
    (1..=5).contains(&value.len()) && value.iter().all(u8::is_ascii_digit)
}

/// The requested port, or the default of the scheme.
fn port<'a>(scheme: &str, host: &'a [u8]) -> &'a [u8] {
    let after_name = host.rsplit(|byte| *byte == b']').next().unwrap_or_default();
    match after_name
        .iter()
        .position(|byte| *byte == b':')
        .map(|colon| &after_name[colon + 1..])
    {
        Some(port)
            if is_port(port)
                && str::from_utf8(port).is_ok_and(|port| port.parse::<u16>().is_ok()) =>
        {
            port
        }
        _ if scheme == "https" => b"443",
        _ => b"80",
    }
}

/// The text of an IP address, without an allocation: every forwarded request has one.
struct AddressText {
    bytes: [u8; Self::LONGEST],
    length: usize,
}

impl AddressText {
    const LONGEST: usize = 45;

    fn of(address: IpAddr) -> Self {
        let mut own = Self {
            bytes: [0; Self::LONGEST],
            length: 0,
        };
        match address {
            IpAddr::V4(v4) => write_v4(v4, |byte| own.push(byte)),
            IpAddr::V6(v6) => v6.to_string().bytes().for_each(|byte| own.push(byte)),
        }
        own
    }

    fn push(&mut self, byte: u8) {
        self.bytes[self.length] = byte;
        self.length += 1;
    }

    fn text(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}
