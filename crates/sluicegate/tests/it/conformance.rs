//! Every store answers as the transcripts say, and as the reference store does.

pub mod random;

use std::collections::BTreeSet;

use sluicegate::conformance::{self, Failure, LineProblem, ReferenceStore, TRANSCRIPTS};
use sluicegate::{LocalOptions, LocalStore};

#[tokio::test]
async fn the_pure_code_plays_every_transcript() {
    let report = conformance::run(ReferenceStore::new)
        .await
        .unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(report.transcripts, TRANSCRIPTS.len());
    assert!(report.answers >= 200, "only {} answers", report.answers);
}

#[tokio::test]
async fn the_local_store_plays_every_transcript() {
    let options = LocalOptions {
        max_keys: 10_000,
        ..LocalOptions::default()
    };
    conformance::run(|| LocalStore::new(options))
        .await
        .unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn every_transcript_in_the_folder_is_played() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/transcripts");
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let played = TRANSCRIPTS.iter().map(|(file, _)| (*file).to_owned());
    assert_eq!(
        files.collect::<BTreeSet<_>>(),
        played.collect::<BTreeSet<_>>()
    );
}

/// A transcript begins with what it shows, for those who read it first.
#[test]
fn every_transcript_begins_with_a_sentence() {
    for (file, text) in TRANSCRIPTS {
        let first = text.lines().next().unwrap_or_default();
        assert!(
            first.starts_with("# ") && first.ends_with(['.', '?']),
            "{file}: {first}"
        );
    }
}

async fn failure_of(text: &str) -> Failure {
    conformance::run_text("mine.txt", text, ReferenceStore::new())
        .await
        .expect_err("the transcript is wrong")
}

#[tokio::test]
async fn a_different_answer_is_shown_with_its_place() {
    let failure =
        failure_of("limit 1 per 1s burst 2\nat 0s spend 2 => allowed\n\nat 400ms spend 1 =>  denied,  retry in 1s")
            .await;
    let expected = "mine.txt:4: expected denied, retry in 1s\n     got denied, retry in 600ms, 0 left, full in 1600ms";
    assert_eq!(failure.to_string(), expected);
}

#[tokio::test]
async fn every_clause_of_an_answer_is_compared() {
    let transcript = "limit a: 1 per 1s burst 2\nlimit b: 1 per 1s burst 5\nshadow c: 1 per 1s burst 1\n\
                 at 0s spend 1 => allowed\nat 0s spend 2 => ";
    let right = "denied by a, c would deny, retry in 1s, 1 left of a, 4 left of b, 0 left of c, full in 1s of b";
    conformance::run_text(
        "mine.txt",
        &format!("{transcript}{right}"),
        ReferenceStore::new(),
    )
    .await
    .unwrap();
    for (from, to) in [
        ("denied by a", "allowed"),
        ("denied by a", "denied by b"),
        ("denied by a", "denied by a and b"),
        ("c would deny, ", ""),
        ("c would deny", "c would deny, a would deny"),
        ("retry in 1s", "retry in 999ms"),
        ("retry in 1s", "never"),
        ("1 left of a", "0 left of a"),
        ("4 left of b", "5 left of b"),
        ("full in 1s of b", "full of b"),
    ] {
        let wrong = right.replace(from, to);
        let failure = failure_of(&format!("{transcript}{wrong}")).await;
        assert!(
            matches!(failure.problem, LineProblem::Differs { .. }),
            "{wrong}: {failure}"
        );
    }
    let failure = failure_of("limit 1 per 1s burst 2\nat 0s 5 times spend 1 => 3 allowed").await;
    assert_eq!(
        failure.to_string(),
        "mine.txt:2: expected 3 allowed\n     got 2 allowed"
    );
}

#[tokio::test]
async fn what_is_no_statement_is_refused_with_its_place() {
    const LIMIT: &str = "limit 1 per 1s burst 2\n";
    for (line, why) in [
        (
            "sometimes spend 1",
            "expected limit, leaky, fixed, sliding, legacy, at, from or as (got \"sometimes\")",
        ),
        ("limit b: 1 per 1s", "expected burst at the end of the line"),
        (
            "limit b: 0 per 1s burst 1",
            "rate: must be at least 1 (got 0)",
        ),
        (
            "limit b: 1 per 1s burst 1 today",
            "expected the end of the line (got \"today\")",
        ),
        (
            "leaky b: 1 per 1s size 1 factor -1",
            "factor: must be a finite number",
        ),
        (
            "legacy b: most 3",
            "expected max, duration or min_interval (got \"most\")",
        ),
        (
            "limit a: 1 per 1s burst 3",
            "there is a limit \"a\" already; now changes it",
        ),
        (
            "now limit b: 1 per 1s burst 3",
            "there is no limit \"b\" to change",
        ),
        ("at noon spend 1 => allowed", "expected a number and a unit"),
        (
            "at 0s borrow 1 => allowed",
            "expected spend, look, peek, refund or reset (got \"borrow\")",
        ),
        ("at 0s spend 1", "expected => and the answer"),
        ("at 0s reset => allowed", "a reset has no answer"),
        ("at 0s spend one => allowed", "expected units (got \"one\")"),
        (
            "at 0s spend 1 of b => allowed",
            "limit \"b\": there is no limit of this name",
        ),
        (
            "at 0s spend 1 => allowed, 1 right",
            "expected an answer (got \"1 right\")",
        ),
        (
            "at 0s spend 1 => allowed, 1 left of b",
            "limit \"b\" was not charged",
        ),
        ("at 0s spend 1 => 1 allowed", "expected allowed or denied"),
        (
            "at 0s 3 times spend 1 => allowed",
            "expected a count of allowed charges",
        ),
        (
            "from 1s to 0s every 1ms spend 1 => 0 allowed",
            "expected an end after the beginning",
        ),
        (
            "from 0s to 1s every 0s spend 1 => 0 allowed",
            "expected a step longer than zero",
        ),
        (
            "as ann at 0s spend 1 => allowed",
            "expected a name and a colon after as",
        ),
        ("at 0s refund 1 drawn 5s => 1 left", "expected ago"),
    ] {
        let failure = failure_of(&format!("{LIMIT}{line}")).await;
        let shown = failure.to_string();
        assert!(
            shown.starts_with("mine.txt:2: ") && shown.contains(why),
            "{line}: {shown}"
        );
    }
    let failure = failure_of("at 0s spend 1 => allowed").await;
    assert_eq!(failure.to_string(), "mine.txt:1: there is no limit yet");
}
