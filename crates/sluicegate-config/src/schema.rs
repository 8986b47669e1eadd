//! The JSON Schema of the configuration, for completion and checks in editors.

/// A JSON Schema (draft 2020-12) that accepts every file that [`load`](crate::load) accepts. It may
/// accept more: rules about several values together are checked by `load` only.
pub fn schema() -> serde_json::Value {
    serde_json::from_str(include_str!("schema.json")).expect("the schema is JSON")
}
