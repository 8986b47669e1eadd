//! The comments of a Rust file, counted.

use std::collections::BTreeSet;

use super::rust_code::{Token, TokenKind};
use super::rust_source::RustSource;

/// First words that make a reader wait for the subject of the sentence.
pub const INDIRECT_OPENINGS: [&str; 5] = ["what", "who", "whose", "whether", "of"];

/// The comments outside of test code that have lines of their own.
#[derive(Debug, PartialEq)]
pub struct Comments {
    /// Lines of one kind (`//`, `///`, `//!`) that follow each other are one comment.
    pub count: usize,
    /// The first lines of the comments that begin with one of [`INDIRECT_OPENINGS`].
    pub indirect_openings: Vec<usize>,
    /// The numbers of the lines that hold a comment and nothing else.
    pub lines: BTreeSet<usize>,
    /// How many lines hold code.
    pub code_lines: usize,
}

impl Comments {
    pub fn of(source: &RustSource) -> Self {
        let mut comments = Self {
            count: 0,
            indirect_openings: Vec::new(),
            lines: BTreeSet::new(),
            code_lines: 0,
        };
        // The line and the mark of the comment before, to tell whether the next one goes on with it.
        let mut before = (0, "");
        for (at, token) in Token::all(&source.text) {
            if token.kind != TokenKind::Comment || source.is_test(at) || !begins_line(source, at) {
                continue;
            }
            let text = &source.text[at..at + token.length];
            let line = source.line_at(at);
            let mark = mark_of(text);
            if before != (line - 1, mark) {
                comments.count += 1;
                if opens_indirectly(&text[mark.len()..]) {
                    comments.indirect_openings.push(line);
                }
            }
            let last = line + text.matches('\n').count();
            comments.lines.extend(line..=last);
            before = (last, mark);
        }
        let mut start = 0;
        for (number, line) in (1..).zip(source.text.split_inclusive('\n')) {
            let is_blank = line.trim().is_empty();
            if !is_blank && !comments.lines.contains(&number) && !source.is_test(start) {
                comments.code_lines += 1;
            }
            start += line.len();
        }
        comments
    }
}

/// True when nothing but space stands before this place in its line.
fn begins_line(source: &RustSource, at: usize) -> bool {
    let line = source.text[..at].rsplit('\n').next().unwrap_or_default();
    line.trim().is_empty()
}

fn mark_of(comment: &str) -> &str {
    let marks = ["///", "//!", "//", "/**", "/*!", "/*"];
    let mark = marks.iter().find(|mark| comment.starts_with(**mark));
    mark.map_or("", |mark| &comment[..mark.len()])
}

fn opens_indirectly(text: &str) -> bool {
    let mut words = text.split(|letter: char| !letter.is_alphabetic());
    let first = words.find(|word| !word.is_empty()).unwrap_or_default();
    INDIRECT_OPENINGS.contains(&first.to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_one_kind_are_one_comment() {
        let text = "//! About.\n//! What it is.\n\n/// Whether x.\nfn f() {} // of course\n// a\n/// b\n/* Whose\nlong */\n";
        let comments = Comments::of(&RustSource::new("a.rs", text));
        let expected = Comments {
            count: 5,
            indirect_openings: vec![4, 8],
            lines: BTreeSet::from([1, 2, 4, 6, 7, 8, 9]),
            code_lines: 1,
        };
        assert_eq!(comments, expected);
    }

    #[test]
    fn test_code_and_literals_hold_no_comments() {
        let text = "const A: &str = \"\n// What\n\";\n#[cfg(test)]\nmod tests {\n    // What\n}\n";
        let comments = Comments::of(&RustSource::new("a.rs", text));
        assert_eq!((comments.count, comments.code_lines), (0, 3));
    }
}
