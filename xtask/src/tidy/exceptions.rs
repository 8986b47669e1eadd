//! The list of files and functions that are long for a reason.

use super::{Finding, Tree};

pub const PATH: &str = "xtask/tidy-exceptions.txt";

/// A line `path - reason` or `path::function - reason`; the subject is what stands before the dash.
#[derive(Debug, PartialEq)]
pub struct Exception {
    pub subject: String,
    line: usize,
}

impl Exception {
    pub fn not_needed(&self) -> Finding {
        let fact = format!("`{}` needs no exception", self.subject);
        Finding::new(
            PATH,
            self.line,
            fact,
            "remove the line, it is short enough or gone",
        )
    }
}

/// Every exception, and a finding for each line that is none. A missing list is an empty one.
pub fn read(tree: &Tree) -> (Vec<Exception>, Vec<Finding>) {
    let mut exceptions = Vec::new();
    let mut findings = Vec::new();
    let text = tree.file(PATH).map_or("", |file| &file.text);
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        match line.split_once(" - ") {
            Some((subject, reason)) if !reason.trim().is_empty() => {
                exceptions.push(Exception {
                    subject: subject.trim().to_string(),
                    line: index + 1,
                });
            }
            _ => findings.push(Finding::new(
                PATH,
                index + 1,
                "an exception without a reason",
                "write `path[::function] - reason`",
            )),
        }
    }
    (exceptions, findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_subject_and_a_reason() {
        let (exceptions, findings) = read(&Tree::of(&[(
            PATH,
            "# list\n\na.rs::f - one match - whole\n",
        )]));
        assert_eq!(
            exceptions,
            [Exception {
                subject: "a.rs::f".to_string(),
                line: 3
            }]
        );
        assert_eq!(findings, []);
    }

    #[test]
    fn a_line_without_a_reason_is_found() {
        let (exceptions, findings) = read(&Tree::of(&[(PATH, "a.rs\nb.rs - \n")]));
        assert_eq!(exceptions, []);
        assert_eq!(findings.len(), 2);
        assert!(
            findings[0]
                .to_string()
                .starts_with("xtask/tidy-exceptions.txt:1: an exception without a reason")
        );
    }
}
