//! Behaviour of the front doors, seen from outside, in one binary.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests may unwrap like the tests themselves"
)]

mod access;
mod access_log;
mod admin;
mod auth;
mod balancer;
mod client_bound;
mod clients;
mod connection_auth;
mod corpus;
mod edge;
mod external;
mod framing;
mod h2_conformance;
mod http2_upstreams;
mod identity;
mod malformed_frames;
mod metrics;
mod metrics_docs;
mod one_reading;
mod overload;
mod paths;
mod servers;
mod smuggling;
mod upstream_connections;
