//! `cargo xtask tidy`: what the compiler and clippy do not see. Every finding is collected before any is printed.

mod book;
mod checklist;
mod checklist_ids;
mod comments;
mod compiled_docs;
mod core_purity;
mod crate_sources;
mod exceptions;
mod ignored_tests;
mod layering;
mod leftovers;
mod links;
mod machine_paths;
mod markdown;
mod measure;
mod module_graph;
mod module_paths;
mod modules;
mod peers;
mod required_files;
mod rust_code;
mod rust_source;
mod size;
mod sleeps;
mod tables;
mod tree;
mod type_items;
mod type_names;
mod walk;

use std::fmt;

pub use self::ignored_tests::{IgnoredTest, ignored_tests};
pub use self::tree::Tree;

/// The forms of `cargo xtask tidy …`.
#[derive(Debug, PartialEq)]
pub enum TidyChoice {
    /// Every check.
    Check,
    /// The modules of each crate; with `write`, their copies in the architecture are written again.
    Graph { write: bool },
    /// How each crate reads, in numbers, beside crates by others.
    Measure,
}

/// Does what was chosen; `false` when there are findings or the tree could not be read.
pub fn run(choice: TidyChoice) -> bool {
    let done = Tree::read().and_then(|tree| match choice {
        TidyChoice::Check => Ok(check(&tree)),
        TidyChoice::Graph { write } => modules::print(&tree, write).map(|()| true),
        TidyChoice::Measure => measure::print(&tree).map(|()| true),
    });
    done.inspect_err(|failure| eprintln!("tidy: {failure}"))
        .unwrap_or(false)
}

/// Runs every check over the working tree and prints what they found; `true` when that is nothing.
fn check(tree: &Tree) -> bool {
    let mut findings: Vec<Finding> = CHECKS.iter().flat_map(|check| check(tree)).collect();
    findings.sort();
    findings.iter().for_each(|finding| println!("{finding}"));
    println!(
        "tidy: {} files, {} findings",
        tree.files.len(),
        findings.len()
    );
    findings.is_empty()
}

/// Something to repair, printed as `path:line: fact: fact to do`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    path: String,
    line: usize,
    fact: String,
    way_out: String,
}

impl Finding {
    /// Lines count from one; a finding about a whole file stands at line one.
    pub fn new(
        path: &str,
        line: usize,
        fact: impl Into<String>,
        way_out: impl Into<String>,
    ) -> Self {
        Self {
            path: path.to_string(),
            line,
            fact: fact.into(),
            way_out: way_out.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}: {}: {}",
            self.path, self.line, self.fact, self.way_out
        )
    }
}

const CHECKS: [fn(&Tree) -> Vec<Finding>; 16] = [
    size::check,
    leftovers::check,
    sleeps::check,
    machine_paths::check,
    links::check,
    book::check,
    compiled_docs::check,
    required_files::check,
    checklist::check,
    layering::check,
    core_purity::check,
    modules::check,
    type_names::check,
    measure::check,
    tables::check,
    walk::check,
];

/// `path:line: fact` of each finding of a check over files made up in a test.
#[cfg(test)]
fn found(check: fn(&Tree) -> Vec<Finding>, files: &[(&str, &str)]) -> Vec<String> {
    let mut findings = check(&Tree::of(files));
    findings.sort();
    findings
        .iter()
        .map(|finding| format!("{}:{}: {}", finding.path, finding.line, finding.fact))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_names_place_fact_and_way_out() {
        let finding = Finding::new("docs/a.md", 7, "no such file `b.md`", "correct the link");
        assert_eq!(
            finding.to_string(),
            "docs/a.md:7: no such file `b.md`: correct the link"
        );
    }
}
