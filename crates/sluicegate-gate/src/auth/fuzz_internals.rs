//! Key sets from bytes, for the targets in `fuzz/`.

use sluicegate_config::JwtAlgorithm;

use super::jwks::KeySet;

/// Reads a set as the response of a server: the number of usable and of skipped keys.
pub fn parse_key_set(body: &[u8], algorithms: &[JwtAlgorithm]) -> Result<(usize, usize), String> {
    KeySet::from_response(body, algorithms).map(|set| (set.len(), set.skipped))
}
