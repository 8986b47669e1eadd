//! What would happen to a request, limit by limit, in words; nothing is charged.

use serde::Serialize;
use sluicegate::{StoreError, Verdict};
use sluicegate_config::quota_in_words;
use sluicegate_core::{
    Charge, Condition, ConsideredLimit, Key, KeyPart, LimitEffect, Mode, Nanos, Outcome, PartValue,
    Quota, TokenBucket,
};

/// What would happen, and why.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    verdict: &'static str,
    /// One sentence.
    pub summary: String,
    /// The wait after which it would pass if nobody else spends; `None` when no wait helps or nobody can say.
    would_pass_after_us: Option<u64>,
    /// Who the caller is, as its credential or the question says.
    principal: Option<String>,
    /// What a list or a ban says about the caller, if anything.
    list: Option<String>,
    /// Every limit there is, in order.
    pub limits: Vec<ExplainedLimit>,
}

/// What one limit has to do with it.
#[derive(Clone, Debug, Serialize)]
pub struct ExplainedLimit {
    name: String,
    standing: &'static str,
    why: Vec<String>,
    key: Option<String>,
    parts: Vec<ExplainedPart>,
    quota: Option<String>,
    quota_from: Option<&'static str>,
    mode: &'static str,
    before: Option<Level>,
    after: Option<Level>,
    allowed: Option<bool>,
    retry_after_us: Option<u64>,
    /// All of it in words.
    pub words: String,
}

#[derive(Clone, Debug, Serialize)]
struct ExplainedPart {
    part: String,
    value: String,
}

/// How full a counter is.
#[derive(Clone, Copy, Debug, Serialize)]
struct Level {
    remaining: u64,
    /// Not told where it depends on more than what is left.
    reset_after_us: Option<u64>,
}

/// A charge that was looked at.
pub(crate) struct Looked {
    /// What holds for it; `None` is no limit.
    pub(crate) quota: Option<Quota>,
    pub(crate) quota_from: &'static str,
    pub(crate) key: String,
    /// What it met, with nothing taken.
    pub(crate) met: Result<Outcome, StoreError>,
}

/// Of a quota that a service may know better, which is not asked.
pub(crate) const UNASKED: &str = "unasked";

/// What is known about the caller of a request besides its limits.
pub(crate) struct Who {
    pub(crate) principal: Option<String>,
    pub(crate) listed: Option<Listed>,
    /// Why its credential is not accepted.
    pub(crate) unauthorized: Option<String>,
}

/// What a list says about the caller of a request.
pub(crate) enum Listed {
    /// It is never limited.
    Allowed(String),
    /// It does not pass.
    Refused(String),
}

/// What every limit has to say; `looked` has what the charged ones met, each in its place.
pub(crate) fn explain(
    considered: &[ConsideredLimit<'_>],
    looked: Vec<Option<Looked>>,
    cost: u64,
    who: Who,
) -> Explanation {
    let each = considered
        .iter()
        .zip(looked)
        .map(|(considered, looked)| limit(considered, looked, cost));
    let (limits, endings): (Vec<ExplainedLimit>, Vec<Ending>) = each.unzip();
    let (verdict, summary, wait) = match (&who.listed, &who.unauthorized) {
        (Some(Listed::Refused(why)), _) => {
            ("refused", format!("It is refused with 403: {why}."), None)
        }
        (Some(Listed::Allowed(why)), None) => (
            "forward",
            format!("It passes without being limited: {why}."),
            Some(Nanos::ZERO),
        ),
        (_, Some(why)) => match together(&endings) {
            // Limits that need no credential come first.
            ("forward", ..) => (
                "unauthorized",
                format!("It is refused with 401: {why}."),
                None,
            ),
            sooner => sooner,
        },
        (None, None) => together(&endings),
    };
    let list = who.listed.map(|listed| match listed {
        Listed::Allowed(why) | Listed::Refused(why) => why,
    });
    let would_pass_after_us = wait.map(Nanos::as_micros_ceil);
    Explanation {
        verdict,
        summary,
        would_pass_after_us,
        principal: who.principal,
        list,
        limits,
    }
}

/// What the answer of a limit means for the request as a whole.
enum Ending {
    /// It goes on as far as this limit is concerned.
    Pass,
    Denied {
        limit: String,
        wait: Option<Nanos>,
    },
    Unidentified(String),
    Unknown(String),
}

fn together(endings: &[Ending]) -> (&'static str, String, Option<Nanos>) {
    for ending in endings {
        if let Ending::Unidentified(why) = ending {
            return (
                "unidentified",
                format!("It is refused with 400: {why}."),
                None,
            );
        }
    }
    for ending in endings {
        if let Ending::Unknown(why) = ending {
            let summary = format!(
                "Nobody can say: {why}. What happens then is on_failure of the limit or the store."
            );
            return ("unavailable", summary, None);
        }
    }
    let denials: Vec<(&str, Option<Nanos>)> = endings
        .iter()
        .filter_map(|ending| match ending {
            Ending::Denied { limit, wait } => Some((limit.as_str(), *wait)),
            _ => None,
        })
        .collect();
    if denials.is_empty() {
        return ("forward", "It passes.".to_owned(), Some(Nanos::ZERO));
    }
    let names: Vec<&str> = denials.iter().map(|(name, _)| *name).collect();
    let wait = denials
        .iter()
        .map(|(_, wait)| *wait)
        .collect::<Option<Vec<_>>>()
        .and_then(|waits| waits.into_iter().max());
    let when = match wait {
        Some(wait) => format!(
            "It would pass in {}, if nobody else spends before",
            span(wait)
        ),
        None => "No wait helps: it asks for more than the limit ever holds".to_owned(),
    };
    (
        "reject",
        format!("It is refused with 429 by {}. {when}.", names.join(" and ")),
        wait,
    )
}

fn limit(
    considered: &ConsideredLimit<'_>,
    looked: Option<Looked>,
    cost: u64,
) -> (ExplainedLimit, Ending) {
    let limit = considered.limit;
    let mut explained = ExplainedLimit {
        name: limit.name.clone(),
        standing: "charged",
        why: considered
            .conditions
            .iter()
            .map(|condition| condition.words.clone())
            .collect(),
        key: None,
        parts: Vec::new(),
        quota: limit.quota.map(quota_in_words),
        quota_from: limit.quota.map(|_| "config"),
        mode: if limit.mode == Mode::Enforce {
            "enforce"
        } else {
            "shadow"
        },
        before: None,
        after: None,
        allowed: None,
        retry_after_us: None,
        words: String::new(),
    };
    let name = &limit.name;
    let because = because(&considered.conditions);
    match (&considered.effect, looked) {
        (LimitEffect::NotMatched, _) => {
            let unmet = considered
                .conditions
                .iter()
                .filter(|condition| !condition.holds);
            let unmet: Vec<&str> = unmet.map(|condition| condition.words.as_str()).collect();
            explained.standing = "not_matched";
            explained.words = format!("{name} does not apply: {}.", unmet.join(", and "));
            (explained, Ending::Pass)
        }
        (LimitEffect::ReplacedBy(other), _) => {
            explained.standing = "replaced";
            explained
                .why
                .push(format!("{} takes its place", other.name));
            explained.words = format!(
                "{name} would apply{because}, but {} takes its place here.",
                other.name
            );
            (explained, Ending::Pass)
        }
        (LimitEffect::Unlimited, _) => {
            explained.standing = "not_limited";
            explained.words = format!(
                "{name} applies{because}, but has no quota for this caller: nothing is counted."
            );
            (explained, Ending::Pass)
        }
        (LimitEffect::Skipped(missing), _) => {
            explained.standing = "missing_key";
            explained.why.push(missing.to_string());
            explained.words = format!(
                "{name} would apply{because}, but is left out: {}.",
                lacks(missing)
            );
            (explained, Ending::Pass)
        }
        (LimitEffect::Unidentified(missing), _) => {
            explained.standing = "missing_key";
            explained.allowed = Some(false);
            explained.why.push(missing.to_string());
            explained.words = format!(
                "{name} applies{because}, and cannot tell who is asking: {}. Such a request gets 400.",
                lacks(missing)
            );
            (explained, Ending::Unidentified(lacks(missing)))
        }
        (LimitEffect::Charged(charge), Some(looked)) => {
            charged(explained, charge, looked, &because, cost)
        }
        (LimitEffect::Charged(_), None) => (explained, Ending::Pass),
    }
}

fn lacks(missing: &sluicegate_core::MissingKey) -> String {
    match &missing.part {
        Some(part) => format!("the {} {}", name_of(part), missing.reason),
        None => missing.to_string(),
    }
}

/// `header x-tenant-id`, as it is said.
fn name_of(part: &KeyPart) -> String {
    part.to_string().replacen(':', " ", 1)
}

fn because(conditions: &[Condition]) -> String {
    let words: Vec<&str> = conditions
        .iter()
        .map(|condition| condition.words.as_str())
        .collect();
    if words.is_empty() {
        " to every request".to_owned()
    } else {
        format!(" because {}", words.join(" and "))
    }
}

fn charged(
    mut explained: ExplainedLimit,
    charge: &Charge<'_>,
    looked: Looked,
    because: &str,
    cost: u64,
) -> (ExplainedLimit, Ending) {
    if explained.why.is_empty() {
        explained.why.push("covers every request".to_owned());
    }
    explained.parts = parts(&charge.key);
    explained.quota_from = Some(if looked.quota_from == UNASKED {
        "config"
    } else {
        looked.quota_from
    });
    let name = explained.name.clone();
    let who = who(&explained.parts, &looked.key);
    explained.key = Some(looked.key);
    let Some(quota) = looked.quota else {
        explained.standing = "not_limited";
        (explained.quota, explained.allowed) = (None, Some(true));
        let why = if looked.quota_from == "override" {
            "an operator's override"
        } else {
            "the limits service"
        };
        explained.words =
            format!("{name} applies{because}; {who}, and {why} lets it pass without a limit.");
        return (explained, Ending::Pass);
    };
    let from = match looked.quota_from {
        "override" => " (an operator's override)",
        "external" => " (as the limits service says)",
        UNASKED => " (the limits service may say otherwise, and is not asked here)",
        _ => "",
    };
    let numbers = format!("{}{from}", quota_in_words(quota));
    explained.quota = Some(quota_in_words(quota));
    let outcome = match looked.met {
        Ok(outcome) => outcome,
        Err(error) => {
            explained.standing = "unknown";
            explained.words = format!(
                "{name} applies{because}; {who}: {numbers}. What is left there nobody knows: {error}."
            );
            return (explained, Ending::Unknown(error.to_string()));
        }
    };
    let before = Level {
        remaining: outcome.remaining(),
        reset_after_us: Some(outcome.reset_after().as_micros_ceil()),
    };
    explained.before = Some(before);
    explained.allowed = Some(outcome.is_allowed());
    explained.retry_after_us = outcome.retry_after().map(Nanos::as_micros_ceil);
    let after = if outcome.is_allowed() {
        after(quota, &outcome, cost)
    } else {
        before
    };
    explained.after = Some(after);
    let watches = explained.mode == "shadow";
    let ending = ending(&outcome, quota, cost, after.remaining);
    let watching = if watches {
        " This limit only watches: it never refuses anybody."
    } else {
        ""
    };
    explained.words = format!(
        "{name} applies{because}; {who}: {numbers}. {}.{watching}",
        capital(&ending)
    );
    let ending = match outcome.is_allowed() || watches {
        true => Ending::Pass,
        false => Ending::Denied {
            limit: name,
            wait: outcome.retry_after(),
        },
    };
    (explained, ending)
}

/// Whose counter it is.
fn who(parts: &[ExplainedPart], key: &str) -> String {
    let parts: Vec<String> = parts
        .iter()
        .map(|part| format!("{} (here {})", part.part.replacen(':', " ", 1), part.value))
        .collect();
    match &parts[..] {
        [] => format!("the counter is {key}"),
        parts => format!("it counts by {}, in the counter {key}", parts.join(" and ")),
    }
}

/// What an outcome means, with what is left before and after it.
fn ending(outcome: &Outcome, quota: Quota, cost: u64, left_after: u64) -> String {
    let are = if quota.limit() == 1 { "is" } else { "are" };
    let left = format!("{} of {} {are} left", outcome.remaining(), quota.limit());
    match outcome {
        Outcome::Allowed { .. } => {
            format!("{left}; this request takes {cost} and leaves {left_after}: allowed")
        }
        Outcome::Denied { retry_after, .. } => {
            format!(
                "{left}, and this request needs {cost}: denied. It would pass in {}",
                span(*retry_after)
            )
        }
        Outcome::TooLarge { .. } => {
            format!(
                "this request asks for {cost} at once, which is more than it ever holds: denied"
            )
        }
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map(|first| first.to_uppercase().chain(letters).collect())
        .unwrap_or_default()
}

fn parts(key: &Key<'_>) -> Vec<ExplainedPart> {
    let names = key.limit().key.iter();
    let of_caller = |value: &PartValue<'_>| {
        matches!(
            value,
            PartValue::Text(_) | PartValue::Address(_) | PartValue::Global
        )
    };
    if !key.parts().all(|value| of_caller(&value)) {
        return Vec::new();
    }
    names
        .zip(key.parts())
        .map(|(part, value)| ExplainedPart {
            part: part.to_string(),
            value: value.to_string(),
        })
        .collect()
}

/// What would be left if the charge were taken.
fn after(quota: Quota, before: &Outcome, cost: u64) -> Level {
    let reset_after = match quota {
        Quota::TokenBucket(bucket) => Some(longer(before.reset_after(), bucket, cost)),
        Quota::Drip(_) | Quota::SlidingWindow(_) => None,
    };
    Level {
        remaining: before.remaining().saturating_sub(cost),
        reset_after_us: reset_after.map(Nanos::as_micros_ceil),
    }
}

fn longer(span: Nanos, bucket: TokenBucket, cost: u64) -> Nanos {
    Nanos::new(
        span.get()
            .saturating_add(bucket.interval().get().saturating_mul(cost)),
    )
}

/// What a charge meets, with nothing taken: the request asks for more than there can be besides, and is all or nothing.
pub(crate) fn for_a_look<'a>(charge: Charge<'a>) -> [Charge<'a>; 2] {
    let charge = Charge {
        enforced: true,
        ..charge
    };
    [
        charge,
        Charge {
            cost: u64::MAX,
            ..charge
        },
    ]
}

/// What the first of those charges met.
pub(crate) fn met(verdict: &Verdict) -> Result<Outcome, StoreError> {
    match verdict {
        Verdict::Forward(decision) | Verdict::Reject(decision) => {
            match decision.outcomes().next() {
                Some((_, charged)) => Ok(charged.outcome),
                None => Err(StoreError::Unavailable(
                    "the limit was not asked".to_owned(),
                )),
            }
        }
        Verdict::Unavailable { error, .. } | Verdict::ForwardUnchecked(error) => Err(error.clone()),
        Verdict::Unidentified(missing) => Err(StoreError::Unavailable(missing.to_string())),
    }
}

/// A span as people say it, rounded up.
fn span(span: Nanos) -> String {
    let micros = span.as_micros_ceil();
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{} ms", micros.div_ceil(1_000)),
        1_000_000..120_000_000 => {
            let tenths = micros.div_ceil(100_000);
            if tenths.is_multiple_of(10) {
                format!("{} s", tenths / 10)
            } else {
                format!("{}.{} s", tenths / 10, tenths % 10)
            }
        }
        _ => {
            let seconds = micros.div_ceil(1_000_000);
            match (seconds / 3_600, seconds % 3_600 / 60, seconds % 60) {
                (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
                (hours, minutes, _) => format!("{hours} h {} min", minutes + 1),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use sluicegate::{Limiter, LocalStore, ManualClock};
    use sluicegate_core::{Limit, Policy, Subject, Timestamp};

    use super::*;

    #[test]
    fn spans_are_told_as_people_say_them_and_never_too_short() {
        for (nanos, told) in [
            (1, "1 µs"),
            (999_001, "1 ms"),
            (1_000_001, "2 ms"),
            (1_500_000_000, "1.5 s"),
            (58_000_000_000, "58 s"),
            (58_000_000_001, "58.1 s"),
            (130_000_000_000, "2 min 10 s"),
            (7_320_000_000_000, "2 h 3 min"),
        ] {
            assert_eq!(span(Nanos::new(nanos)), told);
        }
    }

    /// For every kind of quota: what is told is what then happens, and telling it changes nothing.
    #[tokio::test]
    async fn a_look_tells_what_a_charge_would_meet_and_takes_nothing() {
        let quotas = [
            Quota::from(Quota::per_second(10).burst(20)),
            Quota::leaky_bucket(20, Nanos::from_millis(300), 3).unwrap(),
            Quota::fixed_window(20, Nanos::SECOND).unwrap(),
            Quota::sliding_window(20, Nanos::SECOND).unwrap(),
        ];
        for quota in quotas {
            let clock = ManualClock::new(Timestamp::from_millis(1_800_000_000_100));
            let policy = Policy::new([Limit::per_client("a", quota)]).unwrap();
            let limiter = Limiter::new(policy, LocalStore::default(), clock.clone());
            let policy = limiter.policy();
            let subject = Subject {
                client_ip: Some("203.0.113.7".parse().unwrap()),
                ..Subject::ANONYMOUS
            };
            for cost in [7, 13, 1, 20, 21] {
                for _ in 0..3 {
                    let charges = policy.charges_for(&subject, cost).unwrap();
                    let looked =
                        met(&limiter.decide(&policy, &for_a_look(charges[0])).await).unwrap();
                    let peeked = met(&limiter.peek(&subject).await).unwrap();
                    assert_eq!(looked.remaining(), peeked.remaining(), "{quota:?}");
                    let real = met(&limiter.check(&subject, cost).await).unwrap();
                    assert_eq!(looked.is_allowed(), real.is_allowed(), "{quota:?}: {cost}");
                    match real {
                        Outcome::Allowed {
                            remaining,
                            reset_after,
                        } => {
                            let told = after(quota, &looked, cost);
                            assert_eq!(told.remaining, remaining);
                            assert!(
                                told.reset_after_us
                                    .is_none_or(|told| told == reset_after.as_micros_ceil())
                            );
                        }
                        denied => assert_eq!(looked, denied, "{quota:?}: {cost}"),
                    }
                    clock.advance(Nanos::from_millis(130));
                }
            }
        }
    }
}
