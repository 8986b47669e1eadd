//! `sluicegate man`: the manual pages, made from the same text as `--help`.

use std::path::Path;

use clap::Command;
use clap_mangen::Man;

use crate::exit_code::{FAILED, FINE};

/// Prints the page of the program, or writes one page per command into a directory, which is created
/// if it does not exist.
pub fn run(command: Command, directory: Option<&Path>) -> u8 {
    let written = match directory {
        None => Man::new(command).render(&mut std::io::stdout()),
        Some(directory) => std::fs::create_dir_all(directory)
            .and_then(|()| clap_mangen::generate_to(command, directory)),
    };
    match written {
        Ok(()) => FINE,
        Err(error) => {
            let place = directory.map_or_else(
                || "standard output".into(),
                |directory| directory.display().to_string(),
            );
            eprintln!("sluicegate: {place}: {error}");
            FAILED
        }
    }
}
