//! The numbers of a limit, in each notation that is accepted: a rate with a burst, an average with
//! a period, drips, or the older `max` and `duration`.
//!
//! The keys that are present choose the notation, unless `algorithm` does; keys of another notation
//! are then mistakes. Bounds on the numbers together are those of [`Quota`], and are noted at the
//! number that a reader would change.

use sluicegate_core::{LegacyLimit, Nanos, Quota, QuotaError, parse_rate};

use crate::field::{Field, Section};
use crate::tree::Value;

/// The value of `algorithm`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    TokenBucket,
    LeakyBucket,
    FixedWindow,
    SlidingWindow,
}

/// The algorithms by name. GCRA and the token bucket are one algorithm.
const ALGORITHMS: [(&str, Algorithm); 5] = [
    ("token_bucket", Algorithm::TokenBucket),
    ("gcra", Algorithm::TokenBucket),
    ("leaky_bucket", Algorithm::LeakyBucket),
    ("fixed_window", Algorithm::FixedWindow),
    ("sliding_window", Algorithm::SlidingWindow),
];

/// The keys of each notation.
const RATE_KEYS: [&str; 4] = ["rate", "average", "period", "burst"];
const DRIP_KEYS: [&str; 3] = ["size", "drip_rate", "drip_size"];
const LEGACY_KEYS: [&str; 3] = ["max", "duration", "min_interval"];

/// Hints beside a burst of 0: programs differ in its meaning, so it is refused.
const NO_BURST: &str =
    "write 1 for a burst of one request, or leave it out for those of one period";
/// Hints beside a size or maximum of 0: programs differ in its meaning, so it is refused.
const NO_UNITS: &str =
    "enabled: false turns the limit off, average: 0 is unlimited, and access.deny refuses callers";

/// The quota of a limit; `None` is unlimited, or could not be read and has been noted.
pub(super) fn quota(limit: &mut Section<'_>) -> Option<Quota> {
    let algorithm = limit.optional("algorithm", |field| field.word(&ALGORITHMS));
    let has_legacy = !limit.present(&LEGACY_KEYS).is_empty();
    let has_drips = !limit.present(&DRIP_KEYS).is_empty();
    let has_rate = !limit.present(&RATE_KEYS).is_empty();
    // Without an algorithm a rate wins, so that stray keys of other notations are noted beside it.
    match algorithm {
        Some(Algorithm::LeakyBucket) if has_legacy && !has_drips => by_max(limit),
        Some(Algorithm::LeakyBucket) => by_drips(limit),
        Some(algorithm) => by_rate(limit, algorithm),
        None if has_drips && !has_rate => by_drips(limit),
        None if has_legacy && !has_rate => by_max(limit),
        None => by_rate(limit, Algorithm::TokenBucket),
    }
}

/// Returns true when a limit has a rate and a burst, also when their values are wrong: so that one
/// mistake does not lead to another message.
pub(super) fn is_bucket(limit: &Section<'_>) -> bool {
    if limit.has("algorithm") {
        let is_other = |text: &str| {
            ALGORITHMS
                .iter()
                .any(|(word, kind)| *word == text && *kind != Algorithm::TokenBucket)
        };
        return !matches!(&limit.first_of(&["algorithm"]).node.value, Value::Text(text) if is_other(text));
    }
    !limit.present(&RATE_KEYS).is_empty()
        || limit.present(&DRIP_KEYS).is_empty() && limit.present(&LEGACY_KEYS).is_empty()
}

/// The quota of `rate`, or of `average` and `period`; the burst is as large as the count unless
/// `burst` says otherwise.
fn by_rate(limit: &mut Section<'_>, algorithm: Algorithm) -> Option<Quota> {
    refuse_all(limit, &DRIP_KEYS, "applies to algorithm leaky_bucket only");
    refuse_all(
        limit,
        &LEGACY_KEYS,
        "cannot be combined with rate, average or algorithm",
    );
    let is_window = matches!(algorithm, Algorithm::FixedWindow | Algorithm::SlidingWindow);
    let has_burst = limit.has("burst");
    let burst = match is_window {
        true => {
            limit.refuse(
                "burst",
                "a window has no burst: remove it, or use algorithm token_bucket",
            );
            None
        }
        false => limit.optional("burst", |field| field.at_least_one(NO_BURST)),
    };
    let (count, period) = rate(limit)?;
    if count == 0 {
        return None;
    }
    let made = match algorithm {
        Algorithm::FixedWindow => Quota::fixed_window(count, period),
        Algorithm::SlidingWindow => Quota::sliding_window(count, period),
        // A burst that could not be read has been noted.
        _ if has_burst => Quota::new(count, period, burst?),
        _ => Quota::new(count, period, count),
    };
    made.map_err(|error| note_quota_error(limit, error)).ok()
}

/// The quota of a section that has `rate` and `burst` and no other notation.
pub(super) fn rate_and_burst(section: &mut Section<'_>) -> Option<Quota> {
    let burst = section.optional("burst", |field| field.at_least_one(NO_BURST));
    let has_burst = section.has("burst");
    let rate = section.need("rate", "requests per time, such as 10/s");
    let (count, period) = read_rate(&rate?)?;
    // A burst that could not be read has been noted.
    let burst = if has_burst { burst? } else { count };
    let made = Quota::new(count, period, burst);
    made.map_err(|error| note_quota_error(section, error)).ok()
}

/// Units and their period; 0 units are unlimited. Only `average` can be 0: a rate of 0 looks like a
/// block and would be the opposite.
fn rate(limit: &mut Section<'_>) -> Option<(u64, Nanos)> {
    let rate = limit.get("rate");
    let average = limit.get("average");
    let period = limit.optional("period", |field| field.duration(Nanos::new(1)..=Nanos::MAX));
    match (rate, average) {
        (Some(rate), None) => {
            limit.refuse("period", "belongs to average: a rate includes its period");
            read_rate(&rate)
        }
        (None, Some(average)) => {
            let count = average.whole_number(0..=u64::MAX)?;
            // A period that could not be read has been noted.
            let period = if limit.has("period") {
                period?
            } else {
                Nanos::SECOND
            };
            Some((count, period))
        }
        (Some(_), Some(_)) => {
            limit.refuse("average", "cannot be combined with rate");
            None
        }
        (None, None) => {
            if limit.present(&["rate", "average"]).is_empty() {
                limit
                    .field()
                    .note("needs a quota: rate, average, size or max");
            }
            None
        }
    }
}

/// A rate as text. A bare number gets the hint that it lacks its unit.
fn read_rate(field: &Field<'_>) -> Option<(u64, Nanos)> {
    if matches!(
        field.node.value,
        Value::Whole(_) | Value::Negative(_) | Value::Fraction(_)
    ) {
        field.note_with_value("expected N/(ms|s|m|h|d), such as 100/s or 5/30s");
        return None;
    }
    field.parsed(parse_rate)
}

/// The quota of `size`, `drip_rate` (a second by default) and `drip_size` (1 by default).
fn by_drips(limit: &mut Section<'_>) -> Option<Quota> {
    refuse_all(
        limit,
        &RATE_KEYS,
        "does not apply to a leaky bucket: use size, drip_rate and drip_size",
    );
    refuse_all(
        limit,
        &LEGACY_KEYS,
        "cannot be combined with size, drip_rate or drip_size",
    );
    let size = limit
        .need("size", "the units that fit into the bucket")
        .and_then(|field| field.at_least_one(NO_UNITS));
    let drip_rate = match limit.get("drip_rate") {
        Some(field) => field.duration(Nanos::MILLISECOND..=Nanos::MAX),
        None => Some(Nanos::SECOND),
    };
    let drip_size = match limit.get("drip_size") {
        Some(field) => field.whole_number(1..=u64::MAX),
        None => Some(1),
    };
    Quota::leaky_bucket(size?, drip_rate?, drip_size?)
        .map_err(|error| note_quota_error(limit, error))
        .ok()
}

/// The quota of `max`, `duration` and `min_interval`.
fn by_max(limit: &mut Section<'_>) -> Option<Quota> {
    refuse_all(
        limit,
        &RATE_KEYS,
        "cannot be combined with max, duration or min_interval",
    );
    refuse_all(
        limit,
        &DRIP_KEYS,
        "cannot be combined with max, duration or min_interval",
    );
    // The formula counts in milliseconds and would round down: a part of one is a mistake.
    let span = |field: &Field<'_>| {
        let span = field.duration(Nanos::MILLISECOND..=Nanos::MAX)?;
        let is_whole = span.get().is_multiple_of(Nanos::MILLISECOND.get());
        if !is_whole {
            field.note_with_value("must be whole milliseconds");
        }
        is_whole.then_some(span)
    };
    if limit.has("max") != limit.has("duration") {
        let (there, missing) = if limit.has("max") {
            ("max", "duration")
        } else {
            ("duration", "max")
        };
        limit
            .first_of(&[there])
            .note(format!("needs {missing} as well"));
    }
    let legacy = LegacyLimit {
        max: limit.optional("max", |field| field.at_least_one(NO_UNITS)),
        duration: limit.optional("duration", span),
        min_interval: limit.optional("min_interval", span),
    };
    // Values that could not be read have been noted; an error about them would be a second message.
    let is_read = legacy.max.is_some() == limit.has("max")
        && legacy.duration.is_some() == limit.has("duration")
        && legacy.min_interval.is_some() == limit.has("min_interval")
        && limit.has("max") == limit.has("duration");
    let made = legacy.quota().map_err(|error| {
        if is_read {
            note_quota_error(limit, error)
        }
    });
    made.ok().flatten()
}

/// Notes every key that is present and belongs to another notation.
fn refuse_all(limit: &mut Section<'_>, keys: &[&'static str], why: &str) {
    keys.iter().for_each(|key| limit.refuse(key, why));
}

/// Notes a bound that the numbers break together, at the number that a reader would change.
fn note_quota_error(limit: &Section<'_>, error: QuotaError) {
    // A number of the quota may be written under another key: a burst may be the count of a rate.
    let blamed = |what: &str| {
        let keys: &[&'static str] = match what {
            "burst" => &["burst", "rate", "average", "max", "size"],
            "size" => &["size", "max", "burst", "rate", "average"],
            "period" | "window" => &["period", "rate", "average"],
            "drip_rate" => &["drip_rate", "duration", "min_interval"],
            "drip_size" => &["drip_size", "max"],
            "duration" => &["duration"],
            "max" => &["max"],
            _ => &["rate", "average", "max", "size"],
        };
        limit.first_of(keys)
    };
    match error {
        QuotaError::TooSmall { what, min, .. } => {
            blamed(what).note_with_value(format_args!("must be at least {min}"))
        }
        QuotaError::TooLarge { what, max, .. } => {
            blamed(what).note_with_value(format_args!("must be at most {max}"))
        }
        QuotaError::NotMillis { what, .. } => {
            blamed(what).note_with_value("must be whole milliseconds")
        }
        QuotaError::TooFast { .. } => blamed("rate").note_with_value(
            "cannot be kept exactly: at most 1000000 a second, or a number that divides 1000000000",
        ),
        QuotaError::TooSlow { max } => blamed("burst").note_with_value(format_args!(
            "takes more than {} days to refill; lower it or raise the rate",
            max.get() / Nanos::DAY.get()
        )),
    }
}
