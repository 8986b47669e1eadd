//! The host of a request, in its normal spelling.
//!
//! Limits match and count by host, so every spelling that reaches the same service must give the
//! same text, and text that is no host must give none: otherwise a capital letter, a port or a dot
//! at the end would lead around a rule.

use std::borrow::Cow;

use http::{HeaderMap, Uri, header};

/// The host in a request's target, else in its `Host` line: lower case, without port and without a
/// dot at its end. `None` when there is none, it is malformed, or two `Host` lines disagree.
///
/// For front doors that have a target and headers but no `http::Request`, such as the original
/// request that a gateway describes; [`extract`](super::extract) does it for whole requests.
///
/// ```
/// use http::{HeaderMap, Uri};
/// use sluicegate::http::host_of;
///
/// let target = Uri::from_static("http://A.example.:8080/x");
/// assert_eq!(host_of(&target, &HeaderMap::new()).as_deref(), Some("a.example"));
/// ```
pub fn host_of<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<Cow<'a, str>> {
    // RFC 9112, section 3.2.2: an absolute target comes before the Host line.
    if let Some(host) = uri.host() {
        return canonical(host);
    }
    let mut lines = headers.get_all(header::HOST).iter();
    let first = lines.next()?;
    if lines.any(|line| !line.as_bytes().eq_ignore_ascii_case(first.as_bytes())) {
        return None;
    }
    canonical(first.to_str().ok()?)
}

/// A byte that a name may have.
const IN_NAME: u8 = 1;
/// A byte that an IPv6 address may have.
const IN_ADDRESS: u8 = 2;
const CAPITAL: u8 = 4;

/// The kinds of each byte. Looked up, because every byte of every request's host is.
const KINDS: [u8; 256] = {
    let mut kinds = [0; 256];
    let mut place = 0;
    while place < kinds.len() {
        let byte = place as u8;
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_') {
            kinds[place] |= IN_NAME;
        }
        if byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.') {
            kinds[place] |= IN_ADDRESS;
        }
        if byte.is_ascii_uppercase() {
            kinds[place] |= CAPITAL;
        }
        place += 1;
    }
    kinds
};

/// The normal spelling of `host[:port]`. Borrowed, unless it has capital letters.
fn canonical(text: &str) -> Option<Cow<'_, str>> {
    // The port begins at the first colon, or behind the brackets of an IPv6 address.
    let is_address = text.starts_with('[');
    let length = match is_address {
        true => text.rfind(']')? + 1,
        // Names are short: a loop is quicker than a search for a character.
        false => {
            let colon = text.bytes().position(|byte| byte == b':');
            colon.unwrap_or(text.len())
        }
    };
    let (host, port) = text.split_at(length);
    let is_port = port.is_empty()
        || port
            .strip_prefix(':')?
            .bytes()
            .all(|byte| byte.is_ascii_digit());
    let (expected, bare) = match is_address {
        true => (IN_ADDRESS, &host[1..length - 1]),
        false => (IN_NAME, host),
    };
    // All bytes in one pass: the kinds that all of them are, and those that any of them is.
    let (mut all, mut any) = (expected, 0);
    for byte in bare.bytes() {
        all &= KINDS[usize::from(byte)];
        any |= KINDS[usize::from(byte)];
    }
    let host = host.strip_suffix('.').unwrap_or(host);
    if !is_port || all != expected || host.is_empty() {
        return None;
    }
    Some(match any & CAPITAL != 0 {
        true => Cow::Owned(host.to_ascii_lowercase()),
        false => Cow::Borrowed(host),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(target: &str, lines: &[&'static str]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(header::HOST, http::HeaderValue::from_static(line));
        }
        host_of(&target.parse().unwrap(), &headers).map(Cow::into_owned)
    }

    #[test]
    fn a_host_has_one_spelling() {
        for line in [
            "a.example",
            "A.Example",
            "a.example:80",
            "a.example.",
            "a.example.:443",
            "a.example:",
        ] {
            assert_eq!(host("/", &[line]).as_deref(), Some("a.example"), "{line}");
        }
        assert_eq!(
            host("/", &["[2001:DB8::1]:80"]).as_deref(),
            Some("[2001:db8::1]")
        );
        assert_eq!(host("/", &["127.0.0.1:8080"]).as_deref(), Some("127.0.0.1"));
        assert_eq!(
            host("/", &["A.example", "a.example"]).as_deref(),
            Some("a.example")
        );
    }

    #[test]
    fn the_target_comes_before_the_host_line() {
        assert_eq!(
            host("http://u@B.example:81/x", &["a.example"]).as_deref(),
            Some("b.example")
        );
        assert_eq!(host("http://[::1]:81/", &[]).as_deref(), Some("[::1]"));
    }

    #[test]
    fn what_is_no_host_is_none() {
        for line in [
            "[::[1]", "[::1]]", "", ":80", ".", "a b", "a,b", "a/b", "a@b", "a:b", "a:1:2", "[::1",
            "::1]", "[::1]x", "[a\"]", "a%41",
        ] {
            assert_eq!(host("/", &[line]), None, "{line}");
        }
        assert_eq!(host("/", &[]), None);
        assert_eq!(host("/", &["a.example", "b.example"]), None);
    }
}
