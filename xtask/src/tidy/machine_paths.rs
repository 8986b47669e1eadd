//! Nothing in the repository points at a directory of somebody's machine.

use super::{Finding, Tree};

/// Finds absolute paths of such directories in every text file.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        let in_docs: &[&str] = if file.path.ends_with(".md") {
            &IN_DOCS
        } else {
            &[]
        };
        for (index, line) in file.text.lines().enumerate() {
            let directories = ANYWHERE
                .iter()
                .chain(in_docs)
                .filter(|directory| names(line, directory));
            findings.extend(directories.map(|directory| {
                let fact = format!("a path of one machine, `{directory}…`");
                Finding::new(
                    &file.path,
                    index + 1,
                    fact,
                    "write a path relative to the repository, or another example",
                )
            }));
        }
    }
    findings
}

/// Directories that exist on one machine and not on the next. Spelled in two halves, or this file would name them.
const ANYWHERE: [&str; 3] = [
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/wo", "rk/"),
];
/// Fine in a program, misleading in a text that others follow.
const IN_DOCS: [&str; 1] = [concat!("/tm", "p/")];

/// True when the line holds the directory as the start of a path: the URL `https://a.example/x/` does not name `/x/`.
fn names(line: &str, directory: &str) -> bool {
    let continues_a_path = |before: char| before.is_alphanumeric() || "._-~}*".contains(before);
    line.match_indices(directory)
        .any(|(at, _)| !line[..at].ends_with(continues_a_path))
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    #[test]
    fn absolute_paths_are_found_in_every_kind_of_file() {
        for directory in ANYWHERE {
            let text = format!("first\nread \"{directory}x\"\n");
            let expected = [format!("a.toml:2: a path of one machine, `{directory}…`")];
            assert_eq!(found(check, &[("a.toml", &text)]), expected);
        }
    }

    #[test]
    fn temporary_directories_are_found_only_in_docs() {
        let text = format!("cat {}x", IN_DOCS[0]);
        assert_eq!(found(check, &[("a.md", &text), ("a.rs", &text)]).len(), 1);
    }

    #[test]
    fn the_middle_of_a_longer_path_is_left_alone() {
        for directory in ANYWHERE {
            let text = format!("https://a.example{directory}x docs{directory}x ../..{directory}y");
            assert_eq!(found(check, &[("a.md", &text)]), [""; 0]);
        }
    }
}
