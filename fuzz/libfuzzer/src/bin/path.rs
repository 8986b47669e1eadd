//! The target `path` as a program of libFuzzer.
#![cfg_attr(sluicegate_fuzz, no_main)]

use sluicegate_fuzz::path::run;
use sluicegate_fuzz_libfuzzer::program;

program!(run);
