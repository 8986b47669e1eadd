//! The crates of the workspace with their sources, as the checks that look at one crate at a time see them.

use super::Tree;
use super::rust_source::RustSource;

/// The files below `src/` of one crate, without test code in files of its own.
pub struct CrateSources<'a> {
    /// The name in its manifest.
    pub name: String,
    /// Where the manifest lies, relative to the root of the repository.
    pub directory: String,
    pub sources: Vec<&'a RustSource>,
}

impl<'a> CrateSources<'a> {
    /// Every directory with a manifest of a package, in the order of their names.
    pub fn of_workspace(tree: &'a Tree) -> Vec<Self> {
        let manifests = tree.files.iter().filter_map(|file| {
            let directory = file.path.strip_suffix("/Cargo.toml")?;
            Some((package_name(&file.text)?, directory.to_string()))
        });
        let mut crates: Vec<Self> = manifests
            .map(|(name, directory)| Self::new(name, directory, tree))
            .collect();
        crates.sort_by(|one, other| one.name.cmp(&other.name));
        crates
    }

    pub fn new(name: String, directory: String, tree: &'a Tree) -> Self {
        let inside = format!("{directory}/src/");
        let sources = tree.rust.iter().filter(|source| {
            source.path.starts_with(inside.trim_start_matches('/')) && !source.is_test_file
        });
        Self {
            name,
            sources: sources.collect(),
            directory,
        }
    }

    /// The path of a source below `src/`.
    pub fn path_in_src<'s>(&self, source: &'s RustSource) -> &'s str {
        let src = self.directory.len() + "/src/".len();
        &source.path[src..]
    }
}

/// The `name` below `[package]`; `None` for a manifest that only holds a workspace together.
pub fn package_name(manifest: &str) -> Option<String> {
    let package = manifest.split("[package]").nth(1)?;
    let line = package.lines().find(|line| line.starts_with("name"))?;
    line.split('"').nth(1).map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_has_the_files_below_its_manifest_and_no_tests() {
        let tree = Tree::of(&[
            ("Cargo.toml", "[workspace]\n"),
            ("b/Cargo.toml", "[package]\nname = \"second\"\n"),
            ("b/src/lib.rs", "mod x;\n#[cfg(test)]\nmod proof;\n"),
            ("b/src/x.rs", ""),
            ("b/src/proof.rs", ""),
            ("b/src/x/tests.rs", ""),
            ("b/tests/it.rs", ""),
            ("a/Cargo.toml", "[package]\nname = \"first\"\n"),
        ]);
        let crates = CrateSources::of_workspace(&tree);
        let names: Vec<&str> = crates.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["first", "second"]);
        let paths: Vec<&str> = crates[1]
            .sources
            .iter()
            .map(|source| crates[1].path_in_src(source))
            .collect();
        assert_eq!(paths, ["lib.rs", "x.rs"]);
    }
}
