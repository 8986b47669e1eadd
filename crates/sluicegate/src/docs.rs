//! Compiles and runs the Rust examples of the guides.
//!
//! Only `cargo test --doc` sees this file: each guide becomes the documentation of a type that
//! nothing uses, so its code blocks are tested like all other examples.

#[doc = include_str!("../../../README.md")]
#[doc = include_str!("../../../docs/library.md")]
#[doc = include_str!("../../../docs/limits.md")]
#[doc = include_str!("../../../docs/migration.md")]
#[cfg_attr(feature = "redis", doc = include_str!("../../../docs/operations.md"))]
pub struct Guides;
