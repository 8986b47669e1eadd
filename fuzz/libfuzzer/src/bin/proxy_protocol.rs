//! The target `proxy_protocol` as a program of libFuzzer.
#![cfg_attr(sluicegate_fuzz, no_main)]

sluicegate_fuzz_libfuzzer::program!(sluicegate_fuzz::proxy_protocol::run);
