//! Measures Sluicegate and its peers in one run, so that the ratios mean something on any machine.
//!
//! ```text
//! args ─▶ local ─▶ loads × keys × contestants ─measure─▶ Results ─report─▶ tables ─page─▶ docs/performance.md
//!         redis ─▶ loads × callers × contestants, each in a process of its own ─▲
//!         proxy ─▶ loads × contestants, each a program of its own between our client and our backend ─▲
//!         decisions ─▶ loads × contestants, each a program of its own that well-known clients ask ─▲
//! ```

mod args;
mod callgrind;
mod child;
mod contestants;
mod cpu;
mod decisions;
mod ending;
mod errand;
mod h2load;
mod keys;
mod loads;
mod local;
mod local_plot;
mod local_report;
mod matching;
mod measure;
mod memory;
mod page;
mod plot;
mod programs;
mod progress;
mod proxy;
mod redis;
mod report;
mod results;
mod running;
mod samples;
mod server_args;
mod table;
mod tally;
mod tree;
mod turns;

pub use decisions::decisions;
pub use local::local;
pub use proxy::proxy;
pub use redis::redis;
