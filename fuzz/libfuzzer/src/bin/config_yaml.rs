//! The target `config_yaml` as a program of libFuzzer.
#![cfg_attr(sluicegate_fuzz, no_main)]

use sluicegate_fuzz::config_yaml::run;
use sluicegate_fuzz_libfuzzer::program;

program!(run);
