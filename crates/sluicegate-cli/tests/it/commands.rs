//! The commands that do not stay: `check`, `schema`, `completions`, and what is said to wrong ones.

use std::process::{Command, Output};

fn sluicegate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sluicegate"))
        .args(arguments)
        .env_remove("SLUICEGATE_CONFIG")
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn check_says_in_words_what_is_enforced() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("good.yaml");
    let config = "
limits:
  - { name: per-ip, key: [client_ip], rate: 300/s, burst: 300 }
  - { name: sign-in, replaces: per-ip, match: { path: /signin, methods: [POST] }, key: [client_ip], rate: 5/m, burst: 5 }
";
    std::fs::write(&file, config).unwrap();
    let output = sluicegate(&["check", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let words = text(&output.stdout);
    for wanted in [
        "per-ip: at most 300 requests",
        "for each client address",
        "sign-in",
        "/signin",
    ] {
        assert!(words.contains(wanted), "{wanted} in {words}");
    }
}

#[test]
fn check_prints_every_mistake_with_its_line() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("bad.yaml");
    let config = "\
proxy:
  listen: 'nowhere'
  timeuots: { idle: 60s }
limits:
  - name: one
    key: [client_ipp]
    rate: 10/s
    burst: 0
  - name: one
    key: [client_ip]
    rate: ten/s
client_ip: { trusted_proxies: ['10.0.0.0/33'] }
";
    std::fs::write(&file, config).unwrap();
    let output = sluicegate(&["check", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "", "nothing is enforced");
    let told = text(&output.stderr);
    for (line, word) in [
        (2, "proxy.listen"),
        (3, "timeouts"),
        (6, "limits[0].key"),
        (8, "burst"),
        (11, "limits[1].rate"),
        (12, "trusted_proxies"),
    ] {
        assert!(told.contains(word), "{word} in {told}");
        assert!(told.contains(&format!(":{line}:")), "line {line} in {told}");
    }
}

#[test]
fn a_missing_file_is_named_and_a_wrong_command_is_usage() {
    let output = sluicegate(&["check", "/nowhere/sluicegate.yaml"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("/nowhere/sluicegate.yaml"));
    for wrong in [&["sreve"][..], &["serve", "--confg", "x"], &[]] {
        let output = sluicegate(wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
        assert!(
            text(&output.stderr).contains("Usage"),
            "{}",
            text(&output.stderr)
        );
    }
}

#[test]
fn the_schema_is_json_and_completions_are_for_a_shell() {
    let schema = text(&sluicegate(&["schema"]).stdout);
    let schema: serde_json::Value = serde_json::from_str(&schema).unwrap();
    assert!(schema["properties"]["limits"].is_object());
    let completions = text(&sluicegate(&["completions", "bash"]).stdout);
    assert!(completions.contains("_sluicegate"), "{completions}");
}

#[test]
fn manual_pages_are_printed_or_written_one_for_each_command() {
    let page = text(&sluicegate(&["man"]).stdout);
    assert!(
        page.contains(".TH sluicegate 1") && page.contains("sluicegate\\-serve(1)"),
        "{page}"
    );
    let directory = tempfile::tempdir().unwrap();
    let written = sluicegate(&[
        "man",
        "--dir",
        directory.path().join("new").to_str().unwrap(),
    ]);
    assert_eq!(written.status.code(), Some(0), "{}", text(&written.stderr));
    for name in [
        "sluicegate.1",
        "sluicegate-serve.1",
        "sluicegate-check.1",
        "sluicegate-import-envoy-ratelimit.1",
    ] {
        let page = std::fs::read_to_string(directory.path().join("new").join(name)).unwrap();
        assert!(page.contains(".SH SYNOPSIS"), "{name}: {page}");
    }
    let refused = sluicegate(&["man", "--dir", "/dev/null/man"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("/dev/null/man"));
}

#[test]
fn limits_of_envoys_service_are_imported_and_can_be_checked() {
    let directory = tempfile::tempdir().unwrap();
    let (theirs, ours) = (
        directory.path().join("theirs.yaml"),
        directory.path().join("ours.yaml"),
    );
    let file = "domain: edge\ndescriptors:\n  - { key: user, rate_limit: { unit: second, requests_per_unit: 10 } }\n";
    std::fs::write(&theirs, file).unwrap();
    let imported = sluicegate(&["import", "envoy-ratelimit", theirs.to_str().unwrap()]);
    assert_eq!(
        imported.status.code(),
        Some(0),
        "{}",
        text(&imported.stderr)
    );
    assert!(
        text(&imported.stderr)
            .starts_with("differs: user: ratelimit counts in windows of the clock")
    );
    std::fs::write(&ours, &imported.stdout).unwrap();
    let words = text(&sluicegate(&["check", ours.to_str().unwrap()]).stdout);
    assert!(words.contains("user: at most 10 requests"), "{words}");

    std::fs::write(&theirs, file.replace("second", "fortnight")).unwrap();
    let refused = sluicegate(&["import", "envoy-ratelimit", theirs.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        refused.stdout.is_empty() && text(&refused.stderr).contains("fortnight"),
        "{}",
        text(&refused.stderr)
    );
}

#[test]
fn a_port_that_is_taken_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("sluicegate.yaml");
    let config = format!(
        "proxy: {{ listen: '{address}' }}\nadmin: off\nlimits:\n  - {{ name: a, key: [client_ip], rate: 1/s }}\n"
    );
    std::fs::write(&file, config).unwrap();
    let output = sluicegate(&["serve", "--config", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let told = text(&output.stderr);
    assert!(
        told.contains("proxy.listen") && told.contains(&address.to_string()),
        "{told}"
    );
}
