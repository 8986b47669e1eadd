//! The head of a server's answer (RFC 9112, sections 4 to 6).

use std::mem::MaybeUninit;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use http::header::{CONNECTION, CONTENT_LENGTH, HeaderName, HeaderValue, TRANSFER_ENCODING, UPGRADE};
use http::{Response, StatusCode, Version};
use smallvec::SmallVec;

use crate::proxy::rewrite;
use crate::proxy::wire::{Chunks, Framing};

/// Room for a head and a short body.
pub(super) const ROOM: usize = 8 * 1024;
/// More bytes, or more lines, are no head.
const BYTES_MAX: usize = 256 * 1024;
const LINES_MAX: usize = 256;

/// A head, without what belongs to the connection.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) response: Response<()>,
    pub(super) framing: Framing,
    /// Whether the server takes another request after this.
    pub(super) stays_open: bool,
}

impl Head {
    pub(super) fn is_switch(&self) -> bool {
        self.response.status() == StatusCode::SWITCHING_PROTOCOLS
    }
}

/// Takes a head from what has come, if it is complete.
pub(super) fn take(input: &mut BytesMut, is_head: bool) -> Result<Option<Head>, &'static str> {
    if input.is_empty() {
        return Ok(None);
    }
    read(input)?.map(|text| text.understood(is_head)).transpose()
}

/// A head as text.
struct Text {
    status: StatusCode,
    is_http11: bool,
    bytes: Bytes,
    /// Where in the bytes names and values are.
    lines: SmallVec<[(Range<usize>, Range<usize>); 24]>,
}

fn read(input: &mut BytesMut) -> Result<Option<Text>, &'static str> {
    let start = input.as_ptr() as usize;
    let place = |part: &[u8]| {
        let begin = part.as_ptr() as usize - start;
        begin..begin + part.len()
    };
    let mut uninit = [const { MaybeUninit::uninit() }; LINES_MAX];
    let mut parsed = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let length = match config.parse_response_with_uninit_headers(&mut parsed, input, &mut uninit) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if input.len() > BYTES_MAX => return Err("its head is too long"),
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err("it has too many headers"),
        Err(_) => return Err("its head cannot be read"),
    };
    let status = parsed.code.and_then(|code| StatusCode::from_u16(code).ok()).ok_or("its status is none")?;
    let is_http11 = parsed.version == Some(1);
    let lines = parsed.headers.iter().map(|line| (place(line.name.as_bytes()), place(line.value))).collect();
    Ok(Some(Text { status, is_http11, lines, bytes: input.split_to(length).freeze() }))
}

impl Text {
    fn understood(self, is_head: bool) -> Result<Head, &'static str> {
        let Self { status, is_http11, bytes, lines } = self;
        let mut response = Response::new(());
        *response.status_mut() = status;
        *response.version_mut() = Version::HTTP_11;
        let mut said = Said::default();
        let headers = response.headers_mut();
        headers.reserve(lines.len() + OURS);
        for (name, value) in lines {
            let name = HeaderName::from_bytes(&bytes[name]).map_err(|_| "a header's name")?;
            let value = HeaderValue::from_maybe_shared(bytes.slice(value)).map_err(|_| "a header's value")?;
            match name {
                CONNECTION => said.connection.push(value),
                TRANSFER_ENCODING => said.codings.push(value),
                CONTENT_LENGTH if said.length.is_some() => said.take_length(&value)?,
                CONTENT_LENGTH => {
                    said.take_length(&value)?;
                    headers.append(name, value);
                }
                UPGRADE if status == StatusCode::SWITCHING_PROTOCOLS => {
                    headers.append(name, value);
                    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
                }
                name if rewrite::is_hop_by_hop(name.as_str()) => {}
                name => {
                    headers.append(name, value);
                }
            }
        }
        let framing = said.framing(status, is_head, is_http11)?;
        if matches!(framing, Framing::Chunked(_)) {
            headers.remove(CONTENT_LENGTH);
        }
        let closes = said.connection.iter().any(|line| rewrite::has_option(line, "close"));
        rewrite::drop_named(headers, &said.connection);
        let is_last = closes || status == StatusCode::SWITCHING_PROTOCOLS || said.is_doubtful();
        let stays_open = is_http11 && !is_last && !framing.ends_with_connection();
        Ok(Head { response, framing, stays_open })
    }
}

/// Lines that are added before the client sees the answer.
const OURS: usize = 8;

/// What a head says about the connection and the body.
#[derive(Default)]
struct Said {
    connection: SmallVec<[HeaderValue; 1]>,
    codings: SmallVec<[HeaderValue; 1]>,
    length: Option<u64>,
}

impl Said {
    fn take_length(&mut self, value: &HeaderValue) -> Result<(), &'static str> {
        let digits = value.as_bytes();
        let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        let length = value.to_str().ok().filter(|_| is_number).and_then(|text| text.parse().ok());
        let length = length.ok_or("its Content-Length is no number")?;
        if self.length.is_some_and(|other| other != length) {
            return Err("it has two lengths");
        }
        self.length = Some(length);
        Ok(())
    }

    fn framing(&self, status: StatusCode, is_head: bool, is_http11: bool) -> Result<Framing, &'static str> {
        let has_none =
            is_head || status.is_informational() || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        if has_none {
            return Ok(Framing::EMPTY);
        }
        match (&self.codings[..], self.length) {
            ([], Some(length)) => Ok(Framing::Length(length)),
            ([], None) => Ok(Framing::UntilEnd),
            ([coding], _) if is_http11 && coding.as_bytes().eq_ignore_ascii_case(b"chunked") => {
                Ok(Framing::Chunked(Chunks::new()))
            }
            _ => Err("its Transfer-Encoding is not understood"),
        }
    }

    /// Two servers could take the end of such an answer for different ones.
    fn is_doubtful(&self) -> bool {
        !self.codings.is_empty() && self.length.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Result<Head, &'static str> {
        of(text, false)
    }

    fn of(text: &str, is_head: bool) -> Result<Head, &'static str> {
        take(&mut BytesMut::from(text), is_head).map(|head| head.expect("a whole head"))
    }

    fn names(head: &Head) -> Vec<&str> {
        let mut names: Vec<_> = head.response.headers().keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn the_body_ends_where_the_head_says() {
        let length = head("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n").unwrap();
        assert!(matches!(length.framing, Framing::Length(5)) && length.stays_open);
        let same_twice = head("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n").unwrap();
        assert_eq!(same_twice.response.headers().get_all(CONTENT_LENGTH).iter().count(), 1);
        let chunked = head("HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n").unwrap();
        assert!(matches!(chunked.framing, Framing::Chunked(_)) && chunked.stays_open);
        let until_end = head("HTTP/1.1 200 OK\r\n\r\n").unwrap();
        assert!(matches!(until_end.framing, Framing::UntilEnd) && !until_end.stays_open);
        for empty in
            ["HTTP/1.1 204 None\r\ncontent-length: 5\r\n\r\n", "HTTP/1.1 304 Same\r\n\r\n", "HTTP/1.1 100 Go\r\n\r\n"]
        {
            assert!(head(empty).unwrap().framing.is_over(), "{empty}");
        }
        let of_head = of("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", true).unwrap();
        assert!(of_head.framing.is_over() && names(&of_head) == ["content-length"], "the length that GET would have");
    }

    #[test]
    fn an_answer_that_could_be_read_in_two_ways_is_refused_or_the_last_of_its_connection() {
        for text in [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n",
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
            "HTTP/2 200 OK\r\n\r\n",
            "ICY 200 OK\r\n\r\n",
        ] {
            assert!(head(text).is_err(), "{text:?}");
        }
        let both = head("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
        assert!(matches!(both.framing, Framing::Chunked(_)) && !both.stays_open && names(&both).is_empty());
        for closing in [
            "HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n",
        ] {
            assert!(!head(closing).unwrap().stays_open, "{closing:?}");
        }
    }

    #[test]
    fn what_belongs_to_the_servers_connection_stays_there() {
        let text = "HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Mine, Set-Cookie, Content-Length\r\nX-Mine: 1\r\n\
                    Keep-Alive: timeout=5\r\nUpgrade: h2c\r\nTE: x\r\nProxy-Connection: x\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\n\
                    Content-Length: 0\r\n\r\n";
        let head_of_it = head(text).unwrap();
        assert_eq!(names(&head_of_it), ["content-length", "set-cookie"]);
        assert_eq!(head_of_it.response.headers().get_all("set-cookie").iter().count(), 2);
        let switch = head("HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n").unwrap();
        assert!(switch.is_switch() && names(&switch) == ["connection", "upgrade"]);
    }

    #[test]
    fn a_head_that_has_not_come_is_waited_for_up_to_a_bound() {
        let text = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        for length in 0..text.len() - 5 {
            assert!(matches!(take(&mut BytesMut::from(&text[..length]), false), Ok(None)), "{length}");
        }
        let mut whole = BytesMut::from(text);
        assert!(take(&mut whole, false).unwrap().is_some() && whole == "hello");
        let endless = format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(BYTES_MAX));
        assert_eq!(head(&endless).err(), Some("its head is too long"));
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(LINES_MAX + 1));
        assert_eq!(head(&many).err(), Some("it has too many headers"));
    }
}
