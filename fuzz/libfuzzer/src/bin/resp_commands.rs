//! The target `resp_commands` as a program of libFuzzer.
#![cfg_attr(sluicegate_fuzz, no_main)]

use sluicegate_fuzz::resp_commands::run;
use sluicegate_fuzz_libfuzzer::program;

program!(run);
