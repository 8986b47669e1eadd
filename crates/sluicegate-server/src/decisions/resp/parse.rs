//! Takes commands out of the bytes that were read so far, as arrays or as inline commands.
//!
//! Every length is bounded before it is used: an unfinished command cannot grow beyond
//! [`COMMAND_MAX`].

use std::error::Error;
use std::fmt;
use std::ops::Range;

use smallvec::SmallVec;

/// The most arguments of one command, its name among them.
pub(super) const ARGUMENTS_MAX: usize = 1_024;
/// The most bytes of one command, as it is written.
pub(super) const COMMAND_MAX: usize = 64 * 1024;
/// The most bytes of an inline command.
pub(super) const INLINE_MAX: usize = 512;

/// The arguments of a command, the first of which is its name.
pub(super) type Arguments<'a> = SmallVec<[&'a [u8]; 6]>;

/// Reads one command after the other. It remembers how far it came, so that a command which arrives
/// in many pieces is scanned once and not once for each piece.
#[derive(Debug, Default)]
pub(super) struct CommandParser {
    /// The number of bytes of the command that were parsed.
    at: usize,
    /// Arguments that are still to come; `None` before the command says how many it has.
    wanted: Option<usize>,
    /// The byte ranges of the arguments that were parsed.
    found: SmallVec<[Range<usize>; 6]>,
}

/// The command at the beginning of the input, or its beginning.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ParsedInput<'a> {
    /// A whole command.
    Command {
        /// Its arguments; none for an empty line.
        arguments: Arguments<'a>,
        /// The bytes it takes up.
        used: usize,
        /// True for an inline command.
        is_inline: bool,
    },
    /// The beginning of a command, or nothing.
    Unfinished,
}

impl CommandParser {
    /// Looks for a whole command. After `Unfinished`, the next call must be with the same bytes and
    /// more.
    pub(super) fn next<'a>(&mut self, bytes: &'a [u8]) -> Result<ParsedInput<'a>, ParseError> {
        match bytes.first() {
            None => Ok(ParsedInput::Unfinished),
            Some(b'*') => self.array(bytes),
            Some(_) => inline(bytes),
        }
    }

    /// `*2`, then for each argument its length and its bytes: `$4`, `ECHO`, each with CR LF behind
    /// it.
    fn array<'a>(&mut self, bytes: &'a [u8]) -> Result<ParsedInput<'a>, ParseError> {
        let mut wanted = match self.wanted {
            Some(wanted) => wanted,
            None => {
                let Some((count, next)) = number(bytes, 1)? else {
                    return Ok(ParsedInput::Unfinished);
                };
                // Redis takes an array of nothing, or of less, for no command at all.
                let count = usize::try_from(count).unwrap_or(0);
                if count > ARGUMENTS_MAX {
                    return Err(ParseError::TooManyArguments);
                }
                self.at = next;
                count
            }
        };
        while wanted > 0 {
            self.wanted = Some(wanted);
            match bytes.get(self.at) {
                None => return Ok(ParsedInput::Unfinished),
                Some(b'$') => {}
                Some(_) => return Err(ParseError::NoLength),
            }
            let Some((length, start)) = number(bytes, self.at + 1)? else {
                return Ok(ParsedInput::Unfinished);
            };
            let length = usize::try_from(length).map_err(|_| ParseError::NotANumber)?;
            if length > COMMAND_MAX || start + length + 2 > COMMAND_MAX {
                return Err(ParseError::TooLong);
            }
            let end = start + length;
            match bytes.get(end..end + 2) {
                None => return Ok(ParsedInput::Unfinished),
                Some(b"\r\n") => {}
                Some(_) => return Err(ParseError::NoLineEnd),
            }
            self.found.push(start..end);
            self.at = end + 2;
            wanted -= 1;
        }
        let found = self.found.iter();
        let arguments = found.map(|range| &bytes[range.clone()]).collect();
        self.found.clear();
        let used = std::mem::take(&mut self.at);
        self.wanted = None;
        Ok(ParsedInput::Command {
            arguments,
            used,
            is_inline: false,
        })
    }
}

/// Reads an inline command: one line of words with blanks between them.
fn inline(bytes: &[u8]) -> Result<ParsedInput<'_>, ParseError> {
    let line_end = bytes
        .iter()
        .take(INLINE_MAX)
        .position(|byte| *byte == b'\n');
    let Some(line_end) = line_end else {
        return if bytes.len() >= INLINE_MAX {
            Err(ParseError::LineTooLong)
        } else {
            Ok(ParsedInput::Unfinished)
        };
    };
    let words = bytes[..line_end]
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    let arguments: Arguments<'_> = words.collect();
    // A quoted word may hold blanks; a client that needs this sends an array.
    if arguments
        .iter()
        .any(|word| word.contains(&b'"') || word.contains(&b'\''))
    {
        return Err(ParseError::Quotes);
    }
    Ok(ParsedInput::Command {
        arguments,
        used: line_end + 1,
        is_inline: true,
    })
}

/// Reads a number and the offset after its line; `None` while the line is incomplete.
fn number(bytes: &[u8], start: usize) -> Result<Option<(i64, usize)>, ParseError> {
    /// The digits of 64 bits, and a sign.
    const DIGITS_MAX: usize = 20;
    let rest = bytes.get(start..).unwrap_or_default();
    // Nearly every length has one digit or two.
    let small = |digit: u8| i64::from(digit - b'0');
    match *rest {
        [ones @ b'0'..=b'9', b'\r', b'\n', ..] => return Ok(Some((small(ones), start + 3))),
        [tens @ b'0'..=b'9', ones @ b'0'..=b'9', b'\r', b'\n', ..] => {
            return Ok(Some((10 * small(tens) + small(ones), start + 4)));
        }
        _ => {}
    }
    let searched = &rest[..rest.len().min(DIGITS_MAX + 1)];
    let Some(length) = searched.iter().position(|byte| *byte == b'\r') else {
        return if rest.len() > DIGITS_MAX {
            Err(ParseError::NotANumber)
        } else {
            Ok(None)
        };
    };
    let number = integer(&searched[..length]).ok_or(ParseError::NotANumber)?;
    match rest.get(length + 1) {
        None => Ok(None),
        Some(b'\n') => Ok(Some((number, start + length + 2))),
        Some(_) => Err(ParseError::NotANumber),
    }
}

/// Reads a whole number as Redis writes it: digits, perhaps with a minus in front, and nothing else.
pub(super) fn integer(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    // The negative numbers reach one further than the positive ones, so the sign is turned last.
    let mut negated: i64 = 0;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        negated = negated.checked_mul(10)?.checked_sub(i64::from(digit))?;
    }
    if is_negative {
        Some(negated)
    } else {
        negated.checked_neg()
    }
}

/// The reason why bytes are no command. The beginning of the next one is in doubt, so the
/// connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParseError {
    TooManyArguments,
    TooLong,
    LineTooLong,
    NotANumber,
    NoLength,
    NoLineEnd,
    Quotes,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyArguments => write!(f, "a command has at most {ARGUMENTS_MAX} arguments"),
            Self::TooLong => write!(f, "a command has at most {COMMAND_MAX} bytes"),
            Self::LineTooLong => write!(f, "a command on one line has at most {INLINE_MAX} bytes"),
            Self::NotANumber => f.write_str("a count or a length is no whole number"),
            Self::NoLength => f.write_str("an argument must begin with '$' and its length"),
            Self::NoLineEnd => f.write_str("an argument is longer than it says"),
            Self::Quotes => f.write_str("a command on one line has no quotes; send it as an array"),
        }
    }
}

impl Error for ParseError {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Everything that a client says, read as one piece: the commands, and how it ended.
    fn read(bytes: &[u8]) -> (Vec<Vec<Vec<u8>>>, Result<(), ParseError>) {
        read_in_pieces(&[bytes])
    }

    /// The same, piece by piece.
    fn read_in_pieces(pieces: &[&[u8]]) -> (Vec<Vec<Vec<u8>>>, Result<(), ParseError>) {
        let (mut buffer, mut parser, mut commands) =
            (Vec::new(), CommandParser::default(), Vec::new());
        for piece in pieces {
            buffer.extend_from_slice(piece);
            loop {
                let used = match parser.next(&buffer) {
                    Ok(ParsedInput::Command {
                        arguments, used, ..
                    }) => {
                        commands.push(arguments.iter().map(|argument| argument.to_vec()).collect());
                        used
                    }
                    Ok(ParsedInput::Unfinished) => break,
                    Err(error) => return (commands, Err(error)),
                };
                buffer.drain(..used);
            }
        }
        (commands, Ok(()))
    }

    fn array(arguments: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
        for argument in arguments {
            bytes.extend(format!("${}\r\n", argument.len()).into_bytes());
            bytes.extend(argument);
            bytes.extend(b"\r\n");
        }
        bytes
    }

    fn words(words: &[&str]) -> Vec<Vec<u8>> {
        words.iter().map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn arrays_and_lines_are_commands() {
        let (commands, end) =
            read(b"*2\r\n$4\r\nECHO\r\n$3\r\na\r\n\r\nPING  a\tb \n\r\n*0\r\n*-1\r\nQUIT\r\n");
        let expected = [
            words(&["ECHO", "a\r\n"]),
            words(&["PING", "a", "b"]),
            vec![],
            vec![],
            vec![],
            words(&["QUIT"]),
        ];
        assert_eq!((commands, end), (expected.to_vec(), Ok(())));
    }

    #[test]
    fn what_is_no_command_is_told_apart() {
        for (bytes, expected) in [
            (&b"*1025\r\n"[..], ParseError::TooManyArguments),
            (b"*99999999999999999999\r\n", ParseError::NotANumber),
            (b"*111111111111111111111", ParseError::NotANumber),
            (b"*1x\r\n", ParseError::NotANumber),
            (b"*+1\r\n", ParseError::NotANumber),
            (b"*\r\n", ParseError::NotANumber),
            (b"*1\rx", ParseError::NotANumber),
            (b"*1\r\nPING\r\n", ParseError::NoLength),
            (b"*1\r\n$-1\r\n", ParseError::NotANumber),
            (b"*1\r\n$65536\r\n", ParseError::TooLong),
            (b"*1\r\n$9223372036854775807\r\n", ParseError::TooLong),
            (b"*1\r\n$4\r\nPINGS\r\n", ParseError::NoLineEnd),
            (b"ECHO \"a b\"\n", ParseError::Quotes),
        ] {
            let (commands, end) = read(bytes);
            assert_eq!(
                (commands.len(), end),
                (0, Err(expected)),
                "{}",
                bytes.escape_ascii()
            );
        }
    }

    #[test]
    fn a_command_has_room_up_to_its_bounds_and_none_beyond() {
        let most = vec![b"a".to_vec(); ARGUMENTS_MAX];
        assert_eq!(read(&array(&most)), (vec![most], Ok(())));
        let around = array(&[Vec::new()]).len();
        // Five digits of a length instead of one.
        let longest = COMMAND_MAX - around - 4;
        let command = vec![vec![b'a'; longest]];
        assert_eq!(array(&command).len(), COMMAND_MAX);
        assert_eq!(read(&array(&command)), (vec![command], Ok(())));
        assert_eq!(
            read(&array(&[vec![b'a'; longest + 1]])).1,
            Err(ParseError::TooLong)
        );
        let several = vec![vec![b'a'; COMMAND_MAX / 4]; 4];
        assert_eq!(
            read(&array(&several)).1,
            Err(ParseError::TooLong),
            "all arguments count together"
        );
        let line = |length: usize| [vec![b'a'; length - 1], vec![b'\n']].concat();
        assert_eq!(read(&line(INLINE_MAX)).0.len(), 1);
        assert_eq!(read(&line(INLINE_MAX + 1)).1, Err(ParseError::LineTooLong));
    }

    #[test]
    fn a_command_in_pieces_is_read_once() {
        let command = array(&vec![b"abc".to_vec(); 1_000]);
        let (mut parser, mut looked) = (CommandParser::default(), 0);
        for end in 1..command.len() {
            let before = parser.at;
            assert_eq!(parser.next(&command[..end]), Ok(ParsedInput::Unfinished));
            looked += end - before;
        }
        assert!(looked < 16 * command.len(), "{looked}");
        assert!(
            matches!(parser.next(&command), Ok(ParsedInput::Command { used, .. }) if used == command.len())
        );
    }

    #[test]
    fn integers_are_those_that_redis_writes() {
        for (text, expected) in [
            ("0", Some(0)),
            ("007", Some(7)),
            ("-1", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-9223372036854775809", None),
            ("99999999999999999999", None),
            ("", None),
            ("-", None),
            ("--1", None),
            ("+1", None),
            ("1 ", None),
            ("1/", None),
            ("1:", None),
        ] {
            assert_eq!(integer(text.as_bytes()), expected, "{text:?}");
        }
    }

    fn client_bytes() -> impl Strategy<Value = Vec<u8>> {
        let argument = proptest::collection::vec(any::<u8>(), 0..12);
        let command =
            proptest::collection::vec(argument, 0..5).prop_map(|arguments| array(&arguments));
        let line = "[ a-zA-Z0-9.]{0,20}\r?\n".prop_map(String::into_bytes);
        let odd = proptest::collection::vec(
            proptest::sample::select(&b"*$-0123456789\r\n aA\x00\xff"[..]),
            0..12,
        );
        let anything = prop_oneof![4 => command, 2 => line, 1 => odd];
        proptest::collection::vec(anything, 0..6).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn however_it_is_cut_it_means_the_same(bytes in client_bytes(), at in proptest::collection::vec(any::<usize>(), 0..4)) {
            let whole = read(&bytes);
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            prop_assert_eq!(&read_in_pieces(&single), &whole);
            let mut cuts: Vec<usize> = at.iter().map(|at| at % (bytes.len() + 1)).chain([0, bytes.len()]).collect();
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            prop_assert_eq!(&read_in_pieces(&pieces), &whole);
        }

        #[test]
        fn what_is_written_is_read(commands in proptest::collection::vec(
            proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 1..8), 0..8,
        )) {
            let bytes: Vec<u8> = commands.iter().flat_map(|command| array(command)).collect();
            prop_assert_eq!(read(&bytes), (commands, Ok(())));
        }

        #[test]
        fn no_bytes_do_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes);
            let _ = read(&[b"*3\r\n$".to_vec(), bytes].concat());
        }
    }
}
