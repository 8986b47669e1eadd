//! The requests that are charged to the limit whose place another takes, in words.

use sluicegate_core::{Limit, OnMissingKey};

use crate::typed::Config;

/// A sentence about the requests that a limit does not take from the one that it replaces; `None`
/// when it takes all that it covers, or when nobody is there to be replaced.
pub(super) fn in_words(limit: &Limit, replaced: &str, config: &Config) -> Option<String> {
    let name = &limit.name;
    let is_skipped = limit.missing_key_rule() == OnMissingKey::Skip;
    let is_on = |limit: &&Limit| limit.name == replaced;
    config.policy.limits().iter().find(is_on)?;
    match (limit.needs_principal(), is_skipped) {
        (true, _) if is_skipped || limit.matching.names_caller() => Some(format!(
            "callers that {name} does not know are charged to {replaced}, also with a wrong credential"
        )),
        (false, true) => Some(format!(
            "requests without the key of {name} are charged to {replaced}"
        )),
        _ => None,
    }
}
