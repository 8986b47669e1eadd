//! The commands for operators, against a running Sluicegate.

use std::io::{Read, Write};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use sluicegate_testkit::{STEP_TIMEOUT, eventually};

use crate::running::Sluicegate;

/// One in an hour: who was denied stays so until somebody does something.
const CONFIG: &str = "
proxy: { listen: '127.0.0.1:0' }
admin: { listen: '127.0.0.1:0' }
limits:
  - { name: per-caller, key: ['header:X-Caller'], rate: 1/h, burst: 1 }
";

/// A command of the operator at a Sluicegate.
fn command(sluicegate: &Sluicegate, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluicegate"));
    command.args(line.split_whitespace()).env(
        "SLUICEGATE_ADMIN_URL",
        format!("http://{}", sluicegate.admin.unwrap()),
    );
    command
        .env_remove("SLUICEGATE_ADMIN_TOKEN_FILE")
        .env("USER", "olga");
    command
}

fn run(sluicegate: &Sluicegate, line: &str) -> Output {
    command(sluicegate, line).output().unwrap()
}

/// The output of a command that succeeds.
#[track_caller]
fn said(sluicegate: &Sluicegate, line: &str) -> String {
    let output = run(sluicegate, line);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{line}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// The error of a command that fails with this code.
#[track_caller]
fn complained(sluicegate: &Sluicegate, line: &str, code: i32) -> String {
    let output = run(sluicegate, line);
    let words = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{line}: {words}");
    assert!(output.stdout.is_empty(), "{line}");
    words
}

fn ask_as(sluicegate: &Sluicegate, caller: &str) -> u16 {
    sluicegate
        .get("/", &[&format!("X-Caller: {caller}")])
        .status()
}

#[test]
fn a_counter_is_inspected_and_reset() {
    let sluicegate = Sluicegate::start(CONFIG);
    assert!(said(&sluicegate, "inspect per-caller ann").contains("left        1 of 1"));
    assert_eq!(
        (ask_as(&sluicegate, "ann"), ask_as(&sluicegate, "ann")),
        (200, 429)
    );
    let words = said(&sluicegate, "inspect per-caller ann");
    assert!(
        words.contains("left        0 of 1") && words.contains("full again  in "),
        "{words}"
    );
    let json: Value =
        serde_json::from_str(&said(&sluicegate, "inspect per-caller ann --json")).unwrap();
    assert_eq!(
        (&json["remaining"], &json["capacity"]),
        (&0.into(), &1.into())
    );
    assert!(
        said(&sluicegate, "reset per-caller ann --reason mistake")
            .contains("starts with a full quota")
    );
    assert_eq!(
        (ask_as(&sluicegate, "ann"), ask_as(&sluicegate, "ann")),
        (200, 429)
    );
    sluicegate.wait_for_log("olga");
    sluicegate.wait_for_log("mistake");
}

#[test]
fn a_reload_says_what_became_of_it() {
    let sluicegate = Sluicegate::start(CONFIG);
    assert!(said(&sluicegate, "reload --reason curious").starts_with("unchanged"));
    sluicegate.wait_for_log("curious");
    std::fs::write(
        sluicegate.file("sluicegate.yaml"),
        CONFIG.replace("burst: 1", "brust: 1"),
    )
    .unwrap();
    let words = complained(&sluicegate, "reload", 1);
    assert!(
        words.contains("the running configuration stays")
            && words.contains("did you mean `burst`?"),
        "{words}"
    );
}

#[test]
fn keys_are_listed_a_line_each() {
    let sluicegate = Sluicegate::start(CONFIG);
    for caller in ["ann", "ben", "anna"] {
        ask_as(&sluicegate, caller);
    }
    assert_eq!(
        said(&sluicegate, "keys per-caller --contains an"),
        "per-caller:ann\nper-caller:anna\n"
    );
    let one = run(&sluicegate, "keys -n 1");
    assert_eq!(String::from_utf8(one.stdout).unwrap(), "per-caller:ann\n");
    assert!(
        String::from_utf8(one.stderr)
            .unwrap()
            .contains("does not keep the names")
    );
    assert!(complained(&sluicegate, "keys nothing", 1).contains("nothing"));
}

#[test]
fn an_override_holds_until_it_is_ended() {
    let sluicegate = Sluicegate::start(CONFIG);
    assert_eq!(
        (ask_as(&sluicegate, "ann"), ask_as(&sluicegate, "ann")),
        (200, 429)
    );
    assert_eq!(
        said(&sluicegate, "override --list"),
        "no override is in force\n"
    );
    let words = said(
        &sluicegate,
        "override per-caller ann --unlimited --for 1.5h --reason move",
    );
    assert!(
        words.starts_with("in force: ") && words.contains("by olga: move"),
        "{words}"
    );
    eventually("the override holds", || ask_as(&sluicegate, "ann") == 200);
    assert_eq!(
        (ask_as(&sluicegate, "ben"), ask_as(&sluicegate, "ben")),
        (200, 429),
        "nobody else has it"
    );
    let listed = said(&sluicegate, "override --list");
    let id = listed.split_whitespace().next().unwrap();
    assert!(said(&sluicegate, "ban --list").contains("no ban"));
    said(&sluicegate, &format!("override --end {id}"));
    eventually("it has ended", || ask_as(&sluicegate, "ann") == 429);
    assert!(
        complained(&sluicegate, &format!("override --end {id}"), 1).contains("http://127.0.0.1")
    );
}

#[test]
fn a_ban_holds_until_it_is_ended() {
    let sluicegate = Sluicegate::start(CONFIG);
    assert_eq!(ask_as(&sluicegate, "ann"), 200);
    let order: Value = serde_json::from_str(&said(
        &sluicegate,
        "ban 127.0.0.0/8 --for 1h30m --reason scraping --json",
    ))
    .unwrap();
    eventually("the ban holds", || ask_as(&sluicegate, "ben") == 403);
    assert!(said(&sluicegate, "ban --list").contains("client_ip 127.0.0.0/8: refused until"));
    said(
        &sluicegate,
        &format!("ban --end {}", order["id"].as_str().unwrap()),
    );
    eventually("it has ended", || ask_as(&sluicegate, "cay") == 200);
}

#[test]
fn what_is_wrong_is_told_with_the_place_and_the_way_out() {
    let sluicegate = Sluicegate::start(CONFIG);
    let place = format!("sluicegate: http://{}: ", sluicegate.admin.unwrap());
    for (line, words) in [
        ("inspect nowhere ann", "nowhere"),
        ("inspect per-caller", "header:x-caller"),
        ("ban nobody/99 --for 1h --reason x", "client_ip"),
        ("ban 127.0.0.1 --for soon --reason x", "for"),
        (
            "override per-caller --rate fast --for 1h --reason x",
            "rate",
        ),
        ("override nowhere --rate 1/s --for 1h --reason x", "nowhere"),
    ] {
        let complaint = complained(&sluicegate, line, 1);
        assert!(
            complaint.starts_with(&place) && complaint.contains(words),
            "{line}: {complaint}"
        );
    }
    for usage in [
        "inspect",
        "ban",
        "ban 127.0.0.1",
        "override per-caller --for 1h --reason x",
        "top --by name",
        "reset --url x a b",
    ] {
        assert!(
            complained(&sluicegate, usage, 2).starts_with("error: "),
            "{usage}"
        );
    }
}

#[test]
fn the_token_is_shown_and_its_absence_names_the_option() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(
        directory.path().join("admin.token"),
        "0123456789abcdef-right\n",
    )
    .unwrap();
    std::fs::write(
        directory.path().join("wrong.token"),
        "0123456789abcdef-wrong\n",
    )
    .unwrap();
    let config = CONFIG.replace(
        "listen: '127.0.0.1:0' }\nlimits",
        "listen: '127.0.0.1:0', token_file: admin.token }\nlimits",
    );
    std::fs::write(directory.path().join("sluicegate.yaml"), config).unwrap();
    let sluicegate = Sluicegate::start_in(directory);
    let with = |name: &str| {
        format!(
            "inspect per-caller ann --token-file {}",
            sluicegate.file(name).display()
        )
    };
    assert!(
        complained(&sluicegate, "inspect per-caller ann", 1)
            .contains("a token is needed: --token-file FILE")
    );
    let wrong = complained(&sluicegate, &with("wrong.token"), 1);
    assert!(
        wrong.contains("wrong token") && !wrong.contains("abcdef"),
        "{wrong}"
    );
    assert!(said(&sluicegate, &with("admin.token")).contains("left        1 of 1"));
    assert!(complained(&sluicegate, &with("no.token"), 1).contains("no.token"));
}

#[test]
fn top_prints_one_table_where_no_terminal_is() {
    let sluicegate = Sluicegate::start(CONFIG);
    for _ in 0..5 {
        ask_as(&sluicegate, "ann");
    }
    ask_as(&sluicegate, "ben");
    eventually("the busiest are known", || {
        said(&sluicegate, "top").contains("per-caller:ann")
    });
    let table = said(&sluicegate, "top --once --by denied --limit per-caller");
    let rows: Vec<&str> = table
        .lines()
        .filter(|line| line.starts_with("per-caller:"))
        .collect();
    assert_eq!(
        rows[0].split_whitespace().collect::<Vec<_>>(),
        ["per-caller:ann", "5", "4"],
        "{table}"
    );
    assert!(table.contains("store local healthy"), "{table}");
    let json: Value = serde_json::from_str(&said(&sluicegate, "top --json")).unwrap();
    assert_eq!(json["top"]["keys"][0]["denied"], 4);
}

#[test]
fn every_command_of_the_guide_runs() {
    let config = CONFIG.replace(
        "per-caller, key: ['header:X-Caller']",
        "per-client, key: [client_ip]",
    );
    let sluicegate = Sluicegate::start(&config);
    assert_eq!(sluicegate.get("/", &[]).status(), 200);
    let guide = include_str!("../../../../docs/commands.md");
    let blocks = guide
        .split("```sh\n")
        .skip(1)
        .map(|block| block.split("```").next().unwrap());
    let lines: Vec<&str> = blocks.flat_map(str::lines).collect();
    assert!(lines.len() >= 14, "{lines:?}");
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_sluicegate"))
        .parent()
        .unwrap();
    for line in lines {
        let output = Command::new("sh")
            .args(["-c", line])
            .env("PATH", format!("{}:/usr/bin:/bin", binary.display()))
            .env(
                "SLUICEGATE_ADMIN_URL",
                format!("http://{}", sluicegate.admin.unwrap()),
            )
            .env_remove("SLUICEGATE_CONFIG")
            .output()
            .unwrap();
        assert_eq!(
            output.status.code(),
            Some(0),
            "{line}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(!output.stdout.is_empty(), "{line}");
    }
}

/// A command on a terminal of its own, which `script` makes.
struct OnTerminal {
    child: Child,
    screen: Arc<Mutex<Vec<u8>>>,
}

impl OnTerminal {
    fn start(sluicegate: &Sluicegate, line: &str) -> Self {
        Self::start_with(sluicegate, "NO_COLOR=", line)
    }

    /// With a variable of the environment, such as `A=b`.
    fn start_with(sluicegate: &Sluicegate, variable: &str, line: &str) -> Self {
        let program = env!("CARGO_BIN_EXE_sluicegate");
        let shell = format!("stty rows 30 cols 110; exec env {variable} '{program}' {line}");
        let mut child = Command::new("script")
            .args(["-q", "-e", "-c", &shell, "/dev/null"])
            .env(
                "SLUICEGATE_ADMIN_URL",
                format!("http://{}", sluicegate.admin.unwrap()),
            )
            .env("USER", "olga")
            .env("TERM", "xterm-256color")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script, of Debian's package bsdutils");
        let screen = Arc::new(Mutex::new(Vec::new()));
        let (mut output, kept) = (child.stdout.take().unwrap(), Arc::clone(&screen));
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = output.read(&mut buffer) {
                kept.lock().unwrap().extend_from_slice(&buffer[..read]);
            }
        });
        Self { child, screen }
    }

    fn wait_for(&self, text: &str) {
        let shown = || String::from_utf8_lossy(&self.screen.lock().unwrap()).into_owned();
        eventually(&format!("{text:?} on the terminal"), || {
            shown().contains(text)
        });
    }

    fn press(&mut self, keys: &str) {
        self.child
            .stdin
            .as_mut()
            .unwrap()
            .write_all(keys.as_bytes())
            .unwrap();
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn top_on_a_terminal_shows_the_denied_caller_and_resets_it() {
    let sluicegate = Sluicegate::start(CONFIG);
    assert_eq!(
        (ask_as(&sluicegate, "ann"), ask_as(&sluicegate, "ann")),
        (200, 429)
    );
    let mut top = OnTerminal::start(&sluicegate, "top");
    top.wait_for("healthy");
    top.wait_for("per-caller:ann");
    top.press("r");
    top.wait_for("y resets it");
    top.press("y");
    top.wait_for("is reset");
    assert_eq!(ask_as(&sluicegate, "ann"), 200);
    sluicegate.wait_for_log("sluicegate top");
    top.press("q");
    let deadline = std::time::Instant::now() + STEP_TIMEOUT;
    let ended = loop {
        if let Some(status) = top.child.try_wait().unwrap() {
            break status;
        }
        assert!(std::time::Instant::now() < deadline, "q ends it");
        // bounded wait: the deadline is above
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    assert_eq!(ended.code(), Some(0));
    // The screen that was there before comes back.
    top.wait_for("\u{1b}[?1049l");
}

#[test]
fn top_has_no_colours_where_nobody_wants_them() {
    let sluicegate = Sluicegate::start(CONFIG);
    let colours = |variable: &str| {
        let mut top = OnTerminal::start_with(&sluicegate, variable, "top");
        top.wait_for("healthy");
        top.press("q");
        top.wait_for("\u{1b}[?1049l");
        let screen = top.screen.lock().unwrap();
        // Green, as foreground of the 256 colours.
        String::from_utf8_lossy(&screen).contains("\u{1b}[38;5;2")
    };
    assert!(colours("NO_COLOR="));
    assert!(!colours("NO_COLOR=1"));
}
