//! Every promised behaviour has a row in the checklist, and every test named there exists.

use std::collections::HashSet;

use super::rust_source::RustSource;
use super::{Finding, Tree, checklist_ids};

/// Finds rows with wrong ids or tests that do not exist, and behaviours without a row.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let Some(file) = tree.file(PATH) else {
        return vec![Finding::new(
            PATH,
            1,
            "missing",
            "write a table `| id | behaviour | tests |` with a row for each behaviour",
        )];
    };
    let rows = rows(&file.text);
    let tests: HashSet<String> = tree.rust.iter().flat_map(test_names).collect();
    let mut findings = wrong_ids(&rows);
    findings.extend(rows.iter().flat_map(|row| wrong_tests(row, tree, &tests)));
    findings.extend(missing_rows(&rows));
    findings
}

const PATH: &str = "docs/reference/checklist.md";

/// A row of the table: its id and the back-ticked names in its third column.
struct Row<'a> {
    line: usize,
    id: &'a str,
    tests: Vec<&'a str>,
}

/// All rows but the headings, which are known by the dashes below them.
fn rows(text: &str) -> Vec<Row<'_>> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let is_rule =
        |line: &str| line.starts_with('|') && line.chars().all(|letter| "|-: ".contains(letter));
    let is_heading = |index: usize| lines.get(index + 1).is_some_and(|below| is_rule(below));
    let indexed = lines.iter().enumerate();
    indexed
        .filter(|(index, line)| line.starts_with('|') && !is_rule(line) && !is_heading(*index))
        .map(|(index, line)| {
            let cells = cells(line);
            let tests = cells.get(2).map_or(Vec::new(), |cell| {
                cell.split('`').skip(1).step_by(2).collect()
            });
            Row {
                line: index + 1,
                id: cells.first().unwrap_or(&"").trim(),
                tests,
            }
        })
        .collect()
}

/// Splits a row at its bars. A bar inside a cell is written `\|`.
fn cells(line: &str) -> Vec<&str> {
    let inside = line.trim_matches('|');
    let mut cells = Vec::new();
    let mut start = 0;
    for (at, _) in inside.match_indices('|') {
        if !inside[..at].ends_with('\\') {
            cells.push(&inside[start..at]);
            start = at + 1;
        }
    }
    cells.push(&inside[start..]);
    cells
}

fn wrong_ids(rows: &[Row]) -> Vec<Finding> {
    let known = checklist_ids::known();
    let mut seen = HashSet::new();
    let mut findings = Vec::new();
    for row in rows {
        if !known.iter().any(|id| id == row.id) {
            let way_out = "correct it, or add it to xtask/src/tidy/checklist_ids.rs";
            findings.push(Finding::new(
                PATH,
                row.line,
                format!("unknown id `{}`", row.id),
                way_out,
            ));
        } else if !seen.insert(row.id) {
            findings.push(Finding::new(
                PATH,
                row.line,
                format!("a second row for {}", row.id),
                "merge the two rows",
            ));
        }
    }
    findings
}

fn wrong_tests(row: &Row, tree: &Tree, tests: &HashSet<String>) -> Vec<Finding> {
    if row.tests.is_empty() {
        let fact = format!("{} names no test", row.id);
        return vec![Finding::new(
            PATH,
            row.line,
            fact,
            "name a test that fails without the behaviour, in backticks, in the third column",
        )];
    }
    let exists = |name: &str| {
        if name.ends_with(".txt") {
            holds_transcript(tree, name)
        } else {
            tests.contains(name.rsplit("::").next().unwrap_or(name))
        }
    };
    let unknown = row.tests.iter().filter(|name| !exists(name));
    unknown
        .map(|name| {
            Finding::new(
                PATH,
                row.line,
                format!("no such test `{name}`"),
                "name a function under `#[test]`, or a transcript",
            )
        })
        .collect()
}

fn holds_transcript(tree: &Tree, name: &str) -> bool {
    tree.files.iter().any(|file| {
        file.path
            .strip_suffix(name)
            .is_some_and(|before| before.is_empty() || before.ends_with('/'))
    })
}

fn missing_rows(rows: &[Row]) -> Vec<Finding> {
    let missing = checklist_ids::due()
        .into_iter()
        .filter(|id| !rows.iter().any(|row| row.id == id));
    missing
        .map(|id| {
            Finding::new(
                PATH,
                1,
                format!("no row for {id}"),
                "add one with the test that covers it",
            )
        })
        .collect()
}

fn test_names(source: &RustSource) -> Vec<String> {
    let lines: Vec<&str> = source.code.lines().map(str::trim).collect();
    let functions = source.functions().into_iter();
    functions
        .filter(|function| is_under_test_attribute(&lines[..function.line - 1]))
        .map(|function| function.name)
        .collect()
}

/// True when an attribute such as `#[test]` or `#[tokio::test(…)]` stands in the last six lines, with no other code after it.
/// Functions in `proptest!` carry the attribute too, or they would not run.
fn is_under_test_attribute(lines_above: &[&str]) -> bool {
    let mut near = lines_above
        .iter()
        .rev()
        .take(6)
        .take_while(|line| !line.ends_with(['}', ';', '{']));
    near.any(|line| {
        let name = line
            .strip_prefix("#[")
            .and_then(|attribute| attribute.split(['(', ']', ' ']).next());
        name.is_some_and(|name| name.contains("test"))
    })
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    const TESTS: &str = "#[test]\nfn plain() {}\n\
        #[tokio::test(\n    flavor = \"x\",\n)]\n/// Words.\nasync fn with_runtime() {}\n\
        proptest! {\n    #[test]\n    fn of_property(x in 0..9) {}\n}\n\
        #[cfg(test)]\nfn helper() {}\nfn later() {}\n// #[test]\nfn commented() {}\n";

    /// Findings of a checklist that names these rows and is complete otherwise.
    fn found_with(rows: &str) -> Vec<String> {
        let due = checklist_ids::due()
            .into_iter()
            .filter(|id| !rows.contains(&format!("| {id} |")));
        let rest: String = due
            .map(|id| format!("| {id} | works | `a::plain` |\n"))
            .collect();
        let text = format!("| id | behaviour | tests |\n|---|:-:|---|\n{rows}{rest}");
        found(
            check,
            &[
                (PATH, &text),
                ("crates/a/tests/a.rs", TESTS),
                ("crates/a/tests/transcripts/burst.txt", ""),
            ],
        )
    }

    #[test]
    fn tests_and_transcripts_that_exist_are_left_alone() {
        let rows = "| A1 | a \\| b | `a::plain`, `with_runtime` |\n| A2 | c | `of_property`, `burst.txt`, `transcripts/burst.txt` |\n";
        assert_eq!(found_with(rows), [""; 0]);
    }

    #[test]
    fn tests_that_do_not_exist_are_found() {
        let row = "| A1 | a | `a::gone`, `helper`, `later`, `commented`, `urst.txt` |\n";
        let names = ["a::gone", "commented", "helper", "later", "urst.txt"];
        assert_eq!(
            found_with(row),
            names.map(|name| format!("{PATH}:3: no such test `{name}`"))
        );
        assert_eq!(
            found_with("| A1 | a | later |\n"),
            [format!("{PATH}:3: A1 names no test")]
        );
        assert_eq!(
            found_with("| A1 | a `plain` |\n"),
            [format!("{PATH}:3: A1 names no test")]
        );
    }

    #[test]
    fn wrong_and_repeated_ids_are_found() {
        let rows = "| A17 | a | `plain` |\n| B4 | b | `plain` |\n| B4 | b | `plain` |\n";
        assert_eq!(
            found_with(rows),
            [
                format!("{PATH}:3: unknown id `A17`"),
                format!("{PATH}:5: a second row for B4")
            ]
        );
    }

    #[test]
    fn behaviours_without_a_row_are_found() {
        let text = "| id | b | t |\n|---|---|---|\n| A1 | a | `plain` |\n";
        let findings = found(check, &[(PATH, text), ("a/tests/a.rs", TESTS)]);
        assert_eq!(findings.len(), checklist_ids::due().len() - 1);
        assert!(findings.contains(&format!("{PATH}:1: no row for T-28")));
        assert_eq!(found(check, &[]), [format!("{PATH}:1: missing")]);
    }
}
