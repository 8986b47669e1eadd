//! Query strings, in one reading.
//!
//! Servers differ in how they read a query, so this is defined here once, for conditions and for
//! keys: the query begins after the first `?` of a target and is split at `&`; a name ends at its
//! first `=`. In names and values `%XX` stands for a byte and `+` for a blank; a `%` without two
//! hexadecimal digits stands for itself. Names are compared by case. A name that occurs twice has
//! no value, because which of the two counts would be a guess.

use std::borrow::Cow;
use std::fmt;

use crate::path::hex_pair;

/// The value of the parameter `name` in a query string.
///
/// ```
/// use sluicegate_core::{QueryValue, query_parameter};
///
/// let query = Some("user=ann+b&us%65r_id=7&x&x");
/// assert!(matches!(query_parameter(query, "user"), QueryValue::One(text) if text.is("ann b")));
/// assert!(matches!(query_parameter(query, "user_id"), QueryValue::One(text) if text.is("7")));
/// assert!(matches!(query_parameter(query, "x"), QueryValue::Repeated));
/// assert!(matches!(query_parameter(query, "y"), QueryValue::Missing));
/// ```
pub fn parameter<'a>(query: Option<&'a str>, name: &str) -> QueryValue<'a> {
    let mut found = QueryValue::Missing;
    for pair in query.unwrap_or_default().split('&') {
        let (own, value) = pair.split_once('=').unwrap_or((pair, ""));
        if pair.is_empty() || !QueryText(own).is(name) {
            continue;
        }
        match found {
            QueryValue::Missing => found = QueryValue::One(QueryText(value)),
            QueryValue::One(_) | QueryValue::Repeated => return QueryValue::Repeated,
        }
    }
    found
}

/// The values of a query string under one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryValue<'a> {
    /// No such parameter.
    Missing,
    /// One, with this value; empty when there is no `=`.
    One(QueryText<'a>),
    /// Several: which one counts would be a guess.
    Repeated,
}

/// A text of a query string as it was sent; it stands for its decoded bytes.
///
/// ```
/// use sluicegate_core::{QueryValue, query_parameter};
///
/// let QueryValue::One(text) = query_parameter(Some("q=a%2Fb"), "q") else { panic!() };
/// assert_eq!(&*text.decoded(), b"a/b");
/// ```
#[derive(Clone, Copy, Eq)]
pub struct QueryText<'a>(&'a str);

impl<'a> QueryText<'a> {
    /// Returns true when it stands for this text.
    pub fn is(self, text: &str) -> bool {
        match self.is_plain() {
            true => self.0 == text,
            false => self.bytes().eq(text.bytes()),
        }
    }

    /// The bytes that it stands for; copied only when they differ from those that were sent.
    pub fn decoded(self) -> Cow<'a, [u8]> {
        match self.is_plain() {
            true => Cow::Borrowed(self.0.as_bytes()),
            false => Cow::Owned(self.bytes().collect()),
        }
    }

    /// The text as it was sent.
    pub(crate) fn as_sent(self) -> &'a str {
        self.0
    }

    /// Returns true when the text stands for itself.
    pub(crate) fn is_plain(self) -> bool {
        !self.0.bytes().any(|byte| matches!(byte, b'%' | b'+'))
    }

    /// The bytes that it stands for, one by one.
    pub(crate) fn bytes(self) -> impl Iterator<Item = u8> + use<'a> {
        let mut rest = self.0.as_bytes();
        std::iter::from_fn(move || {
            let (&first, after) = rest.split_first()?;
            rest = after;
            Some(match first {
                b'+' => b' ',
                b'%' => match after.split_at_checked(2) {
                    Some((pair, behind)) => hex_pair(pair).map_or(b'%', |byte| {
                        rest = behind;
                        byte
                    }),
                    None => b'%',
                },
                plain => plain,
            })
        })
    }
}

/// Two texts are equal when they stand for the same bytes.
impl PartialEq for QueryText<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes().eq(other.bytes())
    }
}

impl fmt::Debug for QueryText<'_> {
    /// Leaves the text out: it may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("QueryText(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(query: &str, name: &str) -> Option<String> {
        match parameter(Some(query), name) {
            QueryValue::One(text) => Some(String::from_utf8(text.decoded().into()).unwrap()),
            QueryValue::Missing | QueryValue::Repeated => None,
        }
    }

    #[test]
    fn a_query_is_read_in_one_way() {
        for (query, expected) in [
            ("user=ann", Some("ann")),
            ("a=1&user=ann&b=2", Some("ann")),
            ("user=a%6En", Some("ann")),
            ("%75ser=ann", Some("ann")),
            ("user=a+b", Some("a b")),
            ("user=a%2Bb", Some("a+b")),
            ("user=a=b", Some("a=b")),
            ("user=a?b", Some("a?b")),
            ("user=100%", Some("100%")),
            ("user=%zz%4", Some("%zz%4")),
            ("user=%c3%a9", Some("\u{e9}")),
            ("user=", Some("")),
            ("user", Some("")),
            ("&&user=ann&", Some("ann")),
            ("user=a;user=b", Some("a;user=b")),
            ("User=ann", None),
            ("users=ann", None),
            ("x=user=ann", None),
            ("user=ann&user=bob", None),
            ("user=ann&user", None),
            ("user=ann&us%65r=bob", None),
            ("", None),
        ] {
            assert_eq!(value(query, "user").as_deref(), expected, "{query}");
        }
        assert_eq!(value("a+b=1", "a b").as_deref(), Some("1"));
        assert_eq!(parameter(None, "user"), QueryValue::Missing);
        assert_eq!(
            parameter(Some("=x"), "user"),
            QueryValue::Missing,
            "a pair without a name"
        );
    }

    #[test]
    fn texts_are_equal_when_they_stand_for_the_same() {
        assert_eq!(QueryText("a%20b"), QueryText("a+b"));
        assert_ne!(QueryText("a%2Bb"), QueryText("a+b"));
        assert!(QueryText("%41").is("A") && !QueryText("%41").is("%41"));
    }
}
