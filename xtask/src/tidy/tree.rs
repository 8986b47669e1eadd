//! The files tidy looks at: everything git tracks or would track, as text.

use std::fs;

use crate::command::{Command, root};

use super::rust_source::RustSource;

/// The text files of the repository, read once.
pub struct Tree {
    pub files: Vec<TextFile>,
    pub rust: Vec<RustSource>,
}

/// One file; the path is relative to the root, with `/` between its parts.
pub struct TextFile {
    pub path: String,
    pub text: String,
}

impl Tree {
    /// Reads what `git ls-files` names, so that ignored files never matter. Binary files have no text.
    pub fn read() -> Result<Self, String> {
        let listing = Command::new("git", ["ls-files", "-co", "--exclude-standard", "-z"])
            .read_stdout()
            .map_err(|failure| {
                format!("{failure} (tidy needs git and a clone, not an unpacked archive)")
            })?;
        let paths = listing.split('\0').filter(|path| !path.is_empty());
        Ok(Self::from_files(paths.filter_map(read_text).collect()))
    }

    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Self {
        let owned = |(path, text): &(&str, &str)| TextFile {
            path: (*path).to_string(),
            text: (*text).to_string(),
        };
        Self::from_files(files.iter().map(owned).collect())
    }

    pub fn file(&self, path: &str) -> Option<&TextFile> {
        self.files.iter().find(|file| file.path == path)
    }

    /// True when a file or a directory of this name is part of the repository. The root has the empty name.
    pub fn holds(&self, path: &str) -> bool {
        let is_inside = |file: &TextFile| {
            file.path
                .strip_prefix(path)
                .is_some_and(|rest| rest.starts_with('/'))
        };
        path.is_empty()
            || self
                .files
                .iter()
                .any(|file| file.path == path || is_inside(file))
    }

    pub fn markdown(&self) -> impl Iterator<Item = &TextFile> {
        self.files.iter().filter(|file| file.path.ends_with(".md"))
    }

    pub fn from_files(files: Vec<TextFile>) -> Self {
        let rust_files = files.iter().filter(|file| file.path.ends_with(".rs"));
        let mut rust: Vec<RustSource> = rust_files
            .map(|file| RustSource::new(&file.path, &file.text))
            .collect();
        // A file does not say itself that it is a test module: the file that declares it does.
        let test_modules: Vec<String> = rust
            .iter()
            .flat_map(RustSource::test_modules_elsewhere)
            .collect();
        for source in &mut rust {
            source.is_test_file |= is_part_of(&source.path, &test_modules);
        }
        Self { files, rust }
    }
}

/// True for the file of one of these modules, and for the files of its children.
fn is_part_of(path: &str, modules: &[String]) -> bool {
    modules.iter().any(|module| {
        path.strip_prefix(module.as_str())
            .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
    })
}

/// The path that `target`, written in the file `from`, leads to; `None` when that is outside the repository.
pub fn resolve(from: &str, target: &str) -> Option<String> {
    let directory = from.rsplit_once('/').map_or("", |(directory, _)| directory);
    let mut parts: Vec<&str> = if target.starts_with('/') {
        Vec::new()
    } else {
        directory.split('/').collect()
    };
    parts.retain(|part| !part.is_empty());
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// `None` for a file that is tracked but deleted in the working tree. A file that is not text, such as a
/// picture, has an empty text, so that links to it are still found.
fn read_text(path: &str) -> Option<TextFile> {
    let bytes = fs::read(root().join(path)).ok()?;
    let text = String::from_utf8(bytes).unwrap_or_default();
    Some(TextFile {
        path: path.to_string(),
        text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_resolved_from_the_directory_of_the_file() {
        assert_eq!(
            resolve("docs/guide/a.md", "../b.md"),
            Some("docs/b.md".to_string())
        );
        assert_eq!(
            resolve("README.md", "docs/./a.md"),
            Some("docs/a.md".to_string())
        );
        assert_eq!(
            resolve("docs/a.md", "/LICENSE"),
            Some("LICENSE".to_string())
        );
        assert_eq!(resolve("docs/a.md", ".."), Some(String::new()));
        assert_eq!(resolve("docs/a.md", "../../b.md"), None);
    }

    #[test]
    fn directories_are_held_by_what_lies_inside_them() {
        let tree = Tree::of(&[("docs/guide/a.md", "")]);
        assert!(tree.holds("docs") && tree.holds("docs/guide/a.md") && tree.holds(""));
        assert!(!tree.holds("doc") && !tree.holds("docs/guide/a"));
    }
}
