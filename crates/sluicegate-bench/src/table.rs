//! A table that can be written for a terminal and for a page.

/// Columns with headings, and rows of as many fields. The first columns are words, the others numbers.
pub struct TextTable {
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
    word_columns: usize,
}

impl TextTable {
    pub fn new(word_columns: usize, headings: &[&str]) -> Self {
        Self {
            headings: headings.iter().map(ToString::to_string).collect(),
            rows: Vec::new(),
            word_columns,
        }
    }

    pub fn push(&mut self, row: Vec<String>) {
        debug_assert_eq!(row.len(), self.headings.len());
        self.rows.push(row);
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Columns padded with spaces.
    pub fn to_text(&self) -> String {
        let widths = self.widths();
        let lines = std::iter::once(&self.headings)
            .chain(&self.rows)
            .map(|row| {
                let fields = row
                    .iter()
                    .enumerate()
                    .map(|(column, field)| self.padded(column, field, widths[column]));
                fields.collect::<Vec<_>>().join("  ").trim_end().to_string() + "\n"
            });
        lines.collect()
    }

    /// A Markdown table; numbers stand on the right.
    pub fn to_markdown(&self) -> String {
        let line = |fields: &[String]| {
            let fields = fields
                .iter()
                .map(|field| field.replace('|', "\\|").replace('<', "&lt;"));
            format!("| {} |\n", fields.collect::<Vec<_>>().join(" | "))
        };
        let rule = |column| {
            if column < self.word_columns {
                "---"
            } else {
                "--:"
            }
        };
        let rules: Vec<&str> = (0..self.headings.len()).map(rule).collect();
        let rows: String = self.rows.iter().map(|row| line(row)).collect();
        format!("{}|{}|\n{rows}", line(&self.headings), rules.join("|"))
    }

    fn widths(&self) -> Vec<usize> {
        let width = |column: usize| {
            let fields = self
                .rows
                .iter()
                .map(|row| &row[column])
                .chain([&self.headings[column]]);
            fields
                .map(|field| field.chars().count())
                .max()
                .unwrap_or_default()
        };
        (0..self.headings.len()).map(width).collect()
    }

    fn padded(&self, column: usize, field: &str, width: usize) -> String {
        if column < self.word_columns {
            format!("{field:<width$}")
        } else {
            format!("{field:>width$}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> TextTable {
        let mut table = TextTable::new(1, &["load", "ns"]);
        table.push(vec!["hot".to_string(), "9.5".to_string()]);
        table.push(vec!["a <b>".to_string(), "1 000".to_string()]);
        table
    }

    #[test]
    fn text_is_aligned_by_the_widest_field() {
        assert_eq!(
            table().to_text(),
            "load      ns\nhot      9.5\na <b>  1 000\n"
        );
    }

    #[test]
    fn markdown_escapes_what_would_be_markup() {
        let expected = "| load | ns |\n|---|--:|\n| hot | 9.5 |\n| a &lt;b> | 1 000 |\n";
        assert_eq!(table().to_markdown(), expected);
    }
}
