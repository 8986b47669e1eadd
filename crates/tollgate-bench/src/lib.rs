//! Measures Tollgate and its peers in one run, so that the ratios mean something on any machine.
//!
//! ```text
//! args ─▶ local ─▶ loads × keys × contestants ─measure─▶ Results ─report─▶ tables ─page─▶ docs/performance.md
//! ```

mod args;
mod callgrind;
mod child;
mod contestants;
mod keys;
mod loads;
mod local;
mod matching;
mod measure;
mod memory;
mod page;
mod plot;
mod progress;
mod report;
mod results;
mod table;

pub use local::local;
