//! Conditions of a limit on the query and on the verified caller.

use sluicegate_core::{ClaimMatch, QueryMatch, ValueMatch};

use crate::field::Field;

/// `name: value` for each parameter, or `name: "*"` for any value.
pub(super) fn query(field: &Field<'_>) -> Option<Vec<QueryMatch>> {
    let mut parameters = Vec::new();
    for (name, field) in field.entries()? {
        let value = field
            .any_text()
            .map(|text| (text != "*").then(|| text.to_owned()));
        if name.is_empty() {
            field.note("the name of a parameter must not be empty");
        } else if let Some(value) = value {
            parameters.push(QueryMatch {
                name: name.to_owned(),
                value,
            });
        }
    }
    Some(parameters)
}

/// `name: value`, `name: [value, value]`, or `name: "*"` for any value.
pub(super) fn claims(field: &Field<'_>) -> Option<Vec<ClaimMatch>> {
    let mut claims = Vec::new();
    for (name, field) in field.entries()? {
        let values = values(&field);
        if name.is_empty() {
            field.note("the name of a claim must not be empty");
        } else if let Some(values) = values {
            claims.push(ClaimMatch {
                name: name.to_owned(),
                values,
            });
        }
    }
    Some(claims)
}

/// One value, a list of values of which any will do, or `"*"` for every value.
pub(super) fn values(field: &Field<'_>) -> Option<ValueMatch> {
    let fields = field.one_or_more();
    let texts: Vec<&str> = fields.iter().filter_map(Field::text).collect();
    match texts[..] {
        _ if texts.len() < fields.len() => None,
        [] => {
            field.note("must name at least one value, or \"*\" for any");
            None
        }
        ["*"] => Some(ValueMatch::Any),
        _ if texts.contains(&"*") => {
            field.note("\"*\" is every value: leave the others out");
            None
        }
        _ => Some(ValueMatch::one_of(texts)),
    }
}
