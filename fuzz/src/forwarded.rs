//! The caller's address behind trusted proxies, from `X-Forwarded-For`, `Forwarded` and
//! `X-Real-IP`.
//!
//! Whatever a caller writes, it is the address that a trusted proxy saw, or the peer.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::LazyLock;

use http::{HeaderMap, HeaderValue};
use ipnet::IpNet;
use sluicegate::http::{ClientIp, ProxyHeader};
use sluicegate_core::address;

use crate::input::InputBytes;

/// The first byte chooses the header; each line of the rest is a line of it.
pub fn run(data: &[u8]) {
    let mut input = InputBytes::new(data);
    let resolver = input.one_of(&*RESOLVERS);
    let text = input.rest();
    let mut lines: Vec<HeaderValue> = Vec::new();
    for line in text.split(|byte| *byte == b'\n') {
        lines.extend(HeaderValue::from_bytes(line));
    }
    let found = resolver.resolve(TRUSTED_PEER, &lines);
    assert_eq!(resolver.resolve(STRANGER, &lines), STRANGER);
    if resolver.header == ProxyHeader::Forwarded {
        check_is_named(found, &lines);
    } else {
        assert_eq!(found, reference(&lines));
    }
    if is_trusted(found) {
        return;
    }
    // Everything left of the address is the caller's own, and changes nothing.
    let half = &text[..text.len() / 2];
    for claim in [half, b"for=\"", b"9.9.9.9", b",,,", b"\"\\\""] {
        check_claim(claim, resolver, &lines, found);
    }
}

/// A claim in a line before the others, and in the first of them, changes nothing.
fn check_claim(claim: &[u8], resolver: &HeaderResolver, lines: &[HeaderValue], found: IpAddr) {
    let Ok(line) = HeaderValue::from_bytes(claim) else {
        return;
    };
    let mut claimed = vec![line];
    claimed.extend_from_slice(lines);
    assert_eq!(resolver.resolve(TRUSTED_PEER, &claimed), found);
    let first = lines[0].as_bytes();
    let joined = [claim, b",", first].concat();
    let Ok(joined) = HeaderValue::from_bytes(&joined) else {
        return;
    };
    // A proxy that we trust closes its quotes. With one left open the whole line is not
    // understood, and the peer is the caller.
    let quotes = first.iter().filter(|byte| **byte == b'"');
    if resolver.header == ProxyHeader::Forwarded && quotes.count() % 2 == 1 {
        return;
    }
    let mut claimed = vec![joined];
    claimed.extend_from_slice(&lines[1..]);
    assert_eq!(resolver.resolve(TRUSTED_PEER, &claimed), found);
}

const TRUSTED_PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const STRANGER: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 9));

static TRUSTED: LazyLock<Vec<IpNet>> = LazyLock::new(|| {
    ["10.0.0.0/8", "fd00::/8", "::ffff:172.16.0.0/108"]
        .iter()
        .map(|net| net.parse().expect("a network"))
        .collect()
});

/// Finds the caller in one header.
struct HeaderResolver {
    header: ProxyHeader,
    client_ip: ClientIp,
}

impl HeaderResolver {
    fn new(header: ProxyHeader) -> Self {
        let client_ip = ClientIp::behind(TRUSTED.clone());
        Self {
            header,
            client_ip: client_ip.header(header),
        }
    }

    fn resolve(&self, peer: IpAddr, lines: &[HeaderValue]) -> IpAddr {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(self.header.name(), line.clone());
        }
        let found = self.client_ip.resolve(Some(peer), &headers);
        found.expect("the peer is known")
    }
}

static RESOLVERS: LazyLock<[HeaderResolver; 3]> = LazyLock::new(|| {
    let headers = [
        ProxyHeader::XForwardedFor,
        ProxyHeader::Forwarded,
        ProxyHeader::XRealIp,
    ];
    headers.map(HeaderResolver::new)
});

fn is_trusted(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => match v4.octets() {
            [10, ..] => true,
            [172, second, ..] => second >> 4 == 1,
            _ => false,
        },
        IpAddr::V6(v6) => v6.octets()[0] == 0xfd,
    }
}

/// Walks a list of addresses as docs/security.md tells it.
fn reference(lines: &[HeaderValue]) -> IpAddr {
    let mut hops: Vec<&[u8]> = Vec::new();
    for line in lines {
        hops.extend(line.as_bytes().split(|byte| *byte == b','));
    }
    let mut last = TRUSTED_PEER;
    for (walked, hop) in hops.iter().rev().enumerate() {
        let hop = str::from_utf8(hop).unwrap_or_default();
        let Some(address) = address::parse(hop) else {
            return TRUSTED_PEER;
        };
        if walked >= 64 {
            return TRUSTED_PEER;
        }
        last = address;
        if !is_trusted(last) {
            break;
        }
    }
    last
}

/// An address that was found is the peer's, or one of those behind `for=`.
fn check_is_named(found: IpAddr, lines: &[HeaderValue]) {
    let is_named = lines.iter().any(|line| {
        let text = String::from_utf8_lossy(line.as_bytes()).to_ascii_lowercase();
        let mut values = text.split("for=").skip(1);
        values.any(|value| {
            let value = value.trim_start_matches('"');
            let end = value.find(['"', ',', ';']);
            let node = &value[..end.unwrap_or(value.len())];
            address::parse(node) == Some(found)
        })
    });
    assert!(found == TRUSTED_PEER || is_named, "{found} from {lines:?}");
}
