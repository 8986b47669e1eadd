//! The OpenAPI document of the contract says what the reader reads, no more and no less.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use sluicegate_config::BackendUrlSettings;

use super::backend::BackendPolicy;
use super::optional_field::OptionalField;
use super::reply::{CheckedReply, ServiceReply, ZeroFields};
use super::request::{LIMIT_HEADER, LimitsRequest};

const DOCUMENT: &str = include_str!("../../../../docs/reference/limits-service.openapi.json");
const PROTO: &str = include_str!(
    "../../../../examples/limits-service/proto/edgequota/ratelimit/v1/ratelimit.proto"
);

fn document() -> Value {
    serde_json::from_str(DOCUMENT).expect("the document is JSON")
}

/// The properties of a schema, by name.
fn properties(schema: &str) -> Vec<(String, Value)> {
    let document = document();
    let found = document["components"]["schemas"][schema]["properties"].as_object();
    let found = found.expect("the schema has properties");
    found
        .iter()
        .map(|(name, property)| (name.clone(), property.clone()))
        .collect()
}

/// Reads a reply of one field beside an average of 7, or of another average.
fn read(name: &str, value: &Value) -> Result<CheckedReply, &'static str> {
    let mut reply = json!({ "average": 7 });
    reply[name] = value.clone();
    let policy = BackendPolicy::new(&BackendUrlSettings::default());
    ServiceReply::from_json(reply.to_string().as_bytes(), ZeroFields::Written)?.check(&policy)
}

#[test]
fn the_document_lists_the_fields_that_are_read() {
    let written: BTreeSet<String> = properties("LimitsResponse")
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    let quota = ["average", "burst", "period"];
    let read = OptionalField::ALL.map(OptionalField::name);
    let read: BTreeSet<String> = quota
        .iter()
        .chain(&read)
        .map(|name| (*name).to_owned())
        .collect();
    assert_eq!(read.len(), 11);
    assert_eq!(written, read);
    let required = &document()["components"]["schemas"]["LimitsResponse"]["required"];
    assert_eq!(required, &json!(["average"]));
}

/// A field that the list has and nobody reads would be found here: a wrong value of it would change
/// nothing.
#[test]
fn every_field_of_the_list_is_read() {
    for field in OptionalField::ALL {
        let ignored = read(field.name(), &json!({ "no": "value" }))
            .unwrap()
            .ignored;
        let fields: Vec<_> = ignored.iter().map(|ignored| ignored.field).collect();
        assert_eq!(fields, [field]);
    }
    for name in ["average", "burst", "period"] {
        assert!(read(name, &json!({ "no": "value" })).is_err(), "{name}");
    }
}

#[test]
fn every_example_and_every_choice_is_understood() {
    for (name, property) in properties("LimitsResponse") {
        let examples = property["examples"].as_array().expect("it has examples");
        let choices = property["enum"].as_array();
        for value in examples.iter().chain(choices.into_iter().flatten()) {
            let found = read(&name, value).unwrap_or_else(|why| panic!("{name} {value}: {why}"));
            assert_eq!(found.ignored, [], "{name} {value}");
        }
        let is_choice = choices.is_some();
        let strange = read(&name, &json!("SIDEWAYS"));
        if is_choice {
            assert_eq!(strange.unwrap().ignored.len(), 1, "{name}");
        }
    }
}

#[test]
fn the_bounds_of_the_document_are_those_of_the_reader() {
    for (name, value, is_good) in [
        ("failure_code", json!(400), true),
        ("failure_code", json!(599), true),
        ("failure_code", json!(399), false),
        ("failure_code", json!(600), false),
        ("tenant_key", json!("a".repeat(256)), true),
        ("tenant_key", json!("a".repeat(257)), false),
        ("request_timeout", json!("1ms"), true),
        ("request_timeout", json!("1h"), true),
        ("request_timeout", json!("61m"), false),
        ("cache_max_age_seconds", json!(-1), false),
    ] {
        let ignored = read(name, &value).unwrap().ignored;
        assert_eq!(ignored.is_empty(), is_good, "{name} {value}");
    }
}

#[test]
fn the_request_of_the_document_is_the_one_that_is_sent() {
    let request = LimitsRequest {
        limit: "tenant".to_owned(),
        key: "acme".to_owned(),
        headers: Default::default(),
        method: "GET".to_owned(),
        path: "/".to_owned(),
        key_parts: vec!["acme".to_owned()],
    };
    let sent = serde_json::to_value(request).unwrap();
    let sent: BTreeSet<String> = sent.as_object().unwrap().keys().cloned().collect();
    let written: BTreeSet<String> = properties("LimitsRequest")
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(written, sent);
    let header = &document()["paths"]["/limits"]["post"]["parameters"][0]["name"];
    assert_eq!(header, LIMIT_HEADER);
}

#[test]
fn the_numbers_of_the_document_are_those_of_the_proto_file() {
    for schema in ["LimitsRequest", "LimitsResponse"] {
        for (name, property) in properties(schema) {
            let number = &property["x-protobuf-number"];
            let field = format!(" {name} = {number};");
            assert!(PROTO.contains(&field), "{field}");
        }
    }
}
