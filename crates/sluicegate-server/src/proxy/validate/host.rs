//! Which host a request is for: exactly one.

use std::net::Ipv6Addr;

use http::request::Parts;
use http::uri::Scheme;
use http::{Version, header};

use super::Refusal;

/// The longest name that DNS knows, with its last dot.
const HOST_BYTES: usize = 254;

/// Refuses requests without a host, with two, or with something else. HTTP/1.0 knows requests without.
pub(super) fn check(parts: &Parts) -> Result<(), Refusal> {
    let mut lines = parts.headers.get_all(header::HOST).iter();
    let line = lines.next();
    if lines.next().is_some() {
        return Err(Refusal::RepeatedHost);
    }
    let line = line
        .map(|line| {
            line.to_str()
                .ok()
                .and_then(Host::parse)
                .ok_or(Refusal::MalformedHost)
        })
        .transpose()?;
    let authority = parts.uri.authority();
    let authority = authority
        .map(|authority| Host::parse(authority.as_str()).ok_or(Refusal::MalformedHost))
        .transpose()?;
    match (authority, line) {
        (Some(authority), Some(line)) if authority.is(line, parts.uri.scheme()) => Ok(()),
        (Some(_), Some(_)) => Err(Refusal::OtherHost),
        (None, Some(_)) => Ok(()),
        // In HTTP/1.1 the line is there beside any authority; in HTTP/2 the authority takes its place.
        (Some(_), None) if parts.version != Version::HTTP_11 => Ok(()),
        (None, None) if parts.version == Version::HTTP_10 => Ok(()),
        (_, None) => Err(Refusal::NoHost),
    }
}

/// A name or address, and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Host<'a> {
    name: &'a str,
    port: Option<u16>,
}

impl<'a> Host<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (name, port) = match text.bytes().rposition(|byte| byte == b']') {
            Some(bracket) => text.split_at(bracket + 1),
            None => text.split_at(
                text.bytes()
                    .position(|byte| byte == b':')
                    .unwrap_or(text.len()),
            ),
        };
        let is_host = match name.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']')?.parse::<Ipv6Addr>().is_ok(),
            None => is_name(name),
        };
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => None,
            Some("") => None,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(digits.parse().ok()?)
            }
            _ => return None,
        };
        is_host.then_some(Self { name, port })
    }

    /// Whether both mean the same server; a port that is left out is the scheme's.
    fn is(self, other: Self, scheme: Option<&Scheme>) -> bool {
        let usual = if scheme == Some(&Scheme::HTTPS) {
            443
        } else {
            80
        };
        self.name.eq_ignore_ascii_case(other.name)
            && self.port.unwrap_or(usual) == other.port.unwrap_or(usual)
    }
}

/// Labels with dots between them, and perhaps one at the end.
fn is_name(name: &str) -> bool {
    let mut last = b'.';
    let is_fine = name.bytes().all(|byte| {
        let before = std::mem::replace(&mut last, byte);
        byte.is_ascii_alphanumeric()
            || matches!(byte, b'-' | b'_')
            || byte == b'.' && before != b'.'
    });
    is_fine && !name.is_empty() && name.len() <= HOST_BYTES
}

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
            assert!(Host::parse(text).is_some(), "{text}");
        }
        assert_eq!(
            Host::parse("a:80"),
            Some(Host {
                name: "a",
                port: Some(80)
            })
        );
        assert_eq!(
            Host::parse("[::1]:80"),
            Some(Host {
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
            assert_eq!(Host::parse(text), None, "{text}");
        }
        assert!(Host::parse(&"a".repeat(HOST_BYTES + 1)).is_none());
    }

    #[test]
    fn a_port_that_is_left_out_is_the_schemes() {
        let is = |one, other, scheme: Scheme| {
            Host::parse(one)
                .unwrap()
                .is(Host::parse(other).unwrap(), Some(&scheme))
        };
        assert!(is("A.example", "a.example:80", Scheme::HTTP));
        assert!(is("a.example:443", "a.example", Scheme::HTTPS));
        assert!(!is("a.example:443", "a.example", Scheme::HTTP));
        assert!(!is("a.example", "a.example.", Scheme::HTTP));
    }
}
