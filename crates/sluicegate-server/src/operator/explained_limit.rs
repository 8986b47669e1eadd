//! Explains one limit of a request: whether it applies, why, whose counter it charges, and what is
//! left there before and after.

use serde::{Serialize, Serializer};
use sluicegate::StoreError;
use sluicegate_config::{ban_in_words, cost_in_words, counted_in_words, limit_quota_in_words};
use sluicegate_core::{
    Charge, Condition, ConsideredLimit, Cost, Counting, Key, KeyPart, Limit, LimitEffect,
    MissingKey, Mode, Nanos, Outcome, PartValue, Quota, TokenBucket,
};
use sluicegate_gate::charging::{Inspection, TermsSource};

use super::duration_words::in_words;

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
    /// The requests that it counts.
    #[serde(serialize_with = "write_counting")]
    counts: Counting,
    before: Option<CounterLevel>,
    after: Option<CounterLevel>,
    allowed: Option<bool>,
    retry_after_us: Option<u64>,
    /// When the limit bans its callers, in words; `None` when it bans nobody.
    ban: Option<String>,
    /// The status of requests that it denies.
    rejection_status: u16,
    /// All of it in words.
    pub words: String,
}

/// The relation of a limit to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum LimitStanding {
    Charged,
    Off,
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
        /// The status of the response.
        status: u16,
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

fn write_counting<S: Serializer>(counting: &Counting, serializer: S) -> Result<S::Ok, S::Error> {
    counted_in_words(counting).serialize(serializer)
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
            let (explained, consequence) = explain_charge(explained, charge, inspection, &because);
            return (explained.with_ban(), consequence);
        }
        (LimitEffect::Charged(_), None) => {}
    }
    (explained, LimitConsequence::Pass)
}

impl ExplainedLimit {
    fn of(considered: &ConsideredLimit<'_>) -> Self {
        let conditions = considered.conditions.iter();
        let why = conditions.map(|condition| condition.words.clone());
        Self::new(considered.limit, LimitStanding::Charged, why.collect())
    }

    /// A limit that is off, whatever the request is.
    pub(super) fn of_disabled(limit: &Limit) -> Self {
        let why = vec!["enabled is false".to_owned()];
        Self {
            words: format!("{} is off: nothing is counted.", limit.name),
            ..Self::new(limit, LimitStanding::Off, why)
        }
    }

    fn new(limit: &Limit, standing: LimitStanding, why: Vec<String>) -> Self {
        let own = limit.reject.as_deref();
        Self {
            name: limit.name.clone(),
            standing,
            why,
            key: None,
            parts: Vec::new(),
            quota: limit.quota.map(|quota| limit_quota_in_words(limit, quota)),
            quota_from: limit.quota.map(|_| TermsSource::Config),
            mode: limit.mode,
            cost: None,
            counts: limit.counting,
            before: None,
            after: None,
            allowed: None,
            retry_after_us: None,
            ban: (limit.ban.as_ref().filter(|_| limit.mode == Mode::Enforce)).map(ban_in_words),
            rejection_status: own.and_then(|own| own.status()).unwrap_or(429),
            words: String::new(),
        }
    }

    /// The same with the sentence about its bans, if the limit limits the request.
    fn with_ban(mut self) -> Self {
        if let Some(ban) = (self.ban.as_ref()).filter(|_| self.quota.is_some()) {
            self.words = format!("{} It bans its caller {ban}.", self.words);
        }
        self
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
    let after = match (outcome.is_allowed(), explained.counts) {
        (true, Counting::Always | Counting::RefundWhen(_)) => level_after(quota, &outcome, cost),
        (true, Counting::When(_)) | (false, _) => before,
    };
    explained.before = Some(before);
    explained.after = Some(after);
    explained.allowed = Some(outcome.is_allowed());
    explained.retry_after_us = outcome.retry_after().map(Nanos::as_micros_ceil);
    let only_watches = match explained.mode {
        Mode::Enforce => "",
        Mode::Shadow => " This limit only watches: it never refuses anybody.",
    };
    let counting = &explained.counts;
    let result = outcome_in_words(&outcome, quota, cost, after.remaining, counting);
    explained.words = format!("{terms}. {}.{only_watches}", capitalised(&result));
    let consequence = match (outcome.is_allowed(), explained.mode) {
        (true, _) | (false, Mode::Shadow) => LimitConsequence::Pass,
        (false, Mode::Enforce) => LimitConsequence::Denied {
            limit: explained.name.clone(),
            wait: outcome.retry_after(),
            status: explained.rejection_status,
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
fn outcome_in_words(
    outcome: &Outcome,
    quota: Quota,
    cost: u64,
    left_after: u64,
    counting: &Counting,
) -> String {
    let are = if quota.limit() == 1 { "is" } else { "are" };
    let left = format!("{} of {} {are} left", outcome.remaining(), quota.limit());
    match outcome {
        Outcome::Allowed { .. } => match counting {
            Counting::Always => {
                format!("{left}; this request takes {cost} and leaves {left_after}: allowed")
            }
            Counting::When(answers) => format!(
                "{left}; this request takes nothing now, and {cost} when it is answered with {answers}: allowed"
            ),
            Counting::RefundWhen(answers) => format!(
                "{left}; this request takes {cost}, which come back when it is answered with {answers}, and leaves {left_after}: allowed"
            ),
        },
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
            PartValue::Text(_)
                | PartValue::Query(_)
                | PartValue::Path(_)
                | PartValue::Address(_)
                | PartValue::Global
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

#[cfg(test)]
mod tests;
