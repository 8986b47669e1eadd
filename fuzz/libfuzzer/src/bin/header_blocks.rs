//! The target `header_blocks` as a program of libFuzzer.
#![cfg_attr(sluicegate_fuzz, no_main)]

use sluicegate_fuzz::header_blocks::run;
use sluicegate_fuzz_libfuzzer::program;

program!(run);
