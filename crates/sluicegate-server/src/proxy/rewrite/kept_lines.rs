//! The lines that a server of HTTP/1 gets, kept while a client sends the same lines again and again.
//!
//! They are a function of the client's lines and of the [`Hop`], and only the request's id differs each
//! time. So they are written once, and later requests copy them with an id of their own.
//!
//! **Invariant:** what is copied is what [`write_lines`] writes, to the byte.

use std::net::IpAddr;

use http::header::{HeaderName, HeaderValue};
use http::request::Parts;
use sluicegate_net::{HeaderText, RequestParts};

use super::{HeaderSink, Hop, X_REQUEST_ID, write_lines};

/// Written lines, and the facts that they were written from.
#[derive(Debug)]
pub struct KeptLines {
    /// The lines without the request's id.
    text: Vec<u8>,
    /// The position of the id.
    id_at: usize,
    client_ip: Option<IpAddr>,
    peer: IpAddr,
    peer_is_trusted: bool,
    scheme: &'static str,
    has_body: bool,
    key_headers: Box<[HeaderName]>,
}

impl KeptLines {
    /// The lines of a request, if its client has sent the same before; made if they are not here yet.
    pub fn of<'p>(parts: &'p mut RequestParts, hop: &Hop<'_>) -> (&'p Parts, Option<&'p Self>) {
        // An upgrade happens once on a connection.
        if hop.upgrade.is_some() {
            return (parts, None);
        }
        parts.derive(|kept: &Self| kept.is_of(hop), |parts| Self::new(parts, hop))
    }

    pub(super) fn new(parts: &Parts, hop: &Hop<'_>) -> Self {
        let mut text = Vec::new();
        let mut marked = MarkedText {
            lines: HeaderText::behind(&mut text),
            id_at: 0,
        };
        write_lines(
            parts,
            &Hop {
                request_id: "",
                ..*hop
            },
            &mut marked,
        );
        let id_at = marked.id_at;
        text.shrink_to_fit();
        Self {
            text,
            id_at,
            client_ip: hop.client_ip,
            peer: hop.peer,
            peer_is_trusted: hop.peer_is_trusted,
            scheme: hop.scheme,
            has_body: hop.has_body,
            key_headers: hop.key_headers.into(),
        }
    }

    /// True when the same lines would be written for this hop.
    pub(super) fn is_of(&self, hop: &Hop<'_>) -> bool {
        let Hop {
            client_ip,
            peer,
            peer_is_trusted,
            scheme,
            request_id: _,
            upgrade,
            has_body,
            key_headers,
        } = *hop;
        upgrade.is_none()
            && (client_ip, peer) == (self.client_ip, self.peer)
            && (peer_is_trusted, has_body) == (self.peer_is_trusted, self.has_body)
            && scheme == self.scheme
            && key_headers == &*self.key_headers
    }

    /// Writes the lines of a request with this id.
    pub fn write(&self, request_id: &str, lines: &mut HeaderText<'_>) {
        let (before, after) = self.text.split_at(self.id_at);
        lines.written(before);
        lines.written(request_id.as_bytes());
        lines.written(after);
    }
}

/// Text that remembers where the request's id belongs.
struct MarkedText<'a> {
    lines: HeaderText<'a>,
    id_at: usize,
}

impl HeaderSink for MarkedText<'_> {
    fn sent(&mut self, name: &HeaderName, value: &HeaderValue) {
        self.lines.sent(name, value);
    }

    fn ours(&mut self, name: &HeaderName, parts: &[&[u8]]) {
        self.lines.ours(name, parts);
        if *name == X_REQUEST_ID {
            self.id_at = self.lines.length() - "\r\n".len();
        }
    }
}
