//! Runs this program again for one measurement that needs a process of its own.

use std::process::{Command, Output};

/// What the program prints for `arguments`.
pub fn output(arguments: &[&str]) -> Result<String, String> {
    let output = finished(Command::new(this_program()?).args(arguments))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What `tool` says on standard error about the program run with `arguments`.
pub fn errors_under(tool: &[&str], arguments: &[&str]) -> Result<String, String> {
    let [name, options @ ..] = tool else { return Err("no tool was named".to_string()) };
    let output = finished(Command::new(name).args(options).arg(this_program()?).args(arguments))?;
    Ok(String::from_utf8_lossy(&output.stderr).into_owned())
}

fn this_program() -> Result<std::path::PathBuf, String> {
    std::env::current_exe().map_err(|error| format!("this program cannot find itself: {error}"))
}

fn finished(command: &mut Command) -> Result<Output, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(output);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!("{name}: {} ({})", output.status, errors.lines().last().unwrap_or("no message")))
}
