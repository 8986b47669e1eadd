//! Paths: one spelling per resource, and patterns on segment boundaries.
//!
//! The idea of normalisation: a limit on `/api/login` must cover every spelling that the server
//! behind us takes for `/api/login`. So a path is brought to one spelling (RFC 3986, section 6.2.2)
//! before it is matched, used as a key and forwarded.
//!
//! The invariants: normalising twice changes nothing; the result begins with a slash, has no dot
//! segments and no empty ones; a character that a path may hold is plain in it, and every other
//! byte is an escape in upper case.
//!
//! Reserved characters that delimit nothing in a path (`@ $ : + , = & ! ' ( ) *`) are plain in the
//! result, although RFC 3986 lets `%40` and `@` name two resources: the frameworks that servers are
//! written in decode both to the same path, so they must be one for a limit as well.
//!
//! It is not simpler because servers disagree about some spellings: an encoded slash, a backslash,
//! a `;`, a doubly encoded character, a character in more bytes of UTF-8 than it needs. There is no
//! spelling that is right for all of them, so such a path is refused instead of guessed.

mod segments;

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::str::FromStr;

use crate::rule_error::ParseRuleError;

pub(crate) use segments::{Segments, segments, split_segment, without_slashes};

/// Brings a path (without query) to its one spelling, or refuses it.
///
/// Dot segments and duplicate slashes go; what a path may hold is decoded, everything else is
/// escaped in upper case. A path that two servers could read differently is refused.
///
/// ```
/// use sluicegate_core::normalise_path;
///
/// assert_eq!(normalise_path("/api//./x/../%6cogin").unwrap(), "/api/login");
/// assert_eq!(normalise_path("/%40ann%3Aprofile").unwrap(), "/@ann:profile");
/// assert!(normalise_path("/api%2Flogin").is_err());
/// ```
pub fn normalise(path: &str) -> Result<Cow<'_, str>, AmbiguousPath> {
    if !path.starts_with('/') {
        return Err(AmbiguousPath {
            found: "no leading slash",
        });
    }
    if is_plain(path) {
        return Ok(Cow::Borrowed(path));
    }
    let decoded = decode_path_characters(path)?;
    let mut segments: Vec<&str> = Vec::new();
    for segment in decoded.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            other => segments.push(other),
        }
    }
    let mut normal = String::with_capacity(decoded.len());
    for segment in &segments {
        normal.push('/');
        normal.push_str(segment);
    }
    let names_a_folder =
        decoded.ends_with('/') || decoded.ends_with("/.") || decoded.ends_with("/..");
    if normal.is_empty() || names_a_folder {
        normal.push('/');
    }
    Ok(Cow::Owned(normal))
}

/// Returns true when the path surely is in its one spelling already, as most are: unreserved
/// characters and single slashes, no segment that begins with a dot.
fn is_plain(path: &str) -> bool {
    let plain_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_~".contains(&byte);
    let mut before = 0;
    path.bytes().all(|byte| {
        let dot_inside = byte == b'.' && before != b'/' && before != b'.';
        let plain = (plain_byte(byte) && !(byte == b'/' && before == b'/')) || dot_inside;
        before = byte;
        plain
    })
}

/// The path with every character that it may hold decoded, and every other byte escaped in upper
/// case.
fn decode_path_characters(path: &str) -> Result<String, AmbiguousPath> {
    let refuse = |found| Err(AmbiguousPath { found });
    let bytes = path.as_bytes();
    let mut decoded = String::with_capacity(path.len());
    let mut before = 0;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        let is_escape = byte == b'%';
        let value = match is_escape {
            false => byte,
            true => {
                let Some(value) = bytes.get(at..at + 2).and_then(hex_pair) else {
                    return refuse("a broken escape");
                };
                at += 2;
                value
            }
        };
        match (value, is_escape) {
            (b'/' | b'\\', true) => return refuse("an encoded slash"),
            (0..0x20 | 0x7f, true) => return refuse("an encoded control character"),
            (b'\\', false) => return refuse("a backslash"),
            (b';', false) => return refuse("a semicolon"),
            (b'?' | b'#', false) => return refuse("a query or fragment"),
            (0..=0x20 | 0x7f, false) => return refuse("a control character or space"),
            _ if is_overlong(before, value) => return refuse("an overlong character"),
            (b'/', false) => decoded.push('/'),
            _ if is_path_character(value) => decoded.push(value.into()),
            _ => push_escape(&mut decoded, value),
        }
        before = value;
    }
    // Searched in the result, where `%25%34%31` has become `%2541`.
    let is_escape = |rest: &str| {
        rest.as_bytes()
            .get(..2)
            .is_some_and(|pair| hex_pair(pair).is_some())
    };
    if decoded
        .match_indices("%25")
        .any(|(at, escape)| is_escape(&decoded[at + escape.len()..]))
    {
        return refuse("a doubly encoded character");
    }
    Ok(decoded)
}

/// Returns true for a character that delimits nothing in a segment and may be in it as it is: the
/// `pchar` of RFC 3986 without the semicolon, at which some servers end a segment.
fn is_path_character(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,=:@".contains(&byte)
}

/// Returns true when two bytes begin a character in more bytes of UTF-8 than it needs, as `%C0%AF`
/// does for a slash. A lenient decoder takes it for that character, a strict one does not.
fn is_overlong(before: u8, byte: u8) -> bool {
    matches!(byte, 0xc0 | 0xc1)
        || before == 0xe0 && (0x80..0xa0).contains(&byte)
        || before == 0xf0 && (0x80..0x90).contains(&byte)
}

/// The byte that two hexadecimal digits stand for.
pub(crate) fn hex_pair(pair: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    match pair {
        [high, low] => u8::try_from(digit(*high)? * 16 + digit(*low)?).ok(),
        _ => None,
    }
}

/// Decodes every `%XX`; `None` when an escape is broken or the bytes are not UTF-8.
///
/// ```
/// use sluicegate_core::unescape;
///
/// assert_eq!(unescape("a%2Fb"), Some("a/b".to_owned()));
/// assert_eq!(unescape("a%2"), None);
/// ```
pub fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        bytes.push(hex_pair(digits)?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

/// Appends `%XX`, upper case.
pub(crate) fn push_escape(text: &mut String, byte: u8) {
    const DIGITS: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F',
    ];
    text.extend([
        '%',
        DIGITS[usize::from(byte >> 4)],
        DIGITS[usize::from(byte & 15)],
    ]);
}

/// A path that two servers could read differently, so that no limit could be sure to cover it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AmbiguousPath {
    /// The ambiguous part, in a few words.
    found: &'static str,
}

impl fmt::Display for AmbiguousPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the path has {}, which servers read differently",
            self.found
        )
    }
}

impl Error for AmbiguousPath {}

/// A path and every path below it, on segment boundaries: `/api` covers `/api/x` and not `/apix`.
///
/// Letters match in either case: where a server distinguishes `/API` from `/api` the limit covers
/// both, and where it does not, nobody evades the limit.
///
/// ```
/// use sluicegate_core::PathPattern;
///
/// let orders: PathPattern = "/users/{id}/orders".parse()?;
/// assert!(orders.covers("/users/7/orders/1"));
/// assert!(!orders.covers("/users/7"));
/// # Ok::<(), sluicegate_core::ParseRuleError>(())
/// ```
#[derive(Clone, Debug)]
pub struct PathPattern {
    /// From the root; empty for `/`, which covers everything.
    pub(crate) segments: Vec<Segment>,
    /// The text of the rule, which may spell the same path in another way.
    written: String,
}

/// Patterns are equal when they cover the same paths, however they are written.
impl PartialEq for PathPattern {
    fn eq(&self, other: &Self) -> bool {
        self.segments == other.segments
    }
}

impl Eq for PathPattern {}

/// One segment of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    /// This text, normalised; compared without regard to case.
    Literal(String),
    /// Any one segment, written `{name}`.
    Any,
}

impl PathPattern {
    /// Returns true when a path, as [`normalise_path`](crate::normalise_path) leaves it, is this
    /// one or lies below it.
    pub fn covers(&self, path: &str) -> bool {
        let mut rest = segments(path);
        self.segments.iter().all(|own| match (own, rest.next()) {
            (_, None) => false,
            (Segment::Any, Some(_)) => true,
            (Segment::Literal(text), Some(segment)) => text.eq_ignore_ascii_case(segment),
        })
    }

    /// The pattern as the rule has it, with a slash at its end or without.
    ///
    /// ```
    /// use sluicegate_core::PathPattern;
    ///
    /// let api: PathPattern = "/api/".parse()?;
    /// assert_eq!((api.as_written(), api.to_string().as_str()), ("/api/", "/api"));
    /// # Ok::<(), sluicegate_core::ParseRuleError>(())
    /// ```
    pub fn as_written(&self) -> &str {
        &self.written
    }

    /// The order of patterns from general to particular: by segments, then by segments that are
    /// text.
    pub(crate) fn length(&self) -> (usize, usize) {
        let literals = self
            .segments
            .iter()
            .filter(|segment| matches!(segment, Segment::Literal(_)))
            .count();
        (self.segments.len(), literals)
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for segment in &self.segments {
            match segment {
                Segment::Literal(text) => write!(f, "/{text}")?,
                Segment::Any => f.write_str("/{}")?,
            }
        }
        if self.segments.is_empty() {
            f.write_str("/")
        } else {
            Ok(())
        }
    }
}

impl FromStr for PathPattern {
    type Err = ParseRuleError;

    fn from_str(text: &str) -> Result<Self, ParseRuleError> {
        let refused = |expected| ParseRuleError::new(text, expected);
        if !text.starts_with('/') {
            return Err(refused("a path that starts with a slash"));
        }
        let parse_segment = |segment: &str| {
            if let Some(name) = segment
                .strip_prefix('{')
                .and_then(|rest| rest.strip_suffix('}'))
            {
                let is_name = !name.is_empty() && !name.contains(['{', '}']);
                return if is_name {
                    Ok(Segment::Any)
                } else {
                    Err(refused("a name between the braces"))
                };
            }
            if segment.contains(['{', '}', '*']) {
                return Err(refused(
                    "a template such as /users/{id}/orders; a pattern covers all paths below it without *",
                ));
            }
            // Spelled as requests are, so that `/a%62c` in a rule means `/abc`.
            let rooted = format!("/{segment}");
            let normal = normalise(&rooted)
                .map_err(|_| refused("a path without escapes of slashes or controls"))?;
            match normal.strip_prefix('/') {
                Some(normal) if !normal.is_empty() => Ok(Segment::Literal(normal.to_owned())),
                _ => Err(refused("a path without dot segments")),
            }
        };
        Ok(Self {
            segments: segments(text)
                .map(parse_segment)
                .collect::<Result<_, _>>()?,
            written: text.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_path_become_one() {
        for spelling in [
            "/api/login",
            "//api/login",
            "/api//login",
            "/./api/login",
            "/api/./login",
            "/x/../api/login",
            "/../api/login",
            "/api/x/../login",
            "/%61pi/login",
            "/api/%6Cogin",
            "/api/%6cogin",
            "/%2e/api/login",
            "/x/%2E%2e/api/login",
            "/api/login/x/..%2f..".strip_suffix("/x/..%2f..").unwrap(),
        ] {
            assert_eq!(normalise(spelling).unwrap(), "/api/login", "{spelling}");
        }
        assert_eq!(normalise("/api/login/.").unwrap(), "/api/login/");
        assert_eq!(normalise("/api/x/..").unwrap(), "/api/");
        assert_eq!(normalise("/..").unwrap(), "/");
        assert_eq!(
            normalise("/a.b/.well-known/..c").unwrap(),
            "/a.b/.well-known/..c"
        );
        assert_eq!(normalise("/caf\u{e9}%c3%a9").unwrap(), "/caf%C3%A9%C3%A9");
    }

    #[test]
    fn every_character_has_one_spelling() {
        for byte in 0x20..0x7f_u8 {
            let character = char::from(byte);
            let plain = normalise(&format!("/a{character}b")).map(Cow::into_owned);
            let upper = normalise(&format!("/a%{byte:02X}b")).map(Cow::into_owned);
            let lower = normalise(&format!("/a%{byte:02x}b")).map(Cow::into_owned);
            assert_eq!(upper, lower, "{character}");
            // A delimiter is not the same as its escape, and a blank is never plain.
            if !b"/\\;?#% ".contains(&byte) {
                assert_eq!(plain, upper, "{character}");
            }
        }
        assert_eq!(
            normalise("/%40%24%3A%2B%2C%3D%26%21%27%28%29%2A").unwrap(),
            "/@$:+,=&!'()*"
        );
        assert_eq!(
            normalise("/{a}|\"<>^`[]").unwrap(),
            "/%7Ba%7D%7C%22%3C%3E%5E%60%5B%5D"
        );
    }

    #[test]
    fn a_pattern_covers_its_path_and_what_lies_below() {
        let covers =
            |pattern: &str, path: &str| pattern.parse::<PathPattern>().unwrap().covers(path);
        for path in ["/api", "/api/", "/api/x"] {
            assert!(
                covers("/api", path) && covers("/api/", path) && covers("/", path),
                "{path}"
            );
        }
        assert!(covers("/api/Login", "/API/login"), "in either case");
        assert!(!covers("/api", "/apix") && !covers("/api", "/") && !covers("/api/x", "/api"));
        assert!(
            covers("/users/{id}/orders", "/users/7/orders/1")
                && !covers("/users/{id}/orders", "/users/7")
        );
    }

    #[test]
    fn ambiguous_spellings_are_refused() {
        for spelling in [
            "",
            "api",
            "*",
            "/a%2Fb",
            "/a%5cb",
            "/a\\b",
            "/a;b",
            "/a%00",
            "/a%0d%0a",
            "/a%",
            "/a%4",
            "/a%zz",
            "/%2561pi",
            "/%25%36%31pi",
            "/a b",
            "/a\nb",
            "/a?b",
            "/a#b",
            "/a%7f",
            "/%c0%af",
            "/%C0%AE%C0%AE/etc",
            "/%c1%81pi",
            "/%e0%80%af",
            "/%E0%9f%BF",
            "/%f0%80%80%af",
            "/%f0%8f%bf%bf",
        ] {
            assert!(normalise(spelling).is_err(), "{spelling}");
        }
    }

    #[test]
    fn normal_paths_stay_as_they_are() {
        for path in [
            "/",
            "/api",
            "/api/",
            "/a-b_c.d~e/f",
            "/a%20b",
            "/x/%25",
            "/%C3%A9",
        ] {
            let normal = normalise(path).unwrap();
            assert_eq!(normal, path);
            assert_eq!(normalise(&normal).unwrap(), normal);
        }
    }

    #[test]
    fn what_is_escaped_is_read_as_what_it_stands_for() {
        assert_eq!(unescape("a%2Fb%20%c3%A9"), Some("a/b é".to_owned()));
        for wrong in ["%", "%2", "%zz", "%+1", "%ff", "a%"] {
            assert_eq!(unescape(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn patterns_that_cannot_be_matched_are_refused() {
        for pattern in [
            "", "api", "/{", "/{}", "/a{b}", "/a/*", "/a/..", "/a/%2F", "/{a}b", "/{{a}}",
        ] {
            assert!(pattern.parse::<PathPattern>().is_err(), "{pattern}");
        }
        assert_eq!("/a/".parse::<PathPattern>(), "/%61".parse());
    }
}
