//! Integration tests of the engine, in one binary.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests may unwrap like the tests themselves"
)]

mod agreement;
mod answers;
mod backwards;
mod bounds;
mod cases;
mod changed;
mod collisions;
mod conditions;
mod costs;
mod decision;
mod descriptors;
mod disabled;
mod extremes;
mod golden;
mod history;
mod keys;
mod leases;
mod matching;
mod model;
mod numbers;
mod policy;
mod program;
mod refunds;
mod reload;
mod stages;
mod texts;
