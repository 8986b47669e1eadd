//! Sluicegate's gate: the configuration in force, and everything that decides about a request under
//! it. It knows limits, callers, stores and the limits service, but no sockets of clients: front
//! doors (the proxy, the decision service) parse a request, call `admit` and write the answer.
//!
//! Begin with `admission.rs`: the one way from a question to its answer. From there down to
//! `charging.rs` (the charges of a request, under the terms that hold for each), `terms.rs` (the
//! places that a quota comes from), `gate.rs` (all that outlives a configuration) and `snapshot.rs`
//! (one configuration). The rest serves these.
//!
//! The modules form no cycle. Each group in the list uses only itself and the groups below it.
#![forbid(unsafe_code)]

// The way of a request.
pub mod admission;
pub mod charging;
pub mod refusal_response;
pub mod settling;

// State: shared by all requests, and of one configuration.
pub mod gate;
pub mod scrape;
pub mod snapshot;

// Decided by operators, credentials, earlier denials and the limits service.
pub mod auth;
pub mod automatic_bans;
pub mod overrides;
pub mod terms;

// Reports.
pub mod decision_stream;
pub mod telemetry;

// Used by many, and using little.
pub mod access;
pub mod external;
mod http_client;
pub mod request_id;
pub mod store;
pub mod top_keys;

#[cfg(feature = "fuzz-internals")]
#[doc(hidden)]
pub mod fuzz_internals;
