//! The target `proxy_protocol` as a program of libFuzzer.
#![cfg_attr(sluicegate_fuzz, no_main)]

use sluicegate_fuzz::proxy_protocol::run;
use sluicegate_fuzz_libfuzzer::program;

program!(run);
