//! Tollgate's configuration: YAML in, every mistake named, typed values out.
#![forbid(unsafe_code)]

mod typed;

pub use typed::*;
