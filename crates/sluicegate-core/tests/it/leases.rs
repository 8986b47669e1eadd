//! Units handed out in advance come from the same bucket (worked rows 36 to 39 are in golden.txt).

use proptest::prelude::*;
use sluicegate_core::algorithm::Next;
use sluicegate_core::algorithm::token_bucket::{self, Lease, Share};
use sluicegate_core::{Nanos, Outcome, Quota, Timestamp, TokenBucket};

use crate::cases::cases;
use crate::history::{Admission, broken_span};
use crate::program::{END, log, program, start, token_bucket};

const AT: fn(u64) -> Timestamp = Timestamp::from_nanos;

fn hundred() -> TokenBucket {
    Quota::per_second(100)
}

#[test]
fn a_lease_takes_half_of_what_is_left_or_what_is_waited_for() {
    let granted =
        |want, need| token_bucket::lease(None, hundred(), want, need, Share::HALF, AT(0)).granted;
    assert_eq!(granted(10, 0), 10, "all that is wanted");
    assert_eq!(granted(80, 0), 50, "half of what is there");
    assert_eq!(granted(80, 70), 70, "those who wait already");
    assert_eq!(granted(200, 200), 100, "never more than there is");
    assert_eq!(granted(0, 0), 0);
}

#[test]
fn the_last_unit_is_leased_too() {
    let one_left = token_bucket::decide(None, hundred(), 99, AT(0))
        .next
        .apply(None);
    let Lease { granted, step } =
        token_bucket::lease(one_left, hundred(), 5, 0, Share::HALF, AT(0));
    assert_eq!((granted, step.outcome.remaining()), (1, 0));
}

#[test]
fn a_lease_of_nothing_says_how_long_to_wait_for_a_unit() {
    let empty = token_bucket::decide(None, hundred(), 100, AT(0))
        .next
        .apply(None);
    let Lease { granted, step } = token_bucket::lease(empty, hundred(), 50, 0, Share::HALF, AT(3));
    assert_eq!((granted, step.next), (0, Next::Same));
    assert_eq!(step.outcome.retry_after(), Some(Nanos::new(9_999_997)));
    let blocked = TokenBucket::with_interval(Nanos::SECOND, 0).unwrap();
    let Lease { granted, step } = token_bucket::lease(None, blocked, 50, 0, Share::HALF, AT(0));
    assert_eq!(
        (granted, step.outcome.retry_after()),
        (0, None),
        "a burst of 0 blocks everything"
    );
}

#[test]
fn a_lease_repairs_a_stored_time_absurdly_far_ahead() {
    let far_ahead = Some(AT(Nanos::DAY.get()));
    let Lease { granted, step } =
        token_bucket::lease(far_ahead, hundred(), 50, 0, Share::HALF, AT(0));
    assert_eq!(
        (granted, step.next),
        (0, Next::Set(AT(Nanos::SECOND.get())))
    );
}

proptest! {
    #![proptest_config(cases(2_000))]

    /// Leases and single units share one bound.
    #[test]
    fn leases_and_charges_together_keep_the_bound(
        rated in token_bucket(), moves in program(1..100), needs in proptest::collection::vec(log(1 << 20), 100),
        start in start(),
    ) {
        let Quota::TokenBucket(bucket) = rated.quota else { panic!("not a token bucket") };
        let (mut state, mut now, mut last) = (None, start, None::<Outcome>);
        let mut taken = Vec::new();
        for (step, need) in moves.iter().zip(needs) {
            now += step.wait(rated.quota, last);
            if now > END {
                break;
            }
            let want = step.cost(rated.quota);
            let need = if need % 2 == 0 { 0 } else { need.min(want) };
            let lease = token_bucket::lease(state, bucket, want, need, Share::HALF, AT(now));
            state = lease.step.next.apply(state);
            last = Some(lease.step.outcome);
            taken.push(Admission { at: now, cost: lease.granted });
        }
        prop_assert_eq!(broken_span(&taken, |span| rated.most(span)), None);
    }
}
