//! Any stored state, any time, any cost: no panic, and answers that hold.

use proptest::prelude::*;
use sluicegate_core::algorithm::sliding_window::Windows;
use sluicegate_core::algorithm::token_bucket::{self, Share};
use sluicegate_core::algorithm::{self, MAX_CLOCK_STEP, State};
use sluicegate_core::{Nanos, Outcome, Quota, Timestamp, TokenBucket};

use crate::cases::cases;
use crate::program::{any_quota, log};

proptest! {
    #![proptest_config(cases(12_000))]

    #[test]
    fn nothing_panics_whatever_is_stored(
        quota in extreme_quota(), stored in stored(), cost in extreme(), age in extreme(), now in extreme(),
    ) {
        let (state, now) = (stored.at(quota, now), Timestamp::from_nanos(now));
        let decided = algorithm::decide(state, quota, cost, now);
        check_sane(quota, cost, decided.outcome)?;
        let refunded = algorithm::refund(state, quota, cost, Nanos::new(age), now);
        check_sane(quota, 0, refunded.outcome)?;
        // The states that these leave, once more.
        for left in [decided.next.apply(state), refunded.next.apply(state)] {
            check_sane(quota, cost, algorithm::decide(left, quota, cost, now).outcome)?;
            algorithm::refund(left, quota, cost, Nanos::new(age), now);
        }
        if let (Quota::SlidingWindow(window), Some(State::Windows(windows))) = (quota, state) {
            windows.expires_at(window);
        }
    }

    #[test]
    fn no_lease_panics_or_hands_out_more_than_there_is(
        interval in extreme(), burst in extreme(), state in proptest::option::of(extreme()), want in extreme(),
        need in extreme(), share in (any::<u32>(), 1..=u32::MAX), now in extreme(),
    ) {
        let Ok(bucket) = TokenBucket::with_interval(Nanos::new(interval), burst) else { return Ok(()) };
        let (state, now) = (state.map(Timestamp::from_nanos), Timestamp::from_nanos(now));
        let share = Share { num: share.0, den: share.1.try_into().expect("not zero") };
        let free = token_bucket::decide(state, bucket, 0, now).outcome.remaining();
        let lease = token_bucket::lease(state, bucket, want, need, share, now);
        prop_assert!(lease.granted <= want.min(free));
        prop_assert_eq!(lease.granted == 0, want == 0 || free == 0);
        prop_assert_eq!(lease.granted + lease.step.outcome.remaining(), free);
        prop_assert_eq!(lease.step.outcome.is_allowed(), lease.granted > 0 || want == 0);
    }

    /// The promised wait is exact for states that no program of ours would have left, too: other
    /// quotas, other algorithms, garbage.
    #[test]
    fn the_promised_wait_is_exact_whatever_is_stored(
        quota in any_quota(), stored in stored(), cost in log(1 << 52), now in 0_u64..1 << 62,
    ) {
        let state = stored.at(quota, now);
        let cost = cost.min(quota.limit());
        let decided = algorithm::decide(state, quota, cost, Timestamp::from_nanos(now));
        let Outcome::Denied { retry_after, .. } = decided.outcome else { return Ok(()) };
        let left = decided.next.apply(state);
        let after = |wait: u64| algorithm::decide(left, quota, cost, Timestamp::from_nanos(now + wait)).outcome;
        prop_assert!(!after(retry_after.get() - 1).is_allowed());
        prop_assert!(after(retry_after.get()).is_allowed());
    }

    /// An earlier clock never sees more units in the same state than a later one.
    #[test]
    fn going_back_in_time_never_finds_more_units(
        quota in any_quota(), stored in stored(), now in extreme(), earlier in extreme(),
    ) {
        let state = stored.at(quota, now);
        let seen = |now| algorithm::decide(state, quota, 0, Timestamp::from_nanos(now)).outcome.remaining();
        prop_assert!(seen(now.min(earlier)) <= seen(now.max(earlier)));
    }

    /// With any stored state, a caller who waits for `retry_after` has a unit after at most a whole
    /// refill, the largest clock step that is believed, and the time a window stays in view.
    #[test]
    fn a_stored_time_absurdly_far_ahead_is_repaired(
        quota in any_quota(), stored in stored(), now in 0_u64..1 << 61,
    ) {
        let state = stored.at(quota, now);
        let decided = algorithm::decide(state, quota, 1, Timestamp::from_nanos(now));
        let Outcome::Denied { retry_after, .. } = decided.outcome else { return Ok(()) };
        prop_assert!(retry_after.get() <= 3 * quota.window().get() + MAX_CLOCK_STEP.get(), "{} is absurd", retry_after);
        let later = Timestamp::from_nanos(now).after(retry_after);
        prop_assert!(algorithm::decide(decided.next.apply(state), quota, 1, later).outcome.is_allowed());
    }
}

/// Checks what every answer promises.
fn check_sane(quota: Quota, cost: u64, outcome: Outcome) -> Result<(), TestCaseError> {
    prop_assert!(outcome.remaining() <= quota.limit());
    match outcome {
        Outcome::Allowed { .. } => prop_assert!(cost <= quota.limit()),
        Outcome::Denied {
            remaining,
            retry_after,
            ..
        } => {
            prop_assert!(remaining < cost && cost <= quota.limit());
            prop_assert!(retry_after > Nanos::ZERO);
        }
        Outcome::TooLarge { .. } => prop_assert!(cost > quota.limit()),
    }
    Ok(())
}

/// Numbers at the ends, near powers of two, and in between.
pub fn extreme() -> impl Strategy<Value = u64> {
    prop_oneof![
        2 => prop_oneof![Just(0), Just(1), Just(u64::MAX), Just(u64::MAX - 1), Just(i64::MAX as u64)],
        2 => (0_u32..64, -2_i64..3).prop_map(|(bits, off)| (1_u64 << bits).saturating_add_signed(off)),
        2 => log(u64::MAX),
        1 => any::<u64>(),
        // The present, and states that a counter of today has.
        1 => 1_700_000_000_000_000_000_u64..1_900_000_000_000_000_000,
    ]
}

/// A stored state: anything at all, or something that is nearly right.
#[derive(Clone, Copy, Debug)]
enum Stored {
    Anything(Option<State>),
    /// An instant this far after now.
    Ahead(u64),
    /// Counts of a window this many before or after the current one.
    Windows {
        off: i64,
        previous: u64,
        current: u64,
    },
}

impl Stored {
    fn at(self, quota: Quota, now: u64) -> Option<State> {
        match self {
            Self::Anything(state) => state,
            Self::Ahead(span) => Some(State::Instant(Timestamp::from_nanos(
                now.saturating_add(span),
            ))),
            Self::Windows {
                off,
                previous,
                current,
            } => {
                let index = (now / quota.window().get().max(1)).saturating_add_signed(off);
                Some(State::Windows(Windows {
                    index,
                    previous,
                    current,
                }))
            }
        }
    }
}

fn stored() -> impl Strategy<Value = Stored> {
    let counts = || prop_oneof![extreme(), log(1_000_000)];
    let windows = |(off, previous, current)| Stored::Windows {
        off,
        previous,
        current,
    };
    prop_oneof![
        1 => Just(Stored::Anything(None)),
        2 => extreme().prop_map(|at| Stored::Anything(Some(State::Instant(Timestamp::from_nanos(at))))),
        2 => (extreme(), extreme(), extreme()).prop_map(|(index, previous, current)| {
            Stored::Anything(Some(State::Windows(Windows { index, previous, current })))
        }),
        4 => log(1 << 58).prop_map(Stored::Ahead),
        4 => (-3_i64..4, counts(), counts()).prop_map(windows),
    ]
}

/// Quotas as large, slow and fast as they can be made.
fn extreme_quota() -> impl Strategy<Value = Quota> {
    let made = (0_u8..5, extreme(), extreme(), extreme()).prop_map(|(kind, a, b, c)| match kind {
        0 => Quota::new(a, Nanos::new(b), c).ok(),
        1 => TokenBucket::with_interval(Nanos::new(a), b)
            .ok()
            .map(Quota::from),
        2 => Quota::leaky_bucket(a, Nanos::from_millis(b), c).ok(),
        3 => Quota::fixed_window(a, Nanos::from_millis(b)).ok(),
        _ => Quota::sliding_window(a, Nanos::from_millis(b)).ok(),
    });
    let edge = prop_oneof![
        Just(TokenBucket::with_interval(Nanos::new(1), 1 << 52).map(Quota::from)),
        Just(TokenBucket::with_interval(Nanos::new(1 << 52), 1).map(Quota::from)),
        Just(TokenBucket::with_interval(Nanos::MAX, 0).map(Quota::from)),
        Just(Quota::leaky_bucket(1 << 51, Nanos::MILLISECOND, 1_000_000)),
        Just(Quota::leaky_bucket(1 << 42, Nanos::MILLISECOND, 1)),
        Just(Quota::leaky_bucket(
            1,
            Nanos::from_millis(1 << 42),
            1_000_000
        )),
        Just(Quota::fixed_window(1_000_000, Nanos::from_millis(1 << 42))),
        Just(Quota::sliding_window((1 << 53) - 1, Nanos::MILLISECOND)),
        Just(Quota::sliding_window(
            1,
            Nanos::from_millis(u64::MAX / 1_000_000)
        )),
    ]
    .prop_map(|made| made.expect("the bound itself is accepted"));
    prop_oneof![3 => made.prop_filter_map("accepted", |quota| quota), 1 => edge, 1 => any_quota()]
}
