//! A name that others can see means one type in a crate.

use std::collections::BTreeMap;

use super::crate_sources::CrateSources;
use super::type_items::{TypeItem, types_in};
use super::{Finding, Tree};

/// Types of one name that have a reason for it: crate, name, reason.
const WITH_REASON: &[(&str, &str, &str)] = &[];

const THIS_FILE: &str = "xtask/src/tidy/type_names.rs";

/// Finds types that are visible outside their file and share their name with another one of the crate.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let crates = CrateSources::of_workspace(tree);
    crates
        .iter()
        .flat_map(|sources| in_crate(sources, WITH_REASON))
        .collect()
}

fn in_crate(sources: &CrateSources<'_>, with_reason: &[(&str, &str, &str)]) -> Vec<Finding> {
    let mut by_name: BTreeMap<String, Vec<TypeItem>> = BTreeMap::new();
    let types = sources.sources.iter().flat_map(|source| types_in(source));
    for item in types.filter(|item| item.is_visible) {
        by_name.entry(item.name.clone()).or_default().push(item);
    }
    let mut findings = Vec::new();
    for (name, reason) in reasons_for(sources, with_reason) {
        let is_needed = by_name.remove(name).is_some_and(|items| items.len() > 1);
        if !is_needed {
            let fact = format!(
                "only one type of `{}` is called `{name}` ({reason})",
                sources.name
            );
            findings.push(Finding::new(
                THIS_FILE,
                1,
                fact,
                "remove it from WITH_REASON",
            ));
        }
    }
    for (name, items) in by_name.iter().filter(|(_, items)| items.len() > 1) {
        for item in &items[1..] {
            let first = &items[0];
            let fact = format!(
                "another type of `{}` is called `{name}` ({}:{})",
                sources.name, first.path, first.line
            );
            let way_out = "rename one of them: two words where one is ambiguous";
            findings.push(Finding::new(&item.path, item.line, fact, way_out));
        }
    }
    findings
}

fn reasons_for<'a>(
    sources: &CrateSources<'_>,
    with_reason: &[(&str, &'a str, &'a str)],
) -> Vec<(&'a str, &'a str)> {
    let of_this = with_reason
        .iter()
        .filter(|(name, ..)| *name == sources.name);
    of_this.map(|(_, name, reason)| (*name, *reason)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    const MANIFEST: (&str, &str) = ("x/Cargo.toml", "[package]\nname = \"x\"\n");

    #[test]
    fn a_visible_name_means_one_type() {
        let files = [
            MANIFEST,
            ("x/src/a.rs", "pub struct Reply;\nstruct Hidden;\n"),
            ("x/src/b.rs", "\npub(super) enum Reply {}\nstruct Hidden;\n"),
            ("x/src/c.rs", "pub(crate) type Reply = u8;\n"),
            ("x/tests/d.rs", "pub struct Reply;\n"),
            ("y/Cargo.toml", "[package]\nname = \"y\"\n"),
            ("y/src/lib.rs", "pub struct Reply;\n"),
        ];
        let fact = "another type of `x` is called `Reply` (x/src/a.rs:1)";
        assert_eq!(
            found(check, &files),
            [
                format!("x/src/b.rs:2: {fact}"),
                format!("x/src/c.rs:1: {fact}")
            ]
        );
    }

    #[test]
    fn a_reason_excuses_its_name_as_long_as_it_is_needed() {
        let reasons = [("x", "Twin", "one for each system")];
        let findings = |text: &str| {
            let tree = Tree::of(&[MANIFEST, ("x/src/a.rs", text)]);
            in_crate(&CrateSources::of_workspace(&tree)[0], &reasons)
        };
        assert_eq!(findings("pub struct Twin;\npub struct Twin;\n"), []);
        let not_needed = findings("pub struct Twin;\n");
        assert!(
            not_needed[0]
                .to_string()
                .contains("only one type of `x` is called `Twin` (one for each system)")
        );
    }
}
