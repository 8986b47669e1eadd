//! Clients that others have written: Python's for Redis and gRPC, and one that makes up questions from the OpenAPI document.

use std::path::{Path, PathBuf};
use std::process::Command;

use sluicegate_testkit::needs;

use super::running::Sluicegate;

const LIMITS: &str = r#"
proxy: { listen: "127.0.0.1:0" }
admin: { listen: "127.0.0.1:0" }
decisions: { http: "127.0.0.1:0", grpc: "127.0.0.1:0", resp: "127.0.0.1:0" }
client_ip: { trusted_proxies: [127.0.0.1/32] }
access: { deny: { cidrs: [192.0.2.0/24] }, allow: { keys: [vip] } }
limits:
  - { name: per-client, key: [client_ip], rate: 1/h, burst: 5 }
  - { name: per-user, key: ["descriptor:user"], rate: 3/h, burst: 3, match: { domain: edge } }
  - { name: per-ip, key: [client_ip], rate: 100/s, burst: 200, match: { path: /x } }
  - { name: tenant, key: ["header:X-Tenant", "descriptor:plan"], rate: 1/h, burst: 2, match: { path: /x } }
"#;

/// Python with the packages that these tests need: named by `cargo xtask test`, which installs it.
pub fn python() -> PathBuf {
    needs::program("SLUICEGATE_PYTHON")
}

/// A file of these tests.
pub fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it/clients")
        .join(name)
}

/// Runs Python, which must end well and in time; what it prints.
#[track_caller]
fn run(python: &Path, arguments: &[&str]) -> String {
    let directory = tempfile::tempdir().unwrap();
    // It leaves nothing behind, and nobody else's settings or proxies are between it and this machine.
    let output = Command::new("timeout")
        .arg("240")
        .arg(python)
        .args(arguments)
        .current_dir(directory.path())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("NO_PROXY", "127.0.0.1")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{} {told} {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    told
}

#[test]
#[ignore = "needs clients in Python"]
fn the_redis_client_of_python_is_answered_as_by_redis_cell() {
    let python = python();
    let sluicegate = Sluicegate::start(LIMITS);
    let port = sluicegate.resp.unwrap().port().to_string();
    for protocol in ["2", "3"] {
        let told = run(
            &python,
            &[file("redis_client.py").to_str().unwrap(), &port, protocol],
        );
        assert_eq!(told, "every answer was right\n", "RESP{protocol}");
    }
}

#[test]
#[ignore = "needs clients in Python"]
fn a_client_generated_from_our_files_asks_as_envoy_does() {
    let python = python();
    let sluicegate = Sluicegate::start(LIMITS);
    let port = sluicegate.grpc.unwrap().port().to_string();
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sluicegate-server/proto");
    let told = run(
        &python,
        &[
            file("grpc_client.py").to_str().unwrap(),
            &port,
            files.to_str().unwrap(),
        ],
    );
    assert_eq!(told, "every answer was right\n");
}

/// Hundreds of good and bad questions, the same every time.
#[test]
#[ignore = "needs clients in Python"]
fn no_question_is_answered_otherwise_than_the_document_says() {
    let python = python();
    // Some of them pass and some do not.
    let sluicegate =
        Sluicegate::start(&LIMITS.replace("rate: 1/h, burst: 5", "rate: 20/s, burst: 40"));
    let document = format!("http://{}/openapi.json", sluicegate.decisions.unwrap());
    let settings = file("schemathesis.toml");
    let told = run(
        &python,
        &[
            "-m",
            "schemathesis.cli",
            "--config-file",
            settings.to_str().unwrap(),
            "--no-color",
            "run",
            &document,
            "--generation-deterministic",
            "--max-examples=25",
            "--no-shrink",
            "--suppress-health-check=all",
            "--phases=examples,coverage,fuzzing",
            // A well-formed question may still be refused: that depends on the limits.
            "--exclude-checks=positive_data_acceptance",
            // To Sluicegate, these are one with GET.
            "--exclude-operation-id-regex=^authorize_.*_(post|put|patch|delete)$",
            "--warnings=off",
            "--request-timeout=20",
        ],
    );
    let passed = told
        .lines()
        .find_map(|line| line.trim().split_once(" generated, "))
        .expect("it says how many");
    let count: u32 = passed.0.parse().unwrap();
    assert!(
        count > 400 && passed.1 == format!("{count} passed"),
        "{told}"
    );
    assert!(
        told.contains("Tested: 8"),
        "every path but that of the document: {told}"
    );
    let failures = sluicegate
        .logged
        .lock()
        .unwrap()
        .iter()
        .filter(|line| line.contains("panicked"))
        .count();
    assert_eq!(failures, 0);
}
