//! `on_failure`: the treatment of requests while the store is away, for a store or for a limit.

use sluicegate_core::{FailurePolicy, FailureStatus};

use crate::field::{Field, Section};
use crate::tree::Value;

/// The policy of `on_failure` or of the older `fail_open`; `None` when neither is present.
pub(super) fn on_failure(section: &mut Section<'_>) -> Option<FailurePolicy> {
    let policy = section.subsection("on_failure").map(|field| policy(&field));
    let fail_open = section.optional("fail_open", Field::boolean);
    if policy.is_some() && fail_open.is_some() {
        section.refuse("fail_open", "cannot be combined with on_failure");
    }
    let by_switch = |open| {
        if open {
            FailurePolicy::Open
        } else {
            FailurePolicy::default()
        }
    };
    policy.or(fail_open.map(by_switch))
}

/// The name of a policy, or a section with the name and a status.
fn policy(field: &Field<'_>) -> FailurePolicy {
    if matches!(field.node.value, Value::Text(_)) {
        return word(field).unwrap_or_default();
    }
    let read = field.section(|section| {
        let policy = section
            .need("policy", "open, closed or local")
            .and_then(|field| word(&field));
        let status = section.optional("status", |field| field.whole_number(400..=599));
        let status = status.and_then(|status| FailureStatus::new(u16::try_from(status).ok()?).ok());
        match (policy.unwrap_or_default(), status) {
            (FailurePolicy::Closed(_), Some(status)) => FailurePolicy::Closed(status),
            (policy @ (FailurePolicy::Open | FailurePolicy::Local), Some(_)) => {
                section.refuse(
                    "status",
                    "applies to policy closed only: the others reject no request",
                );
                policy
            }
            (policy, None) => policy,
        }
    });
    read.unwrap_or_default()
}

/// The name of a policy, in any of its spellings.
fn word(field: &Field<'_>) -> Option<FailurePolicy> {
    let policy = field.any_text()?.parse();
    policy
        .map_err(|_| field.note_unknown_word(&["open", "closed", "local"]))
        .ok()
}
