//! The target `redis_replies` as a program of libFuzzer.
#![cfg_attr(sluicegate_fuzz, no_main)]

sluicegate_fuzz_libfuzzer::program!(sluicegate_fuzz::redis_replies::run);
