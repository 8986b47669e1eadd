//! Counters whose quota has changed: a counter owes units, not time.
//!
//! The idea: a state says when a counter is full again at the pace it was written at. When it is
//! charged under a quota of another pace, the units it owes are counted at the old pace, rounded
//! up, and owed at the new one. So a caller who owes sixty units owes sixty units after an upgrade
//! and after a downgrade, and they flow back at the rate that is now in force.
//!
//! A caller may owe more units than the new quota has at all. The excess is forgiven, down to an
//! empty counter, at most once in [`FORGIVENESS_INTERVAL`] for each key. In between such a charge
//! is denied and **nothing is written**: the units flow back at the old pace until they fit.
//!
//! The invariant: a conversion creates no unit. With quotas of several paces on one counter, by
//! replicas of an old and a new configuration, no span of length `w` admits more than
//! `max(limit) + max(rate) · w` and one forgiveness a minute. Without the interval between two
//! forgivenesses there would be no such bound: the old quota would admit its burst, the new one
//! forgive it, and so on without end.
//!
//! It is not simpler because the limit that a state was written under is not known, only its pace:
//! that is all that a shared store can keep at little cost. So a debt of any size is believed here,
//! and one that no clock step explains is excess like any other.

use super::{Next, State, Step, drip, instant, sliding_window, token_bucket, windows};
use crate::decision::Outcome;
use crate::quota::{Pace, Quota};
use crate::time::{Nanos, Timestamp};

/// The time between two forgivenesses of one key.
pub const FORGIVENESS_INTERVAL: Nanos = Nanos::MINUTE;

/// The most units that are told apart: the numbers of Lua are exact up to here.
pub const UNITS_MAX: u64 = 1 << 53;

/// The state of a counter under another quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conversion {
    /// The state at the pace of the new quota; `None` for a full counter. When more is owed than
    /// the quota has, that of an empty counter.
    pub state: Option<State>,
    /// Units that the counter owes, at most [`UNITS_MAX`].
    pub units: u64,
    /// True when these are more than the new quota has.
    pub exceeds: bool,
}

/// The step of a counter that was written at another pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangedStep {
    /// The step; a state that it sets is at the pace of the new quota. [`Next::Same`] leaves the
    /// old state at its old pace.
    pub step: Step,
    /// True when the step forgives, and the instant has to be kept with the counter.
    pub forgives: bool,
}

/// Units that a counter owes: the debt in units, the level, or what is in view of a window; rounded
/// up, and at most [`UNITS_MAX`].
///
/// ```
/// use sluicegate_core::algorithm::{self, State};
/// use sluicegate_core::{Quota, Timestamp};
///
/// let slow = Quota::per_minute(60);
/// let now = Timestamp::from_millis(1_800_000_000_000);
/// let full_at = Timestamp::from_millis(1_800_000_029_500);
/// let state = Some(State::Instant(full_at));
/// assert_eq!(algorithm::units_owed(state, Quota::from(slow).pace(), now), 30);
/// ```
pub fn units_owed(state: Option<State>, pace: Pace, now: Timestamp) -> u64 {
    match pace {
        Pace::TokenBucket { interval } => token_bucket::units_owed(instant(state), interval, now),
        Pace::Drip {
            interval_ms, drip, ..
        } => drip::units_owed(instant(state), interval_ms, drip, now),
        Pace::SlidingWindow { window_ms } => {
            sliding_window::units_owed(windows(state), window_ms, now)
        }
    }
}

/// The state of a counter that owes `units`, at most the limit of the quota; `None` for none.
pub fn owing(units: u64, quota: Quota, now: Timestamp) -> Option<State> {
    owing_after(units.min(quota.limit()), quota, None, now)
}

/// Converts a state from the pace at which it was written to that of another quota.
///
/// ```
/// use sluicegate_core::algorithm;
/// use sluicegate_core::{Nanos, Quota, Timestamp};
///
/// let (slow, fast) = (Quota::from(Quota::per_minute(60)), Quota::from(Quota::per_minute(6_000)));
/// let now = Timestamp::from_millis(1_800_000_000_000);
/// let spent = algorithm::decide(None, slow, 60, now).next.apply(None);
/// let converted = algorithm::convert(spent, slow.pace(), fast, now);
/// assert_eq!((converted.units, converted.exceeds), (60, false));
/// // Sixty units are back in 0.6 seconds now.
/// let peek = algorithm::decide(converted.state, fast, 0, now);
/// assert_eq!(peek.outcome.reset_after(), Nanos::from_millis(600));
/// ```
pub fn convert(state: Option<State>, from: Pace, to: Quota, now: Timestamp) -> Conversion {
    let units = units_owed(state, from, now);
    let exceeds = units > to.limit();
    let before = match (from, instant(state)) {
        (Pace::TokenBucket { interval }, Some(full_at)) if !exceeds => Some((full_at, interval)),
        _ => None,
    };
    Conversion {
        state: owing_after(units.min(to.limit()), to, before, now),
        units,
        exceeds,
    }
}

/// Returns true when the excess of a key may be forgiven that was last forgiven at `last`, in whole
/// milliseconds. An instant ahead of now is one that a clock step put there, and counts as well.
pub fn may_forgive(last: Option<Timestamp>, now: Timestamp) -> bool {
    let interval_ms = FORGIVENESS_INTERVAL.get() / Nanos::MILLISECOND.get();
    last.is_none_or(|last| last.as_millis().abs_diff(now.as_millis()) >= interval_ms)
}

/// Decides one charge against a state that was written at `from`, the pace of the quota or another.
///
/// At its own pace that is [`super::decide`], except where a denial of a token bucket would repair an
/// instant that is too far ahead to be true. It may be true: the counter may have been charged under a
/// larger burst. So that is forgiven like any excess, once in [`FORGIVENESS_INTERVAL`] for each key.
pub fn decide_written_at(
    state: Option<State>,
    from: Pace,
    quota: Quota,
    cost: u64,
    may_forgive: bool,
    now: Timestamp,
) -> ChangedStep {
    if from == quota.pace() {
        let step = super::decide(state, quota, cost, now);
        if !repairs(&step, quota) {
            return ChangedStep {
                step,
                forgives: false,
            };
        }
    }
    decide_changed(state, from, quota, cost, may_forgive, now)
}

/// Returns true for a step of a token bucket at its own pace that forgives: a denial that writes.
#[inline]
pub fn repairs<S: PartialEq>(step: &Step<S>, quota: Quota) -> bool {
    matches!(quota, Quota::TokenBucket(_))
        && matches!(step.outcome, Outcome::Denied { .. })
        && step.next != Next::Same
}

/// Decides one charge against a state that was written at another pace.
///
/// A charge that is taken or denied stores the converted state. A peek, and a cost that never fits,
/// convert without storing. So does a charge that is denied because more is owed than the quota has
/// and `may_forgive` is false.
pub fn decide_changed(
    state: Option<State>,
    from: Pace,
    quota: Quota,
    cost: u64,
    may_forgive: bool,
    now: Timestamp,
) -> ChangedStep {
    change(state, from, quota, cost, may_forgive, now, &|state| {
        super::decide(state, quota, cost, now)
    })
}

/// Gives back units to a counter that was written at another pace, like [`super::refund`]. While
/// more is owed than the quota has and `may_forgive` is false, nothing is given back.
pub fn refund_changed(
    state: Option<State>,
    from: Pace,
    quota: Quota,
    cost: u64,
    age: Nanos,
    may_forgive: bool,
    now: Timestamp,
) -> ChangedStep {
    change(state, from, quota, 0, may_forgive, now, &|state| {
        super::refund(state, quota, cost, age, now)
    })
}

/// Runs any step on a state that was written at another pace: on the converted state.
///
/// `cost` is what the step charges; 0 where it charges nothing.
pub fn change(
    state: Option<State>,
    from: Pace,
    quota: Quota,
    cost: u64,
    may_forgive: bool,
    now: Timestamp,
    step: &dyn Fn(Option<State>) -> Step,
) -> ChangedStep {
    let converted = convert(state, from, quota, now);
    if converted.exceeds && !may_forgive {
        return ChangedStep {
            step: Step::same(outcome_of_excess(state, from, quota, cost, now)),
            forgives: false,
        };
    }
    let Step { next, outcome } = step(converted.state);
    let next = match (next, outcome, converted.state) {
        (Next::Same, Outcome::Denied { .. }, Some(state)) => Next::Set(state),
        (next, ..) => next,
    };
    ChangedStep {
        step: Step { next, outcome },
        forgives: converted.exceeds && next != Next::Same,
    }
}

/// The answer to a charge while more is owed than the quota has: it passes as soon as enough units
/// have flowed back at the old pace.
pub fn outcome_of_excess(
    state: Option<State>,
    from: Pace,
    quota: Quota,
    cost: u64,
    now: Timestamp,
) -> Outcome {
    let remaining = 0;
    let reset_after = wait_for(state, from, 0, now);
    match cost {
        0 => Outcome::Allowed {
            remaining,
            reset_after,
        },
        cost if cost > quota.limit() => Outcome::TooLarge {
            remaining,
            reset_after,
        },
        cost => Outcome::Denied {
            remaining,
            retry_after: wait_for(state, from, quota.limit() - cost, now),
            reset_after,
        },
    }
}

/// The time until a counter owes no more than `units`.
fn wait_for(state: Option<State>, pace: Pace, units: u64, now: Timestamp) -> Nanos {
    match pace {
        Pace::TokenBucket { interval } => {
            token_bucket::wait_for(instant(state), interval, units, now)
        }
        Pace::Drip {
            interval_ms, drip, ..
        } => drip::wait_for(instant(state), interval_ms, drip, units, now),
        Pace::SlidingWindow { window_ms } => {
            sliding_window::wait_for(windows(state), window_ms, units, now)
        }
    }
}

/// The state of a counter that owes `units`; `before` is the state and the interval of the token
/// bucket that they come from.
fn owing_after(
    units: u64,
    quota: Quota,
    before: Option<(Timestamp, u64)>,
    now: Timestamp,
) -> Option<State> {
    if units == 0 {
        return None;
    }
    Some(match quota {
        Quota::TokenBucket(bucket) => {
            State::Instant(token_bucket::owing(units, bucket, before, now))
        }
        Quota::Drip(bucket) => State::Instant(drip::owing(units, bucket, now)),
        Quota::SlidingWindow(window) => State::Windows(sliding_window::owing(units, window, now)),
    })
}
