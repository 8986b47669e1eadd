//! `sluicegate check`: validates a configuration and prints in sentences what it enforces.
//!
//! `serve` and `explain` load their configuration through [`read`] too, so all three accept the same files.

use std::io::IsTerminal;
use std::path::Path;

use sluicegate_config::{Mistakes, Source, load};
use sluicegate_server::LoadedConfig;

use crate::exit_code::{FAILED, FINE};

/// Prints the sentences to standard output, or every mistake to standard error.
pub fn run(path: Option<&Path>) -> u8 {
    match read(path) {
        Ok(loaded) => {
            loaded
                .config
                .in_words()
                .iter()
                .for_each(|sentence| println!("{sentence}"));
            FINE
        }
        Err(mistakes) => {
            show(&mistakes);
            FAILED
        }
    }
}

/// Loads a file, or the built-in configuration. The error holds every mistake, not only the first.
pub fn read(path: Option<&Path>) -> Result<LoadedConfig, Mistakes> {
    let source = match path {
        None => Source::embedded(),
        Some(path) => Source::read(path)?,
    };
    let config = load(&source, &|name| std::env::var(name).ok())?;
    Ok(LoadedConfig {
        config,
        text: source.text,
    })
}

/// Prints every mistake with the line of the file it is in; in colour on a terminal.
pub fn show(mistakes: &Mistakes) {
    eprintln!("{}", mistakes.render(std::io::stderr().is_terminal()));
}
