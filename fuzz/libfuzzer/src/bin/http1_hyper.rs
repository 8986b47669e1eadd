//! The target `http1_hyper` as a program of libFuzzer.
#![cfg_attr(sluicegate_fuzz, no_main)]

use sluicegate_fuzz::http1_hyper::run;
use sluicegate_fuzz_libfuzzer::program;

program!(run);
