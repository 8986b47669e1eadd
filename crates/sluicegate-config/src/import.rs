//! Import: limits of other programs converted to our format.

mod envoy_ratelimit;

use crate::{Mistakes, Source, load};

/// The result of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The configuration in our format.
    pub yaml: String,
    /// The differences in behaviour, a sentence each.
    pub differences: Vec<String>,
}

/// Converts a file for envoyproxy/ratelimit, or reports every mistake in it.
pub fn envoy_ratelimit(source: &Source) -> Result<Imported, Mistakes> {
    let imported = crate::read(source, &|_| None, envoy_ratelimit::domain)?;
    // The result must be a configuration that we accept ourselves.
    let ours = Source {
        name: format!("{}, converted", source.name),
        text: imported.yaml.clone(),
        base_dir: source.base_dir.clone(),
    };
    load(&ours, &|_| None).map(|_| imported)
}
