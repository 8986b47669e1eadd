//! The target `external_reply` as a program of libFuzzer.
#![cfg_attr(sluicegate_fuzz, no_main)]

use sluicegate_fuzz::external_reply::run;
use sluicegate_fuzz_libfuzzer::program;

program!(run);
