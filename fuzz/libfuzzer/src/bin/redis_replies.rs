//! The target `redis_replies` as a program of libFuzzer.
#![cfg_attr(sluicegate_fuzz, no_main)]

use sluicegate_fuzz::redis_replies::run;
use sluicegate_fuzz_libfuzzer::program;

program!(run);
