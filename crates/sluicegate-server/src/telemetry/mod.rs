//! What operators see: metrics, the access log, the process's own log.

pub mod access_log;
pub mod metrics;
mod process_log;
mod timestamp;
mod traces;

pub use access_log::{AccessLog, AccessLogEntry};
pub use metrics::Metrics;
pub use process_log::{LogInitError, init_tracing};
pub(crate) use timestamp::rfc3339;
pub(crate) use traces::{
    DecisionSummary, DecisionTransport, RequestSummary, TRACEPARENT, TraceSpan, Traces,
};
