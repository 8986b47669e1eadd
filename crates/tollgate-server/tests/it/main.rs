//! Integration tests of the server, in one binary.

mod access_log;
mod admin;
mod metrics;
mod metrics_docs;
