//! The services themselves, started from their own files as their pages say.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use sluicegate_testkit::{eventually, free_port, needs, raw_socket};
use tempfile::TempDir;

/// What a service is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    Rust,
    Python,
    TypeScript,
}

impl Language {
    pub(super) const ALL: [Self; 3] = [Self::Rust, Self::Python, Self::TypeScript];

    /// The directory of the example.
    pub(super) fn directory(self) -> PathBuf {
        let name = match self {
            Self::Rust => "limits-service",
            Self::Python => "limits-service-python",
            Self::TypeScript => "limits-service-typescript",
        };
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../examples")
            .join(name)
    }

    /// The program, after building it; what it needs beside its source is in `directory`.
    fn command(self, directory: &Path) -> Command {
        match self {
            Self::Rust => Command::new(rust_program()),
            Self::Python => {
                let mut command = Command::new(needs::program("SLUICEGATE_FASTAPI"));
                command.arg(self.directory().join("limits_service.py"));
                command.env("PYTHONDONTWRITEBYTECODE", "1");
                command
            }
            Self::TypeScript => {
                let mut command = Command::new("node");
                command.arg(typescript_program(&self.directory(), directory));
                command
            }
        }
    }
}

fn rust_program() -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_sluicegate")).with_file_name("limits-service");
    let build = ["build", "-p", "limits-service"];
    let built = Command::new(env!("CARGO")).args(build).status().unwrap();
    assert!(built.success());
    program
}

/// Compiles the source with the packages that were installed for it.
fn typescript_program(source: &Path, directory: &Path) -> PathBuf {
    let packages = directory.join("node_modules");
    if !packages.exists() {
        symlink(needs::program("SLUICEGATE_TYPESCRIPT"), &packages).unwrap();
        for name in ["package.json", "tsconfig.json", "limits-service.ts"] {
            fs::copy(source.join(name), directory.join(name)).unwrap();
        }
        let compiler = packages.join(".bin/tsc");
        let built = Command::new(compiler)
            .current_dir(directory)
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&built.stdout).into_owned();
        assert!(built.status.success(), "{printed}");
    }
    directory.join("build/limits-service.js")
}

/// A running service with plans of its own, which ends with this value.
pub(super) struct ExampleService {
    language: Language,
    child: Child,
    pub(super) port: u16,
    /// Plans, database and what was built.
    directory: TempDir,
}

impl ExampleService {
    pub(super) fn start(language: Language, plans: &Value) -> Self {
        let (directory, port) = (tempfile::tempdir().unwrap(), free_port());
        fs::write(directory.path().join("plans.json"), plans.to_string()).unwrap();
        let child = run(language, directory.path(), port);
        Self {
            language,
            child,
            port,
            directory,
        }
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/limits", self.port)
    }

    pub(super) fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again at the same address, with the plans as they are.
    pub(super) fn restart(&mut self) {
        self.child = run(self.language, self.directory.path(), self.port);
    }

    /// The names of all tenants at the start.
    pub(super) fn tenants(&self) -> Vec<String> {
        let tenants = &self.plans()["tenants"];
        tenants.as_object().unwrap().keys().cloned().collect()
    }

    /// Gives a tenant another plan as an operator would, from outside.
    pub(super) fn set_plan(&self, tenant: &str, plan: &str) {
        if self.language == Language::TypeScript {
            let mut plans = self.plans();
            plans["tenants"][tenant]["plan"] = plan.into();
            // Nobody reads a file that is half written.
            let [new, file] = ["new.json", "plans.json"].map(|name| self.file(name));
            fs::write(&new, plans.to_string()).unwrap();
            return fs::rename(new, file).unwrap();
        }
        let script = "import sqlite3, sys
with sqlite3.connect(sys.argv[1], timeout=20) as database:
    changed = database.execute('UPDATE tenants SET plan = ? WHERE name = ?', sys.argv[2:])
    assert changed.rowcount == 1";
        let status = Command::new("python3")
            .args(["-c", script])
            .arg(self.file("limits.db"))
            .args([plan, tenant])
            .status()
            .unwrap();
        assert!(status.success(), "{tenant} {plan}");
    }

    fn plans(&self) -> Value {
        serde_json::from_str(&fs::read_to_string(self.file("plans.json")).unwrap()).unwrap()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

impl Drop for ExampleService {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Starts a service and waits until it answers.
fn run(language: Language, directory: &Path, port: u16) -> Child {
    let mut child = language
        .command(directory)
        .env("LIMITS_LISTEN", format!("127.0.0.1:{port}"))
        .env("LIMITS_DB", directory.join("limits.db"))
        .env("LIMITS_PLANS", directory.join("plans.json"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{language:?}: {error}"));
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(line.contains(&format!(":{port}/limits")), "{line}");
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    eventually("it listens", || raw_socket::try_connect(address).is_ok());
    child
}
