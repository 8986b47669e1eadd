//! Tests that every `sluicegate …` command line in the documentation and in `--help` parses.

use std::fs;
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use clap::error::ErrorKind;

use crate::Arguments;

#[test]
fn every_command_in_the_documentation_is_understood() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let places = ["README.md", "docs", "deploy", "examples"].map(|place| root.join(place));
    let mut seen = 0;
    for path in places.into_iter().flat_map(files_below) {
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        for command in commands(&text) {
            let words = words(&command);
            match Arguments::command().try_get_matches_from(&words) {
                Ok(_) => {}
                // `--help` and `--version` end with an "error" of exit code 0.
                Err(error) if error.exit_code() == 0 => {}
                // The text only names a command, such as `sluicegate inspect`.
                Err(error)
                    if words.len() == 2 && error.kind() == ErrorKind::MissingRequiredArgument => {}
                Err(error) => panic!("{}: {command}\n{error}", path.display()),
            }
            seen += 1;
        }
    }
    assert!(seen >= 30, "only {seen} were found");
}

#[test]
fn every_command_has_an_example_that_parses() {
    let program = Arguments::command();
    let nested = program
        .get_subcommands()
        .flat_map(|command| std::iter::once(command).chain(command.get_subcommands()));
    for command in nested {
        let name = command.get_name();
        let help = command.get_after_help().map(ToString::to_string);
        let examples = commands(&help.unwrap_or_default());
        assert!(!examples.is_empty(), "{name}: no example in its --help");
        for example in examples {
            let parsed = Arguments::command().try_get_matches_from(words(&example));
            assert!(parsed.is_ok(), "{name}: {example}: {:?}", parsed.err());
        }
    }
}

fn files_below(place: PathBuf) -> Vec<PathBuf> {
    match fs::read_dir(&place) {
        Err(_) => vec![place],
        Ok(entries) => entries
            .flat_map(|entry| {
                files_below(
                    entry
                        .expect("a directory of the repository can be read")
                        .path(),
                )
            })
            .collect(),
    }
}

/// Command lines of a page: between backticks, and at the beginning of a line, also after a variable that
/// is set for the command.
fn commands(text: &str) -> Vec<String> {
    let is_code = |paragraph: &&str| paragraph.contains("```");
    // A span between backticks may continue on the next line.
    let spans = text
        .split("\n\n")
        .filter(|paragraph| !is_code(paragraph))
        .flat_map(|paragraph| {
            paragraph
                .split('`')
                .skip(1)
                .step_by(2)
                .map(|span| span.replace('\n', " "))
        });
    let lines = text.lines().map(|line| {
        line.trim_start()
            .trim_start_matches("# ")
            .trim_start()
            .to_owned()
    });
    let found = spans.chain(lines).filter_map(|piece| {
        let command = piece
            .strip_prefix("SLUICEGATE_LOG=debug ")
            .unwrap_or(&piece);
        command
            .starts_with("sluicegate ")
            .then(|| command.to_owned())
    });
    // Skips sentences that begin with the program's name, and commands with a part left out.
    let names: Vec<String> = Arguments::command()
        .get_subcommands()
        .map(|sub| sub.get_name().to_owned())
        .collect();
    let is_command = |command: &String| {
        let next = command.split_whitespace().nth(1).unwrap_or_default();
        let is_one = next.starts_with("--") || names.iter().any(|name| name == next);
        is_one && !command.contains('…') && !command.contains('`')
    };
    found.filter(is_command).collect()
}

/// Splits a simple command into words as a shell does, up to the first pipe, redirection or comment.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in command.chars() {
        match (quote, letter) {
            (Some(open), letter) if open == letter => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '|' | '<' | '>' | '&' | ';' | '#' | ')') => break,
            (None, letter) if letter.is_whitespace() => words.extend(word.take()),
            (_, letter) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    // In `2>` the number belongs to the redirection.
    if command.contains("2>") && words.last().is_some_and(|word| word == "2") {
        words.pop();
    }
    words
}

#[test]
fn commands_are_distinguished_from_prose_and_split_as_a_shell_does() {
    let text = "Run `sluicegate check\na.yaml` or\n\n```sh\nsluicegate serve --config 'a b.yaml' > log 2>&1 &\nsluicegate is a word\n`sluicegate check …`";
    let found: Vec<Vec<String>> = commands(text)
        .iter()
        .map(|command| words(command))
        .collect();
    assert_eq!(
        found,
        [
            vec!["sluicegate", "check", "a.yaml"],
            vec!["sluicegate", "serve", "--config", "a b.yaml"]
        ]
    );
    assert!(
        Arguments::command()
            .try_get_matches_from(["sluicegate", "serve", "--confg", "x"])
            .is_err()
    );
}
