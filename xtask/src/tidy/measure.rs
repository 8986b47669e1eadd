//! How a crate reads, in numbers, beside the same numbers of crates that others read with pleasure.
//!
//! [`print()`] shows the table; [`check`] holds the crates of the workspace to the goals. Everything is counted
//! in `src/` without test code, for all crates alike.

use std::collections::BTreeMap;

use super::comments::Comments;
use super::crate_sources::CrateSources;
use super::type_items::types_in;
use super::{Finding, Tree, peers};

/// A crate's numbers.
#[derive(Debug, Default, PartialEq)]
pub struct Measures {
    types: usize,
    /// Types whose name another type of the crate has, visible or not.
    types_sharing_a_name: usize,
    /// Types named with one word: `Place`, but not `ChargeIndex`.
    types_of_one_word: usize,
    comments: usize,
    /// Comments whose first word is one of [`super::comments::INDIRECT_OPENINGS`], with their places.
    indirect_openings: Vec<String>,
    code_lines: usize,
    comment_lines: usize,
    /// Words, numbers, literals and marks, where an operator such as `::` or `=>` is one and the quote of a
    /// lifetime is a mark. Counted like this the peers have 6.6 to 7.3 in a line, and this project had
    /// about 10 when its lines were 120 columns wide.
    tokens: usize,
}

impl Measures {
    pub fn of(sources: &CrateSources<'_>) -> Self {
        let mut measures = Self::default();
        let mut by_name: BTreeMap<String, usize> = BTreeMap::new();
        for source in &sources.sources {
            for item in types_in(source) {
                measures.types += 1;
                measures.types_of_one_word += usize::from(words_in(&item.name) == 1);
                *by_name.entry(item.name).or_default() += 1;
            }
            measures.tokens += source.tokens().count();
            let comments = Comments::of(source);
            measures.comments += comments.count;
            measures.comment_lines += comments.lines.len();
            measures.code_lines += comments.code_lines;
            let places = comments.indirect_openings.iter();
            measures
                .indirect_openings
                .extend(places.map(|line| format!("{}:{line}", source.path)));
        }
        measures.types_sharing_a_name = by_name.values().filter(|count| **count > 1).sum();
        measures
    }

    /// Comment lines in a hundred lines that are not blank.
    fn comment_share(&self) -> f64 {
        percent(self.comment_lines, self.comment_lines + self.code_lines)
    }

    fn indirect_share(&self) -> f64 {
        percent(self.indirect_openings.len(), self.comments)
    }

    fn tokens_per_line(&self) -> f64 {
        ratio(self.tokens, self.code_lines)
    }

    fn row(&self, name: &str) -> String {
        format!(
            "{name:<20} {:>6} {:>8.1} {:>9.1} {:>12.1} {:>11.1} {:>9.1}",
            self.types,
            percent(self.types_sharing_a_name, self.types),
            percent(self.types_of_one_word, self.types),
            self.indirect_share(),
            self.tokens_per_line(),
            self.comment_share()
        )
    }
}

const HEADING: [&str; 2] = [
    "                             shared  one word  what/who/of      tokens   comment",
    "crate                 types  names %   names %   comments %    per line   lines %",
];

/// Prints a row for each crate of the workspace, then one for each peer.
pub fn print(tree: &Tree) -> Result<(), String> {
    HEADING.iter().for_each(|line| println!("{line}"));
    for sources in CrateSources::of_workspace(tree) {
        println!("{}", Measures::of(&sources).row(&sources.name));
    }
    println!();
    for peer in peers::read()? {
        match peer.tree {
            Some(tree) => {
                let sources = CrateSources::new(peer.name.clone(), peer.name, &tree);
                println!("{}", Measures::of(&sources).row(&sources.name));
            }
            None => println!("{:<20} not downloaded: `cargo fetch` gets it", peer.name),
        }
    }
    Ok(())
}

/// Finds crates that miss a goal.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let crates = CrateSources::of_workspace(tree);
    let findings = crates.iter().flat_map(|sources| {
        let measures = Measures::of(sources);
        GOALS.iter().flat_map(move |goal| {
            let missed = goal(sources, &measures);
            let manifest = format!("{}/Cargo.toml", sources.directory);
            missed.map(|miss| Finding::new(&manifest, 1, miss.fact, miss.way_out))
        })
    });
    findings.collect()
}

/// Something that every crate should reach; `None` when it does.
type Goal = fn(&CrateSources<'_>, &Measures) -> Option<MissedGoal>;

/// The words of a finding about a goal.
struct MissedGoal {
    fact: String,
    way_out: String,
}

const GOALS: [Goal; 3] = [too_many_indirect_openings, too_few_comments, too_dense];

/// Percent of the comments that may begin with one of the words.
const INDIRECT_SHARE_MAX: f64 = 3.0;
/// Percent of the lines that should be comments in a crate that is read most.
const COMMENT_SHARE_MIN: f64 = 15.0;
const TOKENS_PER_LINE_MAX: f64 = 8.5;
/// The crates that a newcomer reads: the library, the sockets, the limits.
const WELL_COMMENTED: [&str; 3] = ["sluicegate", "sluicegate-net", "sluicegate-gate"];
/// A list of places in a finding is cut off here.
const PLACES_SHOWN: usize = 5;

fn too_many_indirect_openings(
    sources: &CrateSources<'_>,
    measures: &Measures,
) -> Option<MissedGoal> {
    let share = measures.indirect_share();
    let shown: Vec<&str> = measures
        .indirect_openings
        .iter()
        .map(String::as_str)
        .collect();
    let shown = &shown[..shown.len().min(PLACES_SHOWN)];
    (share >= INDIRECT_SHARE_MAX).then(|| MissedGoal {
        fact: format!(
            "{} of {} comments in `{}` begin with what, who, whose, whether or of ({share:.1} %, below {INDIRECT_SHARE_MAX} %)",
            measures.indirect_openings.len(),
            measures.comments,
            sources.name
        ),
        way_out: format!("begin with what the thing is or does: {}", shown.join(", ")),
    })
}

fn too_few_comments(sources: &CrateSources<'_>, measures: &Measures) -> Option<MissedGoal> {
    let share = measures.comment_share();
    let is_meant = WELL_COMMENTED.contains(&sources.name.as_str());
    (is_meant && share < COMMENT_SHARE_MIN).then(|| MissedGoal {
        fact: format!(
            "{share:.1} % of the lines in `{}` are comments, at least {COMMENT_SHARE_MIN} %",
            sources.name
        ),
        way_out: "say why, and which edge would surprise a reader".to_string(),
    })
}

fn too_dense(sources: &CrateSources<'_>, measures: &Measures) -> Option<MissedGoal> {
    let tokens = measures.tokens_per_line();
    (tokens >= TOKENS_PER_LINE_MAX).then(|| MissedGoal {
        fact: format!(
            "{tokens:.1} tokens in a line of `{}`, below {TOKENS_PER_LINE_MAX}",
            sources.name
        ),
        way_out: "give the steps of the longest lines a name".to_string(),
    })
}

/// The words of a name in camel case; letters that follow each other in upper case are one word: `TlsId`, `TLS`.
fn words_in(name: &str) -> usize {
    let letters: Vec<char> = name.chars().collect();
    let begins_word = |index: usize| {
        let before_is_upper = index > 0 && letters[index - 1].is_uppercase();
        letters[index].is_uppercase() && !before_is_upper
    };
    (0..letters.len())
        .filter(|index| begins_word(*index))
        .count()
        .max(1)
}

fn percent(part: usize, whole: usize) -> f64 {
    100.0 * ratio(part, whole)
}

/// Zero when there is nothing to divide by.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts of lines are far below 2^52"
)]
fn ratio(part: usize, whole: usize) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    part as f64 / whole as f64
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    fn manifest(name: &str) -> String {
        format!("[package]\nname = \"{name}\"\n")
    }

    #[test]
    fn everything_is_counted_outside_of_test_code() {
        let manifest = manifest("x");
        let text = "/// Whether it is.\n/// Of course.\nstruct Twin(u8);\n\nstruct DoorBell;\n// Plain.\nfn f() {\n    a::b();\n}\n\
                    #[cfg(test)]\nmod tests {\n    // What.\n    struct Proof;\n}\n";
        let tree = Tree::of(&[
            ("x/Cargo.toml", &manifest),
            ("x/src/a.rs", text),
            ("x/src/b.rs", "enum Twin {}\n"),
        ]);
        let measures = Measures::of(&CrateSources::of_workspace(&tree)[0]);
        let expected = Measures {
            types: 3,
            types_sharing_a_name: 2,
            types_of_one_word: 2,
            comments: 2,
            indirect_openings: vec!["x/src/a.rs:1".to_string()],
            code_lines: 6,
            comment_lines: 3,
            // struct Twin ( u8 ) ; struct DoorBell ; fn f ( ) { a :: b ( ) ; } enum Twin { }
            tokens: 6 + 3 + 5 + 6 + 1 + 4,
        };
        assert_eq!(measures, expected);
    }

    #[test]
    fn names_are_counted_in_words() {
        let counted = ["Place", "ChargeIndex", "TLS", "TlsId", "x", "A"].map(words_in);
        assert_eq!(counted, [1, 2, 1, 2, 1, 1]);
    }

    #[test]
    fn comments_that_open_indirectly_are_few() {
        let manifest = manifest("x");
        let text = |plain: usize| "// Plain.\nfn f() {}\n".repeat(plain) + "// Who comes in.\n";
        let findings = |plain: usize| {
            let files = [("x/Cargo.toml", &*manifest), ("x/src/a.rs", &text(plain))];
            found(check, &files)
        };
        assert_eq!(findings(33), [""; 0]);
        assert_eq!(
            findings(32),
            [
                "x/Cargo.toml:1: 1 of 33 comments in `x` begin with what, who, whose, whether or of (3.0 %, below 3 %)"
            ]
        );
    }

    #[test]
    fn the_crates_that_are_read_most_are_commented() {
        let fact = |name: &str, code: usize| {
            let text = "// Plain.\n".repeat(15) + &"fn f() {}\n".repeat(code);
            let tree = Tree::of(&[("x/src/a.rs", &text)]);
            let sources = CrateSources::new(name.to_string(), "x".to_string(), &tree);
            too_few_comments(&sources, &Measures::of(&sources)).map(|missed| missed.fact)
        };
        assert_eq!(fact("sluicegate-gate", 85), None);
        assert_eq!(fact("y", 86), None);
        let missed = "14.9 % of the lines in `sluicegate-gate` are comments, at least 15 %";
        assert_eq!(fact("sluicegate-gate", 86).as_deref(), Some(missed));
    }

    #[test]
    fn lines_hold_few_tokens() {
        let manifest = manifest("x");
        let findings = |line: &str| {
            let files = [("x/Cargo.toml", &*manifest), ("x/src/a.rs", line)];
            found(check, &files)
        };
        assert_eq!(findings("a = b + c + d;\n"), [""; 0]);
        assert_eq!(
            findings("a = b + c + d + e;\n"),
            ["x/Cargo.toml:1: 10.0 tokens in a line of `x`, below 8.5"]
        );
    }
}
