//! The ban of a limit in sentences: who is banned, after what, and for how long.

use sluicegate_core::{BanRule, KeyPart, Limit, Mode};

/// The sentence about the bans of a limit; `None` when it has none.
pub(super) fn in_words(limit: &Limit) -> Option<String> {
    let (name, rule) = (&limit.name, limit.ban.as_ref()?);
    let (target, terms) = (target(limit), ban_in_words(rule));
    Some(match limit.mode {
        Mode::Enforce => format!("{name} bans a {target} {terms}"),
        Mode::Shadow => {
            format!("{name} would ban a {target} {terms}, but is only watched: it bans nobody")
        }
    })
}

/// What a limit does about bans, as the rest of a sentence about it.
pub(crate) fn predicate(limit: &Limit) -> String {
    match &limit.ban {
        Some(rule) => format!("bans a {} {}", target(limit), ban_in_words(rule)),
        None => "bans nobody".to_owned(),
    }
}

/// When a rule bans and for how long, such as `for 10m after 100 denials within 1m`.
///
/// ```
/// use sluicegate_config::ban_in_words;
/// use sluicegate_core::{BanRule, Nanos};
///
/// let rule = BanRule { after: 1, within: Nanos::SECOND, lasts: Nanos::HOUR, grow: 1, max: Nanos::DAY };
/// assert_eq!(ban_in_words(&rule), "for 1h after 1 denial within 1s");
/// ```
pub fn ban_in_words(rule: &BanRule) -> String {
    let BanRule {
        after,
        within,
        lasts,
        grow,
        max,
    } = rule;
    let denials = if *after == 1 { "denial" } else { "denials" };
    let first = format!("for {lasts} after {after} {denials} within {within}");
    match grow {
        1 => first,
        grow => format!("{first}, {grow} times as long each time, at most {max}"),
    }
}

/// The caller that is banned, as a noun.
fn target(limit: &Limit) -> &'static str {
    match limit.key.contains(&KeyPart::Principal) {
        true => "principal",
        false => "client address",
    }
}
