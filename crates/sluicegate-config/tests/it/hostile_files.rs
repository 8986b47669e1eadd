//! Files made to take time or memory: refused, and quickly.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use sluicegate_config::{Mistake, Mistakes, Source};

use crate::try_load;

/// Long for a computer, even a busy one without optimisation.
const QUICKLY: Duration = Duration::from_secs(5);

#[track_caller]
fn refused_quickly(text: &str) -> Mistakes {
    let started = Instant::now();
    let mistakes = try_load(text).expect_err("was accepted");
    let shown = mistakes.render(true).len() + mistakes.to_string().len();
    assert!(
        started.elapsed() < QUICKLY,
        "took {:?} for {shown} bytes",
        started.elapsed()
    );
    mistakes
}

#[test]
fn aliases_of_aliases_of_aliases() {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..20 {
        let before = format!("*a{}", level - 1);
        writeln!(
            text,
            "a{level}: &a{level} [{}]",
            [before.as_str(); 10].join(", ")
        )
        .unwrap();
    }
    let reported = refused_quickly(&text).to_string();
    assert!(
        reported.len() < 1_000 && !reported.contains("unknown key"),
        "{reported}"
    );
}

#[test]
fn merges_of_merges() {
    let mut text = String::from("a0: &a0 { k: v }\n");
    for level in 1..200 {
        writeln!(
            text,
            "a{level}: &a{level} {{ <<: [*a{0}, *a{0}, *a{0}], k{level}: *a{0} }}",
            level - 1
        )
        .unwrap();
    }
    refused_quickly(&text);
}

#[test]
fn an_alias_within_itself() {
    refused_quickly("limits: &a [*a]");
    refused_quickly("limits: &a { b: *a }");
}

#[test]
fn ten_megabytes() {
    let line = "  - { name: x, key: [client_ip], rate: 1/s }\n";
    let text = format!("limits:\n{}", line.repeat(10_000_000 / line.len()));
    assert_eq!(
        refused_quickly(&text).to_string(),
        "sluicegate.yaml: is longer than 1 MiB"
    );
    assert!(
        refused_quickly(&"x".repeat(10_000_000))
            .to_string()
            .ends_with("is longer than 1 MiB")
    );
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("long.yaml");
    std::fs::write(&file, &text).unwrap();
    let reported = Source::read(&file).unwrap_err().to_string();
    assert!(
        reported.ends_with("long.yaml: cannot be read: it is longer than 1 MiB"),
        "{reported}"
    );
}

#[test]
fn deep_nesting() {
    let levels = 100_000;
    refused_quickly(&"[".repeat(levels));
    refused_quickly(&"{a: ".repeat(levels));
    refused_quickly(&"- ".repeat(levels));
    refused_quickly(&"? ".repeat(levels));
    let block: String = (0..1_000)
        .map(|level| format!("{}a:\n", " ".repeat(level)))
        .collect();
    refused_quickly(&block);
}

#[test]
fn a_file_full_of_mistakes() {
    let text: String = (0..30_000)
        .map(|number| format!("limits{number}: x\n"))
        .collect();
    let mistakes = refused_quickly(&text);
    assert_eq!(mistakes.iter().len(), 30_000);
    let is_guess = |mistake: &&Mistake| mistake.message().ends_with("did you mean `limits`?");
    assert_eq!(
        mistakes.iter().filter(is_guess).count(),
        50,
        "guesses are for slips of the pen"
    );
    let limits = format!("limits:\n{}", "  - { nam: 1, rate: x }\n".repeat(5_000));
    let shown = refused_quickly(&limits).render(false);
    assert!(
        shown.contains("of them not shown"),
        "{}",
        &shown[shown.len() - 200..]
    );
    let long_key = format!("{}: 1\n", "k".repeat(500_000));
    assert!(refused_quickly(&long_key).to_string().len() < 2_000);
}

#[test]
fn a_million_comments_and_anchors() {
    let _ = try_load(&"# \n".repeat(300_000));
    let anchors: String = (0..50_000)
        .map(|number| format!("- &a{number} x\n"))
        .collect();
    refused_quickly(&anchors);
}
