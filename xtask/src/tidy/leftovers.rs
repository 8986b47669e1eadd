//! Marks of unfinished work: macros that panic later, tests that do not run, lints silenced for good.

use super::rust_source::RustSource;
use super::{Finding, Tree};

/// Finds leftovers in code; words in comments and strings are left alone.
pub fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust
        .iter()
        .flat_map(|source| phrases(source).chain(ignored_tests(source)))
        .collect()
}

/// Phrases that must not be written, and the way out for each.
const LEFTOVERS: [(&str, &str); 6] = [
    ("todo!(", "finish it"),
    (
        "unimplemented!(",
        "finish it, or return an error that says so",
    ),
    (
        "unreachable!()",
        "say why it cannot happen: `unreachable!(\"…\")`",
    ),
    ("dbg!(", "remove it"),
    ("#[allow(", "use `#[expect(lint, reason = \"…\")]`"),
    ("#![allow(", "use `#![expect(lint, reason = \"…\")]`"),
];

fn phrases(source: &RustSource) -> impl Iterator<Item = Finding> {
    LEFTOVERS.iter().flat_map(move |(phrase, way_out)| {
        source.mentions(phrase).map(move |at| {
            Finding::new(
                &source.path,
                source.line_at(at),
                format!("`{phrase}`"),
                *way_out,
            )
        })
    })
}

fn ignored_tests(source: &RustSource) -> impl Iterator<Item = Finding> {
    let without_reason = source
        .mentions("#[ignore")
        .filter(|at| !has_reason(&source.text[at + "#[ignore".len()..]));
    without_reason.map(|at| {
        let way_out = "make it run, or say why it cannot: `#[ignore = \"…\"]`";
        Finding::new(
            &source.path,
            source.line_at(at),
            "`#[ignore]` without a reason",
            way_out,
        )
    })
}

/// True when the text behind the word `ignore` is `= "some text"]`.
fn has_reason(after: &str) -> bool {
    let reason = after
        .trim_start()
        .strip_prefix('=')
        .and_then(|rest| rest.trim_start().strip_prefix('"'));
    reason.is_some_and(|reason| !reason.trim_start().starts_with('"'))
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    #[test]
    fn leftovers_are_found_with_their_lines() {
        let text = "fn f() {\n    todo!();\n    unimplemented!(\"x\");\n    unreachable!();\n    dbg!(1);\n}\n#[allow(dead_code)]\nfn g() {}\n";
        let expected = [
            "2: `todo!(`",
            "3: `unimplemented!(`",
            "4: `unreachable!()`",
            "5: `dbg!(`",
            "7: `#[allow(`",
        ];
        assert_eq!(
            found(check, &[("a.rs", text)]),
            expected.map(|rest| format!("a.rs:{rest}"))
        );
        assert_eq!(
            found(check, &[("a.rs", "#![allow(dead_code)]")]),
            ["a.rs:1: `#![allow(`"]
        );
    }

    #[test]
    fn ignored_tests_need_a_reason() {
        let text = "#[ignore]\nfn a() {}\n#[ignore = \"\"]\nfn b() {}\n#[ignore = \"needs a cluster\"]\nfn c() {}\n";
        let fact = "`#[ignore]` without a reason";
        assert_eq!(
            found(check, &[("a.rs", text)]),
            [format!("a.rs:1: {fact}"), format!("a.rs:3: {fact}")]
        );
    }

    #[test]
    fn explanations_comments_and_strings_are_left_alone() {
        let text = "// todo!()\nfn f() { unreachable!(\"sorted above\"); s(\"dbg!(1)\") }\n#[expect(dead_code, reason = \"x\")]\nfn g() {}\n";
        assert_eq!(
            found(check, &[("a.rs", text), ("a.md", "todo!()")]),
            [""; 0]
        );
    }
}
