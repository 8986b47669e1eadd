//! Links inside the repository lead somewhere.

use super::markdown::{MarkdownLine, lines, without_inline_code};
use super::tree::{TextFile, resolve};
use super::{Finding, Tree};

/// Finds relative links in Markdown files whose target is not part of the repository.
pub fn check(tree: &Tree) -> Vec<Finding> {
    tree.markdown()
        .flat_map(|file| dead_links(tree, file))
        .collect()
}

/// The paths of the links in a text, without those to the web.
pub fn paths_in(text: &str) -> Vec<String> {
    let prose = lines(text).filter_map(|(_, line)| match line {
        MarkdownLine::Prose(prose) => Some(without_inline_code(prose)),
        _ => None,
    });
    prose
        .flat_map(|prose| {
            targets(&prose)
                .filter_map(path_of)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect()
}

fn dead_links(tree: &Tree, file: &TextFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in lines(&file.text) {
        let MarkdownLine::Prose(prose) = line else {
            continue;
        };
        let prose = without_inline_code(prose);
        let dead = targets(&prose)
            .filter_map(path_of)
            .filter(|path| !leads_somewhere(tree, file, path));
        findings.extend(dead.map(|path| {
            let fact = format!("no such file `{path}`");
            Finding::new(
                &file.path,
                number,
                fact,
                "correct the link, or add the file to the repository",
            )
        }));
    }
    findings
}

/// The targets of links: between the parentheses of `[text](target)`, and after the colon of `[name]: target`.
fn targets(prose: &str) -> impl Iterator<Item = &str> {
    let inline = prose.split("](").skip(1).map(up_to_closing_parenthesis);
    let is_definition = |label: &str| {
        label.starts_with('[') && !label.starts_with("[^") && !label[1..].contains(['[', ']'])
    };
    let definition = prose
        .trim_start()
        .split_once("]:")
        .filter(|(label, _)| is_definition(label))
        .map(|(_, target)| target);
    inline.chain(definition)
}

fn up_to_closing_parenthesis(text: &str) -> &str {
    let mut open = 0;
    let end = text.find(|letter| {
        match letter {
            '(' => open += 1,
            ')' => open -= 1,
            _ => {}
        }
        open < 0
    });
    &text[..end.unwrap_or(text.len())]
}

/// The path in a link target, without title and anchor; `None` for the web and for anchors in the same file.
fn path_of(target: &str) -> Option<&str> {
    let target = target
        .split_whitespace()
        .next()?
        .trim_start_matches('<')
        .trim_end_matches('>');
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let path = target.split(['#', '?']).next()?;
    (!path.is_empty()).then_some(path)
}

fn leads_somewhere(tree: &Tree, from: &TextFile, path: &str) -> bool {
    resolve(&from.path, path).is_some_and(|path| tree.holds(&path))
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let text = "[a](gone.md) and [b](../b.md#part)\n![c](img/c(1).png \"title\")\n[d]: ../../outside.md\n[e]: <gone too.md>\n";
        assert_eq!(
            found(check, &[("docs/a.md", text)]),
            [
                "docs/a.md:1: no such file `../b.md`",
                "docs/a.md:1: no such file `gone.md`",
                "docs/a.md:2: no such file `img/c(1).png`",
                "docs/a.md:3: no such file `../../outside.md`",
                "docs/a.md:4: no such file `gone`",
            ]
        );
    }

    #[test]
    fn links_that_lead_somewhere_are_left_alone() {
        let text = "[a](guide/b.md#part) [c](../LICENSE) [d](guide/) [e](/LICENSE) [here](#here)\n\
                    [web](https://a.example/x) <mailto:a@b.example> [mail](mailto:a@b.example)\n\
                    [f]: guide/b.md 'title'\n[^1]: gone.md is only a footnote\n\
                    `[code](gone.md)`\n```md\n[fenced](gone.md)\n```\n";
        assert_eq!(
            found(
                check,
                &[
                    ("docs/a.md", text),
                    ("docs/guide/b.md", ""),
                    ("LICENSE", "")
                ]
            ),
            [""; 0]
        );
    }
}
