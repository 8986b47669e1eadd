//! The target `grpc_descriptors` as a program of libFuzzer.
#![cfg_attr(sluicegate_fuzz, no_main)]

use sluicegate_fuzz::grpc_descriptors::run;
use sluicegate_fuzz_libfuzzer::program;

program!(run);
