//! The health of the store as a limiter sees it: each change is logged once, and every request
//! that the store did not decide is counted.
//!
//! The counts are written by the engine, where the verdict of such a request is made; this file
//! only keeps them and knows when the store went away and came back.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use sluicegate_core::{Charge, FailurePolicy};

use crate::failure::failure_policy_of;
use crate::store::StoreError;

/// Requests that the store did not decide, by what happened to them; all are counts since the
/// limiter was made.
///
/// ```
/// use sluicegate::{FailureCounts, Limit, Limiter, Quota};
///
/// let limiter = Limiter::local([Limit::per_client("per-ip", Quota::per_second(20))])?;
/// // The local store always answers.
/// assert_eq!(limiter.failures(), FailureCounts::default());
/// # Ok::<(), sluicegate::PolicyErrors>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailureCounts {
    /// Let pass unchecked: the policy is open.
    pub unchecked: u64,
    /// Refused: the policy is closed.
    pub refused: u64,
    /// Decided on this replica: the policy is local. Also requests that a debt from an outage
    /// denied after the store was back.
    pub local: u64,
}

/// The state of the store as this limiter saw it. Every access is relaxed: nothing is decided by
/// these numbers.
#[derive(Debug, Default)]
pub(crate) struct StoreHealth {
    /// True from the first request that the store could not decide to the first that it could.
    away: AtomicBool,
    /// [`FailureCounts::unchecked`].
    pub(crate) unchecked: AtomicU64,
    /// [`FailureCounts::refused`].
    pub(crate) refused: AtomicU64,
    /// [`FailureCounts::local`].
    pub(crate) local: AtomicU64,
}

impl StoreHealth {
    /// Returns true when the store failed to answer the last request it was asked.
    pub(crate) fn is_away(&self) -> bool {
        self.away.load(Relaxed)
    }

    pub(crate) fn counts(&self) -> FailureCounts {
        FailureCounts {
            unchecked: self.unchecked.load(Relaxed),
            refused: self.refused.load(Relaxed),
            local: self.local.load(Relaxed),
        }
    }

    /// Notes that the store could not decide these charges, and logs it if it is news.
    pub(crate) fn failed(
        &self,
        charges: &[Charge<'_>],
        error: &StoreError,
        by_default: FailurePolicy,
    ) {
        if !self.away.swap(true, Relaxed) {
            log_away(charges.first(), error, by_default);
        }
    }

    /// Notes that the store decided these charges. Normally one load of a flag that nobody writes,
    /// so that the threads of a server share its cache line.
    #[inline]
    pub(crate) fn answered(&self, charges: &[Charge<'_>], by_default: FailurePolicy) {
        if self.away.load(Relaxed) && self.away.swap(false, Relaxed) {
            log_back(charges.first(), by_default);
        }
    }
}

/// Logs that the store went away, with limit and policy of the first charge that noticed.
#[cold]
fn log_away(noticed_by: Option<&Charge<'_>>, error: &StoreError, by_default: FailurePolicy) {
    let (limit, policy) = limit_and_policy(noticed_by, by_default);
    #[cfg(any(feature = "tower", feature = "redis"))]
    tracing::warn!(target: "sluicegate", limit, %error, %policy, "store away");
    #[cfg(not(any(feature = "tower", feature = "redis")))]
    let _ = (limit, error, policy);
}

/// Logs that the store answers again, with limit and policy of the first charge it decided.
#[cold]
fn log_back(noticed_by: Option<&Charge<'_>>, by_default: FailurePolicy) {
    let (limit, policy) = limit_and_policy(noticed_by, by_default);
    #[cfg(any(feature = "tower", feature = "redis"))]
    tracing::info!(target: "sluicegate", limit, %policy, "store back");
    #[cfg(not(any(feature = "tower", feature = "redis")))]
    let _ = (limit, policy);
}

/// The name of a charge's limit and its failure policy, as both are logged.
fn limit_and_policy<'a>(
    noticed_by: Option<&Charge<'a>>,
    by_default: FailurePolicy,
) -> (&'a str, FailurePolicy) {
    match noticed_by {
        Some(charge) => (
            charge.key.limit().name.as_str(),
            failure_policy_of(charge, by_default),
        ),
        None => ("", by_default),
    }
}
