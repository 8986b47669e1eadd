//! The paths that a file of Rust mentions, with the groups of `use` taken apart.

use super::rust_code::TokenKind;
use super::rust_source::RustToken;

/// One path as written: `use crate::a::{B, C as D}` holds `crate::a::B` and `crate::a::C`.
#[derive(Debug, PartialEq)]
pub struct CodePath<'a> {
    /// The offset of its own last part, which is the line to show.
    pub at: usize,
    /// From the first word on; `*` stands for everything inside the part before it.
    pub parts: Vec<&'a str>,
    /// The name it has where it was imported: the last part, or what stands behind `as`.
    pub name: &'a str,
    pub context: PathContext,
}

/// The statement that a path stands in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PathContext {
    /// `use …`
    Import,
    /// `pub use …`, with any visibility.
    Reexport,
    /// Anything else: an expression, a type, an attribute.
    Code,
}

/// Every path with at least one `::`, and every import.
pub fn paths<'a>(tokens: &[RustToken<'a>]) -> Vec<CodePath<'a>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let after_double_colon = at > 0 && tokens[at - 1].text == "::";
        let is_word = tokens[at].kind == TokenKind::Word;
        let next_is_double_colon = tokens.get(at + 1).is_some_and(|next| next.text == "::");
        if is_word && tokens[at].text == "use" {
            let context = if is_public(&tokens[..at]) {
                PathContext::Reexport
            } else {
                PathContext::Import
            };
            at = PathReader { tokens, context }.read(at + 1, &[], &mut found);
        } else if is_word && next_is_double_colon && !after_double_colon {
            let context = PathContext::Code;
            at = PathReader { tokens, context }.read(at, &[], &mut found);
        } else {
            at += 1;
        }
    }
    found
}

/// True when the tokens before an item make it visible to others: `pub` or `pub(…)`.
pub fn is_public(before: &[RustToken<'_>]) -> bool {
    let visibility = match before {
        [.., last] if last.text == ")" => before.iter().rposition(|token| token.text == "("),
        _ => Some(before.len()),
    };
    visibility
        .and_then(|end| before[..end].last())
        .is_some_and(|token| token.text == "pub")
}

struct PathReader<'t, 'a> {
    tokens: &'t [RustToken<'a>],
    context: PathContext,
}

impl<'a> PathReader<'_, 'a> {
    /// Reads one path or one tree of an import, the parts before it given; returns where to go on.
    fn read(&self, start: usize, before: &[&'a str], found: &mut Vec<CodePath<'a>>) -> usize {
        let mut parts = before.to_vec();
        let mut at = start;
        let mut last = start;
        while let Some(token) = self.tokens.get(at) {
            match token.text {
                // A path that begins with `::` names another crate; its first part says so just as well.
                "::" if at == start => {}
                "{" => return self.read_group(at + 1, &parts, found),
                text if token.kind == TokenKind::Word || text == "*" => {
                    parts.push(text);
                    last = at;
                }
                // A list of types, as in `Vec::<u8>::new`: what follows belongs to the type.
                _ => break,
            }
            if token.text != "::" {
                at += 1;
                let goes_on = self.text(at) == "::" && self.continues(at + 1);
                if !goes_on {
                    break;
                }
            }
            at += 1;
        }
        let mut name = parts.last().copied().unwrap_or_default();
        if self.context != PathContext::Code && self.text(at) == "as" {
            name = self.text(at + 1);
            at += 2;
        }
        if !parts.is_empty() {
            let at = self.tokens[last].at;
            let context = self.context;
            found.push(CodePath {
                at,
                parts,
                name,
                context,
            });
        }
        at.max(start + 1)
    }

    fn read_group(&self, start: usize, before: &[&'a str], found: &mut Vec<CodePath<'a>>) -> usize {
        let mut at = start;
        while at < self.tokens.len() {
            match self.text(at) {
                "}" => return at + 1,
                "," => at += 1,
                _ => at = self.read(at, before, found),
            }
        }
        at
    }

    fn continues(&self, at: usize) -> bool {
        let is_word = self
            .tokens
            .get(at)
            .is_some_and(|token| token.kind == TokenKind::Word);
        let is_import = self.context != PathContext::Code;
        is_word || (is_import && matches!(self.text(at), "{" | "*"))
    }

    fn text(&self, at: usize) -> &'a str {
        self.tokens.get(at).map_or("", |token| token.text)
    }
}

#[cfg(test)]
mod tests {
    use super::super::rust_source::RustSource;
    use super::*;

    /// `path as name` of each, with a mark in front: `+` re-exported, `-` imported.
    fn read(text: &str) -> Vec<String> {
        let source = RustSource::new("a.rs", text);
        let tokens: Vec<_> = source.tokens().collect();
        let written = paths(&tokens).into_iter().map(|path| {
            let mark = match path.context {
                PathContext::Reexport => "+",
                PathContext::Import => "-",
                PathContext::Code => "",
            };
            let joined = path.parts.join("::");
            match path.parts.last() {
                Some(last) if *last == path.name => format!("{mark}{joined}"),
                _ => format!("{mark}{joined} as {}", path.name),
            }
        });
        written.collect()
    }

    #[test]
    fn imports_are_taken_apart() {
        assert_eq!(
            read("use crate::{a::{self, B as C}, d::*, E};\npub(crate) use f::G;\npub use h;"),
            [
                "-crate::a::self",
                "-crate::a::B as C",
                "-crate::d::*",
                "-crate::E",
                "+f::G",
                "+h"
            ]
        );
    }

    #[test]
    fn paths_in_code_end_where_types_begin() {
        assert_eq!(
            read(
                "fn f(x: super::T) -> Vec<a::B> { crate::m::f::<u8>(x).g(); c::d!{}; $crate::e::h() }"
            ),
            ["super::T", "a::B", "crate::m::f", "c::d", "crate::e::h"]
        );
    }

    #[test]
    fn visibility_with_a_path_is_understood() {
        assert_eq!(
            read("pub(in crate::a) use b::C;\nfn use_it() { f(); }\nuse d::E;"),
            ["crate::a", "+b::C", "-d::E"]
        );
    }
}
