//! What every store does: take a list of charges, all or nothing.

use std::error::Error;
use std::fmt;
use std::future::Future;

use sluicegate_core::algorithm::State;
use sluicegate_core::{Charge, Key, List, Nanos, Outcome, Timestamp};

use crate::clock::Clock;

/// Keeps counters.
///
/// `decide` is the one verb on the request path; `refund` and `reset` are for callers who know what they do.
pub trait Store: Send + Sync + 'static {
    /// Takes all enforced charges or none of them, and answers each in order.
    ///
    /// A denied request leaves no trace once it is answered, except that stored times which no clock step explains are
    /// repaired; its charges that would have fitted are answered as if they had cost nothing. Charges that are not
    /// enforced are taken one by one when they fit and the request goes on, and never stop it. `Err` means that nobody
    /// knows.
    fn decide<C: Clock>(
        &self,
        charges: &[Charge<'_>],
        clock: &C,
    ) -> impl Future<Output = Result<List<Outcome>, StoreError>> + Send;

    /// Gives back the units of a charge that was drawn `age` ago; zero gives all of them back.
    fn refund<C: Clock>(
        &self,
        charge: &Charge<'_>,
        age: Nanos,
        clock: &C,
    ) -> impl Future<Output = Result<Outcome, StoreError>> + Send;

    /// Forgets a counter: it is full again.
    fn reset<C: Clock>(
        &self,
        key: &Key<'_>,
        clock: &C,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// What this replica last saw of a charge's counter, as the state it would be on the clock that shows `now`; never
    /// more than is owed. A replica that has to decide on its own starts from there. Nothing, unless a store remembers.
    fn remembered(&self, _charge: &Charge<'_>, _now: Timestamp) -> Option<State> {
        None
    }
}

/// The store could not say.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreError {
    /// No answer within the deadline.
    TimedOut,
    /// The store cannot be reached, or said that it cannot decide now.
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
