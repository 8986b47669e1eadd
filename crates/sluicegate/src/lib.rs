//! Exact rate limits for Rust services.
//!
//! ```
//! use sluicegate::{Limit, Limiter, Quota, Subject};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let limiter = Limiter::local([Limit::per_client("per-ip", Quota::per_second(20).burst(60))])?;
//! let caller = Subject { client_ip: Some("203.0.113.7".parse()?), ..Subject::ANONYMOUS };
//! assert!(limiter.check(&caller, 1).await.is_forwarded());
//! # Ok(())
//! # })
//! # }
//! ```
//!
//! **Invariant:** time enters in [`Clock::now`] and nowhere else; a denial is a value, never an error.
#![forbid(unsafe_code)]

mod clock;
pub mod conformance;
#[cfg(doctest)]
mod docs;
mod engine;
mod failure;
mod fallback;
mod health;
#[cfg(feature = "tower")]
pub mod http;
mod layout;
mod limiter;
mod local;
#[cfg(feature = "redis")]
mod redis;
mod store;
mod sync;
#[cfg(feature = "redis")]
mod tally;
mod verdict;

#[cfg(feature = "tower")]
pub use self::http::RateLimitLayer;
#[cfg(feature = "redis")]
pub use self::redis::{
    Advice, ClientCert, Credentials, Endpoint, FoundKeys, KeySearch, NodeCounts, NodeHealth,
    NodeState, OptionsError, ParseEndpointError, Recovery, RedisClock, RedisHealth, RedisMode,
    RedisOptions, RedisStore, RedisWaits, Secret, SecretError, TlsOptions,
};
pub use clock::{Clock, ManualClock, MonotonicClock};
pub use engine::{Engine, Settlement};
pub use health::FailureCounts;
pub use layout::KeyLayout;
pub use limiter::{Limiter, ResetError};
pub use local::{KeyedLimiter, LocalOptions, LocalStore};
pub use sluicegate_core::*;
pub use store::{Store, StoreError, StoreKind, UnknownStore};
pub use verdict::Verdict;
