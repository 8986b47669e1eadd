//! Sluicegate's front doors: the edge proxy, the decision service, and what operators see of them.
//!
//! Reading order follows a request: `proxy/connection.rs` takes it in, `proxy/service.rs` decides, `proxy/forward.rs` finds
//! a server, and `proxy/exchange.rs` speaks to it.
#![forbid(unsafe_code)]

mod access;
pub mod admin;
mod auth;
mod decisions;
mod echo;
mod embedded;
pub mod external;
mod handover;
mod live;
mod operator;
mod outside;
mod program;
mod proxy;
pub mod reload;
mod reloading;
mod request_id;
mod ruling;
mod server;
mod store;
mod supervisor;
pub mod telemetry;

pub use access::{AccessLists, Ruling};
pub use auth::{Authenticator, Identity, Reason, Unauthorized};
pub use decisions::grpc::messages;
pub use embedded::Embedded;
pub use operator::{ExplainedLimit, Explanation, Operator, explain_offline};
pub use program::{Program, Ready};
pub use reloading::{Loaded, ReadAgain};
pub use store::AnyStore;
