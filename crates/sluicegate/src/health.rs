//! The health of the store as a limiter sees it: each change is logged once, and every request
//! that the store did not decide is counted.
//!
//! The counts are written by the engine, where the verdict of such a request is made; this file
//! only keeps them and knows when the store went away and came back.
//!
//! A store may answer some requests and fail others, thousands of times a second: half of a cluster is
//! away, or a connection breaks again and again. For the log that is one outage. It ends when the
//! store has answered and not failed for [`CALM`], and the line that says so sums it up.

use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU64};

use sluicegate_core::{Charge, FailurePolicy, Nanos, Timestamp};

use crate::clock::Clock;
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
    /// Decided on this replica: the policy is local.
    pub local: u64,
}

/// The state of the store as this limiter saw it. Nothing is decided by these numbers, so every access
/// is relaxed, except that who closes an outage must see a failure that found it open.
#[derive(Debug, Default)]
pub(crate) struct StoreHealth {
    /// True from the first request that the store could not decide to the first that it could.
    away: AtomicBool,
    /// True from the log line of an outage to the line of its end; so also whenever `away` is.
    outage: AtomicBool,
    /// When the outage began and when the store last failed, in nanoseconds since the epoch.
    began_nanos: AtomicU64,
    failed_nanos: AtomicU64,
    /// Requests that the store failed to decide in this outage.
    failed: AtomicU64,
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
        now: Timestamp,
    ) {
        self.failed_nanos.store(now.as_nanos(), Relaxed);
        self.failed.fetch_add(1, Relaxed);
        self.away.store(true, Relaxed);
        if !self.outage.swap(true, AcqRel) {
            self.began_nanos.store(now.as_nanos(), Relaxed);
            log_away(charges.first(), error, by_default);
        }
    }

    /// Notes that the store decided these charges. Normally one load of a flag that nobody writes,
    /// so that the threads of a server share its cache line.
    #[inline]
    pub(crate) fn answered(
        &self,
        charges: &[Charge<'_>],
        by_default: FailurePolicy,
        clock: &impl Clock,
    ) {
        if self.outage.load(Relaxed) {
            self.answered_again(charges, by_default, clock.now());
        }
    }

    /// Notes an answer in an outage, and logs its end once nothing has failed for [`CALM`].
    #[cold]
    fn answered_again(&self, charges: &[Charge<'_>], by_default: FailurePolicy, now: Timestamp) {
        self.away.store(false, Relaxed);
        let last = Timestamp::from_nanos(self.failed_nanos.load(Relaxed));
        if now < last.after(CALM) || !self.outage.swap(false, AcqRel) {
            return;
        }
        // A failure that came between found the outage open, and it has to stay open.
        if self.away.load(Relaxed) {
            self.outage.store(true, Relaxed);
            return;
        }
        let began = self.began_nanos.load(Relaxed);
        let outage = Outage {
            failed: self.failed.swap(0, Relaxed),
            lasted_ms: last.as_nanos().saturating_sub(began) / Nanos::MILLISECOND.get(),
        };
        log_back(charges.first(), outage, by_default);
    }
}

/// The store has to answer without a failure for this long before the log calls it back.
const CALM: Nanos = Nanos::from_secs(2);

/// The sum of an outage, for its last line.
struct Outage {
    /// Requests that the store failed to decide.
    failed: u64,
    /// From the first of them to the last.
    lasted_ms: u64,
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

/// Logs that the store answers again, with limit and policy of the charge that it decided.
#[cold]
fn log_back(noticed_by: Option<&Charge<'_>>, outage: Outage, by_default: FailurePolicy) {
    let (limit, policy) = limit_and_policy(noticed_by, by_default);
    let Outage { failed, lasted_ms } = outage;
    #[cfg(any(feature = "tower", feature = "redis"))]
    tracing::info!(target: "sluicegate", limit, %policy, failed, lasted_ms, "store back");
    #[cfg(not(any(feature = "tower", feature = "redis")))]
    let _ = (limit, policy, failed, lasted_ms);
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
