//! What happens to charges that the store could not decide.

use sluicegate_core::{Charge, FailurePolicy, FailureStatus};

/// The substitute for the store's decision while the store is away.
pub(crate) enum Substitute {
    /// Refuse the request with this status.
    Refuse(FailureStatus),
    /// Let the request pass unchecked.
    Pass,
    /// Decide the charges whose policy is `local` on this replica; the others go unchecked.
    Local,
}

/// Open, closed or local is decided here and nowhere else. A limit that is not enforced refuses nobody.
pub(crate) fn substitute_for(charges: &[Charge<'_>], by_default: FailurePolicy) -> Substitute {
    let mut substitute = Substitute::Pass;
    for charge in charges {
        match (failure_policy_of(charge, by_default), charge.enforced) {
            (FailurePolicy::Closed(status), true) => return Substitute::Refuse(status),
            (FailurePolicy::Local, _) => substitute = Substitute::Local,
            (FailurePolicy::Open, _) | (FailurePolicy::Closed(_), false) => {}
        }
    }
    substitute
}

/// The policy that holds for a charge: its own, which is its limit's or its tenant's, before the
/// engine's.
pub(crate) fn failure_policy_of(charge: &Charge<'_>, by_default: FailurePolicy) -> FailurePolicy {
    charge.on_failure.unwrap_or(by_default)
}
