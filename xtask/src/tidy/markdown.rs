//! Tells the prose of a Markdown file from its code.

/// A line of a Markdown file. Code includes the line that closes a fence.
#[derive(Debug, PartialEq)]
pub enum MarkdownLine<'a> {
    Prose(&'a str),
    /// The line that opens a fence, and what it says about the code: `rust,no_run`.
    FenceOpens(&'a str),
    Code,
}

/// Every line with its number, counted from one.
pub fn lines(text: &str) -> impl Iterator<Item = (usize, MarkdownLine<'_>)> {
    let mut open_fence: Option<&str> = None;
    (1..).zip(text.lines()).map(move |(number, line)| {
        let (fence, after) = split_fence(line);
        let kind = match open_fence {
            None if fence.len() < 3 => MarkdownLine::Prose(line),
            None => {
                open_fence = Some(fence);
                MarkdownLine::FenceOpens(after.trim())
            }
            Some(open) => {
                if fence.starts_with(open) && after.trim().is_empty() {
                    open_fence = None;
                }
                MarkdownLine::Code
            }
        };
        (number, kind)
    })
}

/// The line with what stands between backticks turned into spaces.
pub fn without_inline_code(line: &str) -> String {
    line.split('`')
        .enumerate()
        .map(|(index, part)| {
            if index % 2 == 0 {
                part.to_string()
            } else {
                " ".repeat(part.len())
            }
        })
        .collect()
}

/// The backticks or tildes a line begins with, and the rest.
fn split_fence(line: &str) -> (&str, &str) {
    let line = line.trim_start();
    let mark = if line.starts_with('~') { '~' } else { '`' };
    let rest = line.trim_start_matches(mark);
    line.split_at(line.len() - rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_fences_and_code_are_told_apart() {
        let text = "a `b` c\n````md\n```rust\n````\n  ~~~ rust,no_run\n```\n~~~\n``not a fence``\n";
        let kinds: Vec<_> = lines(text).map(|(_, line)| line).collect();
        let expected = [
            MarkdownLine::Prose("a `b` c"),
            MarkdownLine::FenceOpens("md"),
            MarkdownLine::Code,
            MarkdownLine::Code,
            MarkdownLine::FenceOpens("rust,no_run"),
            MarkdownLine::Code,
            MarkdownLine::Code,
            MarkdownLine::Prose("``not a fence``"),
        ];
        assert_eq!(kinds, expected);
    }

    #[test]
    fn inline_code_is_blanked() {
        assert_eq!(
            without_inline_code("a `[b](c)` [d](e)"),
            format!("a {} [d](e)", " ".repeat("[b](c)".len()))
        );
    }
}
