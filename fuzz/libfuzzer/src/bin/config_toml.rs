//! The target `config_toml` as a program of libFuzzer.
#![cfg_attr(sluicegate_fuzz, no_main)]

use sluicegate_fuzz::config_toml::run;
use sluicegate_fuzz_libfuzzer::program;

program!(run);
