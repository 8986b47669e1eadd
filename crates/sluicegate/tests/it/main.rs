//! Integration tests of the library, in one binary.

mod allocations;
mod away_store;
mod conformance;
mod failure;
#[cfg(feature = "tower")]
mod http;
mod local;
mod log;
mod ready;
mod redis;
mod rollout;
