//! Explains one limit of a request: whether it applies, why, whose counter it charges, and what is
//! left there before and after.

use serde::{Serialize, Serializer};
use sluicegate::StoreError;
use sluicegate_config::{cost_in_words, limit_quota_in_words};
use sluicegate_core::{
    Charge, Condition, ConsideredLimit, Cost, Key, KeyPart, Limit, LimitEffect, MissingKey, Mode,
    Nanos, Outcome, PartValue, Quota, TokenBucket,
};
use sluicegate_gate::charging::{Inspection, TermsSource};

/// One limit, as far as it has to do with a request.
#[derive(Clone, Debug, Serialize)]
pub struct ExplainedLimit {
    name: String,
    standing: LimitStanding,
    /// The conditions that decide whether the limit applies.
    why: Vec<String>,
    /// The counter's name.
    key: Option<String>,
    parts: Vec<ExplainedPart>,
    quota: Option<String>,
    #[serde(serialize_with = "write_source")]
    quota_from: Option<TermsSource>,
    #[serde(serialize_with = "write_mode")]
    mode: Mode,
    /// The units that the request takes, or would take.
    cost: Option<u64>,
    before: Option<CounterLevel>,
    after: Option<CounterLevel>,
    allowed: Option<bool>,
    retry_after_us: Option<u64>,
    /// All of it in words.
    pub words: String,
}

/// The relation of a limit to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum LimitStanding {
    Charged,
    NotMatched,
    Replaced,
    NotLimited,
    MissingKey,
    Unknown,
}

#[derive(Clone, Debug, Serialize)]
struct ExplainedPart {
    part: String,
    value: String,
}

/// The level of a counter.
#[derive(Clone, Copy, Debug, Serialize)]
struct CounterLevel {
    remaining: u64,
    /// `None` where it depends on more than what is left.
    reset_after_us: Option<u64>,
}

/// The effect of a limit on the request as a whole.
pub(super) enum LimitConsequence {
    /// The request goes on as far as this limit is concerned.
    Pass,
    Denied {
        limit: String,
        /// `None` when no wait helps.
        wait: Option<Nanos>,
    },
    /// The limit cannot tell who is asking, with the reason.
    Unidentified(String),
    /// The counter cannot be read, with the reason.
    Unknown(String),
}

fn write_source<S: Serializer>(
    source: &Option<TermsSource>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    source.map(TermsSource::as_str).serialize(serializer)
}

fn write_mode<S: Serializer>(mode: &Mode, serializer: S) -> Result<S::Ok, S::Error> {
    let mode = match mode {
        Mode::Enforce => "enforce",
        Mode::Shadow => "shadow",
    };
    mode.serialize(serializer)
}

/// Explains a limit; `inspection` has the terms and the counter of one that is charged.
pub(super) fn explain_limit(
    considered: &ConsideredLimit<'_>,
    inspection: Option<Inspection>,
) -> (ExplainedLimit, LimitConsequence) {
    let mut explained = ExplainedLimit::of(considered);
    let name = &considered.limit.name;
    let because = because(&considered.conditions);
    match (&considered.effect, inspection) {
        (LimitEffect::NotMatched, _) => {
            let unmet = considered
                .conditions
                .iter()
                .filter(|condition| !condition.holds);
            let unmet: Vec<&str> = unmet.map(|condition| condition.words.as_str()).collect();
            explained.standing = LimitStanding::NotMatched;
            explained.words = format!("{name} does not apply: {}.", unmet.join(", and "));
        }
        (LimitEffect::ReplacedBy(other), _) => {
            let other = &other.name;
            explained.standing = LimitStanding::Replaced;
            explained.why.push(format!("{other} takes its place"));
            explained.words =
                format!("{name} would apply{because}, but {other} takes its place here.");
        }
        (LimitEffect::Unlimited, _) => {
            explained.standing = LimitStanding::NotLimited;
            explained.words = format!(
                "{name} applies{because}, but has no quota for this caller: nothing is counted."
            );
        }
        (LimitEffect::Skipped(missing), _) => {
            let lacks = lacks(missing);
            explained.standing = LimitStanding::MissingKey;
            explained.why.push(missing.to_string());
            let instead = left_to(considered.limit);
            explained.words =
                format!("{name} would apply{because}, but is left out: {lacks}.{instead}");
        }
        (LimitEffect::Unidentified(missing), _) => {
            let lacks = lacks(missing);
            explained.standing = LimitStanding::MissingKey;
            explained.allowed = Some(false);
            explained.why.push(missing.to_string());
            let unknown = unknown_fact(considered.limit, missing);
            explained.words = format!(
                "{name} applies{because}, and cannot tell {unknown}: {lacks}. Such a request gets 400."
            );
            return (explained, LimitConsequence::Unidentified(lacks));
        }
        (LimitEffect::Charged(charge), Some(inspection)) => {
            return explain_charge(explained, charge, inspection, &because);
        }
        (LimitEffect::Charged(_), None) => {}
    }
    (explained, LimitConsequence::Pass)
}

impl ExplainedLimit {
    fn of(considered: &ConsideredLimit<'_>) -> Self {
        let limit = considered.limit;
        let conditions = considered.conditions.iter();
        Self {
            name: limit.name.clone(),
            standing: LimitStanding::Charged,
            why: conditions
                .map(|condition| condition.words.clone())
                .collect(),
            key: None,
            parts: Vec::new(),
            quota: limit.quota.map(|quota| limit_quota_in_words(limit, quota)),
            quota_from: limit.quota.map(|_| TermsSource::Config),
            mode: limit.mode,
            cost: None,
            before: None,
            after: None,
            allowed: None,
            retry_after_us: None,
            words: String::new(),
        }
    }
}

/// The fact that a request is refused for: its cost, or its caller.
fn unknown_fact(limit: &Limit, missing: &MissingKey) -> &'static str {
    match &missing.part {
        Some(part @ KeyPart::Header(name))
            if limit.cost.header() == Some(name) && !limit.key.contains(part) =>
        {
            "what the request costs"
        }
        _ => "who is asking",
    }
}

/// A limit that is left out replaces nobody.
fn left_to(limit: &Limit) -> String {
    match &limit.replaces {
        Some(other) => format!(" So it does not take the place of {other}."),
        None => String::new(),
    }
}

fn lacks(missing: &MissingKey) -> String {
    match &missing.part {
        Some(part) => format!("the {} {}", part_name(part), missing.reason),
        None => missing.to_string(),
    }
}

/// `header x-tenant-id`, as people say it.
fn part_name(part: &KeyPart) -> String {
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

/// Explains a limit that charges the request.
fn explain_charge(
    mut explained: ExplainedLimit,
    charge: &Charge<'_>,
    inspection: Inspection,
    because: &str,
) -> (ExplainedLimit, LimitConsequence) {
    explained.cost = Some(charge.cost);
    if explained.why.is_empty() {
        explained.why.push("covers every request".to_owned());
    }
    explained.parts = parts(&charge.key);
    explained.quota_from = Some(inspection.source);
    let applies = format!(
        "{} applies{because}; {}",
        explained.name,
        counter_in_words(&explained.parts, &inspection.key)
    );
    explained.key = Some(inspection.key);
    let (Some(quota), Some(outcome)) = (inspection.quota, inspection.outcome) else {
        let exempted_by = match inspection.source {
            TermsSource::Override => "an operator's override",
            TermsSource::External => "the limits service",
            TermsSource::Config => "the configuration, as the limits service knows no quota,",
            TermsSource::ConfigUnasked => {
                "the configuration, if the limits service knows no quota,"
            }
        };
        explained.standing = LimitStanding::NotLimited;
        (explained.quota, explained.allowed) = (None, Some(true));
        explained.words = format!("{applies}, and {exempted_by} lets it pass without a limit.");
        return (explained, LimitConsequence::Pass);
    };
    let limit = charge.key.limit();
    let quota_words = limit_quota_in_words(limit, quota);
    explained.quota = Some(quota_words.clone());
    let costs = match limit.cost == Cost::default() {
        true => String::new(),
        false => format!(", and {}", cost_in_words(&limit.cost)),
    };
    let terms = format!("{quota_words}{}{costs}", origin(inspection.source));
    explain_outcome(
        explained,
        outcome,
        quota,
        &format!("{applies}: {terms}"),
        charge.cost,
    )
}

fn origin(source: TermsSource) -> &'static str {
    match source {
        TermsSource::Config => "",
        TermsSource::ConfigUnasked => {
            " (the limits service may say otherwise, and is not asked here)"
        }
        TermsSource::External => " (as the limits service says)",
        TermsSource::Override => " (an operator's override)",
    }
}

/// Explains what the counter of a limit holds and what the request would make of it; `terms` is the
/// sentence so far.
fn explain_outcome(
    mut explained: ExplainedLimit,
    outcome: Result<Outcome, StoreError>,
    quota: Quota,
    terms: &str,
    cost: u64,
) -> (ExplainedLimit, LimitConsequence) {
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => {
            explained.standing = LimitStanding::Unknown;
            explained.words = format!("{terms}. What is left there nobody knows: {error}.");
            return (explained, LimitConsequence::Unknown(error.to_string()));
        }
    };
    let before = CounterLevel {
        remaining: outcome.remaining(),
        reset_after_us: Some(outcome.reset_after().as_micros_ceil()),
    };
    let after = match outcome.is_allowed() {
        true => level_after(quota, &outcome, cost),
        false => before,
    };
    explained.before = Some(before);
    explained.after = Some(after);
    explained.allowed = Some(outcome.is_allowed());
    explained.retry_after_us = outcome.retry_after().map(Nanos::as_micros_ceil);
    let only_watches = match explained.mode {
        Mode::Enforce => "",
        Mode::Shadow => " This limit only watches: it never refuses anybody.",
    };
    let result = capitalised(&outcome_in_words(&outcome, quota, cost, after.remaining));
    explained.words = format!("{terms}. {result}.{only_watches}");
    let consequence = match (outcome.is_allowed(), explained.mode) {
        (true, _) | (false, Mode::Shadow) => LimitConsequence::Pass,
        (false, Mode::Enforce) => LimitConsequence::Denied {
            limit: explained.name.clone(),
            wait: outcome.retry_after(),
        },
    };
    (explained, consequence)
}

/// The counter that is charged, and by which parts of the request.
fn counter_in_words(parts: &[ExplainedPart], key: &str) -> String {
    let parts: Vec<String> = parts
        .iter()
        .map(|part| format!("{} (here {})", part.part.replacen(':', " ", 1), part.value))
        .collect();
    match &parts[..] {
        [] => format!("the counter is {key}"),
        parts => format!("it counts by {}, in the counter {key}", parts.join(" and ")),
    }
}

/// An outcome, with what is left before and after it.
fn outcome_in_words(outcome: &Outcome, quota: Quota, cost: u64, left_after: u64) -> String {
    let are = if quota.limit() == 1 { "is" } else { "are" };
    let left = format!("{} of {} {are} left", outcome.remaining(), quota.limit());
    match outcome {
        Outcome::Allowed { .. } => {
            format!("{left}; this request takes {cost} and leaves {left_after}: allowed")
        }
        Outcome::Denied { retry_after, .. } => {
            format!(
                "{left}, and this request needs {cost}: denied. It would pass in {}",
                in_words(*retry_after)
            )
        }
        Outcome::TooLarge { .. } => {
            format!(
                "this request asks for {cost} at once, which is more than it ever holds: denied"
            )
        }
    }
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map(|first| first.to_uppercase().chain(letters).collect())
        .unwrap_or_default()
}

/// The parts of a key with their values; empty for a key that is not made of the request's own
/// parts, such as a tenant's.
fn parts(key: &Key<'_>) -> Vec<ExplainedPart> {
    let is_own = |value: &PartValue<'_>| {
        matches!(
            value,
            PartValue::Text(_) | PartValue::Query(_) | PartValue::Address(_) | PartValue::Global
        )
    };
    if !key.parts().all(|value| is_own(&value)) {
        return Vec::new();
    }
    let names = key.limit().key.iter();
    names
        .zip(key.parts())
        .map(|(part, value)| ExplainedPart {
            part: part.to_string(),
            value: value.to_string(),
        })
        .collect()
}

/// The counter after the charge is taken.
fn level_after(quota: Quota, before: &Outcome, cost: u64) -> CounterLevel {
    let reset_after = match quota {
        Quota::TokenBucket(bucket) => Some(lengthened(before.reset_after(), bucket, cost)),
        Quota::Drip(_) | Quota::SlidingWindow(_) => None,
    };
    CounterLevel {
        remaining: before.remaining().saturating_sub(cost),
        reset_after_us: reset_after.map(Nanos::as_micros_ceil),
    }
}

fn lengthened(span: Nanos, bucket: TokenBucket, cost: u64) -> Nanos {
    let taken = bucket.interval().get().saturating_mul(cost);
    Nanos::new(span.get().saturating_add(taken))
}

/// A duration as people say it, rounded up so that it is never too short.
pub(super) fn in_words(span: Nanos) -> String {
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
mod tests;
