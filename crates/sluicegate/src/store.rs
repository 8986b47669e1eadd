//! The contract of every store: take a list of charges, all or nothing.
//!
//! [`LocalStore`](crate::LocalStore) keeps its counters in this process, `RedisStore` shares them
//! between processes. A store of another kind implements [`Store`] and proves itself with
//! [`conformance::run`](crate::conformance::run).

use std::error::Error;
use std::fmt;
use std::future::{Future, ready};

use sluicegate_core::algorithm::State;
use sluicegate_core::{Charge, List, Nanos, Outcome, Quota, Timestamp};

use crate::clock::Clock;
use crate::local::LocalStore;

/// Keeps counters.
///
/// `decide` is the one verb on the request path; `refund` and `reset` serve administration. A
/// store of your own often wraps another one:
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use sluicegate::conformance;
/// use sluicegate::{Charge, Clock, List, LocalStore, Nanos, Outcome, Store, StoreError};
///
/// /// Counts how many charges it was asked for.
/// #[derive(Default)]
/// struct Metered {
///     counters: LocalStore,
///     charges: AtomicU64,
/// }
///
/// impl Store for Metered {
///     async fn decide<C: Clock>(
///         &self,
///         charges: &[Charge<'_>],
///         clock: &C,
///     ) -> Result<List<Outcome>, StoreError> {
///         self.charges.fetch_add(charges.len() as u64, Ordering::Relaxed);
///         self.counters.decide(charges, clock).await
///     }
///
///     async fn refund<C: Clock>(
///         &self,
///         charge: &Charge<'_>,
///         age: Nanos,
///         clock: &C,
///     ) -> Result<Outcome, StoreError> {
///         self.counters.refund(charge, age, clock).await
///     }
///
///     async fn reset<C: Clock>(&self, charge: &Charge<'_>, clock: &C) -> Result<(), StoreError> {
///         self.counters.reset(charge, clock).await
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// // Proves that it answers as every store has to.
/// conformance::run(Metered::default).await?;
/// # Ok(())
/// # })
/// # }
/// ```
pub trait Store: Send + Sync + 'static {
    /// Takes all enforced charges or none of them, and answers each in order.
    ///
    /// A denied request leaves no trace once it is answered, except that a stored time which no
    /// clock step explains is repaired; its charges that would have fitted are answered as if they
    /// had cost nothing. Charges that are not enforced never stop a request: when it passes, each
    /// of them is taken on its own if it fits. A charge that only looks
    /// ([`Draw::Look`](sluicegate_core::Draw)) stops a request like any other, is never taken, and
    /// is answered as if it had cost nothing when it fits. `Err` means that the store does not know.
    ///
    /// The quota of a charge may differ from that of the last one on the same key: the limit was
    /// changed, or the caller's plan. The counter then owes the same units under the new quota
    /// ([`algorithm::decide_changed`](sluicegate_core::algorithm::decide_changed)), except where
    /// quotas come with the request ([`Limit::is_ad_hoc`](sluicegate_core::Limit::is_ad_hoc)):
    /// there a debt stays the time until the counter is full.
    fn decide<C: Clock>(
        &self,
        charges: &[Charge<'_>],
        clock: &C,
    ) -> impl Future<Output = Result<List<Outcome>, StoreError>> + Send;

    /// Gives back the units of a charge that was drawn `age` ago, never beyond full. An age of
    /// zero gives all of them back; an older charge is worth less, because the counter has been
    /// refilling since.
    fn refund<C: Clock>(
        &self,
        charge: &Charge<'_>,
        age: Nanos,
        clock: &C,
    ) -> impl Future<Output = Result<Outcome, StoreError>> + Send;

    /// Forgets the counter of a charge: it is full again, whatever quota it was charged under.
    fn reset<C: Clock>(
        &self,
        charge: &Charge<'_>,
        clock: &C,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// The last state that this process saw of a charge's counter, as it is on the clock that
    /// shows `now` and at the pace of the charge's quota; never more than is owed.
    ///
    /// For stores that can be away: a limiter whose policy is local starts its own counters from
    /// here, so that an outage hands nobody a fresh bucket. A store without such a memory keeps
    /// the default, `None`.
    fn remembered(&self, _charge: &Charge<'_>, _now: Timestamp) -> Option<State> {
        None
    }

    /// The store in this process that this one is, if it is nothing else: it is asked without a
    /// future, because it never waits and never fails. A store that waits, or that does anything of
    /// its own with charges, keeps the default, `None`.
    #[inline]
    fn as_local(&self) -> Option<&LocalStore> {
        None
    }

    /// Returns true when [`larger_quota`](Store::larger_quota) may have one. Every request asks this.
    fn has_excess(&self) -> bool {
        false
    }

    /// The quota under which a charge is to be decided instead of its own, because its counter owes
    /// more than its own has: replicas of another configuration charge it under a larger one.
    ///
    /// For stores that replicas share, or whose limits can be changed: while a changed quota is rolled
    /// out, replicas of both sides then admit their part. A store without such a memory keeps the
    /// default, `None`; there, a counter that owes too much denies until enough has flowed back.
    fn larger_quota(&self, _charge: &Charge<'_>, _now: Timestamp) -> Option<Quota> {
        None
    }
}

/// Nothing is waited for: every future is ready when it is made.
impl Store for LocalStore {
    fn decide<C: Clock>(
        &self,
        charges: &[Charge<'_>],
        clock: &C,
    ) -> impl Future<Output = Result<List<Outcome>, StoreError>> + Send {
        ready(Ok(self.decide_all(charges, clock)))
    }

    fn refund<C: Clock>(
        &self,
        charge: &Charge<'_>,
        age: Nanos,
        clock: &C,
    ) -> impl Future<Output = Result<Outcome, StoreError>> + Send {
        ready(Ok(self.give(charge, age, clock.now())))
    }

    fn reset<C: Clock>(
        &self,
        charge: &Charge<'_>,
        clock: &C,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        self.forget(charge, clock.now());
        ready(Ok(()))
    }

    #[inline]
    fn as_local(&self) -> Option<&LocalStore> {
        Some(self)
    }

    #[inline]
    fn has_excess(&self) -> bool {
        self.has_excess()
    }

    fn larger_quota(&self, charge: &Charge<'_>, now: Timestamp) -> Option<Quota> {
        self.larger_quota(charge, now)
    }
}

/// The store does not know the answer. A denial is no error: it is an [`Outcome`].
///
/// ```
/// use sluicegate::StoreError;
///
/// let error = StoreError::Unavailable("connection refused".to_owned());
/// assert_eq!(error.to_string(), "the store is unavailable: connection refused");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreError {
    /// No answer came within the deadline.
    TimedOut,
    /// The store cannot be reached, or replied that it cannot decide now. The text says why, for
    /// a log; it holds no password.
    Unavailable(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut => f.write_str("the store did not answer in time"),
            Self::Unavailable(why) => write!(f, "the store is unavailable: {why}"),
        }
    }
}

impl Error for StoreError {}
