//! Heads of responses, as HTTP/1 sends them (RFC 9112, sections 4, 6 and 9).

use bytes::Bytes;
use http::StatusCode;
use http_body::Body;
use http_body_util::Full;

use crate::client_wire::ReplyOptions;
use crate::date;
use crate::hop_by_hop;
use crate::response::{HttpResponse, ResponseLines};
use crate::wire::{HeaderText, Outgoing, OutgoingFraming};

/// Starts to send a response. Returns true when the connection stays open after it.
pub(super) fn begin<B: Body<Data = Bytes> + Unpin>(
    outgoing: &mut Outgoing<B>,
    response: HttpResponse<B>,
    reply: ReplyOptions,
    may_stay_open: bool,
) -> bool {
    let HttpResponse {
        status,
        lines,
        body,
        closes,
    } = response;
    let mut head = ResponseHead::new(status, body.size_hint().exact(), reply);
    head.stays_open &= reply.keep_alive && may_stay_open && !closes;
    let body = (head.framing != OutgoingFraming::Length(0)).then_some(body);
    outgoing.begin(|text| head.write(text, status, &lines), body, head.framing);
    if head.framing == OutgoingFraming::Chunked && reply.takes_trailers {
        let announced = lines
            .server_lines()
            .filter(|(name, _)| name.eq_ignore_ascii_case(b"trailer"));
        outgoing.announce(hop_by_hop::trailers(announced.map(|(_, names)| names)));
    }
    head.stays_open
}

/// Starts the response to bytes that are not a request; it is the last one of its connection.
pub(super) fn refuse(
    outgoing: &mut Outgoing<Full<Bytes>>,
    status: StatusCode,
    words: &'static str,
) {
    let HttpResponse { lines, body, .. } = HttpResponse::plain_text(status, words);
    let length = body.len() as u64;
    let framing = OutgoingFraming::Length(length);
    let head = ResponseHead {
        framing,
        content_length: Some(length),
        is_http11: true,
        stays_open: false,
        is_switch: false,
    };
    outgoing.begin(
        |text| head.write(text, status, &lines),
        Some(Full::new(body)),
        framing,
    );
}

/// The part of a head that belongs to the connection and not to the handler.
struct ResponseHead {
    framing: OutgoingFraming,
    /// Value of `Content-Length`; `None` if a server's line says it, or nobody can.
    content_length: Option<u64>,
    is_http11: bool,
    stays_open: bool,
    /// The status is 101.
    is_switch: bool,
}

impl ResponseHead {
    /// Chooses the framing of a body that has this many bytes, if that is known.
    fn new(status: StatusCode, bytes: Option<u64>, reply: ReplyOptions) -> Self {
        let is_switch = status == StatusCode::SWITCHING_PROTOCOLS;
        let (framing, content_length) =
            if status.is_informational() || status == StatusCode::NO_CONTENT {
                (OutgoingFraming::Length(0), None)
            } else if reply.is_head_method || status == StatusCode::NOT_MODIFIED {
                // The length of a body that is not sent. If the response is a server's, its own
                // Content-Length is among its lines and the body is empty.
                let length = bytes.filter(|length| *length > 0);
                (OutgoingFraming::Length(0), length)
            } else if let Some(length) = bytes {
                (OutgoingFraming::Length(length), Some(length))
            } else if reply.is_http11 {
                (OutgoingFraming::Chunked, None)
            } else {
                (OutgoingFraming::WithConnection, None)
            };
        let stays_open = !is_switch && framing != OutgoingFraming::WithConnection;
        Self {
            framing,
            content_length,
            is_http11: reply.is_http11,
            stays_open,
            is_switch,
        }
    }

    /// Writes the whole head but for the empty line at its end.
    fn write(&self, text: &mut Vec<u8>, status: StatusCode, lines: &ResponseLines) {
        text.extend_from_slice(if self.is_http11 {
            b"HTTP/1.1 "
        } else {
            b"HTTP/1.0 "
        });
        text.extend_from_slice(status.as_str().as_bytes());
        text.push(b' ');
        text.extend_from_slice(status.canonical_reason().unwrap_or_default().as_bytes());
        text.extend_from_slice(b"\r\n");
        lines.write(text);
        let mut text = HeaderText(text);
        if let Some(length) = self.content_length {
            text.line("content-length", |text| {
                text.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
            });
        }
        if self.framing == OutgoingFraming::Chunked {
            text.line("transfer-encoding", |text| {
                text.extend_from_slice(b"chunked")
            });
        }
        // HTTP/1.1 keeps connections by default, HTTP/1.0 closes them; the other way is said.
        let connection: Option<&[u8]> = match (self.is_switch, self.stays_open, self.is_http11) {
            (true, ..) => Some(b"upgrade"),
            (false, false, _) => Some(b"close"),
            (false, true, false) => Some(b"keep-alive"),
            (false, true, true) => None,
        };
        if let Some(connection) = connection {
            text.line("connection", |text| text.extend_from_slice(connection));
        }
        if !lines.has_server_line("date") {
            text.line("date", |text| text.extend_from_slice(&date::now()));
        }
    }
}
