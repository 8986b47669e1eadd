//! Tables in Markdown that a page would not show as tables.

use super::markdown::{MarkdownLine, lines};
use super::tree::TextFile;
use super::{Finding, Tree};

/// Finds rows cut off by a blank line, rows with too many or too few cells, and tables without the line of dashes.
pub fn check(tree: &Tree) -> Vec<Finding> {
    tree.markdown().flat_map(in_file).collect()
}

fn in_file(file: &TextFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut end_of_last = None;
    for table in tables(&file.text) {
        let Some((first, header)) = table.first().copied() else {
            continue;
        };
        let has_dashes = table.get(1).is_some_and(|(_, row)| is_line_of_dashes(row));
        let follows_a_table = end_of_last == first.checked_sub(2);
        end_of_last = table.last().map(|(number, _)| *number);
        if !has_dashes {
            let (fact, way_out) = if follows_a_table {
                ("a blank line inside a table", "remove the blank line above")
            } else {
                (
                    "a table without a line of dashes",
                    "write `|---|---|` below its first row",
                )
            };
            findings.push(Finding::new(&file.path, first, fact, way_out));
            continue;
        }
        let columns = cells(header);
        for (number, row) in table.iter().filter(|(_, row)| cells(row) != columns) {
            let fact = format!("a row of {} cells in a table of {columns}", cells(row));
            let way_out = "add what is missing, or write `\\|` for a bar that divides nothing";
            findings.push(Finding::new(&file.path, *number, fact, way_out));
        }
    }
    findings
}

/// Rows that follow each other, with their line numbers.
fn tables(text: &str) -> Vec<Vec<(usize, &str)>> {
    let mut tables: Vec<Vec<(usize, &str)>> = Vec::new();
    for (number, line) in lines(text) {
        let MarkdownLine::Prose(line) = line else {
            continue;
        };
        if !line.trim_start().starts_with('|') {
            continue;
        }
        match tables.last_mut() {
            Some(table) if table.last().is_some_and(|(last, _)| last + 1 == number) => {
                table.push((number, line));
            }
            _ => tables.push(vec![(number, line)]),
        }
    }
    tables
}

fn is_line_of_dashes(row: &str) -> bool {
    row.contains('-') && row.trim().bytes().all(|byte| b"|-: ".contains(&byte))
}

/// Every bar divides, also in code, unless a backslash stands before it.
fn cells(row: &str) -> usize {
    let row = row.trim();
    let divides = |at: usize| !row[..at].ends_with('\\');
    let bars = row
        .match_indices('|')
        .filter(|(at, _)| divides(*at))
        .count();
    let ends_with_bar = row.ends_with('|') && !row.ends_with("\\|");
    if ends_with_bar { bars - 1 } else { bars }
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    fn findings(text: &str) -> Vec<String> {
        found(check, &[("a.md", text)])
    }

    #[test]
    fn a_table_that_is_one_is_left_alone() {
        let table = "| a | b |\n|---|:-:|\n| `x \\| y` | 2 |\n| 3 | 4\n";
        let text = format!("{table}\n{table}\n```text\n| a |\n```\n");
        assert_eq!(findings(&text), [""; 0]);
    }

    #[test]
    fn a_blank_line_inside_a_table_is_found() {
        let text = "| a |\n|---|\n| 1 |\n\n| 2 |\n| 3 |\n";
        assert_eq!(findings(text), ["a.md:5: a blank line inside a table"]);
    }

    #[test]
    fn rows_have_as_many_cells_as_the_header() {
        let text = "| a | b |\n|---|---|\n| 1 |\n| 1 | `2 | 3` |\n";
        let expected = [
            "a.md:3: a row of 1 cells in a table of 2",
            "a.md:4: a row of 3 cells in a table of 2",
        ];
        assert_eq!(findings(text), expected);
    }

    #[test]
    fn a_table_has_a_line_of_dashes() {
        let text = "words\n\n| a | b |\n| 1 | 2 |\n";
        assert_eq!(findings(text), ["a.md:3: a table without a line of dashes"]);
    }
}
