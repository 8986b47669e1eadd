//! The kit against real servers.

mod clock_shim;
mod groups;
mod server;
mod tls;
