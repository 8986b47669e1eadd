//! The files under `tests/corpus`: one case a line, with escapes for bytes that a text cannot hold.

use std::path::Path;

/// The lines of a file that are neither empty nor comments.
pub fn lines(file: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/corpus")
        .join(file);
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::to_owned)
        .collect()
}

/// Lines of the form `expectation text`.
pub fn expectations(file: &str) -> Vec<(Expected, String)> {
    let split = |line: &String| {
        let (word, text) = line.split_once(' ').unwrap();
        (Expected::parse(word), text.to_owned())
    };
    lines(file).iter().map(split).collect()
}

/// The expected end of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The server behind gets nothing.
    Refused,
    /// The server behind gets this request, whole, and no other.
    Once,
    /// As `Refused` or as `Once`.
    Either,
    /// The server behind never gets a whole request.
    Broken,
    /// The server behind gets this request and the one after it.
    Twice,
}

impl Expected {
    fn parse(word: &str) -> Self {
        match word {
            "refused" => Self::Refused,
            "once" => Self::Once,
            "either" => Self::Either,
            "broken" => Self::Broken,
            "twice" => Self::Twice,
            other => panic!("unknown expectation {other:?}"),
        }
    }
}

/// The bytes that a text with escapes stands for.
pub fn bytes(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let (byte, after) = match (first, after) {
            (b'\\', [b'r', after @ ..]) => (b'\r', after),
            (b'\\', [b'n', after @ ..]) => (b'\n', after),
            (b'\\', [b't', after @ ..]) => (b'\t', after),
            (b'\\', [b'0', after @ ..]) => (0, after),
            (b'\\', [b'\\', after @ ..]) => (b'\\', after),
            (b'\\', [b'x', high, low, after @ ..]) => {
                let digits = [*high, *low];
                (
                    u8::from_str_radix(str::from_utf8(&digits).unwrap(), 16).unwrap(),
                    after,
                )
            }
            (b'\\', _) => panic!("unknown escape in {text:?}"),
            (byte, after) => (*byte, after),
        };
        bytes.push(byte);
        rest = after;
    }
    bytes
}

#[test]
fn escapes_stand_for_bytes() {
    assert_eq!(bytes(r"a\r\n\t\0\\\xffb"), b"a\r\n\t\0\\\xffb");
}
