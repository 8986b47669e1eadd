//! A charge: spend units of one quota at one key.

use crate::failure::FailurePolicy;
use crate::key::Key;
use crate::quota::Quota;

/// Spend `cost` units of `quota` at `key`; a cost of 0 only looks.
#[derive(Clone, Copy, Debug)]
pub struct Charge<'a> {
    /// The counter.
    pub key: Key<'a>,
    /// The numbers, after factor or override.
    pub quota: Quota,
    /// Units to spend.
    pub cost: u64,
    /// The limit's place in its policy.
    pub limit_index: usize,
    /// Whether a denial stops the request. A shadow charge is taken or not on its own.
    pub enforced: bool,
    /// What to do while the store is away; `None` is what the limiter does by default.
    pub on_failure: Option<FailurePolicy>,
}
