//! Limits of other programs in our words.

mod envoy_ratelimit;

use crate::{Mistakes, Source, load};

/// What became of another program's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// Ours.
    pub yaml: String,
    /// What is not the same, a sentence each.
    pub differences: Vec<String>,
}

/// The limits of a file for envoyproxy/ratelimit, or everything that is wrong with it.
pub fn envoy_ratelimit(source: &Source) -> Result<Imported, Mistakes> {
    let imported = crate::read(source, &|_| None, envoy_ratelimit::domain)?;
    // What we say is ours must be.
    let ours = Source {
        name: format!("{}, in our words", source.name),
        text: imported.yaml.clone(),
        base_dir: source.base_dir.clone(),
    };
    load(&ours, &|_| None).map(|_| imported)
}
