//! Differences of the responses to denied requests.

use std::sync::Arc;

use sluicegate_core::{Limit, OwnRejection};

use super::{Change, ChangeKind};
use crate::summary::{is_default, rejection};
use crate::typed::Config;

/// The response of all limits, then those of single limits. A limit that answers as all others do
/// is not named.
pub(super) fn changes(old: &Config, new: &Config) -> Vec<Change> {
    let (before, after) = (old.response.reject.as_ref(), new.response.reject.as_ref());
    let of_all = compared("denied requests", before, after)
        .map(|message| Change::new(ChangeKind::Changed, "response.reject", message));
    let of_limits = new.policy.limits().iter().filter_map(|limit| {
        let (_, known) = old.policy.limit(&limit.name)?;
        if is_default(known, old) && is_default(limit, new) {
            return None;
        }
        let Limit { name, reject, .. } = limit;
        let requests = format!("requests that {name} denies");
        let message = compared(&requests, known.reject.as_ref(), reject.as_ref())?;
        let key = format!("limits.{name}");
        Some(Change::new(ChangeKind::Changed, key, message))
    });
    of_all.into_iter().chain(of_limits).collect()
}

/// The difference in a sentence about these requests.
fn compared(
    requests: &str,
    before: Option<&Arc<OwnRejection>>,
    after: Option<&Arc<OwnRejection>>,
) -> Option<String> {
    if before == after {
        return None;
    }
    let (is_now, was) = (rejection(after), rejection(before));
    Some(match is_now == was {
        false => format!("{requests} get {is_now} now, and got {was} before"),
        true => format!("{requests} get {is_now} as before, in other words"),
    })
}
