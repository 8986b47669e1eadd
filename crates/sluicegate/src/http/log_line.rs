//! The line that is logged for each request over its limit.
//!
//! Scripts that ban addresses read these lines, so their form is part of the interface, and it must
//! not be possible to forge one: host and path are chosen by the caller, and are escaped.

use std::fmt;
use std::net::IpAddr;

use http::StatusCode;
use sluicegate_core::Subject;
use sluicegate_core::address::write_v4;

/// Writes `RATE_LIMIT client_ip=203.0.113.50 host=a.example path=/x status=429`, for log readers
/// that split on spaces.
///
/// The address is the caller's own, not the prefix it is counted by; `-` stands for what is not
/// known. Everything that could break the line or its fields is escaped as in a URL.
///
/// ```
/// use http::StatusCode;
/// use sluicegate::Subject;
/// use sluicegate::http::RateLimitLine;
///
/// let subject = Subject { host: Some("a.example"), path: "/a b", ..Subject::ANONYMOUS };
/// let line = RateLimitLine::new(&subject, StatusCode::TOO_MANY_REQUESTS);
/// assert_eq!(line.to_string(), "RATE_LIMIT client_ip=- host=a.example path=/a%20b status=429");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RateLimitLine<'a> {
    /// The caller's address.
    pub client_ip: Option<IpAddr>,
    /// The host, as it was limited.
    pub host: Option<&'a str>,
    /// The path, as it was limited; without the query, which may hold secrets.
    pub path: &'a str,
    /// The status of the response.
    pub status: StatusCode,
}

impl<'a> RateLimitLine<'a> {
    /// The line for a request that was answered with `status`.
    pub fn new(subject: &Subject<'a>, status: StatusCode) -> Self {
        Self {
            client_ip: subject.client_ip,
            host: subject.host,
            path: subject.path,
            status,
        }
    }
}

impl RateLimitLine<'_> {
    /// Appends the line, without a line break, to a buffer. The same text as `Display`, but without
    /// `fmt`: for programs that write a log of their own at every request.
    pub fn push(&self, line: &mut Vec<u8>) {
        line.extend_from_slice(b"RATE_LIMIT client_ip=");
        match self.client_ip {
            Some(IpAddr::V4(address)) => write_v4(address, |byte| line.push(byte)),
            Some(address) => line.extend_from_slice(address.to_string().as_bytes()),
            None => line.push(b'-'),
        }
        line.extend_from_slice(b" host=");
        push_field(line, self.host.unwrap_or_default());
        line.extend_from_slice(b" path=");
        push_field(line, self.path);
        line.extend_from_slice(b" status=");
        line.extend_from_slice(self.status.as_str().as_bytes());
    }
}

impl fmt::Display for RateLimitLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = Vec::with_capacity(128);
        self.push(&mut line);
        f.write_str(str::from_utf8(&line).map_err(|_| fmt::Error)?)
    }
}

/// Writes the value of a field. Spaces, quotes, backslashes and everything that is not printable
/// ASCII are percent-encoded; a percent sign is not, because paths come encoded already.
fn push_field(line: &mut Vec<u8>, value: &str) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    if value.is_empty() {
        return line.push(b'-');
    }
    let is_plain = |byte: u8| matches!(byte, b'!'..=b'~') && !matches!(byte, b'"' | b'\'' | b'\\');
    // Nearly every value is plain, and copied in one piece.
    if value.bytes().all(is_plain) {
        return line.extend_from_slice(value.as_bytes());
    }
    for byte in value.bytes() {
        if is_plain(byte) {
            line.push(byte);
        } else {
            line.extend_from_slice(&[
                b'%',
                DIGITS[usize::from(byte >> 4)],
                DIGITS[usize::from(byte & 15)],
            ]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(host: Option<&str>, path: &str) -> String {
        let client_ip = Some("203.0.113.50".parse().unwrap());
        RateLimitLine {
            client_ip,
            host,
            path,
            status: StatusCode::TOO_MANY_REQUESTS,
        }
        .to_string()
    }

    #[test]
    fn the_line_is_the_documented_one() {
        assert_eq!(
            line(Some("Y.Z"), "/W"),
            "RATE_LIMIT client_ip=203.0.113.50 host=Y.Z path=/W status=429"
        );
        assert_eq!(
            line(None, "/W"),
            "RATE_LIMIT client_ip=203.0.113.50 host=- path=/W status=429"
        );
        let nobody = RateLimitLine::new(&Subject::ANONYMOUS, StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(
            nobody.to_string(),
            "RATE_LIMIT client_ip=- host=- path=/ status=429"
        );
    }

    #[test]
    fn no_byte_in_host_or_path_breaks_the_line_or_its_fields() {
        let letters = ('\0'..='\u{ff}').chain(['\u{2028}', '\u{1f600}', '\u{202e}']);
        for letter in letters {
            let value = format!("/a{letter}b");
            let line = line(Some(&value), &value);
            assert!(
                line.bytes().all(|byte| matches!(byte, b' '..=b'~')),
                "{line:?}"
            );
            let fields: Vec<&str> = line.split(' ').collect();
            let [mark, client_ip, host, path, status] = fields[..] else {
                panic!("{line:?}")
            };
            assert_eq!(
                (mark, client_ip, status),
                ("RATE_LIMIT", "client_ip=203.0.113.50", "status=429")
            );
            assert_eq!(host.strip_prefix("host="), path.strip_prefix("path="));
            assert!(
                host.starts_with("host=/a") && host.ends_with('b'),
                "{line:?}"
            );
            assert!(!line.contains(['"', '\'', '\\']), "{line:?}");
        }
    }
}
