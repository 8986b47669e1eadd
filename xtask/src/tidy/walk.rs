//! The walk of a request through the code, told in the architecture, names functions that are there.

use super::markdown::{MarkdownLine, lines};
use super::rust_source::RustSource;
use super::{Finding, Tree};

const ARCHITECTURE: &str = "ARCHITECTURE.md";
const HEADING: &str = "An allowed request, hop by hop";
/// A longer walk is not read to its end.
const HOPS_MAX: usize = 25;

/// Finds hops without a function, functions that do not exist, and a walk that is empty or too long. A page
/// without the section is left alone.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let page = tree.file(ARCHITECTURE);
    let Some((start, hops)) = page.and_then(|file| walk(&file.text)) else {
        return Vec::new();
    };
    let mut findings: Vec<Finding> = hops
        .iter()
        .filter_map(|hop| {
            let (fact, way_out) = wrong_with(hop, tree)?;
            Some(Finding::new(ARCHITECTURE, hop.line, fact, way_out))
        })
        .collect();
    if hops.is_empty() || hops.len() > HOPS_MAX {
        let fact = format!("a walk of {} hops, from 1 to {HOPS_MAX}", hops.len());
        let way_out = "tell it as a numbered list, and leave out what a reader can guess";
        findings.push(Finding::new(ARCHITECTURE, start, fact, way_out));
    }
    findings
}

/// An item of the numbered list, with the lines that belong to it.
struct Hop {
    line: usize,
    text: String,
}

/// The line of the heading and the hops below it.
fn walk(text: &str) -> Option<(usize, Vec<Hop>)> {
    let is_heading = |line: &MarkdownLine<'_>| matches!(line, MarkdownLine::Prose(line) if line.starts_with('#'));
    let mut lines = lines(text);
    let (start, _) = lines.find(|(_, line)| {
        is_heading(line)
            && matches!(line, MarkdownLine::Prose(line) if line.trim_matches(['#', ' ']) == HEADING)
    })?;
    let mut hops: Vec<Hop> = Vec::new();
    for (number, line) in lines.take_while(|(_, line)| !is_heading(line)) {
        let MarkdownLine::Prose(line) = line else {
            continue;
        };
        let is_item = line.split_once(". ").is_some_and(|(before, _)| {
            !before.is_empty() && before.bytes().all(|byte| byte.is_ascii_digit())
        });
        if is_item {
            hops.push(Hop {
                line: number,
                text: line.to_string(),
            });
        } else if let (Some(hop), true) = (hops.last_mut(), line.starts_with(' ')) {
            hop.text += line;
        }
    }
    Some((start, hops))
}

/// The fact and the way out, for a hop that does not lead anywhere.
fn wrong_with(hop: &Hop, tree: &Tree) -> Option<(String, &'static str)> {
    let code = hop.text.split('`').skip(1).step_by(2);
    let mut named = code.filter_map(|code| {
        let (file, function) = code.split_once(".rs::")?;
        Some((format!("{file}.rs"), function))
    });
    let Some((path, function)) = named.next() else {
        let fact = "a hop without a function".to_string();
        return Some((fact, "name one: `path/to/file.rs::Type::function`"));
    };
    std::iter::once((path, function))
        .chain(named)
        .find_map(|(path, function)| missing(&path, function, tree))
}

fn missing(path: &str, function: &str, tree: &Tree) -> Option<(String, &'static str)> {
    let Some(source) = tree.rust.iter().find(|source| source.path == path) else {
        let fact = format!("no such file `{path}`");
        return Some((fact, "correct the path, from the root of the repository"));
    };
    let (owner, name) = match function.rsplit_once("::") {
        Some((owner, name)) => (Some(owner), name),
        None => (None, function),
    };
    let is_there = source.functions().iter().any(|known| {
        let is_owned = owner.is_none_or(|owner| is_inside_impl_of(source, known.line, owner));
        known.name == name && is_owned
    });
    let fact = format!("`{path}` has no function `{function}`");
    (!is_there).then_some((fact, "name the function that does this now"))
}

/// True when the nearest `impl` or `trait` above this line is about `owner`.
fn is_inside_impl_of(source: &RustSource, line: usize, owner: &str) -> bool {
    let above: Vec<&str> = source.code.lines().take(line).collect();
    let begins = |line: &&&str| {
        let item = line
            .trim_start_matches("pub ")
            .trim_start_matches("unsafe ");
        item.starts_with("impl") || item.starts_with("trait ")
    };
    let Some(header) = above.iter().rposition(|line| begins(&line)) else {
        return false;
    };
    // A header may go over several lines until its brace.
    let header: String = above[header..]
        .iter()
        .flat_map(|line| [line, " "])
        .collect();
    let header = header.split('{').next().unwrap_or_default();
    let is_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    header
        .split(|letter| !is_name(letter))
        .any(|word| word == owner)
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    const CODE: (&str, &str) = (
        "x/src/a.rs",
        "pub fn free() {}\nimpl<T> Gate<T>\nwhere\n    T: Copy,\n{\n    fn admit() {}\n}\nimpl Other {\n    fn elsewhere() {}\n}\n",
    );

    fn findings(list: &str) -> Vec<String> {
        let page = format!("# Map\n\n## {HEADING}\n\nWords.\n\n{list}\n## Next\n\n1. no hop\n");
        found(check, &[(ARCHITECTURE, &page), CODE])
    }

    #[test]
    fn hops_that_lead_somewhere_are_left_alone() {
        let list = "1. Comes in: `x/src/a.rs::free`\n   and `more`.\n2. Is admitted:\n   `x/src/a.rs::Gate::admit`.\n";
        assert_eq!(findings(list), [""; 0]);
        assert_eq!(found(check, &[(ARCHITECTURE, "# Map\n"), CODE]), [""; 0]);
    }

    #[test]
    fn hops_that_lead_nowhere_are_found() {
        let list = "1. `x/src/b.rs::free`\n2. `x/src/a.rs::gone`\n3. `x/src/a.rs::Gate::elsewhere`\n4. by magic\n";
        let expected = [
            "ARCHITECTURE.md:7: no such file `x/src/b.rs`",
            "ARCHITECTURE.md:8: `x/src/a.rs` has no function `gone`",
            "ARCHITECTURE.md:9: `x/src/a.rs` has no function `Gate::elsewhere`",
            "ARCHITECTURE.md:10: a hop without a function",
        ];
        assert_eq!(findings(list), expected);
    }

    #[test]
    fn a_walk_has_between_one_and_twenty_five_hops() {
        let hops = |count: usize| "1. `x/src/a.rs::free`\n".repeat(count);
        assert_eq!(findings(&hops(25)), [""; 0]);
        assert_eq!(
            findings(&hops(26)),
            ["ARCHITECTURE.md:3: a walk of 26 hops, from 1 to 25"]
        );
        assert_eq!(
            findings(""),
            ["ARCHITECTURE.md:3: a walk of 0 hops, from 1 to 25"]
        );
    }
}
