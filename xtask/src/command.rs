//! A child process that can also be shown, so that a failure can be repeated by hand.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{self, ExitStatus, Stdio};
use std::thread;

/// A program, its arguments and the environment it gets on top of ours. Runs at the root of the repository.
#[derive(Clone, Debug)]
pub struct Command {
    program: String,
    arguments: Vec<String>,
    environment: Vec<(&'static str, String)>,
}

impl Command {
    pub fn new<'a>(program: &str, arguments: impl IntoIterator<Item = &'a str>) -> Self {
        let arguments = arguments.into_iter().map(str::to_string).collect();
        Self {
            program: program.to_string(),
            arguments,
            environment: Vec::new(),
        }
    }

    pub fn cargo<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Self {
        Self::new("cargo", arguments)
    }

    pub fn args(mut self, more: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.arguments.extend(more.into_iter().map(Into::into));
        self
    }

    pub fn env(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.environment.push((name, value.into()));
        self
    }

    /// Shows it, then runs it with our standard streams.
    pub fn run(&self) -> Result<(), String> {
        println!("$ {self}");
        let status = self
            .prepared()
            .status()
            .map_err(|error| self.did_not_start(&error))?;
        self.succeeded(status)
    }

    /// Shows it, then runs it, copies its output to ours as it comes, and returns it: standard output, then errors.
    pub fn run_and_capture(&self) -> Result<String, String> {
        println!("$ {self}");
        let mut child = self
            .prepared()
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| self.did_not_start(&error))?;
        let stderr = child
            .stderr
            .take()
            .expect("standard error was piped just above");
        let stdout = child
            .stdout
            .take()
            .expect("standard output was piped just above");
        let errors = thread::spawn(move || copy_lines(stderr, io::stderr()));
        let copied_out = copy_lines(stdout, io::stdout());
        let copied_errors = errors
            .join()
            .expect("the thread that copies lines does not panic");
        let status = child.wait().map_err(|error| self.did_not_start(&error))?;
        self.succeeded(status)?;
        Ok(copied_out + &copied_errors)
    }

    /// Runs it silently and returns its standard output; its standard error becomes part of the error.
    pub fn read_stdout(&self) -> Result<String, String> {
        let output = self
            .prepared()
            .stdin(Stdio::null())
            .output()
            .map_err(|error| self.did_not_start(&error))?;
        let error_text = String::from_utf8_lossy(&output.stderr);
        self.succeeded(output.status)
            .map_err(|failure| format!("{failure}: {}", error_text.trim()))?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn prepared(&self) -> process::Command {
        let mut command = process::Command::new(&self.program);
        command.args(&self.arguments).current_dir(root());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    fn did_not_start(&self, error: &io::Error) -> String {
        format!(
            "`{}` could not be started: {error} (is it installed and on PATH?)",
            self.program
        )
    }

    fn succeeded(&self, status: ExitStatus) -> Result<(), String> {
        if status.success() {
            Ok(())
        } else {
            Err(format!("`{self}` ended with {status}"))
        }
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.environment {
            write!(f, "{name}={} ", quoted(value))?;
        }
        f.write_str(&self.program)?;
        self.arguments
            .iter()
            .try_for_each(|argument| write!(f, " {}", quoted(argument)))
    }
}

/// The directory that holds the workspace's `Cargo.toml`.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies inside the workspace")
}

/// Where cargo puts what it builds: `CARGO_TARGET_DIR`, or `target` at the root.
pub fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from)
}

/// As it must be typed into a shell.
fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=:,+@".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

fn copy_lines(from: impl Read, mut to: impl Write) -> String {
    let mut copied = String::new();
    let mut lines = BufReader::new(from);
    let mut line = Vec::new();
    // A closed pipe on our side must not stop the child, so failures to write are left alone.
    while lines
        .read_until(b'\n', &mut line)
        .is_ok_and(|count| count > 0)
    {
        let _ = to.write_all(&line);
        copied.push_str(&String::from_utf8_lossy(&line));
        line.clear();
    }
    copied
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_commands_can_be_pasted_into_a_shell() {
        let command = Command::cargo(["test", "it's", ""]).env("RUSTFLAGS", "--cfg loom");
        assert_eq!(
            command.to_string(),
            r"RUSTFLAGS='--cfg loom' cargo test 'it'\''s' ''"
        );
    }

    #[test]
    fn listening_hears_both_streams_and_the_environment() {
        let command = Command::new("sh", ["-c", "echo out-$WORD; echo err >&2"]).env("WORD", "one");
        assert_eq!(command.run_and_capture(), Ok("out-one\nerr\n".to_string()));
    }

    #[test]
    fn failures_say_which_command_and_how() {
        let failed = Command::new("sh", ["-c", "exit 3"]).run();
        assert_eq!(
            failed,
            Err("`sh -c 'exit 3'` ended with exit status: 3".to_string())
        );
        let missing = Command::new("no-such-program", [])
            .run()
            .expect_err("nothing has this name");
        assert!(
            missing.contains("`no-such-program` could not be started"),
            "{missing}"
        );
        let error_text = Command::new("sh", ["-c", "echo why >&2; exit 1"]).read_stdout();
        assert_eq!(
            error_text,
            Err("`sh -c 'echo why >&2; exit 1'` ended with exit status: 1: why".to_string())
        );
    }
}
