//! A limit in sentences: its numbers, its callers, its conditions, and what is unusual about it.

use sluicegate_core::{
    Cost, FactorRule, KeyPart, Limit, Match, Mode, Nanos, Quota, QuotaSource, ScaledPart,
    TokenBucket,
};

use super::{ban, conditions, cost, counting, joined, rejection, replacement, store};
use crate::redact::shown_header;
use crate::typed::{Config, StoreKind};

/// The first sentence has the numbers; one more follows for each unusual setting.
pub(super) fn in_words(limit: &Limit, config: &Config) -> Vec<String> {
    let name = &limit.name;
    let place = place(&limit.matching);
    let what = match limit.quota {
        Some(quota) => format!(
            "{}{}, {}",
            numbers_at(limit, quota),
            or_else(limit),
            callers(&limit.key)
        ),
        None => format!("no limit{}", or_else(limit)),
    };
    let comma = if place.is_empty() { "" } else { ", " };
    let mut words = vec![format!("{name}: {what}{comma}{place}")];
    if let Some(replaced) = &limit.replaces {
        let place = if place.is_empty() {
            "everywhere".to_owned()
        } else {
            place
        };
        let off = config.policy.disabled();
        words.push(match off.iter().any(|limit| limit.name == *replaced) {
            true => format!("{name} would take the place of {replaced}, which is off"),
            false => format!("{name} takes the place of {replaced} {place}"),
        });
        words.extend(replacement::in_words(limit, replaced, config));
    }
    words.extend(cost::in_words(limit));
    if let Some(factor) = &limit.factor {
        words.push(self::factor(name, factor));
    }
    words.extend(counting::in_words(limit));
    words.extend(rejection::of_limit(limit, config));
    if limit.mode == Mode::Shadow {
        words.push(format!("{name} is only watched: it never rejects"));
    }
    words.extend(ban::in_words(limit));
    let has_principals = config.principals.api_keys.is_some() || config.principals.jwt.is_some();
    if limit.needs_principal() && !has_principals {
        words.push(format!(
            "{name} is about principals, and none are configured"
        ));
    }
    match limit.on_failure {
        Some(policy)
            if policy != config.store.on_failure
                && matches!(config.store.kind, StoreKind::Redis(_)) =>
        {
            words.push(format!(
                "while the store is away, for {name} {}",
                store::failure(policy)
            ));
        }
        _ => {}
    }
    words
}

/// The numbers that a factor divides, and where it comes from.
pub(crate) fn factor(name: &str, rule: &FactorRule) -> String {
    let divided = match rule.applies_to {
        ScaledPart::Size => format!("{name} is divided"),
        ScaledPart::Rate => format!("the rate of {name} is divided"),
        ScaledPart::Both => format!("size and rate of {name} are divided"),
    };
    let claim = &rule.claim;
    if rule.roles.is_empty() {
        return format!("{divided} by the claim {claim} of the caller");
    }
    let of_role = |(role, factor)| format!("{factor} for {role}");
    let roles: Vec<String> = rule.roles.iter().map(of_role).collect();
    let default = rule.default;
    format!(
        "{divided} by the claim {claim} of the caller: {}, else {default}",
        roles.join(", ")
    )
}

/// The addition to the numbers of a limit whose quota may come from outside.
fn or_else(limit: &Limit) -> &'static str {
    match limit.quota_from {
        QuotaSource::Limit => "",
        QuotaSource::External => ", or what the limits service says",
    }
}

/// A quota in words, such as `at most 20 requests at once and 10 a second`.
///
/// ```
/// use sluicegate_config::quota_in_words;
/// use sluicegate_core::{Nanos, Quota};
///
/// let window = Quota::fixed_window(100, Nanos::MINUTE)?;
/// assert_eq!(quota_in_words(window), "at most 100 requests in each 1m of the clock");
/// # Ok::<(), sluicegate_core::QuotaError>(())
/// ```
pub fn numbers(quota: Quota) -> String {
    numbers_of(quota, "request")
}

/// The quota of one caller of a limit in words: of units, where requests cost more than one.
///
/// ```
/// use sluicegate_config::limit_quota_in_words;
/// use sluicegate_core::{Limit, Quota};
///
/// let quota = Quota::from(Quota::per_second(10).burst(20));
/// let upload = Limit::new("upload", quota).cost(5);
/// let words = limit_quota_in_words(&upload, quota);
/// assert_eq!(words, "at most 20 units at once and 10 a second");
/// ```
pub fn numbers_at(limit: &Limit, quota: Quota) -> String {
    numbers_of(quota, noun(limit))
}

/// What the quota of a limit counts: requests, unless they cost more than one unit.
fn noun(limit: &Limit) -> &'static str {
    match limit.cost {
        Cost::Fixed(1) => "request",
        Cost::Fixed(_) | Cost::Header(_) => "unit",
    }
}

/// A quota of requests or of units.
fn numbers_of(quota: Quota, noun: &str) -> String {
    let requests = |count: u64| match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    };
    match quota {
        Quota::TokenBucket(bucket) => format!(
            "at most {} at once and {}",
            requests(quota.limit()),
            rate(&bucket)
        ),
        Quota::Drip(bucket) if bucket.is_fixed_window() => {
            format!(
                "at most {} in each {} of the clock",
                requests(quota.limit()),
                bucket.interval()
            )
        }
        Quota::Drip(bucket) => {
            let come = if bucket.drip() == 1 {
                "1 comes".to_owned()
            } else {
                format!("{} come", bucket.drip())
            };
            format!(
                "at most {} at once, of which {come} back every {}",
                requests(quota.limit()),
                bucket.interval()
            )
        }
        Quota::SlidingWindow(window) => format!(
            "at most {} in any {}",
            requests(quota.limit()),
            window.window()
        ),
    }
}

/// The rate in the shortest unit in which it is a whole number. The interval was rounded up when
/// the quota was made, so the count is found by rounding and checked by making the interval again.
fn rate(bucket: &TokenBucket) -> String {
    let interval = bucket.interval().get();
    let units = [
        (Nanos::SECOND, "second"),
        (Nanos::MINUTE, "minute"),
        (Nanos::HOUR, "hour"),
        (Nanos::DAY, "day"),
    ];
    let whole = units.iter().find_map(|(period, unit)| {
        let count = (period.get() + interval / 2)
            .checked_div(interval)
            .filter(|count| *count > 0)?;
        (period.get().div_ceil(count) == interval)
            .then(|| format!("{count} {} {unit}", article(unit)))
    });
    whole.unwrap_or_else(|| format!("one every {}", bucket.interval()))
}

/// `a second`, `an hour`.
fn article(unit: &str) -> &'static str {
    if unit == "hour" { "an" } else { "a" }
}

/// The callers who have a counter of their own.
pub(crate) fn callers(key: &[KeyPart]) -> String {
    match key {
        [KeyPart::Global] => "for all requests together".to_owned(),
        parts => format!(
            "for each {}",
            joined(&parts.iter().map(part).collect::<Vec<_>>(), "and")
        ),
    }
}

/// A part of a key as a noun.
fn part(part: &KeyPart) -> String {
    match part {
        KeyPart::ClientIp => "client address".to_owned(),
        KeyPart::PathSegment(number) => format!("segment {number} of the path"),
        KeyPart::Header(name) => format!("header {name}"),
        KeyPart::Query(name) => format!("{name} in the query"),
        KeyPart::Cookie(name) => format!("cookie {name}"),
        KeyPart::Sni => "TLS server name".to_owned(),
        KeyPart::Claim(name) => format!("claim {name}"),
        KeyPart::Descriptor(name) => format!("descriptor {name}"),
        KeyPart::Method | KeyPart::Host | KeyPart::Path | KeyPart::Principal | KeyPart::Global => {
            part.to_string()
        }
    }
}

/// The conditions: `for POST below /api at a.example with x-beta`; empty for everything.
pub(crate) fn place(matching: &Match) -> String {
    let mut words = Vec::new();
    if !matching.methods.is_empty() {
        words.push(format!("for {}", joined(&matching.methods, "or")));
    }
    if let Some(path) = &matching.path {
        words.push(format!("below {path}"));
    }
    if !matching.hosts.is_empty() {
        words.push(format!("at {}", joined(&matching.hosts, "or")));
    }
    if !matching.headers.is_empty() {
        let header = |header: &sluicegate_core::HeaderMatch| match &header.value {
            Some(value) => shown_header(&header.name, value),
            None => header.name.clone(),
        };
        words.push(format!(
            "with {}",
            joined(
                &matching.headers.iter().map(header).collect::<Vec<_>>(),
                "and"
            )
        ));
    }
    words.extend(conditions::in_words(matching));
    if !matching.descriptors.is_empty() {
        let entry = |entry: &sluicegate_core::DescriptorMatch| match &entry.value {
            Some(value) => format!("{}={value}", entry.name),
            None => format!("any {}", entry.name),
        };
        let entries: Vec<String> = matching.descriptors.iter().map(entry).collect();
        words.push(format!("for descriptors of {}", joined(&entries, "and")));
    }
    if let Some(domain) = &matching.domain {
        words.push(format!("in domain {domain}"));
    }
    words.join(" ")
}
