//! Measures Sluicegate and its peers in one run, so that the ratios mean something on any machine.
//!
//! ```text
//! options ─▶ local ─▶ loads × keys × contestants ─measure─▶ results ─report─▶ tables ─page─▶ docs/performance-targets.md
//!            redis ─▶ loads × callers × contestants, each in a process of its own ─▲
//!            proxy ─▶ loads × contestants, each a program of its own between our client and our backend ─▲
//!            decisions ─▶ loads × contestants, each a program of its own that well-known clients ask ─▲
//! ```

mod callgrind_server;
mod child;
mod cpu;
mod decisions;
mod event_counts;
mod exit_code;
mod external_command;
mod h2load;
mod local;
mod median;
mod options;
mod page;
mod plot;
mod process_tree;
mod programs;
mod progress;
mod proxy;
mod rate;
mod redis;
mod report;
mod running_server;
mod samples;
mod server_report;
mod table;
mod tally;
mod turns;

pub use decisions::decisions;
pub use local::local;
pub use proxy::proxy;
pub use redis::redis;
