//! A store that is always away.

use sluicegate::{Charge, Clock, List, Nanos, Outcome, Store, StoreError};

/// Answers no request: a decision times out, and a reset is told why.
pub struct AwayStore;

impl Store for AwayStore {
    async fn decide<C: Clock>(&self, _: &[Charge<'_>], _: &C) -> Result<List<Outcome>, StoreError> {
        Err(StoreError::TimedOut)
    }

    async fn refund<C: Clock>(
        &self,
        _: &Charge<'_>,
        _: Nanos,
        _: &C,
    ) -> Result<Outcome, StoreError> {
        Err(StoreError::TimedOut)
    }

    async fn reset<C: Clock>(&self, _: &Charge<'_>, _: &C) -> Result<(), StoreError> {
        Err(StoreError::Unavailable("down for repair".into()))
    }
}
