//! Conditions on the query and on the verified caller, in words.

use sluicegate_core::{ClaimMatch, Match, QueryMatch, ValueMatch};

use super::joined;

/// A few words for each kind of condition that a limit has, such as `with debug=1 in the query`.
pub(super) fn in_words(matching: &Match) -> impl Iterator<Item = String> {
    let query = (!matching.query.is_empty()).then(|| {
        let parameters: Vec<String> = matching.query.iter().map(parameter).collect();
        format!("with {} in the query", joined(&parameters, "and"))
    });
    let principal = matching.principal.as_ref().map(|wanted| match wanted {
        ValueMatch::Any => "for verified callers".to_owned(),
        ValueMatch::OneOf(ids) => format!("for principal {}", joined(ids, "or")),
    });
    let claims = (!matching.claims.is_empty()).then(|| {
        let claims: Vec<String> = matching.claims.iter().map(claim).collect();
        format!("for callers whose {}", joined(&claims, "and"))
    });
    query.into_iter().chain(principal).chain(claims)
}

fn parameter(wanted: &QueryMatch) -> String {
    match &wanted.value {
        Some(value) => format!("{}={value}", wanted.name),
        None => wanted.name.clone(),
    }
}

fn claim(claim: &ClaimMatch) -> String {
    match &claim.values {
        ValueMatch::Any => format!("claim {} is there", claim.name),
        ValueMatch::OneOf(values) => format!("claim {} is {}", claim.name, joined(values, "or")),
    }
}
