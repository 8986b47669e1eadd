//! The command line of `bench decisions`.

use crate::server_args::Spec;

pub const SPEC: Spec = Spec {
    peer_option: "--throttlecrab",
    help: HELP,
    example: "HTTP",
};

const HELP: &str = "\
the decision service beside throttlecrab-server, and beside Redis with a GCRA script

usage: cargo xtask bench decisions [OPTION…]

  --quick          three short rounds, a few minutes; never writes the page
  --rounds N       rounds per load, at most 20 (7, or 3 when quick)
  --only TEXT      loads whose name contains TEXT: RESP, P=1, P=16, P=64, HTTP, gRPC, 1 stream, 16 streams; never writes
                   the page
  --throttlecrab PATH
                   throttlecrab-server, otherwise that on the PATH
  --sluicegate PATH  our program, otherwise the one beside this bench
  --no-write       print the tables and leave docs/performance.md alone
  --help           this text

A contestant whose program is missing is left out and named at the end, and the page is not written.

exit code: 0 when everything ran, whatever the figures; 1 when something could not be measured; 2 for the command line
";
