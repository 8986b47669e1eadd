//! Text for messages about mistakes: values in quotes, lists of words.

use std::fmt::Display;

/// A parser's error in the form that [`Field::parsed`](crate::field::Field::parsed) expects.
pub(crate) fn expected(what: impl Display, got: &str) -> String {
    format!("expected {what} (got {got:?})")
}

/// Text in quotes, cut when it is long.
pub(crate) fn quoted(text: &str) -> String {
    const SHOWN_MAX: usize = 60;
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// `a, b or c`
pub(crate) fn one_of(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(quoted(&"ä".repeat(61)), format!("\"{}\"…", "ä".repeat(60)));
        assert_eq!(quoted("a\nb"), "\"a\\nb\"");
    }
}
