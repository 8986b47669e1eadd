//! The host that a request is for: exactly one.

use std::net::Ipv6Addr;

use http::request::Parts;
use http::uri::Scheme;
use http::{Version, header};

use super::InvalidRequest;

/// Longest name in DNS, with its last dot.
const HOST_BYTES: usize = 254;

/// Refuses requests without a host, with two, or with a malformed one. Only HTTP/1.0 has requests
/// without.
pub(super) fn check(parts: &Parts) -> Result<(), InvalidRequest> {
    let mut lines = parts.headers.get_all(header::HOST).iter();
    let line = lines.next();
    if lines.next().is_some() {
        return Err(InvalidRequest::RepeatedHost);
    }
    let line = line
        .map(|line| {
            line.to_str()
                .ok()
                .and_then(HostName::parse)
                .ok_or(InvalidRequest::MalformedHost)
        })
        .transpose()?;
    let authority = parts.uri.authority();
    let authority = authority
        .map(|authority| HostName::parse(authority.as_str()).ok_or(InvalidRequest::MalformedHost))
        .transpose()?;
    match (authority, line) {
        (Some(authority), Some(line)) if authority.is_same(line, parts.uri.scheme()) => Ok(()),
        (Some(_), Some(_)) => Err(InvalidRequest::OtherHost),
        (None, Some(_)) => Ok(()),
        // HTTP/1.1 requires the line beside any authority; in HTTP/2 the authority replaces it.
        (Some(_), None) if parts.version != Version::HTTP_11 => Ok(()),
        (None, None) if parts.version == Version::HTTP_10 => Ok(()),
        (_, None) => Err(InvalidRequest::NoHost),
    }
}

/// A name or address, and a port if one was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HostName<'a> {
    name: &'a str,
    port: Option<u16>,
}

impl<'a> HostName<'a> {
    /// Parses `name`, `name:port`, `[address]` or `[address]:port`; `None` if it is anything else.
    fn parse(text: &'a str) -> Option<Self> {
        let (name, port) = match text.strip_prefix('[') {
            Some(_) => {
                let (address, port) = text.split_at(text.rfind(']')? + 1);
                address[1..address.len() - 1].parse::<Ipv6Addr>().ok()?;
                (address, port)
            }
            None => text.split_at(name_length(text.as_bytes())?),
        };
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => None,
            Some("") => None,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(digits.parse().ok()?)
            }
            _ => return None,
        };
        Some(Self { name, port })
    }

    /// Returns true when both are the same; a port that is left out is the scheme's.
    fn is_same(self, other: Self, scheme: Option<&Scheme>) -> bool {
        let usual = if scheme == Some(&Scheme::HTTPS) {
            443
        } else {
            80
        };
        self.name.eq_ignore_ascii_case(other.name)
            && self.port.unwrap_or(usual) == other.port.unwrap_or(usual)
    }
}

/// The length of the name at the beginning, up to a colon or the end: labels with dots between them,
/// and perhaps one at the end. `None` if it is no name.
fn name_length(text: &[u8]) -> Option<usize> {
    let mut last = b'.';
    let mut length = text.len();
    for (place, &byte) in text.iter().enumerate() {
        match BYTES[usize::from(byte)] {
            HostByte::Label => {}
            HostByte::Dot if last != b'.' => {}
            HostByte::Colon => {
                length = place;
                break;
            }
            HostByte::Dot | HostByte::Other => return None,
        }
        last = byte;
    }
    (1..=HOST_BYTES).contains(&length).then_some(length)
}

/// What a byte can be in a name. Looked up, because every byte of every request's host is.
#[derive(Clone, Copy)]
enum HostByte {
    Label,
    Dot,
    Colon,
    Other,
}

const BYTES: [HostByte; 256] = {
    let mut bytes = [HostByte::Other; 256];
    let mut byte = 0;
    while byte < bytes.len() {
        bytes[byte] = match byte as u8 {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'_' => HostByte::Label,
            b'.' => HostByte::Dot,
            b':' => HostByte::Colon,
            _ => HostByte::Other,
        };
        byte += 1;
    }
    bytes
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_with_and_without_port_are_hosts() {
        for text in [
            "a",
            "A.example",
            "a.example.",
            "a_b.example:8080",
            "127.0.0.1:1",
            "[::1]",
            "[2001:DB8::1]:65535",
            "a:",
        ] {
            assert!(HostName::parse(text).is_some(), "{text}");
        }
        assert_eq!(
            HostName::parse("a:80"),
            Some(HostName {
                name: "a",
                port: Some(80)
            })
        );
        assert_eq!(
            HostName::parse("[::1]:80"),
            Some(HostName {
                name: "[::1]",
                port: Some(80)
            })
        );
    }

    #[test]
    fn everything_else_is_none() {
        for text in [
            "",
            ":80",
            ".",
            "..",
            ".a",
            "a..b",
            "a.b..",
            "a b",
            "a,b",
            "a/b",
            "a@b",
            "a:b",
            "a:1:2",
            "a:+1",
            "a:65536",
            "a: 1",
            "[::1",
            "::1",
            "::1]",
            "[::1]x",
            "[::1]:x",
            "[a]",
            "[]",
            "[::1%25eth0]",
            "[v1.a]",
            "a%41",
            "a\"b",
            "a\\b",
            "é",
            "a?b",
        ] {
            assert_eq!(HostName::parse(text), None, "{text}");
        }
        assert!(HostName::parse(&"a".repeat(HOST_BYTES + 1)).is_none());
    }

    #[test]
    fn a_port_that_is_left_out_is_the_schemes() {
        let is = |one, other, scheme: Scheme| {
            HostName::parse(one)
                .unwrap()
                .is_same(HostName::parse(other).unwrap(), Some(&scheme))
        };
        assert!(is("A.example", "a.example:80", Scheme::HTTP));
        assert!(is("a.example:443", "a.example", Scheme::HTTPS));
        assert!(!is("a.example:443", "a.example", Scheme::HTTP));
        assert!(!is("a.example", "a.example.", Scheme::HTTP));
    }
}
