//! The target `hpack` as a program of libFuzzer.
#![cfg_attr(sluicegate_fuzz, no_main)]

use sluicegate_fuzz::hpack::run;
use sluicegate_fuzz_libfuzzer::program;

program!(run);
