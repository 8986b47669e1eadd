//! Behaviour of the front doors' parts, seen from outside, in one binary.
#![expect(clippy::unwrap_used, reason = "helpers of tests may unwrap like the tests themselves")]

mod access;
mod access_log;
mod admin;
mod auth;
mod metrics;
mod metrics_docs;
