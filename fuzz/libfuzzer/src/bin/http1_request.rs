//! The target `http1_request` as a program of libFuzzer.
#![cfg_attr(sluicegate_fuzz, no_main)]

use sluicegate_fuzz::http1_request::run;
use sluicegate_fuzz_libfuzzer::program;

program!(run);
