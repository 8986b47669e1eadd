//! The command line of `bench proxy`.

use std::path::PathBuf;

use clap::Parser;

use crate::options::{EXIT_CODES, ServerBenchOptions};

/// The proxy beside nginx with limit_req, HAProxy with a stick table and Envoy with its local rate limit
///
/// A contestant whose program is missing is left out and named at the end, and the page is not written.
/// Neither is it written by a quick run.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask bench proxy", no_binary_name = true, after_help = EXIT_CODES)]
#[command(mut_arg("only", |only| only.help(ONLY)))]
pub struct ProxyBenchOptions {
    #[command(flatten)]
    pub server: ServerBenchOptions,
    /// Another nginx than the one on the PATH, such as a newer one
    #[arg(long, value_name = "PATH")]
    pub nginx: Option<PathBuf>,
    /// Another HAProxy than the one on the PATH, such as a newer one
    #[arg(long, value_name = "PATH")]
    pub haproxy: Option<PathBuf>,
    /// Envoy's program, otherwise the one on the PATH
    #[arg(long, value_name = "PATH")]
    pub envoy: Option<PathBuf>,
}

const ONLY: &str = "Loads and sections whose name contains TEXT: allowed, rejected, 64 connections, 256, \
                    mixed, POST, 1 MiB, h2, TLS, handshake, latency, idle, Redis store, quota from outside; \
                    never writes the page";

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_programs_of_the_peers_can_be_named() {
        ProxyBenchOptions::command().debug_assert();
        let words = ["--envoy", "a/envoy", "--nginx", "n", "--haproxy", "h"];
        let options = ProxyBenchOptions::try_parse_from(words).unwrap();
        let [envoy, nginx, haproxy] = ["a/envoy", "n", "h"].map(|path| Some(PathBuf::from(path)));
        assert_eq!(
            (options.envoy, options.nginx, options.haproxy),
            (envoy, nginx, haproxy)
        );
    }
}
