//! The kit against real servers.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod clock_shim;
mod fault_proxy;
mod groups;
mod http;
mod server;
mod tls;
