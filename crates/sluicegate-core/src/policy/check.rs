//! The mistakes of a limit that show without the others.

use super::PolicyError;
use crate::limit::Limit;

/// Notes the mistakes of a limit that show without the others.
pub(super) fn check_alone(index: usize, limit: &Limit, mistakes: &mut Vec<PolicyError>) {
    /// Bytes; names are part of every key and of metrics.
    const NAME_MAX: usize = 64;
    let is_name = (1..=NAME_MAX).contains(&limit.name.len())
        && limit
            .name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    if !is_name {
        let message = format!(
            "must be 1 to {NAME_MAX} letters, digits, '.', '_' and '-' (got {:?})",
            limit.name
        );
        mistakes.push(PolicyError::new(index, "name", message));
    }
    if limit.key.is_empty() {
        mistakes.push(PolicyError::new(
            index,
            "key",
            "must have at least one part; use global for one counter".into(),
        ));
    }
}
