//! The files every reader looks for are there.

use super::{Finding, Tree};

/// Finds required files that are missing, and a changelog without a place for the next change.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let missing = REQUIRED.iter().filter(|path| tree.file(path).is_none());
    let mut findings: Vec<Finding> = missing
        .map(|path| Finding::new(path, 1, "missing", "write it"))
        .collect();
    if let Some(changelog) = tree.file("CHANGELOG.md")
        && !changelog
            .text
            .lines()
            .any(|line| line.trim_end() == UNRELEASED)
    {
        let fact = format!("no heading `{UNRELEASED}`");
        findings.push(Finding::new(
            "CHANGELOG.md",
            1,
            fact,
            "add it above the latest release",
        ));
    }
    findings
}

const REQUIRED: [&str; 5] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "LICENSE",
];
const UNRELEASED: &str = "## Unreleased";

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    #[test]
    fn missing_files_and_a_missing_heading_are_found() {
        let files = [
            ("README.md", ""),
            ("docs/LICENSE", ""),
            ("CHANGELOG.md", "# Changes\n## 0.1.0\nsee ## Unreleased\n"),
        ];
        let expected = [
            "ARCHITECTURE.md:1: missing",
            "CHANGELOG.md:1: no heading `## Unreleased`",
            "CONTRIBUTING.md:1: missing",
            "LICENSE:1: missing",
        ];
        assert_eq!(found(check, &files), expected);
    }

    #[test]
    fn a_complete_repository_is_left_alone() {
        let files = REQUIRED.map(|path| (path, "# Changes\n\n## Unreleased\n"));
        assert_eq!(found(check, &files), [""; 0]);
    }
}
