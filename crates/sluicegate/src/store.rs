//! What every store does: take a list of charges, all or nothing.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::str::FromStr;

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

/// Which store a configuration asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreKind {
    /// In this process. Also written `governor`, `memory`, `in-memory`, or not at all.
    #[default]
    Local,
    /// Shared by all replicas.
    Redis,
}

impl FromStr for StoreKind {
    type Err = UnknownStore;

    fn from_str(text: &str) -> Result<Self, UnknownStore> {
        match text.trim().to_ascii_lowercase().as_str() {
            "" | "local" | "governor" | "memory" | "in-memory" => Ok(Self::Local),
            "redis" => Ok(Self::Redis),
            _ => Err(UnknownStore {
                got: text.to_owned(),
            }),
        }
    }
}

/// A name that is no store's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownStore {
    got: String,
}

impl fmt::Display for UnknownStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "store.kind: unknown value {:?} (expected local or redis)",
            self.got
        )
    }
}

impl Error for UnknownStore {}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_a_store_is_known_in_any_case_and_others_are_refused_by_name() {
        for local in [
            "local",
            "",
            "  ",
            "governor",
            "Memory",
            " IN-MEMORY ",
            "LOCAL",
        ] {
            assert_eq!(local.parse(), Ok(StoreKind::Local), "{local:?}");
        }
        for redis in ["redis", " Redis ", "REDIS"] {
            assert_eq!(redis.parse(), Ok(StoreKind::Redis), "{redis:?}");
        }
        let refused = "dynamo".parse::<StoreKind>().unwrap_err();
        assert_eq!(
            refused.to_string(),
            "store.kind: unknown value \"dynamo\" (expected local or redis)"
        );
    }
}
