//! The JSON Schema of the configuration, for editors.

/// A JSON Schema (draft 2020-12) that accepts what [`load`](crate::load) accepts. It cannot say
/// everything that `load` checks: what depends on several values together is left to `load`.
pub fn schema() -> serde_json::Value {
    serde_json::from_str(include_str!("schema.json")).expect("the schema is JSON")
}
