//! docs/quickstart.md, followed word for word: every command is run, and what it prints is what the page says.

use std::path::Path;
use std::process::{Command, Stdio};

const PAGE: &str = include_str!("../../../../docs/quickstart.md");

/// A command of the page and, where the page tells, what it prints.
#[derive(Debug, PartialEq)]
struct Step<'a> {
    commands: &'a str,
    prints: Option<&'a str>,
}

/// The blocks marked `sh`, each with the block marked `text` that follows it.
fn steps(page: &str) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    for (index, part) in page.split("```").enumerate() {
        // Every other part is within a block.
        let Some((mark, text)) = part.split_once('\n').filter(|_| index % 2 == 1) else {
            continue;
        };
        match mark {
            "sh" => steps.push(Step {
                commands: text,
                prints: None,
            }),
            "text" => {
                steps
                    .last_mut()
                    .expect("a command comes before what it prints")
                    .prints = Some(text)
            }
            other => panic!("a block of {other:?} is not followed by this test"),
        }
    }
    steps
}

#[test]
#[ignore = "needs network namespaces"]
fn a_newcomer_who_follows_the_page_sees_what_it_says() {
    // The page uses the ports that everybody uses: in a network of its own they are free.
    let alone = ["-rnpf", "--kill-child"];
    let steps = steps(PAGE);
    assert!(steps.len() >= 10, "{steps:?}");
    let mut script = String::from("ip link set lo up\n");
    for step in &steps {
        script += &format!("{}printf '\\n%s %s\\n' '{END}' $?\n", step.commands);
    }
    let directory = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_sluicegate"))
        .parent()
        .unwrap();
    let path = format!(
        "{}:{}",
        program.display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let output = Command::new("timeout")
        .args(["--signal=KILL", "120", "unshare"])
        .args(alone)
        .args(["sh", "-c", &format!("exec 2>&1\n{script}")])
        .current_dir(directory.path())
        .env("PATH", path)
        .env_remove("SLUICEGATE_CONFIG")
        .env_remove("http_proxy")
        .env_remove("HTTP_PROXY")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut rest = printed.as_str();
    for Step { commands, prints } in steps {
        let (own, after) = rest
            .split_once(END)
            .unwrap_or_else(|| panic!("it broke off at\n{commands}\n{rest}"));
        let (code, after) = after.split_once('\n').unwrap();
        assert_eq!(code.trim(), "0", "{commands}\nprinted\n{own}");
        if let Some(prints) = prints {
            let (expected, own): (Vec<&str>, Vec<&str>) = (lines(prints), lines(own));
            assert!(
                is_as_told(&expected, &own),
                "{commands}\nshould print\n{expected:#?}\nand prints\n{own:#?}"
            );
        }
        rest = after;
    }
}

const END: &str = "-- end of a step";

/// Without spaces around, which differ between versions of `uniq`, and carriage returns.
fn lines(text: &str) -> Vec<&str> {
    text.trim().lines().map(str::trim).collect()
}

/// `…` alone on a line stands for any number of lines, elsewhere for anything within its line.
fn is_as_told(expected: &[&str], lines: &[&str]) -> bool {
    match (expected.split_first(), lines.split_first()) {
        (None, None) => true,
        (Some((&"…", expected)), _) => {
            (0..=lines.len()).any(|skipped| is_as_told(expected, &lines[skipped..]))
        }
        (Some((first, expected)), Some((line, lines))) => {
            is_line(first, line) && is_as_told(expected, lines)
        }
        _ => false,
    }
}

fn is_line(expected: &str, line: &str) -> bool {
    let Some((start, rest)) = expected.split_once('…') else {
        return expected == line;
    };
    let Some(line) = line.strip_prefix(start) else {
        return false;
    };
    // As early as possible for each part, and the last one at the end.
    let mut parts: Vec<&str> = rest.split('…').collect();
    let last = parts.pop().unwrap_or_default();
    let after = parts.iter().try_fold(line, |line, part| {
        line.split_once(part).map(|(_, after)| after)
    });
    after.is_some_and(|after| after.ends_with(last))
}

#[test]
fn what_is_told_is_compared_line_by_line() {
    for (expected, line) in [
        ("a", "a"),
        ("a…", "a b"),
        ("…b", "a b"),
        ("a…c…e", "a b c d e"),
        ("…", ""),
        ("…b", "b b"),
    ] {
        assert!(is_line(expected, line), "{expected} {line}");
    }
    for (expected, line) in [
        ("a", "b"),
        ("a…", "b"),
        ("…b", "b a"),
        ("a…c…e", "a c"),
        ("aa…a", "aa"),
    ] {
        assert!(!is_line(expected, line), "{expected} {line}");
    }
    assert!(is_as_told(&["a", "…", "d"], &["a", "b", "c", "d"]));
    assert!(is_as_told(&["…", "d"], &["d"]));
    assert!(!is_as_told(&["a", "…", "d"], &["a", "b", "c"]));
    assert!(!is_as_told(&["a"], &["a", "b"]));
}
