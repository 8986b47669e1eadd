//! Compiles and runs the Rust examples of the guides.

#[doc = include_str!("../../../README.md")]
#[doc = include_str!("../../../docs/library.md")]
#[doc = include_str!("../../../docs/limits.md")]
#[doc = include_str!("../../../docs/migration.md")]
#[cfg_attr(feature = "redis", doc = include_str!("../../../docs/operations.md"))]
pub struct Guides;
