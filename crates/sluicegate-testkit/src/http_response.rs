//! Responses as text, with what tests look for in it.

use std::fmt;

/// Everything that came back for a request, or for several on one connection.
///
/// A response in HTTP/2 is written as the same text that HTTP/1.1 would have: `HTTP/2 200`, lines of
/// headers, an empty line, the body. So the methods are the same for both.
#[derive(Clone, Default)]
pub struct HttpResponse {
    /// The whole text; bytes that are not UTF-8 are replaced.
    pub text: String,
    /// Where the body of the first final response begins and what it holds.
    body: Body,
    /// Trailers of an HTTP/2 response, which have no place in the text.
    trailers: Vec<(String, String)>,
}

/// The body of the first final response.
#[derive(Clone, Default)]
struct Body {
    bytes: Vec<u8>,
    text: String,
    trailers: Vec<(String, String)>,
}

impl HttpResponse {
    /// Understands what came on a connection in HTTP/1.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let mut response = Self {
            text,
            ..Self::default()
        };
        let start = final_head(&bytes).end;
        let raw = bytes.get(start..).unwrap_or_default();
        let is_chunked = response
            .header("transfer-encoding")
            .is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"));
        let (bytes, trailers) = if is_chunked {
            decode_chunks(raw)
        } else {
            (raw.to_vec(), Vec::new())
        };
        response.body = Body {
            text: String::from_utf8_lossy(&bytes).into_owned(),
            bytes,
            trailers,
        };
        response
    }

    /// The same for a response in HTTP/2 whose head was written as text.
    pub(super) fn from_http2(head: &str, body: &[u8], trailers: Vec<(String, String)>) -> Self {
        let mut response = Self::from_bytes([head.as_bytes(), b"\r\n", body].concat());
        response.trailers = trailers;
        response
    }

    /// The statuses of all final responses. No body in these tests holds the beginning of a response.
    pub fn statuses(&self) -> Vec<u16> {
        let digits = self.text.match_indices("HTTP/").filter_map(|(at, _)| {
            let rest = &self.text[at..];
            rest[..rest.find("\r\n").unwrap_or(rest.len())]
                .split(' ')
                .nth(1)
        });
        digits
            .filter_map(|digits| digits.parse().ok())
            .filter(|status| (*status == 101 || *status >= 200) && *status < 1000)
            .collect()
    }

    /// The status of the only response; 0 if there is none.
    ///
    /// # Panics
    /// If there are several.
    #[track_caller]
    pub fn status(&self) -> u16 {
        let statuses = self.statuses();
        assert!(statuses.len() < 2, "{self}");
        statuses.first().copied().unwrap_or(0)
    }

    /// The value of a header of the first final response.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.header_values(name).first().copied()
    }

    /// All values of a header of the first final response, line by line.
    pub fn header_values(&self, name: &str) -> Vec<&str> {
        let lines = self.head().split("\r\n").skip(1);
        lines
            .filter_map(|line| line.split_once(':'))
            .filter(|(own, _)| own.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
            .collect()
    }

    /// The status line and headers of the first final response, without the empty line.
    pub fn head(&self) -> &str {
        let head = final_head(self.text.as_bytes());
        self.text
            .get(head)
            .unwrap_or_default()
            .trim_end_matches("\r\n")
    }

    /// The body of the first final response, without the sizes of chunks.
    pub fn body(&self) -> &str {
        &self.body.text
    }

    /// The same as bytes.
    pub fn body_bytes(&self) -> &[u8] {
        &self.body.bytes
    }

    /// Everything behind the first final head as it came: chunks, and further responses.
    pub fn raw_body(&self) -> &str {
        let start = final_head(self.text.as_bytes()).end;
        self.text.get(start..).unwrap_or_default()
    }

    /// The value of a trailer.
    pub fn trailer(&self, name: &str) -> Option<&str> {
        let mut trailers = self.trailers.iter().chain(&self.body.trailers);
        trailers
            .find(|(own, _)| own.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// True if the whole text contains `part`.
    pub fn contains(&self, part: &str) -> bool {
        self.text.contains(part)
    }

    /// True if not a byte came.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }
}

impl fmt::Display for HttpResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for HttpResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

/// The place of the first head that is not interim (1xx), with its empty line; empty at the end of
/// the text if no head is complete.
fn final_head(text: &[u8]) -> std::ops::Range<usize> {
    let mut start = 0;
    while let Some(length) = find(&text[start..], b"\r\n\r\n") {
        let head = start..start + length + 4;
        let status = text[start..].split(|byte| *byte == b' ').nth(1);
        let is_interim =
            status.is_some_and(|digits| digits.first() == Some(&b'1')) && status != Some(b"101");
        if !is_interim {
            return head;
        }
        start = head.end;
    }
    text.len()..text.len()
}

/// The content of a chunked body and its trailers, as far as they came.
fn decode_chunks(raw: &[u8]) -> (Vec<u8>, Vec<(String, String)>) {
    let (mut body, mut rest) = (Vec::new(), raw);
    while let Some(end) = find(rest, b"\r\n") {
        let line = String::from_utf8_lossy(&rest[..end]);
        let size = usize::from_str_radix(line.split(';').next().unwrap_or_default().trim(), 16);
        rest = &rest[end + 2..];
        match size {
            Ok(0) => {
                let text = String::from_utf8_lossy(rest);
                let lines = text.split("\r\n").take_while(|line| !line.is_empty());
                return (body, lines.filter_map(split_line).collect());
            }
            Ok(size) => {
                body.extend_from_slice(&rest[..size.min(rest.len())]);
                rest = rest.get(size + 2..).unwrap_or_default();
            }
            Err(_) => break,
        }
    }
    (body, Vec::new())
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}

/// Name and value of a line `Name: value`, the name in lower case.
pub(crate) fn split_line(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once(':')?;
    Some((name.to_ascii_lowercase(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interim_responses_are_skipped_and_chunks_decoded() {
        let text =
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\
            A: b\r\na: c\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nX-Sum: 5\r\n\r\n";
        let response = HttpResponse::from_bytes(text.to_vec());
        assert_eq!((response.status(), response.body()), (200, "abcde"));
        assert_eq!(response.header_values("A"), ["b", "c"]);
        assert_eq!(response.trailer("x-sum"), Some("5"));
        assert!(response.head().starts_with("HTTP/1.1 200 OK\r\n"));
        assert!(response.raw_body().starts_with("3\r\nabc"));
    }

    #[test]
    fn a_response_that_did_not_come_has_status_zero() {
        for text in ["", "HTTP/1.1", "HTTP/1.1 100 Continue\r\n\r\n"] {
            let response = HttpResponse::from_bytes(text.into());
            assert_eq!((response.status(), response.body()), (0, ""), "{text:?}");
            assert_eq!(response.header("x"), None);
        }
    }

    #[test]
    fn bodies_that_are_cut_off_keep_what_came() {
        let cut = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel".to_vec();
        assert_eq!(HttpResponse::from_bytes(cut).body(), "hel");
    }
}
