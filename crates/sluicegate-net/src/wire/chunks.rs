//! Bodies in chunks (RFC 9112, section 7.1).
//!
//! The decoder is strict: a line ends in CR LF, a size is hexadecimal digits, a chunk is as long as
//! it says. Where lenient readers differ, one of them finds a request that the other does not.

use bytes::{Buf, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::framing::Decoded;

/// Decoder of one body in chunks. It keeps its state between reads, so bytes may arrive in any
/// pieces.
#[derive(Debug)]
pub(crate) struct ChunkDecoder(ChunkState);

/// Next thing to be read.
#[derive(Debug)]
enum ChunkState {
    /// The line with the size of the next chunk.
    Size,
    /// This many bytes of the current chunk.
    Data(u64),
    /// The CR LF after the bytes of a chunk.
    DataEnd,
    /// The header lines after the last chunk, and the empty line.
    Trailers,
    /// Nothing.
    Over,
}

impl ChunkDecoder {
    /// Longest line with a size and its extensions, in bytes.
    const LINE_MAX: usize = 1024;
    /// All trailers together, in bytes.
    const TRAILER_MAX: usize = 16 * 1024;
    /// Most trailer lines.
    const TRAILERS: usize = 64;

    /// A decoder at the beginning of a body.
    pub(crate) fn new() -> Self {
        Self(ChunkState::Size)
    }

    /// Returns true when the body and its trailers were read.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.0, ChunkState::Over)
    }

    /// Bytes of the current chunk that have not come yet.
    pub(crate) fn left(&self) -> u64 {
        if let ChunkState::Data(left) = self.0 {
            left
        } else {
            0
        }
    }

    /// Takes the next part from `input`; an error says what is malformed.
    pub(crate) fn decode(&mut self, input: &mut BytesMut) -> Result<Decoded, &'static str> {
        loop {
            match &mut self.0 {
                ChunkState::Size => {
                    let Some(line) = line(input)? else {
                        return Ok(Decoded::Incomplete);
                    };
                    let size = size(&input[..line])?;
                    input.advance(line + 2);
                    self.0 = if size == 0 {
                        ChunkState::Trailers
                    } else {
                        ChunkState::Data(size)
                    };
                }
                ChunkState::Data(left) => {
                    if input.is_empty() {
                        return Ok(Decoded::Incomplete);
                    }
                    let data = input
                        .split_to(
                            usize::try_from(*left)
                                .unwrap_or(usize::MAX)
                                .min(input.len()),
                        )
                        .freeze();
                    *left -= data.len() as u64;
                    if *left == 0 {
                        self.0 = ChunkState::DataEnd;
                        // Most often the end of the body has come with its last chunk.
                        self.skip_ends(input)?;
                    }
                    return Ok(Decoded::Data(data));
                }
                ChunkState::DataEnd => match input[..] {
                    [b'\r', b'\n', ..] => {
                        input.advance(2);
                        self.0 = ChunkState::Size;
                    }
                    [] | [b'\r'] => return Ok(Decoded::Incomplete),
                    _ => return Err("a chunk is longer than it says"),
                },
                ChunkState::Trailers => return self.trailers(input),
                ChunkState::Over => return Ok(Decoded::End),
            }
        }
    }

    /// Takes the end of a chunk, and of the body if it is there without trailers.
    fn skip_ends(&mut self, input: &mut BytesMut) -> Result<(), &'static str> {
        const END: &[u8] = b"\r\n0\r\n\r\n";
        if input.starts_with(END) {
            input.advance(END.len());
            self.0 = ChunkState::Over;
        }
        Ok(())
    }

    /// Takes the trailers when all of them have come.
    fn trailers(&mut self, input: &mut BytesMut) -> Result<Decoded, &'static str> {
        if input.starts_with(b"\r\n") {
            input.advance(2);
            self.0 = ChunkState::Over;
            return Ok(Decoded::End);
        }
        let mut lines = [httparse::EMPTY_HEADER; Self::TRAILERS];
        let (used, trailers) = match httparse::parse_headers(input, &mut lines) {
            Ok(httparse::Status::Partial) if input.len() > Self::TRAILER_MAX => {
                return Err("its trailers are too long");
            }
            Ok(httparse::Status::Partial) => return Ok(Decoded::Incomplete),
            Ok(httparse::Status::Complete((used, _))) if !has_whole_ends(&input[..used]) => {
                return Err("a trailer ends in the wrong way");
            }
            Ok(httparse::Status::Complete((used, lines))) => {
                let mut trailers = HeaderMap::with_capacity(lines.len());
                for line in lines {
                    let name = HeaderName::from_bytes(line.name.as_bytes())
                        .map_err(|_| "a trailer's name")?;
                    let value =
                        HeaderValue::from_bytes(line.value).map_err(|_| "a trailer's value")?;
                    trailers.append(name, value);
                }
                (used, trailers)
            }
            Err(_) => return Err("its trailers are no headers"),
        };
        input.advance(used);
        self.0 = ChunkState::Over;
        Ok(Decoded::Trailers(trailers))
    }
}

/// Length of the line at the beginning, without its CR LF; `None` if it is incomplete.
fn line(input: &BytesMut) -> Result<Option<usize>, &'static str> {
    match input
        .iter()
        .take(ChunkDecoder::LINE_MAX)
        .position(|byte| *byte == b'\n')
    {
        Some(end) if end > 0 && input[end - 1] == b'\r' => Ok(Some(end - 1)),
        Some(_) => Err("a line of a chunk ends in the wrong way"),
        None if input.len() >= ChunkDecoder::LINE_MAX => Err("a line of a chunk is too long"),
        None => Ok(None),
    }
}

/// Returns true when every line ends in CR LF.
fn has_whole_ends(lines: &[u8]) -> bool {
    lines
        .iter()
        .enumerate()
        .all(|(place, byte)| *byte != b'\n' || place > 0 && lines[place - 1] == b'\r')
}

/// The size in a chunk's first line. Extensions are skipped, but may not have control characters.
fn size(line: &[u8]) -> Result<u64, &'static str> {
    const DIGITS_MAX: usize = 16;
    let digits = line
        .iter()
        .take_while(|byte| byte.is_ascii_hexdigit())
        .count();
    let mut rest = line[digits..]
        .iter()
        .skip_while(|byte| matches!(byte, b' ' | b'\t'));
    let is_extension = matches!(rest.next(), None | Some(b';'))
        && rest.all(|byte| *byte == b'\t' || *byte >= b' ');
    if digits == 0 || digits > DIGITS_MAX || !is_extension {
        return Err("the size of a chunk is no number");
    }
    let text = str::from_utf8(&line[..digits]).unwrap_or_default();
    u64::from_str_radix(text, 16).map_err(|_| "the size of a chunk is no number")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The body and its trailers, when the bytes come in parts of this length.
    fn decoded(
        bytes: &[u8],
        part: usize,
    ) -> Result<(Vec<u8>, Option<HeaderMap>, usize), &'static str> {
        let (mut chunks, mut input) = (ChunkDecoder::new(), BytesMut::new());
        let (mut body, mut trailers) = (Vec::new(), None);
        let mut parts = bytes.chunks(part);
        loop {
            match chunks.decode(&mut input)? {
                Decoded::Data(data) => body.extend_from_slice(&data),
                Decoded::Trailers(lines) => trailers = Some(lines),
                Decoded::End => {
                    return Ok((
                        body,
                        trailers,
                        input.len() + parts.map(<[u8]>::len).sum::<usize>(),
                    ));
                }
                Decoded::Incomplete => {
                    input.extend_from_slice(parts.next().ok_or("it does not end")?)
                }
            }
        }
    }

    #[test]
    fn a_body_is_the_same_however_its_bytes_come() {
        let bytes = b"5\r\nhello\r\n6;a=b\r\n world\r\n00\r\nx-sum: 1\r\nx-sum: 2\r\n\r\nnext";
        for part in 1..=bytes.len() {
            let (body, trailers, left) = decoded(bytes, part).unwrap();
            assert_eq!(
                (&body[..], left),
                (&b"hello world"[..], 4),
                "in parts of {part}"
            );
            assert_eq!(trailers.unwrap().get_all("x-sum").iter().count(), 2);
        }
        for part in 1..=13 {
            assert_eq!(
                decoded(b"1\r\nx\r\n0\r\n\r\n", part),
                Ok((b"x".to_vec(), None, 0))
            );
        }
    }

    #[test]
    fn what_is_no_chunk_is_refused() {
        for bytes in [
            "\r\n",
            "x\r\n",
            " 5\r\nhello\r\n",
            "-1\r\n",
            "+1\r\n",
            "0x5\r\nhello\r\n",
            "5\nhello\r\n",
            "5\r\nhello!\r\n",
            "5\r\nhello\n0\r\n\r\n",
            "5 5\r\nhello\r\n",
            "11111111111111111\r\n",
            "0\r\nno header\r\n\r\n",
            "0\r\n a: b\r\n\r\n",
            "5\r\nhello\r\r\n",
            "0\r\r\n\r\n",
            "5;a\rb\r\nhello\r\n",
            "0\r\n\n",
            "0\r\nx: 1\n\r\n",
            "0\r\nx: 1\r\n\n",
        ] {
            for part in [1, bytes.len()] {
                let error = decoded(bytes.as_bytes(), part).unwrap_err();
                assert_ne!(error, "it does not end", "{bytes:?}");
            }
        }
        let long = format!("5;{}\r\nhello\r\n0\r\n\r\n", "x".repeat(2_000));
        assert_eq!(
            decoded(long.as_bytes(), 100),
            Err("a line of a chunk is too long")
        );
        let many = format!("0\r\nx: {}", "y".repeat(20_000));
        assert_eq!(
            decoded(many.as_bytes(), 1_000),
            Err("its trailers are too long")
        );
    }
}
