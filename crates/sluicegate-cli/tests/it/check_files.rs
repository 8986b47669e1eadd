//! The files that a configuration names: `check` reads them, and secrets are kept from others.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use sluicegate_testkit::TlsFiles;
use tempfile::TempDir;

use crate::running::Sluicegate;

const KEYS: &str = include_str!("../../../sluicegate-server/tests/it/auth/foreign_jwks.json");

const CONFIG: &str = "\
proxy:
  listen: '127.0.0.1:0'
  tls: { cert: server.pem, key: server.key }
  upstream: 'https://localhost:1'
  upstream_ca_file: authority.pem
decisions: { http: '127.0.0.1:0', token_file: decisions.token }
admin: { listen: '127.0.0.1:0', token_file: admin.token }
principals:
  api_keys: { file: keys.yaml }
  jwt: { jwks_file: jwks.json }
store:
  kind: redis
  redis:
    endpoints: ['127.0.0.1:1']
    password_file: redis.password
    tls: { ca_file: authority.pem, cert: client.pem, key: client.key }
limits:
  - { name: per-client, key: [client_ip], rate: 10/s }
";

/// The configuration with all its files, which only their owner may read.
fn complete() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let tls = TlsFiles::generate();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        chmod(&path, 0o600);
    };
    for path in [
        tls.authority(),
        tls.server_certificate(),
        tls.server_key(),
        tls.client_certificate(),
        tls.client_key(),
    ] {
        let name = path.file_name().unwrap().to_str().unwrap();
        write(name, &fs::read_to_string(&path).unwrap());
    }
    write("sluicegate.yaml", CONFIG);
    write("decisions.token", "0123456789abcdef");
    write("admin.token", "0123456789abcdef");
    write("redis.password", "hunter2");
    write("jwks.json", KEYS);
    write(
        "keys.yaml",
        &format!("- {{ id: ann, sha256: {} }}\n", "ab".repeat(32)),
    );
    directory
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn check(directory: &TempDir, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sluicegate"))
        .arg("check")
        .args(arguments)
        .arg("sluicegate.yaml")
        .current_dir(directory.path())
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The mistakes as `line: key: message`.
fn mistakes(directory: &TempDir) -> Vec<String> {
    let output = check(directory, &["--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mistakes = report["mistakes"].as_array().unwrap();
    assert_eq!(output.status.code(), Some(i32::from(!mistakes.is_empty())));
    let line = |mistake: &Value| {
        let text = |field: &str| mistake[field].as_str().unwrap().to_owned();
        format!("{}: {}: {}", mistake["line"], text("key"), text("message"))
    };
    mistakes.iter().map(line).collect()
}

#[test]
fn check_reads_the_files_and_tells_mistakes_at_their_keys() {
    let directory = complete();
    let good = check(&directory, &[]);
    assert_eq!(good.status.code(), Some(0), "{}", text(&good.stderr));
    assert_eq!(text(&good.stderr), "");
    assert!(!text(&good.stdout).contains("not read"));
    let others = TlsFiles::generate();
    let foreign_key = fs::read_to_string(others.server_key()).unwrap();
    for (file, content, expected) in [
        (
            "server.pem",
            "",
            "3: proxy.tls.cert: server.pem: holds no certificate",
        ),
        (
            "server.key",
            "",
            "3: proxy.tls.key: server.key: holds no private key",
        ),
        (
            "server.key",
            &foreign_key,
            "3: proxy.tls: server.pem and server.key: ",
        ),
        (
            "decisions.token",
            "short",
            "6: decisions.token_file: decisions.token: must be at least 16 characters",
        ),
        (
            "admin.token",
            "two words of a token",
            "7: admin.token_file: admin.token: the first line must be a word",
        ),
        (
            "keys.yaml",
            "- { id: ann }",
            "9: principals.api_keys.file: keys.yaml:1:",
        ),
        (
            "jwks.json",
            "{\"keys\": []}",
            "10: principals.jwt.jwks_file: jwks.json: keys: expected at least one key",
        ),
        ("redis.password", "\n", "15: store.redis.password_file: "),
        (
            "client.key",
            "x",
            "16: store.redis.tls.key: client.key: holds no private key",
        ),
    ] {
        let path = directory.path().join(file);
        let before = fs::read(&path).unwrap();
        fs::write(&path, content).unwrap();
        let told = mistakes(&directory);
        assert_eq!(told.len(), 1, "{file}: {told:#?}");
        assert!(
            told[0].starts_with(expected),
            "{told:?} begins with {expected}"
        );
        assert!(!told[0].contains("hunter2"));
        fs::write(&path, before).unwrap();
    }
    // One file may be named twice, and all mistakes are told at once.
    fs::write(directory.path().join("authority.pem"), "x").unwrap();
    fs::remove_file(directory.path().join("admin.token")).unwrap();
    let told = mistakes(&directory);
    let keys: Vec<&str> = told
        .iter()
        .map(|line| line.split(": ").nth(1).unwrap())
        .collect();
    assert_eq!(
        keys,
        [
            "proxy.upstream_ca_file",
            "admin.token_file",
            "store.redis.tls.ca_file"
        ],
        "{told:#?}"
    );
    let shown = check(&directory, &[]);
    assert!(
        text(&shown.stderr).contains("sluicegate.yaml:5:21"),
        "{}",
        text(&shown.stderr)
    );
}

#[test]
fn secrets_that_others_may_write_are_refused_with_the_way_out() {
    let directory = complete();
    for (file, place) in [
        ("server.key", "3: proxy.tls.key"),
        ("decisions.token", "6: decisions.token_file"),
        ("admin.token", "7: admin.token_file"),
        ("keys.yaml", "9: principals.api_keys.file"),
        ("jwks.json", "10: principals.jwt.jwks_file"),
        ("redis.password", "15: store.redis.password_file"),
        ("client.key", "16: store.redis.tls.key"),
    ] {
        for mode in [0o620, 0o602] {
            chmod(&directory.path().join(file), mode);
            let expected = format!(
                "{place}: {file}: others may write it (mode {mode:04o}), and could so get in: run `chmod go-w {file}`"
            );
            assert_eq!(mistakes(&directory), [expected]);
            let repaired = Command::new("chmod")
                .args(["go-w", file])
                .current_dir(directory.path())
                .status()
                .unwrap();
            assert!(repaired.success());
            assert!(mistakes(&directory).is_empty(), "the way out leads out");
        }
        chmod(&directory.path().join(file), 0o600);
    }
    // Readable by everybody is a warning, for what is a secret.
    for file in ["server.key", "server.pem", "keys.yaml", "jwks.json"] {
        chmod(&directory.path().join(file), 0o644);
    }
    let warned = check(&directory, &[]);
    assert_eq!(warned.status.code(), Some(0));
    assert_eq!(
        text(&warned.stderr),
        "warning: proxy.tls.key: server.key: everybody on this machine may read it (mode 0644): run `chmod o-r server.key`\n"
    );
    let commands = text(&check(&directory, &["--format", "github"]).stdout);
    assert!(
        commands.contains("::warning::proxy.tls.key: server.key: "),
        "{commands}"
    );
    let report: Value = serde_json::from_slice(&check(&directory, &["--json"]).stdout).unwrap();
    assert_eq!(report["warnings"].as_array().unwrap().len(), 1, "{report}");
}

#[test]
fn a_machine_without_the_files_checks_the_rest() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("sluicegate.yaml"), CONFIG).unwrap();
    assert_eq!(check(&directory, &[]).status.code(), Some(1));
    let checked = check(&directory, &["--no-files"]);
    assert_eq!(checked.status.code(), Some(0), "{}", text(&checked.stderr));
    let told = text(&checked.stdout);
    assert!(
        told.contains("the 11 files that it names were not read\n"),
        "{told}"
    );
    assert!(told.contains("per-client: at most 10 requests"), "{told}");
}

#[test]
fn a_writable_secret_stops_start_and_reload() {
    let directory = tempfile::tempdir().unwrap();
    let keys = |id: &str| format!("- {{ id: {id}, sha256: {} }}\n", "ab".repeat(32));
    let path = directory.path().join("keys.yaml");
    fs::write(&path, keys("ann")).unwrap();
    chmod(&path, 0o666);
    let token = directory.path().join("admin.token");
    fs::write(&token, "0123456789abcdef").unwrap();
    chmod(&token, 0o644);
    let config = "
proxy: { listen: '127.0.0.1:0' }
admin: { listen: '127.0.0.1:0', token_file: admin.token }
principals: { api_keys: { file: keys.yaml } }
";
    let file = directory.path().join("sluicegate.yaml");
    fs::write(&file, config).unwrap();
    let refused = Command::new(env!("CARGO_BIN_EXE_sluicegate"))
        .args(["serve", "--config"])
        .arg(&file)
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let told = text(&refused.stderr);
    assert!(
        told.contains("principals.api_keys.file: ") && told.contains("run `chmod go-w "),
        "{told}"
    );

    chmod(&path, 0o644);
    let sluicegate = Sluicegate::start_in(directory);
    sluicegate.wait_for_log("admin.token: everybody on this machine may read it (mode 0644)");
    chmod(&sluicegate.file("keys.yaml"), 0o646);
    fs::write(sluicegate.file("keys.yaml"), keys("bob")).unwrap();
    sluicegate
        .wait_for_log("configuration refused, the one in force stays: principals.api_keys.file: ");
    chmod(&sluicegate.file("keys.yaml"), 0o600);
    fs::write(sluicegate.file("keys.yaml"), keys("eve")).unwrap();
    sluicegate.wait_for_log("configuration reloaded");
    let log = sluicegate.logged.lock().unwrap().join("\n");
    let warned = log.matches("everybody on this machine may read it").count();
    assert_eq!(warned, 1, "once, also over a reload: {log}");
}

#[test]
fn a_value_from_a_file_that_others_may_write_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let rate = directory.path().join("rate");
    fs::write(&rate, "10/s").unwrap();
    let config = "
proxy: { listen: '127.0.0.1:0' }
limits: [{ name: all, key: global, rate: '${file:rate}' }]
";
    fs::write(directory.path().join("sluicegate.yaml"), config).unwrap();
    for (mode, code) in [(0o644, 0), (0o664, 1), (0o646, 1), (0o600, 0)] {
        chmod(&rate, mode);
        let checked = check(&directory, &[]);
        let told = text(&checked.stderr);
        assert_eq!(checked.status.code(), Some(code), "{mode:o}: {told}");
        let is_named = told.contains("limits[0].rate: ") && told.contains("run `chmod go-w ");
        assert_eq!(is_named, code == 1, "{mode:o}: {told}");
    }
}
