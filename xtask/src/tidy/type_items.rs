//! The types that a file of Rust defines.

use super::module_paths::is_public;
use super::rust_code::TokenKind;
use super::rust_source::{RustSource, RustToken};

/// A struct, an enum, a trait, a union or an alias, outside of test code and of macro definitions. The types
/// that belong to a trait are none of their own.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeItem {
    pub name: String,
    pub path: String,
    pub line: usize,
    /// Others than its own file can name it: `pub`, `pub(crate)` and the like.
    pub is_visible: bool,
}

/// Every type of a file, in order.
pub fn types_in(source: &RustSource) -> Vec<TypeItem> {
    let tokens: Vec<RustToken<'_>> = source.tokens().collect();
    let mut found = Vec::new();
    // For each open brace: whether it belongs to a module.
    let mut braces: Vec<bool> = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        match tokens[at].text {
            "macro_rules" => {
                at = end_of_macro(&tokens, at);
                continue;
            }
            "{" => braces.push(at >= 2 && tokens[at - 2].text == "mod"),
            "}" => {
                braces.pop();
            }
            "struct" | "enum" | "trait" | "union" => found.extend(item(source, &tokens, at)),
            "type" if braces.iter().all(|is_module| *is_module) => {
                found.extend(item(source, &tokens, at));
            }
            _ => {}
        }
        at += 1;
    }
    found
}

/// The item behind this keyword, if a name follows.
fn item(source: &RustSource, tokens: &[RustToken<'_>], keyword: usize) -> Option<TypeItem> {
    let name = tokens.get(keyword + 1)?;
    if tokens[keyword].kind != TokenKind::Word || name.kind != TokenKind::Word {
        return None;
    }
    let before = match &tokens[..keyword] {
        [before @ .., last] if matches!(last.text, "unsafe" | "auto") => before,
        before => before,
    };
    Some(TypeItem {
        name: name.text.to_string(),
        path: source.path.clone(),
        line: source.line_at(name.at),
        is_visible: is_public(before),
    })
}

/// The token after the body of a macro definition that starts here.
fn end_of_macro(tokens: &[RustToken<'_>], start: usize) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(start) {
        match token.text {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return index + 1;
                }
            }
            _ => {}
        }
    }
    tokens.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<(String, bool)> {
        let types = types_in(&RustSource::new("a.rs", text));
        types
            .into_iter()
            .map(|item| (item.name, item.is_visible))
            .collect()
    }

    #[test]
    fn each_kind_of_type_is_found_with_its_visibility() {
        let text = "pub struct A;\nenum B {}\npub(in crate::x) unsafe trait C {}\npub(crate) type D = A;\npub union E { x: u8 }\n";
        let expected = [
            ("A", true),
            ("B", false),
            ("C", true),
            ("D", true),
            ("E", true),
        ];
        assert_eq!(
            names(text),
            expected.map(|(name, seen)| (name.to_string(), seen))
        );
    }

    #[test]
    fn types_of_traits_macros_and_tests_are_none() {
        let text = "impl Iterator for A { type Item = u8; }\nmod m { type Inside = u8; }\n\
                    macro_rules! m { () => { pub struct Made; } }\n\
                    #[cfg(test)]\nmod tests { pub struct Proof; }\nfn f() { a.union(b); }\n";
        assert_eq!(names(text), [("Inside".to_string(), false)]);
    }
}
