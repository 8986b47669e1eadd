//! Rust code in README and guides is compiled by the doc tests.

use super::markdown::{MarkdownLine, lines};
use super::rust_source::RustSource;
use super::tree::{TextFile, resolve};
use super::{Finding, Tree};

/// Finds Rust blocks in Markdown files that no `#[doc = include_str!("…")]` under `crates/*/src` brings to the compiler.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let included: Vec<String> = tree
        .rust
        .iter()
        .filter(|source| is_crate_source(&source.path))
        .flat_map(included_docs)
        .collect();
    tree.markdown()
        .filter(|file| is_guide(&file.path))
        .flat_map(|file| uncompiled(file, &included))
        .collect()
}

fn is_crate_source(path: &str) -> bool {
    path.starts_with("crates/") && path.split('/').nth(2) == Some("src")
}

fn is_guide(path: &str) -> bool {
    path == "README.md" || path.starts_with("docs/")
}

const INCLUDE: &str = "doc = include_str!(\"";

fn included_docs(source: &RustSource) -> impl Iterator<Item = String> {
    let names = source
        .mentions(INCLUDE)
        .filter_map(|at| source.text[at + INCLUDE.len()..].split('"').next());
    names.filter_map(|name| resolve(&source.path, name))
}

fn uncompiled(file: &TextFile, included: &[String]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut is_compiled = included.contains(&file.path);
    for (number, line) in lines(&file.text) {
        let MarkdownLine::FenceOpens(info) = line else {
            continue;
        };
        let mut words = info.split([',', ' ']);
        if words.next() != Some("rust") {
            continue;
        }
        if words.any(|word| word == "ignore") {
            findings.push(Finding::new(
                &file.path,
                number,
                "a Rust block marked `ignore`",
                "make it compile, or mark it `text`",
            ));
        }
        if !is_compiled {
            let way_out =
                "add `#[doc = include_str!(\"…\")]` with this file to the documentation of a crate";
            findings.push(Finding::new(
                &file.path,
                number,
                "Rust code that nothing compiles",
                way_out,
            ));
            // The include repairs all blocks of the file, so one finding is enough.
            is_compiled = true;
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    const GUIDE: &str = "# Use\n```rust,no_run\nlet x = 1;\n```\n```rust\nlet x = 2;\n```\n";

    #[test]
    fn rust_code_that_nothing_compiles_is_found_once_per_file() {
        let expected = [
            "README.md:2: Rust code that nothing compiles",
            "docs/guide/a.md:2: Rust code that nothing compiles",
        ];
        let elsewhere = (
            "xtask/src/main.rs",
            "#![doc = include_str!(\"../../README.md\")]",
        );
        let comment = (
            "crates/a/src/lib.rs",
            "// #![doc = include_str!(\"../../../README.md\")]",
        );
        assert_eq!(
            found(
                check,
                &[
                    ("README.md", GUIDE),
                    ("docs/guide/a.md", GUIDE),
                    elsewhere,
                    comment
                ]
            ),
            expected
        );
    }

    #[test]
    fn included_files_and_other_languages_are_left_alone() {
        let includes = "#![doc = include_str!(\"../../../README.md\")]\n#[cfg_attr(doctest, doc = include_str!(\"../../../docs/a.md\"))]\nmod guide {}";
        let files = [
            ("crates/a/src/lib.rs", includes),
            ("README.md", GUIDE),
            ("docs/a.md", GUIDE),
            ("docs/b.md", "```yaml\na: 1\n```\n```text\nrust\n```\n"),
            ("ARCHITECTURE.md", GUIDE),
        ];
        assert_eq!(found(check, &files), [""; 0]);
    }

    #[test]
    fn ignored_blocks_are_found_even_in_included_files() {
        let files = [
            (
                "crates/a/src/lib.rs",
                "#![doc = include_str!(\"../../../README.md\")]",
            ),
            ("README.md", "```rust,ignore\n```\n"),
        ];
        assert_eq!(
            found(check, &files),
            ["README.md:1: a Rust block marked `ignore`"]
        );
    }
}
