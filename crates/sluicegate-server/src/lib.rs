//! Sluicegate's front doors: the edge proxy, the decision service, and what operators see of them.
//!
//! Reading order follows a request: `proxy/connection.rs` takes it in, `proxy/service.rs` decides, `proxy/forward.rs` finds
//! a server, and `proxy/exchange.rs` speaks to it.
#![forbid(unsafe_code)]

mod access;
pub mod admin;
mod admission;
mod auth;
mod charging;
mod configuration;
mod decision_stream;
mod decisions;
mod echo;
mod embedded;
pub mod external;
mod file_hash;
pub mod file_watch;
mod gate;
mod handover;
mod json_request;
mod operator;
mod overrides;
mod program;
mod proxy;
mod refusal_response;
mod reload;
mod request_id;
mod scrape;
mod server;
mod snapshot;
mod store;
mod supervisor;
pub mod telemetry;
mod terms;
mod top_keys;

pub use access::{AccessLists, Ruling};
pub use auth::{AuthFailure, Authenticator, Identity, Unauthorized};
pub use decisions::grpc::messages;
pub use embedded::Embedded;
pub use operator::{ExplainedLimit, Explanation, Operator, explain_offline};
pub use program::{Program, Ready};
pub use reload::{ConfigReader, LoadedConfig};
pub use store::AnyStore;
