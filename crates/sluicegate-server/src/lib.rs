//! Sluicegate's front doors: the edge proxy and the decision service, with the admin API for
//! operators.
//!
//! Reading order follows a request: `sluicegate-net` reads it, `proxy/service.rs` handles it and
//! asks `sluicegate_gate` to admit it, and `proxy/forward.rs` finds a server and sends it there.
#![forbid(unsafe_code)]

pub mod admin;
mod configuration;
mod decisions;
mod echo;
mod embedded;
mod file_check;
mod file_hash;
mod file_permissions;
pub mod file_watch;
#[cfg(feature = "fuzz-internals")]
#[doc(hidden)]
pub mod fuzz_internals;
mod handover;
mod json_request;
mod named_files;
mod operator;
mod overload;
mod program;
mod proxy;
mod reload;
mod server;
mod supervisor;
mod token_file;

pub use configuration::needs_restart;
pub use decisions::grpc::messages;
pub use embedded::Embedded;
pub use file_check::{FileReport, check_files, count_files};
pub use operator::{ExplainedLimit, Explanation, Operator, explain_offline};
pub use overload::UsedMemory;
pub use program::{Program, Ready};
pub use reload::{ConfigReader, LoadedConfig};
