//! Integration tests of the library, in one binary.

mod conformance;
#[cfg(feature = "tower")]
mod http;
mod local;
mod redis;
