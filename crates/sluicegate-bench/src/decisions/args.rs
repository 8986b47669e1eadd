//! The command line of `bench decisions`.

use std::path::PathBuf;

use clap::Parser;

use crate::options::{EXIT_CODES, ServerBenchOptions};

/// The decision service beside throttlecrab-server, and beside Redis with a GCRA script
///
/// A contestant whose program is missing is left out and named at the end, and the page is not written.
/// Neither is it written by a quick run.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask bench decisions", no_binary_name = true, after_help = EXIT_CODES)]
#[command(mut_arg("only", |only| only.help(ONLY)))]
pub struct DecisionsBenchOptions {
    #[command(flatten)]
    pub server: ServerBenchOptions,
    /// The program of throttlecrab-server, otherwise the one on the PATH
    #[arg(long, value_name = "PATH")]
    pub throttlecrab: Option<PathBuf>,
}

const ONLY: &str = "Loads whose name contains TEXT: RESP, P=1, P=16, P=64, HTTP, gRPC, 1 stream, \
                    16 streams; never writes the page";

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_program_of_the_peer_can_be_named() {
        DecisionsBenchOptions::command().debug_assert();
        let options = DecisionsBenchOptions::try_parse_from(["--throttlecrab", "a/b"]).unwrap();
        assert_eq!(options.throttlecrab, Some(PathBuf::from("a/b")));
    }
}
