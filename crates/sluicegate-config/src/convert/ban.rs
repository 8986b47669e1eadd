//! `ban` of a limit: when a caller that the limit denies again and again is banned, and for how
//! long.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use sluicegate_core::{BanRule, KeyPart, Limit, Nanos, QuotaSource};

use crate::field::{Field, Section};
use crate::tree::Value;

/// More denials than any caller should have before it is banned.
const AFTER_MAX: u64 = 1_000_000;
/// The longest ban: what should stay belongs into `access.deny`.
const LASTS_MAX: Nanos = Nanos::new(30 * Nanos::DAY.get());
/// The longest ban by default.
const MAX: Nanos = Nanos::DAY;
/// Growth from one ban to the next by default: who comes back is kept out for longer.
const GROW: u64 = 2;

/// The limit with its `ban`, which is checked against the rest of it.
pub(super) fn with_ban(section: &mut Section<'_>, limit: Limit) -> Limit {
    let Some(field) = section.subsection("ban") else {
        return limit;
    };
    let ban = rule(&field);
    if ban.is_some() {
        note_nobody_to_ban(&field, section, &limit);
    }
    Limit { ban, ..limit }
}

/// `{ after, within, for, grow, max }`; `None` when it is off, or a part that it needs is missing.
fn rule(field: &Field<'_>) -> Option<BanRule> {
    field.section(|section| {
        let is_on = section.enabled();
        let after = section.need("after", "the denials that ban a caller, such as 100");
        let after = after.and_then(|field| denials(&field));
        let within = section.need("within", "the time in which they are counted, such as 1m");
        let within = within.and_then(|field| span(&field, Nanos::DAY));
        let lasts = section.need("for", "the time that a ban lasts, such as 10m");
        let lasts = lasts.and_then(|field| span(&field, LASTS_MAX));
        let grow = section.read("grow", GROW, |field| field.whole_number(1..=100));
        let max = section.optional("max", |field| span(field, LASTS_MAX));
        let rule = BanRule {
            after: after?,
            within: within?,
            lasts: lasts?,
            grow: u32::try_from(grow).unwrap_or(u32::MAX),
            max: max.unwrap_or(MAX.max(lasts?)),
        };
        if rule.max < rule.lasts {
            let message = format!("must be at least as long as for, which is {}", rule.lasts);
            section.first_of(&["max"]).note_with_value(message);
        }
        is_on.then_some(rule)
    })?
}

/// A number of denials: `100`, or `100 denials`.
fn denials(field: &Field<'_>) -> Option<u64> {
    let Value::Text(text) = &field.node.value else {
        return field.whole_number(1..=AFTER_MAX);
    };
    let number = ["denials", "denial"]
        .iter()
        .find_map(|unit| text.trim().strip_suffix(unit));
    let Some(number) = number else {
        return field.whole_number(1..=AFTER_MAX);
    };
    let number: Option<u64> = number.trim_end().parse().ok();
    let after = number.filter(|number| (1..=AFTER_MAX).contains(number));
    if after.is_none() {
        field.note_with_value(format_args!("must be 1 to {AFTER_MAX} denials"));
    }
    after
}

/// A duration in whole milliseconds, because the list of bans keeps those.
fn span(field: &Field<'_>, most: Nanos) -> Option<Nanos> {
    let span = field.duration(Nanos::MILLISECOND..=most)?;
    let is_whole = span.get().is_multiple_of(Nanos::MILLISECOND.get());
    if !is_whole {
        field.note_with_value("must be whole milliseconds");
    }
    is_whole.then_some(span)
}

/// Notes a ban that would meet nobody, or everybody.
fn note_nobody_to_ban(field: &Field<'_>, section: &Section<'_>, limit: &Limit) {
    let (has_address, has_principal) = (
        limit.key.contains(&KeyPart::ClientIp),
        limit.key.contains(&KeyPart::Principal),
    );
    if !has_address && !has_principal && is_key_readable(section) {
        field.note(
            "needs client_ip or principal in the key of the limit, which says whom to ban: add one",
        );
    }
    let families = [
        (IpAddr::V4(Ipv4Addr::UNSPECIFIED), "ipv4_prefix"),
        (IpAddr::V6(Ipv6Addr::UNSPECIFIED), "ipv6_prefix"),
    ];
    for (family, key) in families {
        if has_address && !has_principal && limit.prefixes.length(family) == 0 {
            let message = format!(
                "would ban everybody: client_ip.{key} is 0, so all clients are one network"
            );
            field.note(message);
        }
    }
    let is_unlimited = matches!(section.first_of(&["average"]).node.value, Value::Whole(0));
    if is_unlimited && limit.quota_from == QuotaSource::Limit {
        field.note("has no effect: a limit with average 0 denies nobody");
    }
}

/// Returns true when every part of the key can be read: what cannot be has been noted, and may be
/// the part that a ban needs.
fn is_key_readable(section: &Section<'_>) -> bool {
    let fields = section.first_of(&["key"]).one_or_more();
    fields.iter().all(|field| match &field.node.value {
        Value::Text(text) => text.parse::<KeyPart>().is_ok(),
        _ => false,
    })
}
