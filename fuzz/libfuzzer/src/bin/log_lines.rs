//! The target `log_lines` as a program of libFuzzer.
#![cfg_attr(sluicegate_fuzz, no_main)]

use sluicegate_fuzz::log_lines::run;
use sluicegate_fuzz_libfuzzer::program;

program!(run);
