//! Bodies in chunks, against a decoder that is written again and reads the whole text at once.

use bytes::{BufMut, BytesMut};
use sluicegate_net::BodyEnd;
use sluicegate_net::fuzz_internals::{BodyDecoder, BodyPart};

/// The first byte is the length of the pieces in which the rest arrives.
pub fn run(data: &[u8]) {
    let Some((piece, bytes)) = data.split_first() else {
        return;
    };
    let whole = decode(bytes, bytes.len());
    assert_eq!(whole, decode(bytes, 1 + usize::from(*piece % 32)));
    let expected = reference(bytes);
    match (&whole, &expected) {
        (ChunkedBody::Complete { .. }, _) | (_, ChunkedBody::Complete { .. }) => {
            assert_eq!(whole, expected);
        }
        _ => {}
    }
    // The body in chunks of our own is the same body.
    if let ChunkedBody::Complete { body, .. } = &whole
        && !body.is_empty()
    {
        let text = [
            format!("{:X};a=\"b\"\r\n", body.len()).as_bytes(),
            body,
            b"\r\n0\r\n\r\n",
        ]
        .concat();
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
        /// Names in lower case, and values.
        trailers: Vec<(String, Vec<u8>)>,
        /// Bytes behind the body.
        left: usize,
    },
    Incomplete,
    Malformed,
}

fn decode(bytes: &[u8], piece: usize) -> ChunkedBody {
    let (mut input, mut decoder) = (BytesMut::new(), BodyDecoder::new(BodyEnd::Chunked));
    let (mut body, mut trailers) = (Vec::new(), Vec::new());
    let mut pieces = bytes.chunks(piece.max(1));
    loop {
        match decoder.decode(&mut input) {
            Err(_) => return ChunkedBody::Malformed,
            Ok(BodyPart::Data(data)) => {
                body.extend_from_slice(&data);
            }
            Ok(BodyPart::Trailers(lines)) => {
                let lines = lines.iter();
                trailers = lines
                    .map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()))
                    .collect();
            }
            Ok(BodyPart::End) => {
                assert!(decoder.is_over());
                let left = input.len() + pieces.map(<[u8]>::len).sum::<usize>();
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
        let Some(size) = line.filter(|line| line.len() < 1_023).and_then(chunk_size) else {
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
    Some((bytes[..end].strip_suffix(b"\r"), &bytes[end + 1..]))
}

fn chunk_size(line: &[u8]) -> Option<u64> {
    let text = String::from_utf8_lossy(line);
    let (size, extension) = text.split_once(';').unwrap_or((&text, ""));
    let size = size.trim_end_matches([' ', '\t']);
    let is_number = !size.is_empty() && size.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_plain = |letter: char| letter == '\t' || letter >= ' ';
    if !is_number || size.len() > 16 || !extension.chars().all(is_plain) {
        return None;
    }
    u64::from_str_radix(size, 16).ok()
}

fn reference_trailers(mut rest: &[u8], body: Vec<u8>) -> ChunkedBody {
    let mut trailers: Vec<(String, Vec<u8>)> = Vec::new();
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
        let Some(trailer) = trailer(line).filter(|_| trailers.len() < 64) else {
            return ChunkedBody::Malformed;
        };
        trailers.push(trailer);
    }
    // Trailers of one name stand together, as in a map.
    let mut grouped: Vec<(String, Vec<u8>)> = Vec::new();
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
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    let is_text = |byte: &u8| *byte == b'\t' || *byte >= b' ' && *byte != 0x7f;
    if name.is_empty() || !name.iter().all(is_token) || !value.iter().all(is_text) {
        return None;
    }
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = value
        .iter()
        .position(|byte| !blank(byte))
        .unwrap_or(value.len());
    let end = value
        .iter()
        .rposition(|byte| !blank(byte))
        .map_or(start, |last| last + 1);
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    Some((name, value[start..end].to_vec()))
}
