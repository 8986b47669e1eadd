//! The store that all replicas share: counters in Redis or Valkey, one script call per decision.
//!
//! ```text
//! decide ─shadows─▶ Ask ─router─▶ Lane ─driver─▶ Call ─▶ Redis
//!    ▲   denies from memory                        │ one script over everything that waits
//!    └──────────────── outcome ◀─ Answer ◀─────────┘
//! ```
//!
//! A [`lane`] leads to one node and has one [`driver`], which dials, writes, reads and notices trouble; the [`scout`]
//! finds out which node owns which keys, and the [`router`] remembers it. Every ask carries its deadline and is answered
//! by whoever holds it when that has come.

mod advice;
mod answers;
mod ask;
mod call;
mod complaint;
mod context;
mod dial;
mod driver;
mod endpoint;
mod health;
mod lane;
mod options;
mod options_error;
mod parts;
mod probe;
mod recovery;
mod router;
mod scout;
mod script;
mod search;
mod secret;
mod shadow;
pub(crate) mod slot;
mod store;
mod traffic;
mod url;
mod validate;
mod waits;
mod wire;

pub use advice::Advice;
pub use endpoint::{Endpoint, ParseEndpointError};
pub use health::{NodeCounts, NodeHealth, NodeState, RedisHealth};
pub use options::{ClientCert, RedisMode, RedisOptions, TlsOptions};
pub use options_error::OptionsError;
pub use recovery::Recovery;
pub use search::{FoundKeys, KeySearch};
pub use secret::{Credentials, Secret, SecretError};
pub use store::RedisStore;
pub use waits::RedisWaits;

use sluicegate_core::Quota;
use smallvec::SmallVec;

/// One charge on its way to Redis.
#[derive(Clone, Debug)]
struct Item {
    /// The counter's name there.
    key: String,
    /// The same, as a number that is this process's own.
    hash: u64,
    quota: Quota,
    cost: u64,
    enforced: bool,
}

/// The charges of one request, nearly always one.
type Items = SmallVec<[Item; 1]>;
