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

/// The first byte chooses the header; each line of the rest is a line of it.
pub fn run(data: &[u8]) {
    let Some((choice, text)) = data.split_first() else {
        return;
    };
    let (header, resolver) = &RESOLVERS[usize::from(*choice) % RESOLVERS.len()];
    let name = header.name();
    let lines: Vec<HeaderValue> = text
        .split(|byte| *byte == b'\n')
        .filter_map(|line| HeaderValue::from_bytes(line).ok())
        .collect();
    let mut headers = HeaderMap::new();
    for line in &lines {
        headers.append(name, line.clone());
    }
    let found = resolver.resolve(Some(TRUSTED_PEER), &headers);
    let found = found.expect("the peer is known");
    assert_eq!(resolver.resolve(Some(STRANGER), &headers), Some(STRANGER));
    if *header == ProxyHeader::Forwarded {
        check_is_named(found, &lines);
    } else {
        assert_eq!(found, reference(&lines));
    }
    if is_trusted(found) {
        return;
    }
    // Everything left of the address is the caller's own, and changes nothing.
    let prefix = &text[..text.len() / 2];
    for claim in [prefix, b"for=\"", b"9.9.9.9", b",,,", b"\"\\\""] {
        let Ok(claim) = HeaderValue::from_bytes(claim) else {
            continue;
        };
        let mut claimed = HeaderMap::new();
        claimed.append(name, claim.clone());
        for line in &lines {
            claimed.append(name, line.clone());
        }
        assert_eq!(resolver.resolve(Some(TRUSTED_PEER), &claimed), Some(found));
        let joined = [claim.as_bytes(), b",", lines[0].as_bytes()].concat();
        let Ok(joined) = HeaderValue::from_bytes(&joined) else {
            continue;
        };
        // A proxy that we trust closes its quotes. With one left open the whole line is not
        // understood, and the peer is the caller.
        let quotes = lines[0]
            .as_bytes()
            .iter()
            .filter(|byte| **byte == b'"')
            .count();
        if *header == ProxyHeader::Forwarded && quotes % 2 == 1 {
            continue;
        }
        let mut claimed = HeaderMap::new();
        claimed.append(name, joined);
        for line in &lines[1..] {
            claimed.append(name, line.clone());
        }
        assert_eq!(resolver.resolve(Some(TRUSTED_PEER), &claimed), Some(found));
    }
}

const TRUSTED_PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const STRANGER: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 9));

static TRUSTED: LazyLock<Vec<IpNet>> = LazyLock::new(|| {
    ["10.0.0.0/8", "fd00::/8", "::ffff:172.16.0.0/108"]
        .iter()
        .map(|net| net.parse().expect("a network"))
        .collect()
});

static RESOLVERS: LazyLock<[(ProxyHeader, ClientIp); 3]> = LazyLock::new(|| {
    [
        ProxyHeader::XForwardedFor,
        ProxyHeader::Forwarded,
        ProxyHeader::XRealIp,
    ]
    .map(|header| (header, ClientIp::behind(TRUSTED.clone()).header(header)))
});

fn is_trusted(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.octets()[0] == 10 || v4.octets()[0] == 172 && v4.octets()[1] >> 4 == 1,
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
        let address = str::from_utf8(hop).ok().and_then(address::parse);
        let Some(address) = address.filter(|_| walked < 64) else {
            return TRUSTED_PEER;
        };
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
        let values = text.match_indices("for=").map(|(at, word)| at + word.len());
        values.into_iter().any(|start| {
            let value = text[start..].trim_start_matches('"');
            let end = value.find(['"', ',', ';']).unwrap_or(value.len());
            address::parse(&value[..end]) == Some(found)
        })
    });
    assert!(found == TRUSTED_PEER || is_named, "{found} from {lines:?}");
}
