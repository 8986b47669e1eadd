//! A Rust file as tidy sees it: its functions, its test code, its words.

use std::ops::Range;

use super::rust_code::{Token, TokenKind, code_only, is_name_byte};

/// A Rust file with its [`code_only`] twin, which is where everything is searched.
pub struct RustSource {
    pub path: String,
    pub text: String,
    pub code: String,
    /// The whole file is test code: it lies in a `tests` directory, has a name that ends in
    /// `tests.rs`, or another file declares it under `#[cfg(test)]`.
    pub is_test_file: bool,
    test_items: Vec<Range<usize>>,
}

/// A function with a body.
#[derive(Debug, PartialEq)]
pub struct Function {
    pub name: String,
    /// The line of the word `fn`, counted from one.
    pub line: usize,
    /// From the word `fn` to the closing brace, both included.
    pub length: usize,
}

/// A piece of code that a reader sees as one thing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RustToken<'a> {
    /// Its first byte in the text of the file.
    pub at: usize,
    pub kind: TokenKind,
    pub text: &'a str,
}

impl RustSource {
    pub fn new(path: &str, text: &str) -> Self {
        let code = code_only(text);
        let test_items = test_items(&code);
        let is_test_file = path
            .split('/')
            .any(|part| part == "tests" || part.ends_with("tests.rs"));
        Self {
            path: path.to_string(),
            text: text.to_string(),
            code,
            is_test_file,
            test_items,
        }
    }

    /// The line of an offset, counted from one.
    pub fn line_at(&self, offset: usize) -> usize {
        1 + self.code.as_bytes()[..offset]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count()
    }

    /// Where the code says `phrase`, as whole words: `fs::` is not found in `offs::`.
    pub fn mentions(&self, phrase: &str) -> impl Iterator<Item = usize> {
        whole_words(&self.code, phrase)
    }

    /// The words, literals and operators outside of comments and test code, in order.
    pub fn tokens(&self) -> impl Iterator<Item = RustToken<'_>> {
        let tokens = Token::all(&self.text).filter(|(_, token)| token.kind != TokenKind::Comment);
        let tokens = tokens.filter(|(at, _)| !self.is_test(*at));
        tokens.map(|(at, token)| RustToken {
            at,
            kind: token.kind,
            text: &self.text[at..at + token.length],
        })
    }

    pub fn functions(&self) -> Vec<Function> {
        whole_words(&self.code, "fn")
            .filter_map(|at| self.function_at(at))
            .collect()
    }

    /// True inside an item under `#[cfg(test)]`, and everywhere in a file of test code.
    pub fn is_test(&self, offset: usize) -> bool {
        self.is_test_file || self.test_items.iter().any(|item| item.contains(&offset))
    }

    pub fn is_in_tests_directory(&self) -> bool {
        self.path.split('/').any(|part| part == "tests")
    }

    /// Paths, without `.rs`, of the modules this file declares as `#[cfg(test)] mod name;`.
    pub fn test_modules_elsewhere(&self) -> impl Iterator<Item = String> {
        let (directory, file) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        let home = match file {
            "lib.rs" | "main.rs" | "mod.rs" => directory.to_string(),
            _ => self.path.trim_end_matches(".rs").to_string(),
        };
        let items = self
            .test_items
            .iter()
            .map(|item| self.code[item.clone()].trim_end());
        let names = items.filter_map(|item| {
            item.strip_suffix(';')?
                .rsplit_once("mod ")
                .map(|(_, name)| name.trim())
        });
        names.map(move |name| format!("{home}/{name}"))
    }

    fn function_at(&self, at: usize) -> Option<Function> {
        let after = self.code[at + 2..].trim_start();
        let name = &after[..after.bytes().take_while(|byte| is_name_byte(*byte)).count()];
        if name.is_empty() {
            return None;
        }
        let end = item_end(&self.code, at)?;
        if !self.code[..end].ends_with('}') {
            return None;
        }
        let line = self.line_at(at);
        Some(Function {
            name: name.to_string(),
            line,
            length: self.line_at(end - 1) - line + 1,
        })
    }
}

/// Items that exist only in tests: `#[cfg(test)]`, `#[cfg(all(test, loom))]` and the like, attribute included.
fn test_items(code: &str) -> Vec<Range<usize>> {
    let is_for_tests = |attribute: &str| {
        whole_words(attribute, "test").next().is_some() && !attribute.contains("not(test")
    };
    let attributes = code
        .match_indices("#[cfg(")
        .filter_map(|(start, _)| Some(start..start + code[start..].find(']')? + 1));
    attributes
        .filter(|attribute| is_for_tests(&code[attribute.clone()]))
        .filter_map(|attribute| Some(attribute.start..item_end(code, attribute.end)?))
        .collect()
}

/// The offset after the item that starts here: after its closing brace or its semicolon, whichever comes first.
fn item_end(code: &str, start: usize) -> Option<usize> {
    let mut braces = 0_usize;
    let mut brackets = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(start) {
        match byte {
            b'(' | b'[' => brackets += 1,
            b')' | b']' => brackets = brackets.checked_sub(1)?,
            b'{' => braces += 1,
            b'}' => braces = braces.checked_sub(1)?,
            _ => {}
        }
        let is_end = matches!(byte, b'}' | b';') && braces == 0 && brackets == 0;
        if is_end {
            return Some(at + 1);
        }
    }
    None
}

/// Offsets of `phrase`, skipping those that are a part of a longer name.
fn whole_words(code: &str, phrase: &str) -> impl Iterator<Item = usize> {
    let bytes = code.as_bytes();
    let starts_a_name = phrase.bytes().next().is_some_and(is_name_byte);
    let ends_a_name = phrase.bytes().last().is_some_and(is_name_byte);
    code.match_indices(phrase)
        .map(|(at, _)| at)
        .filter(move |at| {
            let before = at.checked_sub(1).map(|before| bytes[before]);
            let after = bytes.get(at + phrase.len()).copied();
            let begins_inside_a_name = starts_a_name && before.is_some_and(is_name_byte);
            let ends_inside_a_name = ends_a_name && after.is_some_and(is_name_byte);
            !begins_inside_a_name && !ends_inside_a_name
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_measured_from_fn_to_closing_brace() {
        let source = RustSource::new(
            "a.rs",
            "trait T { fn declared(&self) -> [u8; 3]; }\n\
             type F = fn(u8) -> u8;\n\
             pub const fn one_line() {}\n\
             fn braces<const N: usize>(x: [u8; { N + 1 }]) {\n    let s = \"}\"; // }\n    if true { }\n}\n",
        );
        let measured: Vec<_> = source
            .functions()
            .into_iter()
            .map(|f| (f.name, f.line, f.length))
            .collect();
        assert_eq!(
            measured,
            [("one_line".to_string(), 3, 1), ("braces".to_string(), 4, 4)]
        );
    }

    #[test]
    fn test_code_is_told_from_the_rest() {
        let text = "fn a() {}\n#[cfg(all(test, loom))]\nmod loom_tests {\n    fn b() {}\n}\n#[cfg(not(test))]\nfn c() {}\n#[cfg(feature = \"test\")]\nfn d() {}\n";
        let source = RustSource::new("src/a.rs", text);
        let is_test =
            |name: &str| source.is_test(text.find(name).expect("the fixture holds every name"));
        assert_eq!(
            ["a()", "b()", "c()", "d()"].map(is_test),
            [false, true, false, false]
        );
        assert!(RustSource::new("crates/a/tests/b.rs", "fn a() {}").is_test(0));
        assert!(!RustSource::new("crates/contests/b.rs", "fn a() {}").is_test(0));
    }

    #[test]
    fn test_modules_in_other_files_are_named() {
        let elsewhere = |path| {
            let text = "mod real;\n#[cfg(test)]\nmod tests;\n#[cfg(test)]\npub(crate) mod more;";
            RustSource::new(path, text)
                .test_modules_elsewhere()
                .collect::<Vec<_>>()
        };
        assert_eq!(elsewhere("a/src/lib.rs"), ["a/src/tests", "a/src/more"]);
        assert_eq!(
            elsewhere("a/src/store.rs"),
            ["a/src/store/tests", "a/src/store/more"]
        );
    }

    #[test]
    fn words_are_found_whole_and_outside_comments() {
        let source = RustSource::new(
            "a.rs",
            "offs::x(); fs::x(); // fs::x()\nprintln!(\"fs::x\"); eprintln!()",
        );
        assert_eq!(
            source.mentions("fs::").collect::<Vec<_>>(),
            ["offs::x(); ".len()]
        );
        assert_eq!(source.mentions("println!").count(), 1);
    }
}
