//! Tells Rust code from the words in its comments and literals.

/// The same text with comments and the insides of literals turned into spaces. Quotes, newlines and offsets stay,
/// so that a place found here is the same place in the original.
pub fn code_only(text: &str) -> String {
    let mut code = text.as_bytes().to_vec();
    let mut at = 0;
    while at < text.len() {
        let token = Token::at(text, at);
        for byte in &mut code[at + token.keep_first..at + token.length - token.keep_last] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at += token.length;
    }
    String::from_utf8(code).expect("whole characters are replaced by ASCII spaces")
}

/// True when this byte can be part of a name. Bytes of non-ASCII letters count, as Rust allows those in names.
pub fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

/// A stretch of text, and how much of it to keep at either end; what lies between is blanked.
pub struct Token {
    pub kind: TokenKind,
    pub length: usize,
    keep_first: usize,
    keep_last: usize,
}

/// The kinds of stretches that a file of Rust is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TokenKind {
    Comment,
    /// A text, a byte text or a character, with its quotes and prefix.
    Literal,
    /// A keyword, a name or a number.
    Word,
    /// Punctuation; operators of several characters are one.
    Mark,
    Space,
}

/// Operators that are one token. `>>` is not among them: in types it closes two lists.
const OPERATORS: [&str; 20] = [
    "..=", "...", "<<=", ">>=", "::", "->", "=>", "==", "!=", "<=", ">=", "&&", "||", "+=", "-=",
    "*=", "/=", "|=", "&=", "..",
];

impl Token {
    /// Every token of a text with its offset, without the space between them.
    pub fn all(text: &str) -> impl Iterator<Item = (usize, Self)> {
        let mut next = 0;
        let tokens = std::iter::from_fn(move || {
            let at = next;
            let token = (at < text.len()).then(|| Self::at(text, at))?;
            next += token.length;
            Some((at, token))
        });
        tokens.filter(|(_, token)| token.kind != TokenKind::Space)
    }

    fn at(text: &str, start: usize) -> Self {
        let rest = &text.as_bytes()[start..];
        match rest {
            [b'/', b'/', ..] => Self::blank(
                rest.iter()
                    .position(|byte| *byte == b'\n')
                    .unwrap_or(rest.len()),
            ),
            [b'/', b'*', ..] => Self::blank(block_comment_length(rest)),
            [b'"', ..] => Self::literal(quoted_length(rest), 1, 1),
            [b'\'', ..] => char_length(&text[start..])
                .map_or(Self::code(TokenKind::Mark, 1), |length| {
                    Self::literal(length, 1, 1)
                }),
            [byte, ..] if is_name_byte(*byte) => Self::name_or_raw_string(rest),
            [byte, ..] if byte.is_ascii_whitespace() => Self::code(TokenKind::Space, 1),
            _ => {
                let operator = OPERATORS
                    .iter()
                    .find(|operator| rest.starts_with(operator.as_bytes()));
                Self::code(
                    TokenKind::Mark,
                    operator.map_or(1, |operator| operator.len()),
                )
            }
        }
    }

    fn name_or_raw_string(rest: &[u8]) -> Self {
        let name = rest.iter().take_while(|byte| is_name_byte(**byte)).count();
        if matches!(&rest[..name], b"b" | b"c") && rest.get(name) == Some(&b'"') {
            return Self::literal(name + quoted_length(&rest[name..]), name + 1, 1);
        }
        if !matches!(&rest[..name], b"r" | b"br" | b"cr") {
            return Self::code(TokenKind::Word, name);
        }
        let hashes = rest[name..]
            .iter()
            .take_while(|byte| **byte == b'#')
            .count();
        if rest.get(name + hashes) != Some(&b'"') {
            return Self::code(TokenKind::Word, name);
        }
        let opening = name + hashes + 1;
        let closing: Vec<u8> = std::iter::once(b'"')
            .chain(std::iter::repeat_n(b'#', hashes))
            .collect();
        let inside = rest[opening..]
            .windows(closing.len())
            .position(|window| window == closing);
        Self::literal(
            inside.map_or(rest.len(), |inside| opening + inside + closing.len()),
            opening,
            closing.len(),
        )
    }

    fn code(kind: TokenKind, length: usize) -> Self {
        Self {
            kind,
            length,
            keep_first: length,
            keep_last: 0,
        }
    }

    fn blank(length: usize) -> Self {
        Self {
            kind: TokenKind::Comment,
            length,
            keep_first: 0,
            keep_last: 0,
        }
    }

    fn literal(length: usize, keep_first: usize, keep_last: usize) -> Self {
        // A literal cut off by the end of the file may be shorter than its two ends.
        let keep_first = keep_first.min(length);
        Self {
            kind: TokenKind::Literal,
            length,
            keep_first,
            keep_last: keep_last.min(length - keep_first),
        }
    }
}

/// Block comments nest in Rust.
fn block_comment_length(rest: &[u8]) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

fn quoted_length(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// `None` for a lifetime, which begins with the same quote.
fn char_length(rest: &str) -> Option<usize> {
    let mut letters = rest.char_indices().skip(1);
    match letters.next()?.1 {
        '\\' => {
            letters.next()?;
            letters
                .find(|(_, letter)| *letter == '\'')
                .map(|(at, _)| at + 1)
        }
        _ => letters
            .next()
            .filter(|(_, letter)| *letter == '\'')
            .map(|(at, _)| at + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_and_nothing_moves() {
        let cases = [
            ("a // {\nb", "a     \nb"),
            ("a /* { /* } */ { */ b", "a                   b"),
            (r#"f("{\"}", x)"#, r#"f("    ", x)"#),
            (r##"f(r#"{"}"#, x)"##, r##"f(r#"   "#, x)"##),
            (r#"f(b"{", br"\", x)"#, r#"f(b" ", br" ", x)"#),
            (
                r"m('{', '\'', '\u{7b}', b'}')",
                r"m(' ', '  ', '      ', b' ')",
            ),
            ("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}"),
            ("r#fn + \"é\"", "r#fn + \"  \""),
            ("\"a\n{\"", "\" \n \""),
        ];
        for (text, expected) in cases {
            assert_eq!(code_only(text), expected, "{text:?}");
        }
    }

    #[test]
    fn operators_and_literals_are_one_token_each() {
        let text = "a::b(&'x y, b\"1 2\", 'c') => x..=9 // no";
        let tokens: Vec<&str> = Token::all(text)
            .map(|(at, token)| &text[at..at + token.length])
            .collect();
        let expected = [
            "a", "::", "b", "(", "&", "'", "x", "y", ",", "b\"1 2\"", ",", "'c'", ")", "=>", "x",
            "..=", "9", "// no",
        ];
        assert_eq!(tokens, expected);
    }

    #[test]
    fn text_cut_off_inside_a_literal_does_not_panic() {
        for text in [
            "\"",
            "r#\"",
            "r#\"abc\"",
            "'",
            "'\\",
            "/*",
            "/* /",
            "//",
            "b'",
            "\"\\",
        ] {
            assert_eq!(code_only(text).len(), text.len(), "{text:?}");
        }
    }
}
