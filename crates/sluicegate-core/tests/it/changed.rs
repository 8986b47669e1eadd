//! Counters whose pace changes between two charges: the units owed stay, and none is created.

use proptest::prelude::*;
use sluicegate_core::algorithm::{self, Next, State, UNITS_MAX};
use sluicegate_core::{Nanos, Outcome, Pace, Quota, Timestamp};

use crate::cases::cases;
use crate::history::{Admission, broken_span, state_after};
use crate::program::{ProgramStep, any_quota, log, program, start, token_bucket};

/// A counter as a store keeps it: the state, its pace, and the last forgiveness.
#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    state: Option<State>,
    pace: Option<Pace>,
    forgiven_at: Option<Timestamp>,
}

impl Counter {
    fn charge(&mut self, quota: Quota, cost: u64, now: Timestamp) -> Outcome {
        let may_forgive = algorithm::may_forgive(self.forgiven_at, now);
        let pace = self.pace.unwrap_or(quota.pace());
        if pace == quota.pace() {
            let step = algorithm::decide(self.state, quota, cost, now);
            self.state = step.next.apply(self.state);
            self.pace = Some(pace);
            return step.outcome;
        }
        let changed = algorithm::decide_changed(self.state, pace, quota, cost, may_forgive, now);
        if changed.step.next != Next::Same {
            self.state = changed.step.next.apply(self.state);
            self.pace = Some(quota.pace());
        }
        if changed.forgives {
            self.forgiven_at = Some(now);
        }
        changed.step.outcome
    }

    /// Takes as many units as there are.
    fn take_all(&mut self, quota: Quota, now: Timestamp) -> u64 {
        let left = self.charge(quota, 0, now).remaining();
        let is_taken = left > 0 && self.charge(quota, left, now).is_allowed();
        u64::from(is_taken) * left
    }

    fn units(&self, now: Timestamp) -> u64 {
        self.pace
            .map_or(0, |pace| algorithm::units_owed(self.state, pace, now))
    }
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn any_sequence_of_changes_keeps_the_units_owed(
        first in any_quota(), then in proptest::collection::vec(any_quota(), 1..8),
        moves in program(1..30), start in start(),
    ) {
        let (mut state, now) = state_after(first, &moves, start);
        let mut pace = first.pace();
        let owed = algorithm::units_owed(state, pace, now);
        for quota in then {
            let converted = algorithm::convert(state, pace, quota, now);
            prop_assert_eq!(converted.units, owed, "{:?}", quota);
            prop_assert_eq!(converted.exceeds, owed > quota.limit());
            let expected = owed.min(quota.limit());
            prop_assert_eq!(algorithm::units_owed(converted.state, quota.pace(), now), expected);
            let peek = algorithm::decide(converted.state, quota, 0, now);
            prop_assert_eq!(peek.outcome.remaining(), quota.limit() - expected, "{:?}", quota);
            if !converted.exceeds {
                (state, pace) = (converted.state, quota.pace());
            }
        }
    }

    /// The units of a state are what its own quota says: all that is not remaining.
    #[test]
    fn units_owed_are_the_units_that_are_missing(
        quota in any_quota(), moves in program(1..30), start in start(),
    ) {
        let (state, now) = state_after(quota, &moves, start);
        let missing = quota.limit() - algorithm::decide(state, quota, 0, now).outcome.remaining();
        prop_assert_eq!(algorithm::units_owed(state, quota.pace(), now), missing);
    }

    #[test]
    fn a_peek_and_a_cost_that_never_fits_write_nothing(
        old in any_quota(), new in any_quota(), moves in program(1..30), start in start(),
        may_forgive in any::<bool>(),
    ) {
        let (state, now) = state_after(old, &moves, start);
        for cost in [0, new.limit() + 1, u64::MAX] {
            let looked = algorithm::decide_changed(state, old.pace(), new, cost, may_forgive, now);
            prop_assert_eq!((looked.step.next, looked.forgives), (Next::Same, false));
        }
    }

    /// Whoever owes more than the new quota has is denied until it fits, exactly that long, and
    /// the counter stays as it was.
    #[test]
    fn an_excess_that_is_not_forgiven_is_kept_and_its_wait_is_exact(
        old in any_quota(), new in any_quota(), moves in program(1..30), start in start(),
        part in 1_u64..256,
    ) {
        let (state, now) = state_after(old, &moves, start);
        prop_assume!(algorithm::convert(state, old.pace(), new, now).exceeds);
        let cost = (u128::from(new.limit()) * u128::from(part) / 256).max(1) as u64;
        let denied = algorithm::decide_changed(state, old.pace(), new, cost, false, now);
        prop_assert_eq!((denied.step.next, denied.forgives), (Next::Same, false));
        let Outcome::Denied { retry_after, reset_after, remaining: 0 } = denied.step.outcome else {
            return Err(TestCaseError::fail(format!("{:?}", denied.step.outcome)));
        };
        let at = |wait: Nanos| {
            let at = now.after(wait);
            algorithm::decide_changed(state, old.pace(), new, cost, false, at).step.outcome
        };
        prop_assert!(at(retry_after).is_allowed(), "as promised, after {}", retry_after);
        prop_assert!(!at(Nanos::new(retry_after.get() - 1)).is_allowed(), "1 ns early");
        prop_assert_eq!(algorithm::units_owed(state, old.pace(), now.after(reset_after)), 0);
    }

    #[test]
    fn an_upgrade_is_felt_at_the_next_request(
        old in token_bucket(), new in token_bucket(), moves in program(1..30), start in start(),
    ) {
        prop_assume!(new.quota.limit() >= old.quota.limit() && new.quota.pace() != old.quota.pace());
        let (state, now) = state_after(old.quota, &moves, start);
        let owed = algorithm::units_owed(state, old.quota.pace(), now);
        let step = algorithm::decide_changed(state, old.quota.pace(), new.quota, 1, false, now).step;
        prop_assert_eq!(step.outcome.is_allowed(), owed < new.quota.limit());
        let interval = new.quota.window().get() / new.quota.limit();
        if let Some(retry_after) = step.outcome.retry_after() {
            prop_assert!(retry_after.get() <= interval, "{}", retry_after);
        }
    }

    /// With the forgiveness that everybody has once a minute.
    #[test]
    fn a_downgrade_locks_nobody_out_for_longer_than_the_new_quota_takes_to_refill(
        old in any_quota(), new in any_quota(), moves in program(1..30), start in start(),
        part in 1_u64..256,
    ) {
        prop_assume!(old.pace() != new.pace());
        let (state, now) = state_after(old, &moves, start);
        let cost = (u128::from(new.limit()) * u128::from(part) / 256).max(1) as u64;
        let step = algorithm::decide_changed(state, old.pace(), new, cost, true, now).step;
        // Counts of a sliding window leave the view during the next window.
        let longest = match new {
            Quota::SlidingWindow(_) => 2 * new.window().get(),
            Quota::TokenBucket(_) | Quota::Drip(_) => new.window().get(),
        };
        let wait = step.outcome.retry_after().map_or(0, Nanos::get);
        prop_assert!(wait <= longest, "{} of {:?}", wait, new);
        let owed = algorithm::units_owed(step.next.apply(state), new.pace(), now);
        prop_assert!(step.outcome.is_allowed() || owed <= new.limit());
    }

    /// Replicas of an old and a new configuration on one key for ten minutes, greedy at every step.
    #[test]
    fn two_configurations_side_by_side_create_no_units(
        one in small_bucket(), other in small_bucket(), start in start(),
        turns in proptest::collection::vec((any::<bool>(), turn()), 200..400),
    ) {
        let mut counter = Counter::default();
        let mut now = Timestamp::from_nanos(start);
        let mut admitted = Vec::new();
        for (is_other, wait) in turns {
            now = now.after(wait);
            if now.since(Timestamp::from_nanos(start)) > Nanos::from_secs(600) {
                break;
            }
            let quota = if is_other { other } else { one };
            let cost = counter.take_all(quota, now);
            // A denial too, which may convert or forgive.
            counter.charge(quota, 1, now);
            if cost > 0 {
                admitted.push(Admission { at: now.as_nanos(), cost });
            }
        }
        prop_assert_eq!(broken_span(&admitted, |span| most_of_both(one, other, span)), None);
    }

    /// A caller that asks both all the time still gets its rate.
    #[test]
    fn two_configurations_side_by_side_let_units_come_back(
        one in small_bucket(), other in small_bucket(), start in start(), parts in 2_u64..40,
    ) {
        let slower = interval(one).max(interval(other));
        let mut counter = Counter::default();
        let mut now = Timestamp::from_nanos(start);
        let first = counter.take_all(one, now) + counter.take_all(other, now);
        let mut admitted = 0;
        for turn in 0..parts * 40 {
            now = now.after(Nanos::new(slower / parts));
            let quota = if turn % 2 == 0 { one } else { other };
            admitted += u64::from(counter.charge(quota, 1, now).is_allowed());
        }
        // Forty times the interval of the slower one; an excess may have to flow back first.
        let due = 40_u64.saturating_sub(first) / 2;
        prop_assert!(admitted >= due, "{} of {} after {}", admitted, due, first);
    }

    #[test]
    fn from_a_change_on_the_new_bound_holds(
        old in any_quota(), new in token_bucket(), first in program(1..30), then in program(1..100),
        start in start(),
    ) {
        prop_assume!(old.pace() != new.quota.pace());
        let (state, now) = state_after(old, &first, start);
        let mut counter = Counter { state, pace: Some(old.pace()), forgiven_at: None };
        let admitted = admissions(&mut counter, new.quota, &then, now);
        prop_assert_eq!(broken_span(&admitted, |span| new.most(span)), None);
    }

    /// Whatever a shared store holds is read without overflow.
    #[test]
    fn any_state_at_any_pace_is_converted(
        state in any_state(), pace in any_quota(), quota in any_quota(), now in any::<u64>(),
        cost in any::<u64>(), may_forgive in any::<bool>(), age in any::<u64>(),
    ) {
        let (now, pace) = (Timestamp::from_nanos(now), pace.pace());
        let converted = algorithm::convert(Some(state), pace, quota, now);
        prop_assert!(converted.units <= UNITS_MAX);
        algorithm::decide_changed(Some(state), pace, quota, cost, may_forgive, now);
        algorithm::refund_changed(Some(state), pace, quota, cost, Nanos::new(age), may_forgive, now);
    }
}

fn admissions(
    counter: &mut Counter,
    quota: Quota,
    moves: &[ProgramStep],
    from: Timestamp,
) -> Vec<Admission> {
    let (mut now, mut last) = (from.as_nanos(), None);
    let mut admitted = Vec::new();
    for step in moves {
        now += step.wait(quota, last);
        if now > crate::program::END {
            break;
        }
        let cost = step.cost(quota);
        let outcome = counter.charge(quota, cost, Timestamp::from_nanos(now));
        last = Some(outcome);
        if outcome.is_allowed() && cost > 0 {
            admitted.push(Admission { at: now, cost });
        }
    }
    admitted
}

/// max(B) + max(r) · t, and one forgiveness a minute of the difference of both bursts.
fn most_of_both(one: Quota, other: Quota, span: u64) -> u128 {
    let fastest = interval(one).min(interval(other));
    let forgivenesses = span / Nanos::MINUTE.get() + 1;
    let difference = one.limit().abs_diff(other.limit());
    u128::from(one.limit().max(other.limit()))
        + u128::from(span / fastest)
        + u128::from(forgivenesses * difference)
}

fn interval(quota: Quota) -> u64 {
    quota.window().get() / quota.limit()
}

/// A token bucket of few units, where a single unit too many shows.
fn small_bucket() -> impl Strategy<Value = Quota> {
    (1_u64..200, log(60), 1_u64..60).prop_map(|(count, seconds, burst)| {
        Quota::new(count, Nanos::from_secs(seconds), burst).unwrap()
    })
}

fn turn() -> impl Strategy<Value = Nanos> {
    prop_oneof![
        3 => Just(Nanos::ZERO),
        4 => (0_u64..2_000).prop_map(Nanos::from_millis),
        2 => (0_u64..20_000).prop_map(Nanos::from_millis),
        1 => (59_900_u64..60_100).prop_map(Nanos::from_millis),
    ]
}

fn any_state() -> impl Strategy<Value = State> {
    let windows = |(index, previous, current)| {
        State::Windows(algorithm::sliding_window::Windows {
            index,
            previous,
            current,
        })
    };
    prop_oneof![
        any::<u64>().prop_map(|nanos| State::Instant(Timestamp::from_nanos(nanos))),
        (any::<u64>(), any::<u64>(), any::<u64>()).prop_map(windows),
    ]
}

/// Ten a second, a hundred at once, all spent: one a minute afterwards is one a minute.
#[test]
fn a_tightened_limit_hands_out_nothing_at_once() {
    let (old, new) = (
        Quota::from(Quota::per_second(10).burst(100)),
        Quota::from(Quota::per_minute(1).burst(100)),
    );
    let now = Timestamp::from_millis(1_800_000_000_000);
    let mut counter = Counter::default();
    assert!(counter.charge(old, 100, now).is_allowed());
    let denied = counter.charge(new, 1, now);
    assert_eq!(denied.retry_after(), Some(Nanos::MINUTE));
    assert_eq!((denied.remaining(), counter.units(now)), (0, 100));
}

#[test]
fn excess_is_forgiven_once_a_minute() {
    let (old, new) = (
        Quota::from(Quota::per_minute(6).burst(100)),
        Quota::from(Quota::per_second(1).burst(10)),
    );
    let start = Timestamp::from_millis(1_800_000_000_000);
    let mut counter = Counter::default();
    assert_eq!(counter.take_all(old, start), 100);
    let forgiven = counter.charge(new, 1, start);
    assert_eq!(forgiven.retry_after(), Some(Nanos::SECOND), "empty");
    assert_eq!(counter.units(start), 10);
    assert_eq!(counter.take_all(old, start), 90, "the other admits again");
    let just_before = start.after(Nanos::from_millis(59_999));
    let denied = counter.charge(new, 1, just_before);
    assert!(denied.retry_after() > Some(Nanos::from_secs(800)), "kept");
    assert_eq!(counter.pace, Some(old.pace()), "and nothing is written");
    let forgiven = counter.charge(new, 1, start.after(Nanos::MINUTE));
    assert_eq!(forgiven.retry_after(), Some(Nanos::SECOND));
}
