//! `sluicegate check`: looks for mistakes in a configuration, and says what it would enforce.

use std::io::IsTerminal;
use std::path::Path;

use sluicegate_config::{Mistakes, Source, load};
use sluicegate_server::LoadedConfig;

use crate::{FAILED, FINE};

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

/// The configuration of a file, or the built-in one; else everything that is wrong with it.
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

/// Shows what is wrong, with the lines it is in.
pub fn show(mistakes: &Mistakes) {
    eprintln!("{}", mistakes.render(std::io::stderr().is_terminal()));
}
