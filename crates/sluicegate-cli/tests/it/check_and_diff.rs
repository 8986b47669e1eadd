//! `check` and `diff` for people, for other programs and for workflows.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

const GOOD: &str = "limits:\n  - { name: per-ip, key: [client_ip], rate: 10/s }\n";
const BAD: &str =
    "proxy:\n  listen: nowhere\nlimits:\n  - { name: a, key: [client_ip], rate: ten/s }\n";

/// A directory with files of these names and texts.
fn files(texts: &[(&str, &str)]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in texts {
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    directory
}

fn command(directory: &TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluicegate"));
    command
        .args(arguments)
        .current_dir(directory.path())
        .env_remove("SLUICEGATE_CONFIG");
    command
}

fn run(directory: &TempDir, arguments: &[&str]) -> Output {
    command(directory, arguments).output().unwrap()
}

fn run_with_input(directory: &TempDir, arguments: &[&str], input: &str) -> Output {
    let mut child = command(directory, arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    match stdin.write_all(input.as_bytes()) {
        // A program that refuses its arguments ends without reading.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
        written => written.unwrap(),
    }
    drop(stdin);
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn as_json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", text(&output.stdout)))
}

#[test]
fn check_takes_its_file_as_an_argument_as_an_option_and_from_the_environment() {
    let directory = files(&[("good.yaml", GOOD), ("bad.yaml", BAD)]);
    let by_argument = run(&directory, &["check", "good.yaml"]);
    assert_eq!(by_argument.status.code(), Some(0));
    for same in [
        &["check", "-c", "good.yaml"][..],
        &["check", "--config", "good.yaml"],
    ] {
        assert_eq!(run(&directory, same).stdout, by_argument.stdout, "{same:?}");
    }
    let by_environment = command(&directory, &["check"])
        .env("SLUICEGATE_CONFIG", "good.yaml")
        .output()
        .unwrap();
    assert_eq!(by_environment.stdout, by_argument.stdout);
    let over_environment = command(&directory, &["check", "-c", "good.yaml"])
        .env("SLUICEGATE_CONFIG", "bad.yaml")
        .output()
        .unwrap();
    assert_eq!(over_environment.stdout, by_argument.stdout);
    let both = run(&directory, &["check", "good.yaml", "-c", "good.yaml"]);
    assert_eq!(both.status.code(), Some(2), "{}", text(&both.stderr));
}

#[test]
fn standard_input_is_a_file_named_by_a_dash() {
    let directory = files(&[("good.yaml", GOOD)]);
    let by_file = run(&directory, &["check", "good.yaml"]);
    for arguments in [&["check", "-"][..], &["check", "-c", "-"]] {
        let checked = run_with_input(&directory, arguments, GOOD);
        assert_eq!(checked.status.code(), Some(0), "{}", text(&checked.stderr));
        assert_eq!(checked.stdout, by_file.stdout);
    }
    let refused = run_with_input(&directory, &["check", "-"], BAD);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        text(&refused.stderr).contains("standard input:2:11"),
        "{}",
        text(&refused.stderr)
    );
    let explained = run_with_input(&directory, &["explain", "/", "--config", "-"], GOOD);
    assert!(
        text(&explained.stdout).contains("per-ip"),
        "{}",
        text(&explained.stderr)
    );
    let compared = run_with_input(&directory, &["diff", "good.yaml", "-"], GOOD);
    assert_eq!(
        compared.status.code(),
        Some(0),
        "{}",
        text(&compared.stderr)
    );
    let twice = run_with_input(&directory, &["diff", "-", "-"], GOOD);
    assert_eq!(twice.status.code(), Some(2));
    assert!(text(&twice.stderr).contains("standard input"));
}

const GOOD_TOML: &str = "[[limits]]\nname = 'per-ip'\nkey = ['client_ip']\nrate = '10/s'\n";

#[test]
fn every_command_reads_toml_by_its_name_or_by_option() {
    let directory = files(&[
        ("good.yaml", GOOD),
        ("good.toml", GOOD_TOML),
        ("good.conf", GOOD_TOML),
        ("bad.toml", "[[limits]]\nname = 'a'\nrate = 10/s\n"),
    ]);
    let yaml = run(&directory, &["check", "good.yaml"]);
    for arguments in [
        &["check", "good.toml"][..],
        &["check", "-c", "good.toml"],
        &["check", "--input-format", "toml", "good.conf"],
        // The name of a file says more than the option.
        &["check", "--input-format", "toml", "good.yaml"],
    ] {
        let toml = run(&directory, arguments);
        assert_eq!(toml.status.code(), Some(0), "{}", text(&toml.stderr));
        assert_eq!(toml.stdout, yaml.stdout, "{arguments:?}");
    }
    let input = ["check", "--input-format", "toml", "-"];
    let by_input = run_with_input(&directory, &input, GOOD_TOML);
    assert_eq!(by_input.stdout, yaml.stdout);
    let as_yaml = run_with_input(&directory, &["check", "-"], GOOD_TOML);
    assert_eq!(as_yaml.status.code(), Some(1));
    let same = run(&directory, &["diff", "good.yaml", "good.toml"]);
    assert_eq!(text(&same.stdout), "nothing changes\n");
    let arguments = ["diff", "good.yaml", "-", "--input-format=toml"];
    let tighter = GOOD_TOML.replace("10/s", "5/s");
    let differs = run_with_input(&directory, &arguments, &tighter);
    assert_eq!(differs.status.code(), Some(1));
    assert!(text(&differs.stdout).starts_with("per-ip is tighter"));
    let explained = run(&directory, &["explain", "/", "--config", "good.toml"]);
    assert!(text(&explained.stdout).contains("per-ip"));
    let refused = run(&directory, &["check", "--format", "github", "bad.toml"]);
    assert_eq!(
        text(&refused.stdout),
        "::error file=bad.toml,line=3,col=8::expected a value; text must be in quotes\n"
    );
}

#[test]
fn json_has_the_place_of_every_mistake() {
    let directory = files(&[("good.yaml", GOOD), ("bad.yaml", BAD)]);
    let good = run(&directory, &["check", "--json", "good.yaml"]);
    assert_eq!(good.status.code(), Some(0));
    let good = as_json(&good);
    assert_eq!(
        (&good["ok"], &good["file"]),
        (&json!(true), &json!("good.yaml"))
    );
    assert_eq!(good["mistakes"], json!([]));
    let sentences = good["sentences"].as_array().unwrap();
    assert!(
        sentences.iter().any(|sentence| {
            sentence
                .as_str()
                .is_some_and(|sentence| sentence.starts_with("per-ip: at most 10"))
        }),
        "{sentences:?}"
    );
    let bad = run(&directory, &["check", "--json", "bad.yaml"]);
    assert_eq!(bad.status.code(), Some(1));
    assert_eq!(text(&bad.stderr), "");
    let expected = json!({
        "ok": false,
        "file": "bad.yaml",
        "sentences": [],
        "warnings": [],
        "mistakes": [
            {
                "file": "bad.yaml", "line": 2, "column": 11, "key": "proxy.listen",
                "message": "expected an IP address and port, such as 127.0.0.1:8080 (got \"nowhere\")",
            },
            {
                "file": "bad.yaml", "line": 4, "column": 40, "key": "limits[0].rate",
                "message": "expected a whole number of units before the slash (got \"ten/s\")",
            },
        ],
    });
    assert_eq!(as_json(&bad), expected);
    let absent = run(&directory, &["check", "--format", "json", "absent.yaml"]);
    assert_eq!(absent.status.code(), Some(1));
    let absent = as_json(&absent);
    assert_eq!(absent["mistakes"][0]["file"], "absent.yaml");
    assert_eq!(absent["mistakes"][0]["line"], Value::Null);
}

#[test]
fn mistakes_are_commands_of_a_workflow() {
    let directory = files(&[("good.yaml", GOOD), ("bad.yaml", BAD)]);
    let bad = run(&directory, &["check", "--format", "github", "bad.yaml"]);
    assert_eq!(bad.status.code(), Some(1));
    let told = text(&bad.stdout);
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(
        lines,
        [
            "::error file=bad.yaml,line=2,col=11::proxy.listen: expected an IP address and port, such as 127.0.0.1:8080 (got \"nowhere\")",
            "::error file=bad.yaml,line=4,col=40::limits[0].rate: expected a whole number of units before the slash (got \"ten/s\")",
        ]
    );
    let good = run(&directory, &["check", "--format", "github", "good.yaml"]);
    assert_eq!(good.status.code(), Some(0));
    assert!(!text(&good.stdout).contains("::"), "{}", text(&good.stdout));
}

/// What a command writes on a terminal of its own, which `script` makes.
fn on_terminal(directory: &TempDir, line: &str, no_color: Option<&str>) -> String {
    let program = env!("CARGO_BIN_EXE_sluicegate");
    let mut command = Command::new("script");
    command
        .args(["-q", "-c", &format!("'{program}' {line}"), "/dev/null"])
        .current_dir(directory.path())
        .env("TERM", "xterm-256color")
        .env_remove("SLUICEGATE_CONFIG")
        .env_remove("NO_COLOR")
        .stdin(Stdio::null());
    if let Some(value) = no_color {
        command.env("NO_COLOR", value);
    }
    text(
        &command
            .output()
            .expect("script, of Debian's package bsdutils")
            .stdout,
    )
}

#[test]
fn colours_are_for_terminals_whose_user_wants_them() {
    let directory = files(&[("bad.yaml", BAD)]);
    for line in [
        "check bad.yaml",
        "serve --config bad.yaml",
        "diff bad.yaml bad.yaml",
    ] {
        let in_colour = on_terminal(&directory, line, None);
        assert!(in_colour.contains("\u{1b}["), "{line}: {in_colour}");
        assert!(on_terminal(&directory, line, Some("")).contains("\u{1b}["));
        let plain = on_terminal(&directory, line, Some("1"));
        assert!(
            plain.contains("proxy.listen") && !plain.contains('\u{1b}'),
            "{line}: {plain}"
        );
    }
    let piped = run(&directory, &["check", "bad.yaml"]);
    assert!(!text(&piped.stderr).contains('\u{1b}'));
}

#[test]
fn diff_says_what_changes_and_ends_as_diff_does() {
    let old = "\
limits:
  - { name: per-ip, key: [client_ip], rate: 10/s, burst: 20 }
  - { name: sign-in, key: [client_ip], rate: 5/m, match: { path: /sign-in } }
";
    let new = "\
proxy: { listen: '127.0.0.1:8080' }
limits:
  - { name: per-ip, key: [client_ip], rate: 5/s, burst: 20 }
  - { name: tenant, key: ['header:X-Tenant'], rate: 100/s, mode: shadow }
";
    let directory = files(&[("old.yaml", old), ("new.yaml", new), ("bad.yaml", BAD)]);
    let same = run(&directory, &["diff", "old.yaml", "old.yaml"]);
    assert_eq!(same.status.code(), Some(0));
    assert_eq!(text(&same.stdout), "nothing changes\n");
    let changed = run(&directory, &["diff", "old.yaml", "new.yaml"]);
    assert_eq!(changed.status.code(), Some(1), "{}", text(&changed.stderr));
    let told = text(&changed.stdout);
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(
        &lines[..3],
        [
            "per-ip is tighter: at most 20 requests at once and 5 a second, for each client address; \
             it was at most 20 requests at once and 10 a second",
            "tenant is new: at most 100 requests at once and 100 a second, for each header x-tenant",
            "sign-in is gone: it was at most 5 requests at once and 5 a minute, for each client address, below /sign-in",
        ]
    );
    assert!(
        lines.contains(&"proxy.listen is 127.0.0.1:8080 now, and was not set"),
        "{told}"
    );
    assert_eq!(
        lines.last(),
        Some(
            &"a reload is not enough: proxy.listen, proxy.max_connections need a restart, \
              which empties the counters of this process"
        )
    );
    let as_json = as_json(&run(
        &directory,
        &["diff", "--json", "old.yaml", "new.yaml"],
    ));
    assert_eq!(as_json["changes"][0]["kind"], "tighter");
    assert_eq!(as_json["changes"][0]["key"], "limits.per-ip");
    assert_eq!(
        as_json["needs_restart"],
        json!(["proxy.listen", "proxy.max_connections"])
    );
}

#[test]
fn diff_of_files_with_mistakes_names_them_and_ends_with_2() {
    let directory = files(&[("good.yaml", GOOD), ("bad.yaml", BAD)]);
    for arguments in [
        ["diff", "good.yaml", "bad.yaml"],
        ["diff", "bad.yaml", "good.yaml"],
        ["diff", "good.yaml", "absent.yaml"],
    ] {
        let refused = run(&directory, &arguments);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}");
        assert_eq!(text(&refused.stdout), "");
        let wrong = arguments
            .iter()
            .find(|name| name.ends_with("d.yaml") || name.starts_with("absent"));
        assert!(wrong.is_some() && !refused.stderr.is_empty());
    }
    let both = run(&directory, &["diff", "--json", "bad.yaml", "absent.yaml"]);
    assert_eq!(both.status.code(), Some(2));
    let mistakes = as_json(&both)["mistakes"].clone();
    let files: Vec<&str> = mistakes
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|mistake| mistake["file"].as_str())
        .collect();
    assert_eq!(files, ["bad.yaml", "bad.yaml", "absent.yaml"]);
}

/// A reload that only changes limits needs no restart, and is said to be enough.
#[test]
fn diff_says_when_a_reload_is_enough() {
    let directory = files(&[
        ("old.yaml", GOOD),
        ("new.yaml", &GOOD.replace("10/s", "20/s")),
    ]);
    let changed = run(&directory, &["diff", "old.yaml", "new.yaml"]);
    let told = text(&changed.stdout);
    assert!(
        told.ends_with("a reload puts all of this in force\n"),
        "{told}"
    );
}

/// Every example of the repository is the same as itself, and checked from its own directory.
#[test]
fn examples_do_not_differ_from_themselves() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let example: PathBuf = root.join("docs/examples/sluicegate.yaml");
    let directory = files(&[]);
    let example = example.to_str().unwrap();
    let same = run(&directory, &["diff", example, example]);
    assert_eq!(same.status.code(), Some(0), "{}", text(&same.stdout));
}

#[test]
fn check_does_not_fetch_keys_and_says_so() {
    let config = "principals: { jwt: { jwks_url: 'https://id.invalid/keys?secret=hunter2' } }\n";
    let directory = files(&[("url.yaml", config)]);
    let checked = run(&directory, &["check", "url.yaml"]);
    assert_eq!(checked.status.code(), Some(0));
    let told = text(&checked.stdout);
    assert!(
        told.contains("https://id.invalid:443/keys?secret=*** is not fetched by this check\n"),
        "{told}"
    );
    assert!(!told.contains("hunter2"), "{told}");
}
