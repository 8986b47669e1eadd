//! Tests that a plain run leaves out, and why.

use super::Tree;
use super::rust_source::RustSource;

/// A test below `#[ignore = "reason"]`.
#[derive(Clone, Debug, PartialEq)]
pub struct IgnoredTest {
    /// The crate it belongs to.
    pub package: String,
    /// The name of its function.
    pub name: String,
    pub reason: String,
}

/// Every ignored test of the repository.
pub fn ignored_tests(tree: &Tree) -> Vec<IgnoredTest> {
    tree.rust
        .iter()
        .flat_map(|source| in_file(source, tree))
        .collect()
}

fn in_file(source: &RustSource, tree: &Tree) -> Vec<IgnoredTest> {
    let functions = source.functions();
    let marks = source.mentions("#[ignore");
    let tests = marks.filter_map(|at| {
        let line = source.line_at(at);
        let function = functions.iter().find(|function| function.line > line)?;
        let reason = source.text[at..].split_once('"')?.1.split('"').next()?;
        Some(IgnoredTest {
            package: package_of(&source.path, tree)?,
            name: function.name.clone(),
            reason: reason.to_string(),
        })
    });
    tests.collect()
}

/// The name of the package whose manifest lies nearest above a file.
fn package_of(path: &str, tree: &Tree) -> Option<String> {
    let mut directory = path;
    while let Some((above, _)) = directory.rsplit_once('/') {
        if let Some(manifest) = tree.file(&format!("{above}/Cargo.toml")) {
            return super::crate_sources::package_name(&manifest.text);
        }
        directory = above;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ignored_test_has_a_package_a_name_and_a_reason() {
        let text = "#[test]\nfn runs() {}\n\n#[test]\n#[ignore = \"needs Envoy\"]\nfn waits() {}\nconst TEXT: &str = \"#[ignore\";\n";
        let tree = Tree::of(&[
            ("crates/x/Cargo.toml", "[package]\nname = \"x\"\n"),
            ("crates/x/tests/it/a.rs", text),
        ]);
        let expected = IgnoredTest {
            package: "x".to_string(),
            name: "waits".to_string(),
            reason: "needs Envoy".to_string(),
        };
        assert_eq!(ignored_tests(&tree), [expected]);
    }
}
