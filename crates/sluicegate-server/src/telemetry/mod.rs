//! What operators see: metrics, the access log, the process's own log.

pub mod access_log;
pub mod metrics;
mod process_log;
mod stamp;
mod traces;

pub use access_log::{AccessLog, Entry};
pub use metrics::Metrics;
pub use process_log::{InitError, init_tracing};
pub(crate) use stamp::rfc3339;
pub(crate) use traces::{Asked, Facts, Span, TRACEPARENT, Traces, Way};
