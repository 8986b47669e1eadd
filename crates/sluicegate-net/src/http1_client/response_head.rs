//! The head of a server's response (RFC 9112, sections 4 to 6).
//!
//! The lines that belong to the server's connection are taken out; all others stay the text that
//! they are.

use std::mem::MaybeUninit;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use smallvec::SmallVec;

use super::private::is_response_binding;
use crate::hop_by_hop::{HopByHop, droppable, options};
use crate::response::ResponseLines;
use crate::wire::{ChunkDecoder, Framing, HeaderLine};

/// Bytes of buffer for a head and a short body.
pub(super) const ROOM: usize = 8 * 1024;
/// Longest head, in bytes.
const BYTES_MAX: usize = 256 * 1024;
/// Most header lines.
const LINES_MAX: usize = 256;

/// A head, without the lines that belong to the connection.
#[derive(Debug)]
pub(crate) struct ReceivedHead {
    pub(crate) status: StatusCode,
    pub(crate) lines: ResponseLines,
    pub(crate) framing: Framing,
    /// The server takes another request after this.
    pub(crate) stays_open: bool,
    /// The client is asked to authenticate the connection, or has done so.
    pub(crate) binds_connection: bool,
}

impl ReceivedHead {
    /// Returns true when the server has agreed to another protocol.
    pub(super) fn is_switch(&self) -> bool {
        self.status == StatusCode::SWITCHING_PROTOCOLS
    }
}

/// Takes a head from the bytes that have come, if it is complete. `is_head` is true for a response
/// to HEAD, which has no body whatever its lines say.
pub(crate) fn take(
    input: &mut BytesMut,
    is_head: bool,
) -> Result<Option<ReceivedHead>, &'static str> {
    if input.is_empty() {
        return Ok(None);
    }
    read(input)?
        .map(|text| text.understood(is_head))
        .transpose()
}

/// A head as text, with the positions of its lines.
struct RawHead {
    status: StatusCode,
    is_http11: bool,
    bytes: Bytes,
    lines: Vec<HeaderLine>,
}

/// Parses a head; `None` if it is incomplete.
fn read(input: &mut BytesMut) -> Result<Option<RawHead>, &'static str> {
    let mut uninit = [const { MaybeUninit::uninit() }; LINES_MAX];
    let mut parsed = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let length = match config.parse_response_with_uninit_headers(&mut parsed, input, &mut uninit) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if input.len() > BYTES_MAX => {
            return Err("its head is too long");
        }
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err("it has too many headers"),
        Err(_) => return Err("its head cannot be read"),
    };
    let status = parsed
        .code
        .and_then(|code| StatusCode::from_u16(code).ok())
        .ok_or("its status is none")?;
    let is_http11 = parsed.version == Some(1);
    let lines = parsed
        .headers
        .iter()
        .map(|line| HeaderLine::of(input, line))
        .collect();
    Ok(Some(RawHead {
        status,
        is_http11,
        lines,
        bytes: input.split_to(length).freeze(),
    }))
}

impl RawHead {
    /// Takes out the lines of the connection and finds the end of the body.
    fn understood(self, is_head: bool) -> Result<ReceivedHead, &'static str> {
        let Self {
            status,
            is_http11,
            bytes,
            mut lines,
        } = self;
        let is_switch = status == StatusCode::SWITCHING_PROTOCOLS;
        // The length of a body that is not sent is the client's to know.
        let keeps_length = is_head || status == StatusCode::NOT_MODIFIED;
        let (mut framing_headers, mut wrong) = (FramingHeaders::default(), None);
        let mut binds_connection = false;
        lines.retain(|line| {
            let name = &bytes[line.name.range()];
            binds_connection |= is_response_binding(name, &bytes[line.value.range()]);
            match HopByHop::of(name) {
                None if name.eq_ignore_ascii_case(b"content-length") => {
                    let is_first = framing_headers.length.is_none();
                    let taken = framing_headers.take_length(&bytes[line.value.range()]);
                    wrong = wrong.or(taken.err());
                    is_first && keeps_length
                }
                None => true,
                Some(HopByHop::Upgrade) => is_switch,
                Some(known) => {
                    framing_headers.take(known, *line);
                    false
                }
            }
        });
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        let framing = framing_headers.framing(&bytes, status, is_head, is_http11)?;
        let options = framing_headers
            .connection
            .iter()
            .flat_map(|line| options(&bytes[line.value.range()]));
        let closes = options
            .clone()
            .any(|option| option.eq_ignore_ascii_case(b"close"));
        let unnamed: Vec<_> = options.filter_map(droppable).collect();
        let is_last = closes || is_switch || framing_headers.is_doubtful();
        let stays_open = is_http11 && !is_last && !framing.ends_with_connection();
        let mut lines = ResponseLines::from_text(bytes.clone(), lines);
        if !unnamed.is_empty() {
            lines.retain_server_lines(|name| {
                !unnamed
                    .iter()
                    .any(|other| name.eq_ignore_ascii_case(other.as_str().as_bytes()))
            });
        }
        Ok(ReceivedHead {
            status,
            lines,
            framing,
            stays_open,
            binds_connection,
        })
    }
}

/// Lines about the connection and the body's framing.
#[derive(Default)]
struct FramingHeaders {
    connection: SmallVec<[HeaderLine; 2]>,
    codings: SmallVec<[HeaderLine; 2]>,
    length: Option<u64>,
}

impl FramingHeaders {
    /// Takes a line that belongs to the connection.
    fn take(&mut self, header: HopByHop, line: HeaderLine) {
        match header {
            HopByHop::Connection => self.connection.push(line),
            HopByHop::TransferEncoding => self.codings.push(line),
            HopByHop::Upgrade | HopByHop::Other => {}
        }
    }

    /// Takes a `Content-Length`; the same one may come twice.
    fn take_length(&mut self, digits: &[u8]) -> Result<(), &'static str> {
        let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        let length = str::from_utf8(digits)
            .ok()
            .filter(|_| is_number)
            .and_then(|text| text.parse().ok());
        let length = length.ok_or("its Content-Length is no number")?;
        if self.length.is_some_and(|other| other != length) {
            return Err("it has two lengths");
        }
        self.length = Some(length);
        Ok(())
    }

    /// End of the body. Anything that could be read in two ways is an error.
    fn framing(
        &self,
        bytes: &[u8],
        status: StatusCode,
        is_head: bool,
        is_http11: bool,
    ) -> Result<Framing, &'static str> {
        let has_none = is_head
            || status.is_informational()
            || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        if has_none {
            return Ok(Framing::EMPTY);
        }
        match (&self.codings[..], self.length) {
            ([], Some(length)) => Ok(Framing::Length(length)),
            ([], None) => Ok(Framing::UntilClose),
            ([coding], _)
                if is_http11 && bytes[coding.value.range()].eq_ignore_ascii_case(b"chunked") =>
            {
                Ok(Framing::Chunked(ChunkDecoder::new()))
            }
            _ => Err("its Transfer-Encoding is not understood"),
        }
    }

    /// Returns true when length and chunks are both there: the chunks count, but the connection is
    /// not used again.
    fn is_doubtful(&self) -> bool {
        !self.codings.is_empty() && self.length.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Result<ReceivedHead, &'static str> {
        of(text, false)
    }

    fn of(text: &str, is_head: bool) -> Result<ReceivedHead, &'static str> {
        take(&mut BytesMut::from(text), is_head).map(|head| head.expect("a whole head"))
    }

    fn names(head: &ReceivedHead) -> Vec<String> {
        let name =
            |(name, _): (&[u8], &[u8])| String::from_utf8(name.to_ascii_lowercase()).unwrap();
        let mut names: Vec<_> = head.lines.server_lines().map(name).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn the_body_ends_where_the_head_says() {
        let length = head("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n").unwrap();
        assert!(matches!(length.framing, Framing::Length(5)) && length.stays_open);
        let same_twice =
            head("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n").unwrap();
        assert!(matches!(same_twice.framing, Framing::Length(5)));
        let twice_of_head = of(
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
            true,
        )
        .unwrap();
        assert_eq!(names(&twice_of_head), ["content-length"]);
        let chunked = head("HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n").unwrap();
        assert!(matches!(chunked.framing, Framing::Chunked(_)) && chunked.stays_open);
        let until_end = head("HTTP/1.1 200 OK\r\n\r\n").unwrap();
        assert!(matches!(until_end.framing, Framing::UntilClose) && !until_end.stays_open);
        for empty in [
            "HTTP/1.1 204 None\r\ncontent-length: 5\r\n\r\n",
            "HTTP/1.1 304 Same\r\n\r\n",
            "HTTP/1.1 100 Go\r\n\r\n",
        ] {
            assert!(head(empty).unwrap().framing.is_over(), "{empty}");
        }
        let of_head = of("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", true).unwrap();
        assert!(
            of_head.framing.is_over() && names(&of_head) == ["content-length"],
            "the length that GET would have"
        );
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
        let both =
            head("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n")
                .unwrap();
        assert!(
            matches!(both.framing, Framing::Chunked(_))
                && !both.stays_open
                && names(&both).is_empty()
        );
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
        assert_eq!(names(&head_of_it), ["set-cookie", "set-cookie"]);
        assert!(
            head_of_it.framing.is_over(),
            "a length cannot be taken away"
        );
        let switch =
            head("HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n").unwrap();
        assert!(switch.is_switch() && names(&switch) == ["upgrade"]);
    }

    #[test]
    fn a_head_that_has_not_come_is_waited_for_up_to_a_bound() {
        let text = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        for length in 0..text.len() - 5 {
            assert!(
                matches!(take(&mut BytesMut::from(&text[..length]), false), Ok(None)),
                "{length}"
            );
        }
        let mut whole = BytesMut::from(text);
        assert!(take(&mut whole, false).unwrap().is_some() && whole == "hello");
        let endless = format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(BYTES_MAX));
        assert_eq!(head(&endless).err(), Some("its head is too long"));
        let many = format!(
            "HTTP/1.1 200 OK\r\n{}\r\n",
            "a: b\r\n".repeat(LINES_MAX + 1)
        );
        assert_eq!(head(&many).err(), Some("it has too many headers"));
    }
}
