//! The command line of `bench proxy`.

use crate::server_args::Spec;

pub const SPEC: Spec = Spec {
    peer_option: "--envoy",
    help: HELP,
    example: "h2",
};

const HELP: &str = "\
the proxy beside nginx with limit_req, HAProxy with a stick table and Envoy with its local rate limit

usage: cargo xtask bench proxy [OPTION…]

  --quick          three short rounds, a few minutes; never writes the page
  --rounds N       rounds per load, at most 20 (7, or 3 when quick)
  --only TEXT      loads and sections whose name contains TEXT: allowed, rejected, 64 connections, 256, POST, 1 MiB, h2,
                   idle, quota from outside; never writes the page
  --envoy PATH     Envoy's program, otherwise that on the PATH
  --sluicegate PATH  our program, otherwise the one beside this bench
  --no-write       print the tables and leave docs/performance.md alone
  --help           this text

A contestant whose program is missing is left out and named at the end, and the page is not written.

exit code: 0 when everything ran, whatever the figures; 1 when something could not be measured; 2 for the command line
";
