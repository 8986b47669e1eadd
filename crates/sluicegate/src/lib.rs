//! Exact rate limits for Rust services: in this process, or shared by any number of replicas.
//!
//! A [`Limit`] is a named rule: which requests it covers, by what it counts them, and the [`Quota`]
//! they may spend. A [`Policy`] is a list of limits, a [`Store`] keeps the counters, and a
//! [`Limiter`] joins both with a clock. Its answer is a [`Verdict`]: a denial is a value, never an
//! error, and it says to the nanosecond when the same request would pass.
//!
//! # In front of a service
//!
//! With the feature `axum` (or `tower`), one layer limits every request before the service behind
//! it sees it, and writes the `RateLimit` headers:
//!
#![cfg_attr(feature = "axum", doc = "```")]
#![cfg_attr(not(feature = "axum"), doc = "```ignore")]
//! use axum::{Router, routing::get};
//! use sluicegate::{Limit, Limiter, Quota, RateLimitLayer};
//!
//! # fn main() -> Result<(), sluicegate::PolicyErrors> {
//! let per_ip = Limit::per_client("per-ip", Quota::per_second(20).burst(60));
//! let limiter = Limiter::local([per_ip])?;
//! let app: Router = Router::new()
//!     .route("/", get(|| async { "hello" }))
//!     .layer(RateLimitLayer::new(limiter));
//! # let _ = app;
//! # Ok(())
//! # }
//! ```
//!
//! # Anywhere else
//!
//! A [`Subject`] says who is asking; the limiter charges every limit that covers it, all or nothing:
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
//! Without limits by name, [`KeyedLimiter`] takes any key that can be hashed.
//!
//! # Shared by several processes
//!
//! With the feature `redis`, the counters are in Redis or Valkey (standalone, replication, Sentinel
//! or Cluster), and any number of processes share one limit exactly:
//!
#![cfg_attr(feature = "redis", doc = "```")]
#![cfg_attr(not(feature = "redis"), doc = "```ignore")]
//! use sluicegate::{Limit, Limiter, MonotonicClock, Policy, Quota, RedisOptions, RedisStore};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = RedisStore::new(RedisOptions::from_url("redis://rl-0:6379")?)?;
//! let policy = Policy::new([Limit::per_client("per-ip", Quota::per_second(20).burst(60))])?;
//! let limiter = Limiter::new(policy, store, MonotonicClock::new());
//! # let _ = limiter;
//! # Ok(())
//! # }
//! ```
//!
//! While the store is away, the [`FailurePolicy`] of each limit decides: open, closed, or counted
//! on this replica.
//!
//! **Invariant:** time enters in [`Clock::now`] and nowhere else.
#![forbid(unsafe_code)]

mod backlog;
mod clock;
pub mod conformance;
#[cfg(doctest)]
mod docs;
mod engine;
mod excess;
mod failure;
mod fallback;
mod health;
#[cfg(feature = "tower")]
pub mod http;
mod layout;
mod limiter;
mod local;
mod pending;
#[cfg(feature = "redis")]
mod redis;
mod store;
mod sync;
#[cfg(feature = "redis")]
mod tally;
mod verdict;

#[cfg(feature = "tower")]
pub use self::http::RateLimitLayer;
#[cfg(feature = "fuzz-internals")]
#[doc(hidden)]
pub use self::redis::fuzz_internals;
#[cfg(feature = "redis")]
pub use self::redis::{
    Advice, ClientCert, Credentials, Endpoint, FoundKeys, KeySearch, NodeCounts, NodeHealth,
    NodeState, OptionsError, ParseEndpointError, Recovery, RedisHealth, RedisMode, RedisOptions,
    RedisStore, RedisWaits, Secret, SecretError, TlsOptions,
};
pub use backlog::{BackgroundWork, Backlog};
pub use clock::{Clock, ManualClock, MonotonicClock};
pub use engine::{Engine, Settlement};
pub use health::FailureCounts;
pub use layout::StoredNames;
pub use limiter::{Check, Limiter, ResetError};
pub use local::{KeyedLimiter, LocalOptions, LocalStore};
pub use pending::PendingCharges;
pub use sluicegate_core::address::Prefixes;
pub use sluicegate_core::{
    AmbiguousPath, Answer, AnswerPattern, AnswerPatternError, AnswerSet, BanRule, Charge,
    ClaimMatch, Cost, Counting, Decision, DescriptorMatch, DetachedCharge, DetachedKey, Draw,
    DripBucket, Factor, FactorError, FactorRule, FailurePolicy, FailureStatus, FailureStatusError,
    HeaderCost, HeaderMatch, HeaderStyle, HeaderValue, Headers, HostPattern, Key, KeyLayout,
    KeyPart, LegacyLimit, Limit, LimitOutcome, List, Match, MissingKey, MissingReason, Mode, Nanos,
    NoHeaders, OnMissingKey, Outcome, OwnBody, OwnRejection, ParseRateError, ParseRuleError,
    PathPattern, Policy, PolicyError, PolicyErrors, Principal, ProxyHeader, QueryMatch, Quota,
    QuotaError, QuotaSource, RedisClock, RejectionError, RejectionText, RejectionValues,
    ScaledPart, SlidingWindow, Stage, Subject, Timestamp, TokenBucket, UnknownFailurePolicy,
    ValueMatch, algorithm,
};
pub use store::{Store, StoreError};
pub use verdict::Verdict;
