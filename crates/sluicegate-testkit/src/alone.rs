//! A test in a process of its own, for what belongs to the whole process: memory, threads, descriptors, its end.

use std::process::{Command, Output};

/// Set in that process.
const ALONE: &str = "SLUICEGATE_TEST_ALONE";

/// Returns true in a process that was started for one test.
pub fn is_alone() -> bool {
    std::env::var_os(ALONE).is_some()
}

/// Runs a test of this program, by its full name, in a process of its own, there with more of an environment.
pub fn run_alone(test: &str, environment: &[(String, String)]) -> Output {
    run_alone_by(&[], test, environment)
}

/// The same with a command that starts the process, such as `unshare -rn`.
pub fn run_alone_by(launcher: &[&str], test: &str, environment: &[(String, String)]) -> Output {
    let this = std::env::current_exe().expect("a running program has a path");
    let mut command = match launcher {
        [] => Command::new(this),
        [launcher, arguments @ ..] => {
            let mut command = Command::new(launcher);
            command.args(arguments).arg(this);
            command
        }
    };
    command
        // A test that needs something runs only when it is asked for, and here it is.
        .args([test, "--exact", "--nocapture", "--include-ignored"])
        .env(ALONE, "1")
        .envs(environment.iter().cloned());
    command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Runs a test there if this is another process.
///
/// True where the body of the test belongs; false when it has passed in the process of its own.
///
/// # Panics
/// If it failed there, or if there is no test of that name.
pub fn alone(test: &str) -> bool {
    if is_alone() {
        return true;
    }
    assert_passed(&run_alone(test, &[]));
    false
}

/// # Panics
/// Unless one test was run and has passed.
pub fn assert_passed(output: &Output) {
    let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && printed.contains("1 passed"),
        "{printed}"
    );
}
