//! Maps from names of the configuration.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use crate::short_hash::ShortHasher;

/// A map whose keys the configuration names, and which requests only look things up in.
pub(super) type NamedMap<K, V> = HashMap<K, V, BuildHasherDefault<ShortHasher>>;
