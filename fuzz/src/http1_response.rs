//! Responses of servers over HTTP/1: heads and bodies.
//!
//! No line that belongs to the server's connection is passed on, and the body has one end.

use bytes::{BufMut, BytesMut};
use sluicegate_net::fuzz_internals::{BodyPart, ParsedResponse, take_response};
use sluicegate_net::hop_by_hop::is_hop_by_hop;

use crate::input::{InputBytes, fits_one_line};

/// The first byte is 1 for a response to HEAD, the second is the length of the pieces in which the
/// rest arrives.
pub fn run(data: &[u8]) {
    let mut input = InputBytes::new(data);
    let is_head = input.one_in(2);
    let piece = input.piece_length();
    let bytes = input.rest();
    let whole = ReadResponse::read(bytes, is_head, bytes.len());
    let pieces = ReadResponse::read(bytes, is_head, piece);
    match (&whole, &pieces) {
        (Ok(whole), Ok(pieces)) => assert_eq!(whole, pieces),
        (Err(_), Err(_)) => {}
        _ => panic!("{whole:?} in pieces is {pieces:?}"),
    }
    if let Ok(Some(response)) = whole {
        response.check(is_head);
    }
}

#[derive(Debug, PartialEq)]
struct ReadResponse {
    status: u16,
    lines: Vec<(Vec<u8>, Vec<u8>)>,
    body: Vec<u8>,
    is_complete: bool,
    ends_with_connection: bool,
    stays_open: bool,
    /// Bytes behind the response.
    left: usize,
}

impl ReadResponse {
    fn read(bytes: &[u8], is_head: bool, piece: usize) -> Result<Option<Self>, &'static str> {
        let mut input = BytesMut::new();
        let mut pieces = bytes.chunks(piece.max(1));
        let head = loop {
            if let Some(head) = take_response(&mut input, is_head)? {
                break head;
            }
            let Some(piece) = pieces.next() else {
                return Ok(None);
            };
            input.put_slice(piece);
        };
        let ParsedResponse {
            status,
            lines,
            body: mut decoder,
            ends_with_connection,
            stays_open,
        } = head;
        let mut response = Self {
            status: status.as_u16(),
            lines,
            body: Vec::new(),
            is_complete: false,
            ends_with_connection,
            stays_open,
            left: 0,
        };
        loop {
            match decoder.decode(&mut input)? {
                BodyPart::Data(data) => response.body.extend_from_slice(&data),
                BodyPart::Trailers(_) => {}
                BodyPart::End => {
                    response.is_complete = true;
                    let behind: usize = pieces.map(<[u8]>::len).sum();
                    response.left = input.len() + behind;
                    return Ok(Some(response));
                }
                BodyPart::Incomplete => match pieces.next() {
                    Some(piece) => input.put_slice(piece),
                    None => return Ok(Some(response)),
                },
            }
        }
    }

    fn check(&self, is_head: bool) {
        assert!((100..=999).contains(&self.status));
        let is_switch = self.status == 101;
        let has_body = !matches!(self.status, 100..=199 | 204 | 304);
        if is_head || !has_body {
            assert!(self.body.is_empty() && self.is_complete);
        }
        assert!(!(self.ends_with_connection && self.stays_open));
        assert!(!(is_switch && self.stays_open));
        let mut lengths = 0;
        for (name, value) in &self.lines {
            let name = String::from_utf8_lossy(name).to_ascii_lowercase();
            assert!(
                !is_hop_by_hop(&name) || name == "upgrade" && is_switch,
                "{name}"
            );
            assert!(fits_one_line(value));
            lengths += u32::from(name == "content-length");
        }
        // A length is passed on once, and only where no body follows.
        assert!(lengths == 0 || lengths == 1 && (is_head || self.status == 304));
        // What is passed on can be read again, and says the same.
        let mut text = format!("HTTP/1.1 {} x\r\n", self.status).into_bytes();
        for (name, value) in &self.lines {
            text.extend_from_slice(name);
            text.extend_from_slice(b": ");
            text.extend_from_slice(value);
            text.extend_from_slice(b"\r\n");
        }
        let length = format!("content-length: {}\r\n\r\n", self.body.len());
        text.extend_from_slice(length.as_bytes());
        text.extend_from_slice(&self.body);
        if lengths == 0 && !is_switch {
            let again = Self::read(&text, is_head, text.len());
            let Ok(Some(again)) = again else {
                panic!(
                    "{:?} is not read again: {again:?}",
                    text.escape_ascii().to_string()
                );
            };
            assert_eq!(again.status, self.status);
            assert_eq!(again.body, self.body);
            let others = again.lines.iter();
            let others: Vec<_> = others
                .filter(|(name, _)| !name.eq_ignore_ascii_case(b"content-length"))
                .collect();
            let lines: Vec<_> = self.lines.iter().collect();
            assert_eq!(others, lines);
        }
    }
}
