//! Whether the store answers: said once per change, counted per request.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use sluicegate_core::{Charge, FailurePolicy};

use crate::store::StoreError;
use crate::verdict::policy_of;

/// Requests that the store did not decide, by what happened to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailureCounts {
    /// Passed unchecked.
    pub unchecked: u64,
    /// Answered that the service is unavailable.
    pub refused: u64,
    /// Decided on this replica.
    pub local: u64,
}

/// What a limiter has seen of its store.
#[derive(Debug, Default)]
pub(crate) struct StoreHealth {
    away: AtomicBool,
    pub(crate) unchecked: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) local: AtomicU64,
}

impl StoreHealth {
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

    /// The store could not decide these charges.
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

    /// The store decided these charges. Normally one look at a flag that nobody writes.
    #[inline]
    pub(crate) fn answered(&self, charges: &[Charge<'_>], by_default: FailurePolicy) {
        if self.away.load(Relaxed) && self.away.swap(false, Relaxed) {
            log_back(charges.first(), by_default);
        }
    }
}

/// The limit and the policy are those of the request that met the change.
#[cold]
fn log_away(met_by: Option<&Charge<'_>>, error: &StoreError, by_default: FailurePolicy) {
    let (limit, policy) = limit_and_policy(met_by, by_default);
    #[cfg(any(feature = "tower", feature = "redis"))]
    tracing::warn!(target: "sluicegate", limit, %error, %policy, "store away");
    #[cfg(not(any(feature = "tower", feature = "redis")))]
    let _ = (limit, error, policy);
}

#[cold]
fn log_back(met_by: Option<&Charge<'_>>, by_default: FailurePolicy) {
    let (limit, policy) = limit_and_policy(met_by, by_default);
    #[cfg(any(feature = "tower", feature = "redis"))]
    tracing::info!(target: "sluicegate", limit, %policy, "store back");
    #[cfg(not(any(feature = "tower", feature = "redis")))]
    let _ = (limit, policy);
}

fn limit_and_policy<'a>(
    met_by: Option<&Charge<'a>>,
    by_default: FailurePolicy,
) -> (&'a str, FailurePolicy) {
    match met_by {
        Some(charge) => (
            charge.key.limit().name.as_str(),
            policy_of(charge, by_default),
        ),
        None => ("", by_default),
    }
}
