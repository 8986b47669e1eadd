//! Limits that are off, and factors by role, in the running program.

use std::process::Command;

use serde_json::Value;

use super::running::Sluicegate;

const CONFIG: &str = "
proxy: { listen: '127.0.0.1:0' }
decisions: { http: '127.0.0.1:0', enabled: false }
admin: { listen: '127.0.0.1:0' }
limits:
  - { name: wide, key: [client_ip], rate: 1000/h }
  - { name: narrow, key: [client_ip], rate: 1/h, replaces: wide, match: { path: /narrow }, enabled: false }
";

#[test]
fn a_limit_that_is_off_neither_rejects_nor_counts_and_cannot_be_named() {
    let sluicegate = Sluicegate::start(CONFIG);
    assert!(
        sluicegate.decisions.is_none(),
        "the decision service is off"
    );
    for _ in 0..3 {
        let response = sluicegate.get("/narrow", &[]);
        assert_eq!(response.status(), 200);
    }
    let allowed = r#"sluicegate_decisions_total{limit="wide",outcome="allowed"}"#;
    let metrics = sluicegate.admin_get("/metrics");
    assert!(
        metrics.body().contains("limit=\"wide\"") && !metrics.body().contains("limit=\"narrow\""),
        "{allowed} {}",
        metrics.body()
    );
    let printed = sluicegate.printed.lock().unwrap().join("\n");
    assert!(
        printed.contains("narrow is off: neither enforced nor counted"),
        "{printed}"
    );
    for line in [
        &[
            "override", "narrow", "--rate", "1/s", "--for", "1h", "--reason", "x",
        ][..],
        &["inspect", "narrow", "127.0.0.1"],
        &["keys", "narrow"],
    ] {
        let refused = Command::new(env!("CARGO_BIN_EXE_sluicegate"))
            .args(line)
            .args(["--url", &format!("http://{}", sluicegate.admin.unwrap())])
            .env("USER", "olga")
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{line:?}: {told}");
        assert!(told.contains("is off (enabled: false)"), "{line:?}: {told}");
    }
}

#[test]
fn explain_names_the_limits_that_are_off() {
    let sluicegate = Sluicegate::start(CONFIG);
    let file = sluicegate.file("sluicegate.yaml").display().to_string();
    let admin = format!("http://{}", sluicegate.admin.unwrap());
    for at in [["--config", &file], ["--url", &admin]] {
        let explain = |more: &[&str]| {
            let output = Command::new(env!("CARGO_BIN_EXE_sluicegate"))
                .args(["explain", "/narrow"])
                .args(at)
                .args(more)
                .output()
                .unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        let told = explain(&[]);
        let off = "   off  narrow is off: nothing is counted.\n";
        assert!(told.contains("It passes.") && told.contains(off), "{told}");
        let answer: Value = serde_json::from_str(&explain(&["--json"])).unwrap();
        let standing = answer["limits"].as_array().unwrap().iter();
        let standing: Vec<_> = standing
            .map(|limit| (&limit["name"], &limit["standing"]))
            .collect();
        let expected = [("wide", "charged"), ("narrow", "off")];
        let expected = expected.map(|(name, standing)| (Value::from(name), Value::from(standing)));
        let expected: Vec<_> = expected
            .iter()
            .map(|(name, standing)| (name, standing))
            .collect();
        assert_eq!(standing, expected);
    }
}

#[test]
fn a_role_divides_size_and_rate() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("sluicegate.yaml");
    let config = "
limits:
  - name: per-user
    key: [principal]
    rate: 100/m
    burst: 20
    factor: { claim: role, map: { gold: 0.25, slow: 2 }, applies_to: both }
";
    std::fs::write(&file, config).unwrap();
    for (role, quota) in [
        ("gold", "at most 80 requests at once and 400 a minute"),
        ("slow", "at most 10 requests at once and 50 a minute"),
        ("other", "at most 20 requests at once and 100 a minute"),
    ] {
        let explained = Command::new(env!("CARGO_BIN_EXE_sluicegate"))
            .args(["explain", "/", "--principal", "ann", "--json"])
            .args(["--claim", &format!("role={role}"), "--config"])
            .arg(&file)
            .output()
            .unwrap();
        let answer: Value = serde_json::from_slice(&explained.stdout).unwrap();
        assert!(answer.to_string().contains(quota), "{role}: {answer:#}");
    }
}
