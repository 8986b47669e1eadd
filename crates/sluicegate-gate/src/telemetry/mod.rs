//! Telemetry: metrics, the access log, traces, and the log of the process itself.
//!
//! The rest of the program reports facts here (a request ended, a connection opened); this module
//! decides how they are written. It knows nothing about requests in progress or the configuration
//! in force, so everything can report to it.

pub mod access_log;
pub mod metrics;
mod process_log;
mod timestamp;
mod traces;

pub use access_log::{AccessLog, AccessLogEntry};
pub use metrics::Metrics;
pub use process_log::AUDIT;
pub use process_log::{LogInitError, init_tracing};
pub use timestamp::rfc3339;
pub use traces::{
    DecisionSummary, DecisionTransport, RequestSummary, TRACEPARENT, TraceSpan, Traces,
};
