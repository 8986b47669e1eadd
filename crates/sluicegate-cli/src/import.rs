//! `sluicegate import`: converts another program's limits to our format. The conversion itself is
//! `sluicegate_config::import`.

use std::path::Path;

use sluicegate_config::{Source, import};

use crate::check;
use crate::exit_code::{FAILED, FINE};

/// Prints the configuration to standard output and each difference in meaning to standard error, so
/// that the output can be redirected into a file.
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
