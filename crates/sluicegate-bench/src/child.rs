//! Runs this program again for one measurement that needs a process of its own.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

/// Runs this program with `arguments` and returns what it prints.
pub fn output(arguments: &[&str]) -> Result<String, String> {
    let output = finished(Command::new(this_program()?).args(arguments))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs this program with `arguments` under `tool`, and returns the tool's standard error.
pub fn errors_under(tool: &[&str], arguments: &[&str]) -> Result<String, String> {
    let [name, options @ ..] = tool else {
        return Err("no tool was named".to_string());
    };
    let output = finished(
        Command::new(name)
            .args(options)
            .arg(this_program()?)
            .args(arguments),
    )?;
    Ok(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The program run with other arguments, in step with us: each side waits for lines of the other.
pub struct ChildProcess {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl ChildProcess {
    pub fn start(arguments: &[String]) -> Result<Self, String> {
        let mut command = Command::new(this_program()?);
        command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(|error| format!("this program cannot start itself: {error}"))?;
        let stdout = child
            .stdout
            .take()
            .ok_or("a child without standard output")?;
        Ok(Self {
            child,
            lines: BufReader::new(stdout),
        })
    }

    /// The next line it prints; it has said on standard error why there is none.
    pub fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.lines.read_line(&mut line) {
            Ok(0) => Err("a contestant ended early".to_string()),
            Ok(_) => Ok(line.trim_end().to_string()),
            Err(error) => Err(format!("a contestant cannot be heard: {error}")),
        }
    }

    /// Lets it go on.
    pub fn go_on(&mut self) -> Result<(), String> {
        let stdin = self
            .child
            .stdin
            .as_mut()
            .ok_or("a child without standard input")?;
        stdin
            .write_all(b"\n")
            .map_err(|error| format!("a contestant does not listen: {error}"))
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        let _already_ended = self.child.kill();
        let _nothing_to_learn = self.child.wait();
    }
}

fn this_program() -> Result<std::path::PathBuf, String> {
    std::env::current_exe().map_err(|error| format!("this program cannot find itself: {error}"))
}

fn finished(command: &mut Command) -> Result<Output, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(output);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "{name}: {} ({})",
        output.status,
        errors.lines().last().unwrap_or("no message")
    ))
}
