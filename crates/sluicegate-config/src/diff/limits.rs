//! Differences of the limits: which are new or gone, tighter or looser, and whose counters start
//! anew.

use std::cmp::Ordering;
use std::collections::HashMap;

use sluicegate_core::{Cost, KeyPart, Limit, Mode, OnMissingKey, Quota, QuotaSource};

use super::{Change, ChangeKind, counting};
use crate::summary::{ban, cost, failure, limit as words};
use crate::typed::Config;

/// The differences of all limits, those that are off included.
pub(super) fn changes(old: &Config, new: &Config) -> Vec<Change> {
    let before: HashMap<&str, &Limit> = by_name(old);
    let after: HashMap<&str, &Limit> = by_name(new);
    let renamed = renamed(old, &after, new, &before);
    let mut changes = Vec::new();
    for limit in all(new) {
        let name = limit.name.as_str();
        match (before.get(name), renamed.get(name)) {
            (Some(known), _) => compare(known, limit, &mut changes),
            (None, Some(known)) => changes.push(Change::new(
                ChangeKind::NewCounters,
                key(name),
                format!("{known} is called {name} now: its counters start anew"),
            )),
            (None, None) => {
                let off = if limit.enabled { "" } else { ", and off" };
                let message = format!("{name} is new{off}: {}", described(limit));
                changes.push(Change::new(ChangeKind::Added, key(name), message));
            }
        }
    }
    for limit in all(old) {
        let name = limit.name.as_str();
        if !after.contains_key(name) && !renamed.values().any(|known| *known == name) {
            let message = format!("{name} is gone: it was {}", described(limit));
            changes.push(Change::new(ChangeKind::Removed, key(name), message));
        }
    }
    changes.extend(order(old, new, &before, &after));
    changes
}

fn key(name: &str) -> String {
    format!("limits.{name}")
}

/// All limits, those that are off last.
fn all(config: &Config) -> impl Iterator<Item = &Limit> {
    let policy = &config.policy;
    policy.limits().iter().chain(policy.disabled())
}

fn by_name(config: &Config) -> HashMap<&str, &Limit> {
    all(config)
        .map(|limit| (limit.name.as_str(), limit))
        .collect()
}

/// The old name of each limit that is new by its name only.
fn renamed<'a>(
    old: &'a Config,
    after: &HashMap<&str, &Limit>,
    new: &'a Config,
    before: &HashMap<&str, &Limit>,
) -> HashMap<&'a str, &'a str> {
    let nameless = |limit: &Limit| {
        let limit = Limit {
            name: String::new(),
            ..limit.clone()
        };
        format!("{limit:?}")
    };
    let gone = all(old).filter(|limit| !after.contains_key(limit.name.as_str()));
    let mut gone: HashMap<String, &str> = gone
        .map(|limit| (nameless(limit), limit.name.as_str()))
        .collect();
    all(new)
        .filter(|limit| !before.contains_key(limit.name.as_str()))
        .filter_map(|limit| Some((limit.name.as_str(), gone.remove(&nameless(limit))?)))
        .collect()
}

/// The numbers, the callers and the conditions of a limit.
fn described(limit: &Limit) -> String {
    let quota = quota_in_words(limit);
    let callers = words::callers(&limit.key);
    match words::place(&limit.matching).as_str() {
        "" => format!("{quota}, {callers}"),
        place => format!("{quota}, {callers}, {place}"),
    }
}

fn quota_in_words(limit: &Limit) -> String {
    match limit.quota {
        None => "no limit".to_owned(),
        Some(quota) => words::numbers_at(limit, quota),
    }
}

/// Every difference of a limit that is in both configurations.
fn compare(old: &Limit, new: &Limit, changes: &mut Vec<Change>) {
    let name = &new.name;
    let mut note = |kind, message| changes.push(Change::new(kind, key(name), message));
    match (old.enabled, new.enabled) {
        (true, false) => note(
            ChangeKind::Removed,
            format!(
                "{name} is off now: it was {}, and is neither enforced nor counted",
                described(old)
            ),
        ),
        (false, true) => note(
            ChangeKind::Added,
            format!("{name} is on now: {}", described(new)),
        ),
        (false, false) if old != new => note(
            ChangeKind::Changed,
            format!("{name} is off, and changes: {}", described(new)),
        ),
        (false, false) => {}
        (true, true) => {
            compare_quotas(old, new, &mut note);
            compare_costs(old, new, &mut note);
            compare_counters(old, new, &mut note);
            compare_rules(old, new, &mut note);
            compare_bans(old, new, &mut note);
            counting::compare(old, new, &mut note);
        }
    }
}

/// The numbers: tighter, looser, or neither.
fn compare_quotas(old: &Limit, new: &Limit, note: &mut impl FnMut(ChangeKind, String)) {
    if old.quota == new.quota {
        return;
    }
    let name = &new.name;
    let (is_now, was) = (quota_in_words(new), quota_in_words(old));
    let callers = words::callers(&new.key);
    let (kind, verb) = match (old.quota, new.quota) {
        (None, _) => (ChangeKind::Tighter, "is tighter"),
        (_, None) => (ChangeKind::Looser, "is looser"),
        (Some(old), Some(new)) => match (new.limit().cmp(&old.limit()), compare_rates(new, old)) {
            (Ordering::Equal, Ordering::Equal) => (ChangeKind::Changed, "counts in another way"),
            (Ordering::Less | Ordering::Equal, Ordering::Less | Ordering::Equal) => {
                (ChangeKind::Tighter, "is tighter")
            }
            (Ordering::Greater | Ordering::Equal, Ordering::Greater | Ordering::Equal) => {
                (ChangeKind::Looser, "is looser")
            }
            (Ordering::Less, Ordering::Greater) => (
                ChangeKind::Changed,
                "admits fewer at once and more in the long run",
            ),
            (Ordering::Greater, Ordering::Less) => (
                ChangeKind::Changed,
                "admits more at once and fewer in the long run",
            ),
        },
    };
    note(
        kind,
        format!("{name} {verb}: {is_now}, {callers}; it was {was}"),
    );
}

/// The cost of a request: more is tighter.
fn compare_costs(old: &Limit, new: &Limit, note: &mut impl FnMut(ChangeKind, String)) {
    let kind = match (&old.cost, &new.cost) {
        (old, new) if old == new => return,
        (Cost::Fixed(old), Cost::Fixed(new)) if new > old => ChangeKind::Tighter,
        (Cost::Fixed(_), Cost::Fixed(_)) => ChangeKind::Looser,
        _ => ChangeKind::Changed,
    };
    let (is_now, was) = (cost::of(&new.cost), cost::of(&old.cost));
    note(
        kind,
        format!("at {}, {is_now} now; before, {was}", new.name),
    );
}

/// Compares the units per time, exactly.
fn compare_rates(one: Quota, other: Quota) -> Ordering {
    let rate = |quota| match quota {
        Quota::TokenBucket(bucket) => (1, bucket.interval()),
        Quota::Drip(bucket) => (bucket.drip(), bucket.interval()),
        Quota::SlidingWindow(window) => (quota.limit(), window.window()),
    };
    let ((units, span), (other_units, other_span)) = (rate(one), rate(other));
    let product =
        |units: u64, span: sluicegate_core::Nanos| u128::from(units) * u128::from(span.get());
    product(units, other_span).cmp(&product(other_units, span))
}

/// The counters: other keys have other names, and a sliding window keeps counts of its own.
fn compare_counters(old: &Limit, new: &Limit, note: &mut impl FnMut(ChangeKind, String)) {
    let name = &new.name;
    if old.key != new.key {
        let (is_now, was) = (words::callers(&new.key), words::callers(&old.key));
        let message =
            format!("{name} counts {is_now} now, and {was} before: its counters start anew");
        note(ChangeKind::NewCounters, message);
    } else if old.prefixes != new.prefixes && new.key.contains(&KeyPart::ClientIp) {
        let message = format!(
            "{name} counts addresses by other prefixes (client_ip.ipv4_prefix, ipv6_prefix): their counters start anew"
        );
        note(ChangeKind::NewCounters, message);
    }
    let window = |quota| match quota {
        Some(Quota::SlidingWindow(window)) => Some(window.window()),
        _ => None,
    };
    let (before, after) = (window(old.quota), window(new.quota));
    if before != after && old.quota.is_some() && new.quota.is_some() {
        let message = format!(
            "{name} counts in windows of another length or by another algorithm: its counters start anew"
        );
        note(ChangeKind::NewCounters, message);
    }
}

/// Everything but numbers and keys.
fn compare_rules(old: &Limit, new: &Limit, note: &mut impl FnMut(ChangeKind, String)) {
    let name = &new.name;
    let everywhere = |limit: &Limit| match words::place(&limit.matching) {
        place if place.is_empty() => "to all requests".to_owned(),
        place => place,
    };
    match (old.mode, new.mode) {
        (Mode::Shadow, Mode::Enforce) => note(
            ChangeKind::Tighter,
            format!("{name} rejects requests now: it was only watched"),
        ),
        (Mode::Enforce, Mode::Shadow) => note(
            ChangeKind::Looser,
            format!("{name} is only watched now: it no longer rejects"),
        ),
        _ => {}
    }
    if old.matching != new.matching && everywhere(old) == everywhere(new) {
        let place = everywhere(new);
        let message = format!("{name} applies {place} now, with another secret");
        note(ChangeKind::Changed, message);
    }
    let mut differs = |is_now: String, was: String, what: &str| {
        if is_now != was {
            note(
                ChangeKind::Changed,
                format!("{name} {what} {is_now} now, and {was} before"),
            );
        }
    };
    differs(everywhere(new), everywhere(old), "applies");
    let replaced = |limit: &Limit| limit.replaces.clone().unwrap_or_else(|| "none".to_owned());
    differs(replaced(new), replaced(old), "takes the place of");
    let source = |limit: &Limit| match limit.quota_from {
        QuotaSource::Limit => "the file".to_owned(),
        QuotaSource::External => "the limits service".to_owned(),
    };
    differs(source(new), source(old), "has its numbers from");
    let factor = |limit: &Limit| match &limit.factor {
        Some(rule) => words::factor(name, rule),
        None => format!("{name} is the same for all callers"),
    };
    if factor(new) != factor(old) || old.factor != new.factor {
        let message = format!("{}; before, {}", factor(new), factor(old));
        note(ChangeKind::Changed, message);
    }
    compare_failures(old, new, note);
}

/// The bans: who is banned, after what and for how long.
fn compare_bans(old: &Limit, new: &Limit, note: &mut impl FnMut(ChangeKind, String)) {
    let kind = match (&old.ban, &new.ban) {
        (before, after) if before == after => return,
        (None, _) => ChangeKind::Tighter,
        (_, None) => ChangeKind::Looser,
        (Some(_), Some(_)) => ChangeKind::Changed,
    };
    let (is_now, was) = (ban::predicate(new), ban::predicate(old));
    note(kind, format!("{} {is_now} now; before, it {was}", new.name));
}

/// The treatment of requests that cannot be counted.
fn compare_failures(old: &Limit, new: &Limit, note: &mut impl FnMut(ChangeKind, String)) {
    let name = &new.name;
    let missing = |limit: &Limit| match limit.missing_key_rule() {
        OnMissingKey::Reject => "are rejected".to_owned(),
        OnMissingKey::ClientIp => "are counted by address".to_owned(),
        OnMissingKey::Shared => "share one counter".to_owned(),
        OnMissingKey::Skip => match &limit.replaces {
            None => "are not counted".to_owned(),
            Some(replaced) => format!("are charged to {replaced}"),
        },
    };
    let is_same_rule = old.missing_key_rule() == new.missing_key_rule();
    // Another limit to replace is told on its own.
    if !is_same_rule {
        let message = format!(
            "requests without the key of {name} {} now, and {} before",
            missing(new),
            missing(old)
        );
        note(ChangeKind::Changed, message);
    }
    if let (Some(before), Some(after)) = (old.on_failure, new.on_failure)
        && before != after
    {
        let message = format!(
            "while the store is away, for {name} {} now; before, {}",
            failure(after),
            failure(before)
        );
        note(ChangeKind::Changed, message);
    }
}

/// The order of the limits that are in both, which decides between equally long paths.
fn order(
    old: &Config,
    new: &Config,
    before: &HashMap<&str, &Limit>,
    after: &HashMap<&str, &Limit>,
) -> Option<Change> {
    let common = |config: &'_ Config, other: &HashMap<&str, &Limit>| -> Vec<String> {
        let names = all(config).filter(|limit| limit.enabled);
        let names = names.map(|limit| limit.name.clone());
        let is_on = |name: &String| other.get(name.as_str()).is_some_and(|limit| limit.enabled);
        names.filter(is_on).collect()
    };
    (common(old, after) != common(new, before)).then(|| {
        let message = "the limits are in another order: of those that replace the same limit with equally long paths, the first wins";
        Change::new(ChangeKind::Changed, "limits", message.to_owned())
    })
}
