//! The beginning and the end of every bench: its command line is read, and its exit code says how it went.

use std::process::ExitCode;

use clap::Parser;

/// Reads the command line of a bench and runs it. The exit code is 0 when it ran, 1 when it could not, and 2
/// when its command line was not understood; standard error says why.
pub fn run_bench<C: Parser>(
    name: &str,
    arguments: impl Iterator<Item = String>,
    run: impl FnOnce(C) -> Result<(), String>,
) -> ExitCode {
    let command = match C::try_parse_from(arguments) {
        Ok(command) => command,
        Err(error) => {
            // Help is such an error too, with 0 as its exit code. A closed pipe is nobody's mistake.
            let _closed = error.print();
            return u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from);
        }
    };
    match run(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("bench {name}: {failure}");
            ExitCode::FAILURE
        }
    }
}
