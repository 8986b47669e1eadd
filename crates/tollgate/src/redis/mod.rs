//! The store that all replicas share: counters in Redis or Valkey, one script call per decision.

mod script;
mod wire;

use tollgate_core::Quota;

/// One charge on its way to Redis.
#[derive(Clone, Debug)]
struct Item {
    /// The counter's name there.
    key: String,
    quota: Quota,
    cost: u64,
    enforced: bool,
}
