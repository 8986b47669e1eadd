//! Every page of the documentation is in the table of contents of the book.

use super::links;
use super::tree::resolve;
use super::{Finding, Tree};

/// Finds pages below `docs/` that the summary does not name, and pages that it names twice.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let Some(summary) = tree.file(SUMMARY) else {
        let is_documented = tree.markdown().any(|file| file.path.starts_with("docs/"));
        return is_documented
            .then(|| Finding::new(SUMMARY, 1, "missing", "write it: mdBook begins there"))
            .into_iter()
            .collect();
    };
    let named: Vec<String> = links::paths_in(&summary.text)
        .iter()
        .filter_map(|path| resolve(SUMMARY, path))
        .collect();
    let pages = tree
        .markdown()
        .filter(|file| file.path.starts_with("docs/") && file.path != SUMMARY);
    let findings =
        pages.filter_map(
            |page| match named.iter().filter(|path| **path == page.path).count() {
                0 => Some(Finding::new(
                    &page.path,
                    1,
                    "not in the table of contents",
                    format!("add it to {SUMMARY}"),
                )),
                1 => None,
                _ => Some(Finding::new(
                    SUMMARY,
                    1,
                    format!("`{}` is named twice", page.path),
                    "name it once",
                )),
            },
        );
    findings.collect()
}

const SUMMARY: &str = "docs/SUMMARY.md";

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    #[test]
    fn pages_outside_the_summary_are_found() {
        let files = [
            (
                SUMMARY,
                "# Summary\n[A](a.md)\n- [B](sub/b.md)\n  - [B](sub/b.md)\n",
            ),
            ("docs/a.md", ""),
            ("docs/sub/b.md", ""),
            ("docs/c.md", ""),
            ("README.md", ""),
        ];
        let expected = [
            "docs/SUMMARY.md:1: `docs/sub/b.md` is named twice",
            "docs/c.md:1: not in the table of contents",
        ];
        assert_eq!(found(check, &files), expected);
    }

    #[test]
    fn documentation_has_a_summary() {
        assert_eq!(
            found(check, &[("docs/a.md", "")]),
            ["docs/SUMMARY.md:1: missing"]
        );
        assert_eq!(found(check, &[("README.md", "")]), [""; 0]);
    }
}
