//! The target `config_import` as a program of libFuzzer.
#![cfg_attr(sluicegate_fuzz, no_main)]

use sluicegate_fuzz::config_import::run;
use sluicegate_fuzz_libfuzzer::program;

program!(run);
