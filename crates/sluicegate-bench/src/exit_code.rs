//! How every bench ends: 0 when it ran, 1 when it could not, 2 when its command line was not understood.

use std::process::ExitCode;

/// Runs the task that the command line of `bench` asks for, and says on standard error what went wrong.
pub fn of<T>(
    bench: &str,
    task: Result<T, String>,
    run: impl FnOnce(T) -> Result<(), String>,
) -> ExitCode {
    let task = match task {
        Ok(task) => task,
        Err(advice) => {
            eprintln!("{advice}");
            return ExitCode::from(2);
        }
    };
    match run(task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("bench {bench}: {failure}");
            ExitCode::FAILURE
        }
    }
}
