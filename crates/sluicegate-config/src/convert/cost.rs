//! `cost` of a limit: a number, or the header that holds one.

use sluicegate_core::{Cost, HeaderCost, KeyPart};

use crate::field::{Field, Section};
use crate::message_text::expected;
use crate::tree::Value;

/// `5`, or `{ header, default, max }`. The policy checks the numbers against the quota.
pub(super) fn cost(field: &Field<'_>) -> Option<Cost> {
    match &field.node.value {
        Value::Section(_) => field.section(header_cost)?.map(Cost::Header),
        _ => units(field).map(Cost::Fixed),
    }
}

fn header_cost(section: &mut Section<'_>) -> Option<HeaderCost> {
    let name = section.need("header", "the header that holds the cost, a whole number");
    let name = name.and_then(|field| field.parsed(header_name));
    let default = section.read("default", 1, units);
    let max = section.optional("max", units);
    Some(HeaderCost {
        name: name?,
        default,
        max,
    })
}

/// A number of units.
fn units(field: &Field<'_>) -> Option<u64> {
    field.at_least_one(
        "a request that costs nothing is not limited: say which requests are with match, or turn the limit off with enabled: false",
    )
}

fn header_name(text: &str) -> Result<String, String> {
    match format!("header:{text}").parse() {
        Ok(KeyPart::Header(name)) => Ok(name),
        _ => Err(expected("a header name", text)),
    }
}
