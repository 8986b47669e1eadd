//! The network engine from outside.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests may unwrap like the tests themselves"
)]

mod idle_memory;
