//! `limits`: the rules, checked one by one and then together by [`Policy::new`].

use std::collections::HashMap;
use std::sync::Arc;

use sluicegate_core::address::Prefixes;
use sluicegate_core::{
    DescriptorMatch, FailurePolicy, HeaderMatch, KeyLayout, KeyPart, Limit, Match, Mode,
    OnMissingKey, OwnRejection, Policy, PolicyError, QuotaSource,
};

use super::ban::with_ban;
use super::conditions::{claims, query, values};
use super::cost::cost;
use super::counting::counting;
use super::factor::factor;
use super::failure::on_failure;
use super::quota::{is_bucket, quota};
use super::reject::reject;
use crate::field::{Field, Section};
use crate::message_text::expected;
use crate::tree::Value;

/// The treatments of a request that lacks a part of the key, by name.
const MISSING: [(&str, OnMissingKey); 4] = [
    ("reject", OnMissingKey::Reject),
    ("client_ip", OnMissingKey::ClientIp),
    ("shared", OnMissingKey::Shared),
    ("skip", OnMissingKey::Skip),
];

/// The settings of other sections that limits depend on.
#[derive(Clone, Copy, Debug)]
pub(super) struct LimitContext<'a> {
    /// The prefixes that addresses are counted by.
    pub(super) prefixes: Prefixes,
    /// The policy of limits without one of their own.
    pub(super) on_failure: FailurePolicy,
    /// The service to ask for quotas.
    pub(super) external: ExternalSwitch,
    /// The form of keys in Redis; `None` for a store in this process.
    pub(super) key_layout: Option<KeyLayout>,
    /// The response to denied requests of limits without one of their own.
    pub(super) reject: Option<&'a Arc<OwnRejection>>,
}

/// The section `external` of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExternalSwitch {
    /// There is none.
    Absent,
    /// It is turned off: limits that would ask the service have their own numbers.
    Off,
    On,
}

/// All limits. A policy without limits takes their place when one of them is wrong.
pub(super) fn policy(field: Option<&Field<'_>>, context: LimitContext<'_>) -> Policy {
    let fields = field.and_then(|field| field.list()).unwrap_or_default();
    let limits = fields
        .iter()
        .map(|field| limit(field, context))
        .collect::<Vec<_>>();
    // A limit whose name could not be read may be the one that others replace: checking them
    // together would note mistakes that are not there.
    let is_named = limits.iter().all(Option::is_some);
    let limits: Vec<Limit> = limits.into_iter().flatten().collect();
    if !is_named || has_long_chain(&fields, &limits) {
        return no_limits();
    }
    if let Some(layout) = context.key_layout {
        note_shared_counters(&fields, &limits, layout);
    }
    match Policy::new(limits) {
        Ok(policy) if context.external == ExternalSwitch::On => policy.asking_service(),
        Ok(policy) => policy,
        Err(errors) => {
            errors
                .0
                .iter()
                .for_each(|error| note_policy_error(&fields, error));
            no_limits()
        }
    }
}

/// The policy in place of one that is refused.
fn no_limits() -> Policy {
    Policy::new([]).expect("no limits contradict each other")
}

/// One limit; `None` when it has no name.
fn limit(field: &Field<'_>, context: LimitContext<'_>) -> Option<Limit> {
    field.section(|section| {
        let name = section
            .need("name", "letters, digits, '.', '_' and '-'")
            .and_then(|field| field.text());
        let key = section.need(
            "key",
            "[client_ip] counts each client address, [global] all requests together",
        );
        // Every key is read even without a name, so that its mistakes are noted as well.
        let limit = Limit {
            quota: quota(section),
            quota_from: quota_from(section, context.external),
            key: key
                .map(|field| key_parts(&field))
                .unwrap_or_else(|| vec![KeyPart::Global]),
            matching: section
                .subsection("match")
                .map(|field| matching(&field))
                .unwrap_or_default(),
            replaces: section
                .optional("replaces", |field| field.text())
                .map(str::to_owned),
            mode: section.read("mode", Mode::Enforce, |field| {
                field.word(&[("enforce", Mode::Enforce), ("shadow", Mode::Shadow)])
            }),
            on_missing_key: section.optional("on_missing_key", |field| field.word(&MISSING)),
            on_failure: Some(on_failure(section).unwrap_or(context.on_failure)),
            cost: section.optional("cost", cost).unwrap_or_default(),
            factor: section
                .subsection("factor")
                .and_then(|field| factor(&field)),
            prefixes: context.prefixes,
            counting: counting(section),
            reject: reject(section, context.reject),
            enabled: section.read("enabled", true, Field::boolean),
            ..Limit::unlimited(name.unwrap_or_default())
        };
        let limit = with_ban(section, limit);
        name.map(|_| limit)
    })?
}

/// The source of a caller's quota: the limit itself, or the limits service.
fn quota_from(section: &mut Section<'_>, external: ExternalSwitch) -> QuotaSource {
    let sources = [
        ("static", QuotaSource::Limit),
        ("external", QuotaSource::External),
    ];
    let source = section.read("quota_from", QuotaSource::Limit, |field| {
        field.word(&sources)
    });
    if source == QuotaSource::External && external == ExternalSwitch::Absent {
        section
            .first_of(&["quota_from"])
            .note("needs the section external, which names the service to ask");
    }
    if source == QuotaSource::External && !is_bucket(section) {
        let why = "external needs algorithm token_bucket or gcra: the service answers with average, period and burst";
        section.first_of(&["quota_from"]).note(why);
    }
    match external {
        ExternalSwitch::Off => QuotaSource::Limit,
        ExternalSwitch::Absent | ExternalSwitch::On => source,
    }
}

/// The parts of a key, each once; at least one.
fn key_parts(field: &Field<'_>) -> Vec<KeyPart> {
    let fields = field.one_or_more();
    if fields.is_empty() {
        field.note("must have at least one part; use global for one counter");
    }
    let mut parts = Vec::new();
    for field in &fields {
        match field.parsed(str::parse::<KeyPart>) {
            Some(part) if parts.contains(&part) => field.note("is listed twice"),
            Some(part) => parts.push(part),
            None => {}
        }
    }
    // Parts that cannot be read have been noted. An empty list would be noted a second time by the
    // policy.
    if parts.is_empty() {
        vec![KeyPart::Global]
    } else {
        parts
    }
}

/// `match: { path, methods, hosts, headers, query, principal, claim, domain, descriptor }`
fn matching(field: &Field<'_>) -> Match {
    let read = field.section(|section| Match {
        path: section.optional("path", |field| field.parsed(str::parse)),
        methods: section.all("methods", method),
        hosts: section.all("hosts", |field| field.parsed(str::parse)),
        headers: section.optional("headers", headers).unwrap_or_default(),
        query: section.optional("query", query).unwrap_or_default(),
        principal: section.optional("principal", values),
        claims: section.optional("claim", claims).unwrap_or_default(),
        domain: section.optional("domain", |field| field.text().map(str::to_owned)),
        descriptors: section
            .optional("descriptor", descriptors)
            .unwrap_or_default(),
    });
    read.unwrap_or_default()
}

/// A method in upper case: RFC 9110 compares them by case, and no known one has a lower-case
/// letter.
fn method(field: &Field<'_>) -> Option<String> {
    let is_token = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
    };
    field.parsed(|text| match is_token(text) {
        true => Ok(text.to_ascii_uppercase()),
        false => Err(expected("a method such as POST", text)),
    })
}

/// `name: value` for each header, or `name: "*"` for any value.
fn headers(field: &Field<'_>) -> Option<Vec<HeaderMatch>> {
    let mut headers: Vec<HeaderMatch> = Vec::new();
    for (name, field) in field.entries()? {
        let value = field
            .any_text()
            .map(|text| (text != "*").then(|| text.to_owned()));
        let name = name.to_ascii_lowercase();
        if !matches!(format!("header:{name}").parse(), Ok(KeyPart::Header(_))) {
            field.note("is not a valid header name");
        } else if headers.iter().any(|other| other.name == name) {
            field.note("is listed twice");
        } else if let Some(value) = value {
            headers.push(HeaderMatch { name, value });
        }
    }
    Some(headers)
}

/// `name: value` for each entry, or `name: "*"` for any value.
fn descriptors(field: &Field<'_>) -> Option<Vec<DescriptorMatch>> {
    let mut entries: Vec<DescriptorMatch> = Vec::new();
    for (name, field) in field.entries()? {
        let value = field
            .any_text()
            .map(|text| (text != "*").then(|| text.to_owned()));
        if name.is_empty() {
            field.note("the name of an entry must not be empty");
        } else if let Some(value) = value {
            entries.push(DescriptorMatch {
                name: name.to_owned(),
                value,
            });
        }
    }
    Some(entries)
}

/// Returns true, and notes it, when a limit begins a chain of very many replacements: checking all
/// chains takes quadratic time, and nobody could understand them. A circle is not a long chain; the
/// policy reports it.
fn has_long_chain(fields: &[Field<'_>], limits: &[Limit]) -> bool {
    /// More than any configuration needs.
    const CHAIN_MAX: usize = 32;
    let by_name: HashMap<&str, &Limit> = limits
        .iter()
        .map(|limit| (limit.name.as_str(), limit))
        .collect();
    let is_long = |first: &Limit| {
        let mut seen: Vec<&str> = Vec::new();
        let mut next = first.replaces.as_deref();
        while let Some(name) = next {
            if seen.contains(&name) {
                return false;
            }
            seen.push(name);
            next = by_name
                .get(name)
                .and_then(|limit| limit.replaces.as_deref());
            if seen.len() > CHAIN_MAX {
                return true;
            }
        }
        false
    };
    let Some(place) = limits.iter().position(is_long) else {
        return false;
    };
    let message = format!("begins a chain of more than {CHAIN_MAX} replacements: shorten it");
    read_again(&fields[place], |section| {
        section.first_of(&["replaces"]).note(message)
    });
    true
}

/// Notes limits whose counters could have the names of another limit's under the layout of an older
/// program, each at the first limit that it meets.
fn note_shared_counters(fields: &[Field<'_>], limits: &[Limit], layout: KeyLayout) {
    for (index, limit) in limits.iter().enumerate() {
        let meets = |other: &Limit| layout.may_share(limit, other);
        if let Some(first) = limits[..index].iter().position(meets) {
            let message = format!(
                "could share counters with limits[{first}] under store.key_layout {}, which leaves out the names of limits: use key_layout readable",
                layout.word()
            );
            read_again(&fields[index], |section| {
                section.first_of(&["key"]).note(message)
            });
        }
    }
}

/// Notes a mistake that the policy found. The policy quotes names where it is about them; where any
/// name comes from outside, such a message is replaced by one without names.
fn note_policy_error(fields: &[Field<'_>], error: &PolicyError) {
    let is_hidden = |field: &Field<'_>| {
        let mut hidden = false;
        read_again(field, |section| {
            hidden = ["name", "replaces"]
                .iter()
                .any(|key| section.first_of(&[key]).node.origin.hidden.is_some());
        });
        hidden
    };
    let message = match fields.iter().any(is_hidden) {
        false => error.message.clone(),
        true if error.field == "name" => {
            "is not a valid name, or is the name of another limit".to_owned()
        }
        true if error.field == "replaces" => {
            "is not the name of a limit, or that limit replaces this one in turn".to_owned()
        }
        true => error.message.clone(),
    };
    read_again(&fields[error.index], |section| {
        section.first_of(&[error.field]).note(message)
    });
}

/// Finds a key of a section that has been read already.
fn read_again<'a>(field: &Field<'a>, find: impl FnOnce(&Section<'a>)) {
    if let Value::Section(entries) = &field.node.value {
        find(&Section::new(field.clone(), entries));
    }
}
