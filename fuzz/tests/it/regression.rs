//! Every committed input runs in every test run, so that what a fuzzer once found stays repaired.

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use sluicegate_fuzz::{TARGETS, Target};

/// The inputs of a target: seeds, and what was once a crash.
fn inputs(target: &Target) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["seeds", "regressions"].map(|kind| folder.join(kind).join(target.name));
    let files = folders
        .iter()
        .filter_map(|folder| fs::read_dir(folder).ok());
    files
        .flatten()
        .map(|file| file.expect("a folder of files").path())
        .collect()
}

#[test]
fn every_target_takes_its_committed_inputs() {
    let mut failed = Vec::new();
    for target in TARGETS {
        let files = inputs(target);
        assert!(!files.is_empty(), "{}: no seeds", target.name);
        for file in files {
            let bytes = fs::read(&file).expect("a readable file");
            if catch_unwind(|| (target.run)(&bytes)).is_err() {
                failed.push(format!("{}: {}", target.name, file.display()));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn every_target_takes_nothing_and_any_single_byte() {
    for target in TARGETS {
        (target.run)(b"");
        for byte in 0..=u8::MAX {
            (target.run)(&[byte]);
            (target.run)(&[byte; 40]);
        }
    }
}

#[test]
fn every_target_has_a_program_and_a_dictionary() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    for target in TARGETS {
        let program = format!("libfuzzer/src/bin/{}.rs", target.name);
        let dictionary = format!("dictionaries/{}.dict", target.name);
        for file in [program, dictionary] {
            assert!(folder.join(&file).is_file(), "{file} is missing");
        }
    }
}

#[test]
fn the_planted_bug_is_there() {
    sluicegate_fuzz::planted::run(b"sluice!x");
    let found = catch_unwind(|| sluicegate_fuzz::planted::run(b"sluice!\n"));
    assert!(found.is_err());
}
