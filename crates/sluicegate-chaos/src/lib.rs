//! Limits on real servers while things go wrong. Each scenario has a short form, which is a test, and a long form,
//! which `cargo xtask chaos` runs and reports.

pub mod load;
pub mod log_lines;
mod random;
pub mod replica;
pub mod replicas;
pub mod report;
pub mod runner;
pub mod scenarios;

pub use load::{AnswerCounts, AnsweredRequest, CallerLoad, LoadRun};
pub use report::{Length, Report};
