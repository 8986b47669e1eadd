//! The limits service of the examples, from its own files: plans in SQLite, through the proxy, with Redis.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use sluicegate_testkit::{RedisServer, eventually, free_port};

use super::super::running::Sluicegate;

/// The service, with a database of its own.
struct Service {
    child: Child,
    port: u16,
    database: PathBuf,
}

impl Service {
    fn start(database: &Path, port: u16) -> Self {
        let program = Path::new(env!("CARGO_BIN_EXE_sluicegate")).with_file_name("limits-service");
        if !program.is_file() {
            let built = Command::new(env!("CARGO"))
                .args(["build", "-p", "limits-service"])
                .status()
                .unwrap();
            assert!(built.success());
        }
        let mut child = Command::new(program)
            .env("LIMITS_DB", database)
            .env("LIMITS_LISTEN", format!("127.0.0.1:{port}"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert!(line.contains(&format!(":{port}/limits")), "{line}");
        Self {
            child,
            port,
            database: database.to_owned(),
        }
    }

    /// Changes the database as an operator would, from outside.
    fn sql(&self, statement: &str) {
        let script = "import sqlite3, sys\nwith sqlite3.connect(sys.argv[1], timeout=20) as db: db.execute(sys.argv[2])";
        let status = Command::new("python3")
            .args(["-c", script])
            .arg(&self.database)
            .arg(statement)
            .status()
            .unwrap();
        assert!(status.success(), "{statement}");
    }

    fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The example's configuration, with other ports.
fn config(redis: &RedisServer, service: u16) -> String {
    let example = include_str!("../../../../../examples/limits-service/sluicegate.yaml");
    let ports = [
        ("127.0.0.1:8000", "127.0.0.1:0".to_owned()),
        ("127.0.0.1:6379", redis.address().to_string()),
        ("127.0.0.1:8080", format!("127.0.0.1:{service}")),
    ];
    let moved = ports.iter().fold(example.to_owned(), |config, (from, to)| {
        assert!(config.contains(from), "{from}");
        config.replace(from, to)
    });
    moved.replace("redis: { endpoints", "deadline: 1s, redis: { endpoints")
        + "admin: { listen: '127.0.0.1:0' }\n"
}

/// The tenant's burst, as the headers tell it.
fn limit(sluicegate: &Sluicegate, tenant: &str) -> String {
    let answer = sluicegate.get("/", &[&format!("X-Tenant-Id: {tenant}")]);
    answer
        .header("x-ratelimit-limit")
        .unwrap_or_else(|| panic!("{answer}"))
        .to_owned()
}

#[test]
fn plans_are_applied_changed_kept_and_taken_up_again() {
    let (redis, directory) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let mut service = Service::start(&directory.path().join("limits.db"), free_port());
    // Answers that end soon, so that nobody has to wait.
    service.sql("UPDATE plans SET max_age_seconds = 1");
    let sluicegate = Sluicegate::start(&config(&redis, service.port));
    assert_eq!(limit(&sluicegate, "acme"), "200");
    assert_eq!(limit(&sluicegate, "you"), "10", "whom nobody knows");

    service.sql("INSERT INTO tenants VALUES ('you', 'gold')");
    eventually(
        "another plan counts as soon as the old answer has ended",
        || limit(&sluicegate, "you") == "200",
    );

    service.stop();
    let stale = "sluicegate_external_answers_total{source=\"stale\"}";
    eventually("the old answer ends, and holds all the same", || {
        assert_eq!(limit(&sluicegate, "acme"), "200");
        sluicegate.metric(stale) > 0
    });
    assert_eq!(
        limit(&sluicegate, "stranger"),
        "5",
        "of whom nothing is known: the limit's own"
    );

    let again = Service::start(&service.database, service.port);
    again.sql("UPDATE plans SET burst = 300 WHERE name = 'gold'");
    eventually("it is asked again", || {
        limit(&sluicegate, "other-acme") == "10"
    });
}
