//! The store that all replicas share: counters in Redis or Valkey, one script call per decision.
//!
//! ```text
//! decide ─shadows─▶ StoreRequest ─router─▶ Lane ─driver─▶ Call ─script─▶ Redis
//!    ▲   denies from memory                                │ one call for everything that waits
//!    └───────────── outcomes ◀─ StoreResponse ◀────────────┘
//! ```
//!
//! A [`lane`] leads to one node and has one [`driver`], a task that dials, writes, reads and
//! notices failures. The [`scout`] finds out which node owns which keys, and the [`router`]
//! remembers it. Every request carries its deadline, and whichever part holds the request when the
//! deadline passes responds to it: the pending list of the scout, the lane or the driver.
//!
//! **Order of the modules.** Each module uses only modules of the rows above it and those before it
//! in its own row, so there is no cycle. One step goes the other way at run time: a new lane needs
//! a driver, which uses nearly everything. [`context`] therefore keeps a function pointer to start
//! it.
//!
//! | row | modules |
//! |---|---|
//! | values | `endpoint`, `secret`, `recovery`, `slot`, `wire`, `charge`, `options_error`, `base_pace`, `primary_trust` |
//! | options | `options`, then `validate`, then `url` |
//! | protocol | `script`, `server_error`, `dial` |
//! | one request | `request`, `call`, `waits`, `health`, `node_log`, `shadow` |
//! | shared state | `lane`, `router`, then `context`, then `probe` |
//! | one connection | `responses`, `traffic`, `driver` |
//! | the store | `scout`, `sender`, `multi_slot`, `base_claim`, `store`, then `values`, `advice`, `search` |

mod advice;
mod base_claim;
mod base_pace;
mod call;
mod charge;
mod context;
mod dial;
mod driver;
mod endpoint;
#[cfg(feature = "fuzz-internals")]
pub mod fuzz_internals;
mod health;
mod lane;
mod multi_slot;
mod node_log;
mod options;
mod options_error;
mod primary_trust;
mod probe;
mod recovery;
mod request;
mod responses;
mod router;
mod scout;
mod script;
mod search;
mod secret;
mod sender;
mod server_error;
mod shadow;
pub(crate) mod slot;
mod store;
mod traffic;
mod url;
mod validate;
mod values;
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
