//! The target `http2_frames` as a program of libFuzzer.
#![cfg_attr(sluicegate_fuzz, no_main)]

use sluicegate_fuzz::http2_frames::run;
use sluicegate_fuzz_libfuzzer::program;

program!(run);
