//! `sluicegate import`: another program's limits in our words.

use std::path::Path;

use sluicegate_config::{Source, import};

use crate::{FAILED, FINE, check};

/// The configuration goes to standard output, what differs beside it.
pub fn envoy_ratelimit(file: &Path) -> u8 {
    match Source::read(file).and_then(|source| import::envoy_ratelimit(&source)) {
        Ok(imported) => {
            print!("{}", imported.yaml);
            imported
                .differences
                .iter()
                .for_each(|difference| eprintln!("differs: {difference}"));
            FINE
        }
        Err(mistakes) => {
            check::show(&mistakes);
            FAILED
        }
    }
}
