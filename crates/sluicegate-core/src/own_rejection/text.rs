//! The texts of a rejection, taken apart at their placeholders.

use std::io::Write;
use std::sync::Arc;

use super::RejectionError;

/// Text with placeholders: `{limit}`, `{retry_after}` and `{request_id}`.
///
/// Any other word of letters and underscores between braces is refused, because it is a
/// placeholder that does not exist; `{{word}}` stands for `{word}`. All other braces are text, so
/// that JSON and style sheets stay as they are.
///
/// ```
/// use sluicegate_core::{RejectionText, RejectionValues};
///
/// let text = RejectionText::parse(r#"{"limit": "{limit}", "wait": {retry_after}}"#)?;
/// let values = RejectionValues { limit: "login", retry_after_secs: 7, request_id: "1f" };
/// let mut out = Vec::new();
/// text.fill(&values, &mut out);
/// assert_eq!(out, br#"{"limit": "login", "wait": 7}"#);
/// # Ok::<(), sluicegate_core::RejectionError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectionText(Vec<TextPiece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum TextPiece {
    Fixed(Arc<str>),
    Limit,
    RetryAfter,
    RequestId,
}

/// The values that a denial fills in.
#[derive(Clone, Copy, Debug)]
pub struct RejectionValues<'a> {
    /// The name of the limit that denied; of several, the first.
    pub limit: &'a str,
    /// Whole seconds, as in `Retry-After`.
    pub retry_after_secs: u64,
    /// The id of the request: letters, digits and a few signs.
    pub request_id: &'a str,
}

impl RejectionText {
    /// Takes a text apart.
    pub fn parse(text: &str) -> Result<Self, RejectionError> {
        let (mut pieces, mut fixed, mut rest) = (Vec::new(), String::new(), text);
        while let Some(start) = rest.find('{') {
            let (before, braced) = rest.split_at(start);
            fixed.push_str(before);
            if let Some(word) = word_between(braced, "{{", "}}") {
                fixed.push('{');
                fixed.push_str(word);
                fixed.push('}');
                rest = &braced[word.len() + 4..];
            } else if let Some(word) = word_between(braced, "{", "}") {
                let piece = TextPiece::named(word)?;
                if !fixed.is_empty() {
                    pieces.push(TextPiece::Fixed(std::mem::take(&mut fixed).into()));
                }
                pieces.push(piece);
                rest = &braced[word.len() + 2..];
            } else {
                fixed.push('{');
                rest = &braced[1..];
            }
        }
        fixed.push_str(rest);
        if !fixed.is_empty() || pieces.is_empty() {
            pieces.push(TextPiece::Fixed(fixed.into()));
        }
        Ok(Self(pieces))
    }

    /// The whole text where it has no placeholder: it can be sent as it is.
    pub fn as_fixed(&self) -> Option<&Arc<str>> {
        match &self.0[..] {
            [TextPiece::Fixed(text)] => Some(text),
            _ => None,
        }
    }

    /// Appends the text with its values.
    pub fn fill(&self, values: &RejectionValues<'_>, out: &mut Vec<u8>) {
        for piece in &self.0 {
            match piece {
                TextPiece::Fixed(text) => out.extend_from_slice(text.as_bytes()),
                TextPiece::Limit => out.extend_from_slice(values.limit.as_bytes()),
                TextPiece::RetryAfter => {
                    // Writing to a vector never fails.
                    let _ = write!(out, "{}", values.retry_after_secs);
                }
                TextPiece::RequestId => out.extend_from_slice(values.request_id.as_bytes()),
            }
        }
    }

    /// The bytes of the text without its values.
    pub fn fixed_len(&self) -> usize {
        let length = |piece: &TextPiece| match piece {
            TextPiece::Fixed(text) => text.len(),
            TextPiece::Limit | TextPiece::RetryAfter | TextPiece::RequestId => 0,
        };
        self.0.iter().map(length).sum()
    }
}

impl TextPiece {
    fn named(word: &str) -> Result<Self, RejectionError> {
        match word {
            "limit" => Ok(Self::Limit),
            "retry_after" => Ok(Self::RetryAfter),
            "request_id" => Ok(Self::RequestId),
            _ => Err(RejectionError::UnknownPlaceholder(word.to_owned())),
        }
    }
}

/// The word of letters and underscores that stands between these marks at the beginning of a text.
fn word_between<'a>(text: &'a str, open: &str, close: &str) -> Option<&'a str> {
    let rest = text.strip_prefix(open)?;
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let end = rest.bytes().position(|byte| !is_letter(byte))?;
    let (word, rest) = rest.split_at(end);
    (!word.is_empty() && rest.starts_with(close)).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str) -> String {
        let mut out = Vec::new();
        let values = RejectionValues {
            limit: "login",
            retry_after_secs: 30,
            request_id: "1f-2",
        };
        RejectionText::parse(text).unwrap().fill(&values, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn placeholders_are_filled_in_and_all_other_braces_stay() {
        for (text, expected) in [
            ("", ""),
            ("sorry", "sorry"),
            ("{limit}", "login"),
            ("{limit}{retry_after}{request_id}", "login301f-2"),
            ("wait {retry_after}s, {limit}", "wait 30s, login"),
            ("{{limit}} is {limit}", "{limit} is login"),
            ("{{other}}", "{other}"),
            (r#"{"a":{"b":{retry_after}}}"#, r#"{"a":{"b":30}}"#),
            ("p{color:red}", "p{color:red}"),
            ("{}", "{}"),
            ("{ limit }", "{ limit }"),
            ("{0} {a-b} {limit", "{0} {a-b} {limit"),
            ("{{{limit}}}", "{{limit}}"),
            ("}}{{", "}}{{"),
            ("ü{limit}ß", "üloginß"),
        ] {
            assert_eq!(filled(text), expected, "{text}");
        }
    }

    #[test]
    fn a_word_that_is_no_placeholder_is_refused_by_name() {
        for word in ["limits", "LIMIT", "_", "ip"] {
            let error = RejectionText::parse(&format!("a {{{word}}} b")).unwrap_err();
            assert_eq!(error, RejectionError::UnknownPlaceholder(word.to_owned()));
            assert_eq!(
                error.to_string(),
                format!(
                    "unknown placeholder {{{word}}} (known: {{limit}}, {{retry_after}}, {{request_id}}); write {{{{{word}}}}} for the text {{{word}}}"
                )
            );
        }
    }

    #[test]
    fn a_text_without_placeholders_is_shared_and_not_copied() {
        let text = RejectionText::parse("p{color:red}").unwrap();
        assert!(Arc::ptr_eq(
            text.as_fixed().unwrap(),
            text.clone().as_fixed().unwrap()
        ));
        assert_eq!(RejectionText::parse("{limit}").unwrap().as_fixed(), None);
        assert_eq!(RejectionText::parse("ab{limit}c").unwrap().fixed_len(), 3);
    }
}
