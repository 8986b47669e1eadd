//! The target `http2_server` as a program of libFuzzer.
#![cfg_attr(sluicegate_fuzz, no_main)]

use sluicegate_fuzz::http2_server::run;
use sluicegate_fuzz_libfuzzer::program;

program!(run);
