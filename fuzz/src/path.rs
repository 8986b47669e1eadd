//! Paths, against a normaliser that is written again from the rules in docs/security.md: one step
//! after the other, over all bytes, without shortcuts.

use sluicegate_core::{PathPattern, normalise_path, unescape};

/// The input is the path of a request.
pub fn run(data: &[u8]) {
    let Ok(path) = str::from_utf8(data) else {
        return;
    };
    let normal = normalise_path(path).ok();
    let normal = normal.as_deref();
    assert_eq!(normal, reference(path).as_deref(), "{path:?}");
    let Some(normal) = normal else { return };
    assert_eq!(normalise_path(normal).as_deref(), Ok(normal), "twice");
    assert!(normal.starts_with('/') && normal.is_ascii());
    assert!(!normal.contains("//") && !normal.contains(['\\', ';', '?', '#', ' ']));
    assert!(
        normal
            .split('/')
            .all(|segment| segment != "." && segment != "..")
    );
    if let Some(text) = unescape(normal) {
        let slashes = |text: &str| text.matches('/').count();
        assert_eq!(slashes(&text), slashes(normal), "no slash was hidden");
    }
    if let Ok(pattern) = normal.parse::<PathPattern>() {
        assert!(pattern.covers(normal));
        assert!(pattern.covers(&normal.to_ascii_lowercase()));
        let folder = normal.trim_end_matches('/');
        assert!(pattern.covers(&format!("{folder}/below")));
        let again = pattern.to_string().parse::<PathPattern>();
        assert_eq!(again.as_ref(), Ok(&pattern));
    }
}

/// A byte of a path: a slash between two segments, or a part of one.
#[derive(Clone, Copy, PartialEq)]
enum PathByte {
    Slash,
    Inside(u8),
}

fn reference(path: &str) -> Option<String> {
    let bytes = decoded(path.as_bytes())?;
    if bytes.first() != Some(&PathByte::Slash) {
        return None;
    }
    if has_overlong(&bytes) {
        return None;
    }
    let segments: Vec<String> = bytes
        .split(|byte| *byte == PathByte::Slash)
        .skip(1)
        .map(spelled)
        .collect();
    if segments.iter().any(|segment| is_doubly_encoded(segment)) {
        return None;
    }
    let mut kept: Vec<&str> = Vec::new();
    for segment in &segments {
        match segment.as_str() {
            "" | "." => {}
            ".." => drop(kept.pop()),
            other => kept.push(other),
        }
    }
    let last = segments.last().map(String::as_str);
    let is_folder = matches!(last, Some("" | "." | ".."));
    let end = if is_folder && !kept.is_empty() {
        "/"
    } else {
        ""
    };
    Some(format!("/{}{end}", kept.join("/")))
}

/// Each byte without its escape; `None` for what servers read differently.
fn decoded(mut bytes: &[u8]) -> Option<Vec<PathByte>> {
    let mut decoded = Vec::new();
    loop {
        bytes = match bytes {
            [] => return Some(decoded),
            [b'/', rest @ ..] => {
                decoded.push(PathByte::Slash);
                rest
            }
            [b'%', high, low, rest @ ..] => {
                let pair = [*high, *low];
                let is_hex = pair.iter().all(u8::is_ascii_hexdigit);
                let pair = str::from_utf8(&pair).ok().filter(|_| is_hex)?;
                let byte = u8::from_str_radix(pair, 16).ok()?;
                if byte.is_ascii_control() || b"/\\".contains(&byte) {
                    return None;
                }
                decoded.push(PathByte::Inside(byte));
                rest
            }
            [byte, ..] if byte.is_ascii_control() || b"% \\;?#".contains(byte) => return None,
            [byte, rest @ ..] => {
                decoded.push(PathByte::Inside(*byte));
                rest
            }
        };
    }
}

/// A character in more bytes of UTF-8 than it needs: its first bytes say so.
fn has_overlong(bytes: &[PathByte]) -> bool {
    use PathByte::Inside;
    let begins = |pair: &[PathByte]| {
        matches!(
            pair,
            [Inside(0xe0), Inside(0x80..=0x9f)] | [Inside(0xf0), Inside(0x80..=0x8f)]
        )
    };
    let is_never_used = |byte: &PathByte| matches!(byte, Inside(0xc0 | 0xc1));
    bytes.iter().any(is_never_used) || bytes.windows(2).any(begins)
}

fn spelled(segment: &[PathByte]) -> String {
    let mut text = String::new();
    for byte in segment {
        let PathByte::Inside(byte) = byte else {
            panic!("a segment has no slash");
        };
        let letter = char::from(*byte);
        if letter.is_ascii_alphanumeric() || "-._~!$&'()*+,=:@".contains(letter) {
            text.push(letter);
        } else {
            text.push('%');
            text.push(hex_digit(byte >> 4));
            text.push(hex_digit(byte & 15));
        }
    }
    text
}

fn hex_digit(value: u8) -> char {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    char::from(DIGITS[usize::from(value)])
}

/// `%25` and two digits behind it: decoded twice, it would be another character.
fn is_doubly_encoded(segment: &str) -> bool {
    segment.split("%25").skip(1).any(|rest| {
        let mut digits = rest.bytes().take(2).filter(u8::is_ascii_hexdigit);
        digits.next().is_some() && digits.next().is_some()
    })
}
