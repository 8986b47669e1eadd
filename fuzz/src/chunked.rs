//! Bodies in chunks, against a decoder that is written again and reads the whole text at once.

use bytes::{BufMut, BytesMut};
use sluicegate_net::BodyEnd;
use sluicegate_net::fuzz_internals::{BodyDecoder, BodyPart};

use crate::input::InputBytes;

/// The first byte is the length of the pieces in which the rest arrives.
pub fn run(data: &[u8]) {
    let mut input = InputBytes::new(data);
    let piece = input.piece_length();
    let bytes = input.rest();
    let whole = decode(bytes, bytes.len());
    assert_eq!(whole, decode(bytes, piece));
    let expected = reference(bytes);
    if whole.is_complete() || expected.is_complete() {
        assert_eq!(whole, expected);
    }
    // The body in chunks of our own is the same body.
    if let ChunkedBody::Complete { body, .. } = &whole
        && !body.is_empty()
    {
        let length = body.len();
        let mut text = format!("{length:X};a=\"b\"\r\n").into_bytes();
        text.extend_from_slice(body);
        text.extend_from_slice(b"\r\n0\r\n\r\n");
        let again = ChunkedBody::Complete {
            body: body.clone(),
            trailers: Vec::new(),
            left: 0,
        };
        assert_eq!(decode(&text, 7), again);
    }
}

#[derive(Debug, PartialEq)]
enum ChunkedBody {
    Complete {
        body: Vec<u8>,
        trailers: TrailerLines,
        /// Bytes behind the body.
        left: usize,
    },
    Incomplete,
    Malformed,
}

impl ChunkedBody {
    fn is_complete(&self) -> bool {
        matches!(self, Self::Complete { .. })
    }
}

/// The names in lower case, and the values.
type TrailerLines = Vec<(String, Vec<u8>)>;

fn decode(bytes: &[u8], piece: usize) -> ChunkedBody {
    let mut input = BytesMut::new();
    let mut decoder = BodyDecoder::new(BodyEnd::Chunked);
    let mut body = Vec::new();
    let mut trailers = Vec::new();
    let mut pieces = bytes.chunks(piece.max(1));
    loop {
        match decoder.decode(&mut input) {
            Err(_) => return ChunkedBody::Malformed,
            Ok(BodyPart::Data(data)) => {
                body.extend_from_slice(&data);
            }
            Ok(BodyPart::Trailers(lines)) => {
                for (name, value) in &lines {
                    let value = value.as_bytes().to_vec();
                    trailers.push((name.to_string(), value));
                }
            }
            Ok(BodyPart::End) => {
                assert!(decoder.is_over());
                let behind: usize = pieces.map(<[u8]>::len).sum();
                let left = input.len() + behind;
                return ChunkedBody::Complete {
                    body,
                    trailers,
                    left,
                };
            }
            Ok(BodyPart::Incomplete) => match pieces.next() {
                Some(piece) => input.put_slice(piece),
                None => return ChunkedBody::Incomplete,
            },
        }
    }
}

/// RFC 9112, section 7.1, without leniency: the grammar, one line after the other.
fn reference(bytes: &[u8]) -> ChunkedBody {
    let (mut rest, mut body) = (bytes, Vec::new());
    loop {
        let Some((line, after)) = take_line(rest) else {
            return ChunkedBody::Incomplete;
        };
        let line = line.filter(|line| line.len() < 1_023);
        let Some(size) = line.and_then(chunk_size) else {
            return ChunkedBody::Malformed;
        };
        rest = after;
        if size == 0 {
            return reference_trailers(rest, body);
        }
        let Ok(size) = usize::try_from(size) else {
            return ChunkedBody::Incomplete;
        };
        let Some((data, after)) = rest.split_at_checked(size) else {
            return ChunkedBody::Incomplete;
        };
        body.extend_from_slice(data);
        match after.split_at_checked(2) {
            Some((b"\r\n", after)) => rest = after,
            Some(_) => return ChunkedBody::Malformed,
            None => return ChunkedBody::Incomplete,
        }
    }
}

/// The bytes before the next line end, if that is CR LF, and those behind it.
fn take_line(bytes: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let line = bytes[..end].strip_suffix(b"\r");
    let rest = &bytes[end + 1..];
    Some((line, rest))
}

fn chunk_size(line: &[u8]) -> Option<u64> {
    let text = String::from_utf8_lossy(line);
    let mut parts = text.splitn(2, ';');
    let size = parts.next().unwrap_or_default();
    let extension = parts.next().unwrap_or_default();
    let size = size.trim_end_matches([' ', '\t']);
    let is_other = |letter: char| !letter.is_ascii_hexdigit();
    let is_control = |letter: char| letter != '\t' && letter < ' ';
    let has_digits = (1..=16).contains(&size.len());
    if !has_digits || size.contains(is_other) {
        return None;
    }
    if extension.contains(is_control) {
        return None;
    }
    u64::from_str_radix(size, 16).ok()
}

fn reference_trailers(mut rest: &[u8], body: Vec<u8>) -> ChunkedBody {
    let mut trailers = TrailerLines::new();
    loop {
        let Some((line, after)) = take_line(rest) else {
            return ChunkedBody::Incomplete;
        };
        rest = after;
        let Some(line) = line else {
            return ChunkedBody::Malformed;
        };
        if line.is_empty() {
            break;
        }
        let Some(trailer) = trailer(line) else {
            return ChunkedBody::Malformed;
        };
        trailers.push(trailer);
        if trailers.len() > 64 {
            return ChunkedBody::Malformed;
        }
    }
    // Trailers of one name stand together, as in a map.
    let mut grouped = TrailerLines::new();
    for (name, _) in &trailers {
        if !grouped.iter().any(|(known, _)| known == name) {
            let same = trailers.iter().filter(|(other, _)| other == name);
            grouped.extend(same.cloned());
        }
    }
    ChunkedBody::Complete {
        body,
        trailers: grouped,
        left: rest.len(),
    }
}

fn trailer(line: &[u8]) -> Option<(String, Vec<u8>)> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let (name, value) = line.split_at(colon);
    let mut value = &value[1..];
    if name.is_empty() || !name.iter().all(is_token) {
        return None;
    }
    if !value.iter().all(is_text) {
        return None;
    }
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    let name = String::from_utf8_lossy(name);
    Some((name.to_ascii_lowercase(), value.to_vec()))
}

fn is_token(byte: &u8) -> bool {
    let marks = b"!#$%&'*+-.^_`|~";
    byte.is_ascii_alphanumeric() || marks.contains(byte)
}

fn is_text(byte: &u8) -> bool {
    matches!(byte, b'\t' | b' '..=b'~' | 0x80..)
}
