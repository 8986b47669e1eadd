//! Tollgate's front doors: the edge proxy, and what operators see of it.
#![forbid(unsafe_code)]

mod store;

pub use store::AnyStore;
