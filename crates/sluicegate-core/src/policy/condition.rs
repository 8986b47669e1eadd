//! The conditions of a limit in words about a request.

use crate::limit::{
    ClaimMatch, DescriptorMatch, HeaderMatch, HostPattern, Match, QueryMatch, ValueMatch,
};
use crate::query::{self, QueryValue};
use crate::subject::{HeaderValue, Principal, Subject};

/// One condition of a limit, in words about the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// A sentence such as `the method is POST` or `the path /x does not lie below /api`.
    pub words: String,
    /// True when the request meets it.
    pub holds: bool,
}

/// Every condition of a limit, in the order in which the configuration lists them.
pub(super) fn conditions(matching: &Match, subject: &Subject<'_>) -> Vec<Condition> {
    let path = matching.path.iter().map(|pattern| {
        let holds = pattern.covers(subject.path);
        let words = match (holds, subject.path) {
            (true, path)
                if path.trim_end_matches('/') == pattern.to_string().trim_end_matches('/') =>
            {
                format!("the path is {path}")
            }
            (true, path) => format!("the path {path} lies below {pattern}"),
            (false, path) => format!("the path {path} does not lie below {pattern}"),
        };
        Condition { words, holds }
    });
    let methods = (!matching.methods.is_empty()).then(|| {
        let holds = matching.covers_method(subject.method);
        of_list("method", subject.method, &matching.methods, holds)
    });
    let hosts = (!matching.hosts.is_empty()).then(|| host_condition(&matching.hosts, subject.host));
    let headers = matching
        .headers
        .iter()
        .map(|header| header_condition(header, subject));
    let query = matching
        .query
        .iter()
        .map(|wanted| query_condition(wanted, subject));
    let principal = matching
        .principal
        .iter()
        .map(|wanted| principal_condition(wanted, subject.principal));
    let claims = matching
        .claims
        .iter()
        .map(|claim| claim_condition(claim, subject.principal));
    let domain = matching.domain.iter().map(|domain| {
        let holds = subject.domain == Some(domain);
        let is = if holds { "is" } else { "is not" };
        Condition {
            words: format!("the domain {is} {domain}"),
            holds,
        }
    });
    let descriptors = matching
        .descriptors
        .iter()
        .map(|entry| entry_condition(entry, subject));
    path.chain(methods)
        .chain(hosts)
        .chain(headers)
        .chain(query)
        .chain(principal)
        .chain(claims)
        .chain(domain)
        .chain(descriptors)
        .collect()
}

/// A condition that one of several values meets.
fn of_list(what: &str, value: &str, wanted: &[String], holds: bool) -> Condition {
    let words = match (holds, wanted) {
        (true, _) => format!("the {what} is {value}"),
        (false, [only]) => format!("the {what} is {value}, not {only}"),
        (false, several) => format!("the {what} is {value}, none of {}", several.join(", ")),
    };
    Condition { words, holds }
}

/// The condition on the host.
fn host_condition(patterns: &[HostPattern], host: Option<&str>) -> Condition {
    let wanted: Vec<String> = patterns.iter().map(ToString::to_string).collect();
    match host {
        Some(host) => of_list(
            "host",
            host,
            &wanted,
            patterns.iter().any(|pattern| pattern.covers(host)),
        ),
        None => Condition {
            words: format!("there is no host, and it must be {}", wanted.join(" or ")),
            holds: false,
        },
    }
}

/// The condition on one header. Values of the request are not shown: they may be secrets.
fn header_condition(header: &HeaderMatch, subject: &Subject<'_>) -> Condition {
    let name = &header.name;
    let holds = header.covers(subject);
    let words = match (subject.headers.get(name), &header.value, holds) {
        (HeaderValue::Missing, _, _) => format!("the header {name} is missing"),
        (_, None, _) => format!("the header {name} is there"),
        (_, Some(value), true) => format!("the header {name} is {value}"),
        (HeaderValue::Repeated, Some(value), false) => {
            format!("the header {name} occurs twice, not once as {value}")
        }
        (HeaderValue::One(_), Some(value), false) => format!("the header {name} is not {value}"),
    };
    Condition { words, holds }
}

/// The condition on one entry of a descriptor.
fn entry_condition(entry: &DescriptorMatch, subject: &Subject<'_>) -> Condition {
    let holds = entry.covers(subject);
    let has = if holds { "has" } else { "has no" };
    let words = match &entry.value {
        Some(value) => format!("the descriptor {has} {}={value}", entry.name),
        None => format!("the descriptor {has} {}", entry.name),
    };
    Condition { words, holds }
}

/// The condition on one query parameter. Values of the request are not shown: they may be secrets.
fn query_condition(wanted: &QueryMatch, subject: &Subject<'_>) -> Condition {
    let name = &wanted.name;
    let holds = wanted.covers(subject);
    let words = match (query::parameter(subject.query, name), &wanted.value, holds) {
        (QueryValue::Missing, _, _) => format!("the query has no {name}"),
        (_, None, _) => format!("the query has {name}"),
        (_, Some(value), true) => format!("the query has {name}={value}"),
        (QueryValue::Repeated, Some(value), false) => {
            format!("the query has {name} twice, not once as {value}")
        }
        (QueryValue::One(_), Some(value), false) => format!("{name} in the query is not {value}"),
    };
    Condition { words, holds }
}

/// The condition on the verified caller.
fn principal_condition(wanted: &ValueMatch, principal: Option<&Principal>) -> Condition {
    match (principal, wanted) {
        (None, _) => Condition {
            words: "the caller is not verified".to_owned(),
            holds: false,
        },
        (Some(known), ValueMatch::Any) => Condition {
            words: format!("the principal {} is verified", known.id),
            holds: true,
        },
        (Some(known), ValueMatch::OneOf(ids)) => {
            of_list("principal", &known.id, ids, ids.contains(&known.id))
        }
    }
}

/// The condition on one claim of the verified caller. Its value is not shown.
fn claim_condition(claim: &ClaimMatch, principal: Option<&Principal>) -> Condition {
    let name = &claim.name;
    let holds = claim.covers(principal);
    let is_there = principal.is_some_and(|known| known.claims.contains_key(name));
    let words = match (&claim.values, is_there) {
        _ if principal.is_none() => format!("the caller is not verified, and has no claim {name}"),
        (_, false) => format!("the claim {name} is missing"),
        (ValueMatch::Any, true) => format!("the claim {name} is there"),
        (ValueMatch::OneOf(values), true) => {
            let is = if holds { "is" } else { "is not" };
            format!("the claim {name} {is} {}", values.join(" or "))
        }
    };
    Condition { words, holds }
}
