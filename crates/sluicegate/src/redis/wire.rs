//! The Redis protocol RESP2, as far as this client needs it: commands are written, replies parsed.
//!
//! Replies come from outside. Every length is bounded before memory is reserved for it, and no
//! input can cause a panic or deep recursion; the tests feed it random bytes.

use std::error::Error;
use std::fmt;

/// One parsed reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Reply {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    /// A missing value: a bulk string or array of length -1.
    #[default]
    Nil,
    Array(Vec<Reply>),
}

/// Bytes that are no reply. The connection cannot be used any more: nobody knows where the next
/// reply begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WireError {
    /// A reply begins with this byte, which is no type of RESP2.
    Kind(u8),
    /// An invalid length or integer.
    Number,
    /// A carriage return without line feed, or a bulk string longer than its length says.
    Unterminated,
    /// A line, bulk string, array or nesting beyond the bounds of this client.
    TooLong,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind(byte) => write!(f, "invalid reply type {byte:#04x}"),
            Self::Number => f.write_str("invalid number in a reply"),
            Self::Unterminated => f.write_str("a part of a reply does not end where it should"),
            Self::TooLong => f.write_str("a reply is longer or deeper than this client accepts"),
        }
    }
}

impl Error for WireError {}

// Bounds of what is accepted. The largest real reply is that of CLUSTER SLOTS: depth 4, one array
// element per range; values of other programs may have up to a mebibyte.
const DEPTH_MAX: usize = 8;
const LINE_MAX: usize = 64 * 1024;
const BULK_MAX: usize = 1024 * 1024;
const ARRAY_MAX: usize = 64 * 1024;

/// The first reply in the buffer and its length in bytes; `None` while it is incomplete.
///
/// A reply that arrives in pieces is parsed from its beginning with every piece. Replies are short,
/// so that costs less than a parser that keeps its state.
pub(super) fn parse(buffer: &[u8]) -> Result<Option<(Reply, usize)>, WireError> {
    parse_into(buffer, &mut Vec::new())
}

/// The same, with an empty list to reuse for the elements of an array.
pub(super) fn parse_into(
    buffer: &[u8],
    spare: &mut Vec<Reply>,
) -> Result<Option<(Reply, usize)>, WireError> {
    let mut cursor = ReplyCursor { buffer, at: 0 };
    let reply = cursor.reply(DEPTH_MAX, spare)?;
    Ok(reply.map(|reply| (reply, cursor.at)))
}

/// Appends a whole command.
pub(super) fn write_command(out: &mut Vec<u8>, args: &[&[u8]]) {
    write_array_header(out, args.len());
    for arg in args {
        write_bulk(out, arg);
    }
}

/// Begins a command of `count` strings, its name included; [`write_bulk`] appends each.
pub(super) fn write_array_header(out: &mut Vec<u8>, count: usize) {
    write_length(out, b'*', count);
}

/// Appends one string of a command.
pub(super) fn write_bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    write_length(out, b'$', bytes.len());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn write_length(out: &mut Vec<u8>, kind: u8, length: usize) {
    out.push(kind);
    push_number(out, length as u64);
    out.extend_from_slice(b"\r\n");
}

/// Appends a number in decimal digits, without an allocation.
pub(super) fn push_number(out: &mut Vec<u8>, number: u64) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    let mut rest = number;
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

/// A position in the buffer. Each method returns `None` when the buffer ends too early.
struct ReplyCursor<'b> {
    buffer: &'b [u8],
    at: usize,
}

impl<'b> ReplyCursor<'b> {
    /// Reads one reply with at most `depth` arrays inside each other.
    fn reply(&mut self, depth: usize, spare: &mut Vec<Reply>) -> Result<Option<Reply>, WireError> {
        let Some((kind, line)) = self.head()? else {
            return Ok(None);
        };
        Ok(Some(match kind {
            b'+' => Reply::Simple(String::from_utf8_lossy(line).into_owned()),
            b'-' => Reply::Error(String::from_utf8_lossy(line).into_owned()),
            b':' => Reply::Integer(integer(line)?),
            b'$' => {
                let Some(length) = length_of(line, BULK_MAX)? else {
                    return Ok(Some(Reply::Nil));
                };
                let Some(body) = self.body(length)? else {
                    return Ok(None);
                };
                Reply::Bulk(body.to_vec())
            }
            _ => {
                let Some(count) = length_of(line, ARRAY_MAX)? else {
                    return Ok(Some(Reply::Nil));
                };
                if count > 0 && depth == 0 {
                    return Err(WireError::TooLong);
                }
                // The count is only a claim: reserve no more than the bytes at hand can hold, at
                // three bytes for the shortest reply.
                let mut replies = std::mem::take(spare);
                replies.reserve(count.min((self.buffer.len() - self.at) / 3));
                for _ in 0..count {
                    let Some(reply) = self.reply(depth - 1, spare)? else {
                        replies.clear();
                        *spare = replies;
                        return Ok(None);
                    };
                    replies.push(reply);
                }
                Reply::Array(replies)
            }
        }))
    }

    /// The type of the reply that begins here, and the rest of its first line.
    fn head(&mut self) -> Result<Option<(u8, &'b [u8])>, WireError> {
        let rest = &self.buffer[self.at..];
        let Some(&kind) = rest.first() else {
            return Ok(None);
        };
        if !matches!(kind, b'+' | b'-' | b':' | b'$' | b'*') {
            return Err(WireError::Kind(kind));
        }
        let within = &rest[1..rest.len().min(LINE_MAX)];
        let Some(length) = within.iter().position(|byte| *byte == b'\r') else {
            return if rest.len() >= LINE_MAX {
                Err(WireError::TooLong)
            } else {
                Ok(None)
            };
        };
        match rest.get(length + 2) {
            None => Ok(None),
            Some(b'\n') => {
                self.at += length + 3;
                Ok(Some((kind, &within[..length])))
            }
            Some(_) => Err(WireError::Unterminated),
        }
    }

    /// The content of a bulk string, without its line end.
    fn body(&mut self, length: usize) -> Result<Option<&'b [u8]>, WireError> {
        let rest = &self.buffer[self.at..];
        let Some(end) = rest.get(length..length + 2) else {
            return Ok(None);
        };
        if end != b"\r\n" {
            return Err(WireError::Unterminated);
        }
        self.at += length + 2;
        Ok(Some(&rest[..length]))
    }
}

/// The length in the first line of a bulk string or array; `None` for -1, a missing value.
fn length_of(line: &[u8], max: usize) -> Result<Option<usize>, WireError> {
    match integer(line)? {
        -1 => Ok(None),
        length => match usize::try_from(length) {
            Ok(length) if length <= max => Ok(Some(length)),
            Ok(_) => Err(WireError::TooLong),
            Err(_) => Err(WireError::Number),
        },
    }
}

fn integer(line: &[u8]) -> Result<i64, WireError> {
    /// Digits that always fit into an `i64`: no check for overflow is needed.
    const SHORT: usize = 18;
    let (sign, digits) = match line {
        [b'-', digits @ ..] => (-1, digits),
        digits => (1, digits),
    };
    let append = |number: i64, byte: &u8| {
        byte.is_ascii_digit()
            .then(|| number * 10 + i64::from(byte - b'0'))
    };
    if (1..=SHORT).contains(&digits.len())
        && let Some(number) = digits.iter().try_fold(0, append)
    {
        return Ok(sign * number);
    }
    std::str::from_utf8(line)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or(WireError::Number)
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    fn write_reply(out: &mut Vec<u8>, reply: &Reply) {
        match reply {
            Reply::Simple(text) => out.extend_from_slice(format!("+{text}\r\n").as_bytes()),
            Reply::Error(text) => out.extend_from_slice(format!("-{text}\r\n").as_bytes()),
            Reply::Integer(number) => out.extend_from_slice(format!(":{number}\r\n").as_bytes()),
            Reply::Bulk(bytes) => write_bulk(out, bytes),
            Reply::Nil => out.extend_from_slice(b"$-1\r\n"),
            Reply::Array(items) => {
                write_array_header(out, items.len());
                items.iter().for_each(|item| write_reply(out, item));
            }
        }
    }

    pub fn any_reply() -> impl Strategy<Value = Reply> {
        let leaf = prop_oneof![
            "[a-z A-Z]{0,12}".prop_map(Reply::Simple),
            "[a-z A-Z]{0,12}".prop_map(Reply::Error),
            any::<i64>().prop_map(Reply::Integer),
            proptest::collection::vec(any::<u8>(), 0..20).prop_map(Reply::Bulk),
            Just(Reply::Nil),
        ];
        leaf.prop_recursive(3, 24, 6, |inner| {
            proptest::collection::vec(inner, 0..6).prop_map(Reply::Array)
        })
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn bytes_that_look_like_replies_never_panic(text in "[-+:$*0-9\r\n]{0,60}") {
            if let Ok(Some((_, end))) = parse(text.as_bytes()) {
                prop_assert!(end <= text.len());
            }
        }

        #[test]
        fn every_split_of_a_stream_parses_the_same(first in any_reply(), second in any_reply()) {
            let mut stream = Vec::new();
            write_reply(&mut stream, &first);
            let border = stream.len();
            write_reply(&mut stream, &second);
            for split in 0..stream.len() {
                let expected = (split >= border).then(|| (first.clone(), border));
                prop_assert_eq!(parse(&stream[..split]).unwrap(), expected);
            }
            prop_assert_eq!(parse(&stream[border..]).unwrap(), Some((second, stream.len() - border)));
        }
    }

    #[test]
    fn a_command_is_an_array_of_strings() {
        let mut out = Vec::new();
        write_command(&mut out, &[b"SET", b"", b"a\r\nb"]);
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$0\r\n\r\n$4\r\na\r\nb\r\n");
    }

    #[test]
    fn replies_beyond_the_bounds_are_refused() {
        assert_eq!(parse(b"$1048577\r\n"), Err(WireError::TooLong));
        assert_eq!(parse(b"*65537\r\n"), Err(WireError::TooLong));
        assert_eq!(
            parse("*1\r\n".repeat(9).as_bytes()),
            Err(WireError::TooLong)
        );
        assert_eq!(parse("*1\r\n".repeat(8).as_bytes()), Ok(None));
        assert_eq!(parse(&vec![b'+'; LINE_MAX]), Err(WireError::TooLong));
        assert_eq!(parse(b"$-2\r\n"), Err(WireError::Number));
        assert_eq!(parse(b"%1\r\n"), Err(WireError::Kind(b'%')));
        assert_eq!(parse(b"$1\r\nab\r\n"), Err(WireError::Unterminated));
    }

    #[test]
    fn integers_are_read_up_to_the_largest() {
        for number in [
            0,
            7,
            -7,
            999_999_999_999_999_999,
            -1_000_000_000_000_000_000,
            i64::MAX,
            i64::MIN,
        ] {
            assert_eq!(integer(number.to_string().as_bytes()), Ok(number));
        }
        for wrong in [
            "",
            "-",
            "--1",
            "1-",
            "1 ",
            "0x1",
            "9223372036854775808",
            "999999999999999999x",
        ] {
            assert_eq!(integer(wrong.as_bytes()), Err(WireError::Number), "{wrong}");
        }
    }

    #[test]
    fn numbers_are_written_in_full() {
        let mut out = Vec::new();
        push_number(&mut out, u64::MAX);
        push_number(&mut out, 0);
        assert_eq!(out, b"184467440737095516150");
    }
}
