//! Algorithms and models agree, step by step.

use proptest::prelude::*;
use sluicegate_core::algorithm::{self, Next};
use sluicegate_core::{Nanos, Outcome, Quota, Timestamp};

use crate::cases::cases;
use crate::history::run;
use crate::model::Model;
use crate::program::{ProgramStep, any_quota, leaky_bucket, program, start};

proptest! {
    #![proptest_config(cases(2_000))]

    /// The same decision, remaining, retry_after and reset_after at every step.
    #[test]
    fn every_algorithm_agrees_with_its_definition(quota in any_quota(), moves in program(1..120), start in start()) {
        agree(quota, &moves, start)?;
    }

    /// The leaky bucket on its own, by its definition in whole drips.
    #[test]
    fn a_leaky_bucket_drips_by_its_definition(quota in leaky_bucket(), moves in program(1..120), start in start()) {
        agree(quota, &moves, start)?;
    }

    /// A denial, a peek and a charge that is too large write nothing.
    #[test]
    fn only_admissions_change_a_counter(quota in any_quota(), moves in program(1..60), start in start()) {
        run(quota, &moves, start, |step| {
            let taken = step.outcome.is_allowed() && step.cost > 0;
            prop_assert_eq!(step.next != Next::Same, taken, "{:?}", step);
            Ok(())
        })?;
    }

    /// Denied a nanosecond before retry_after, allowed at it.
    #[test]
    fn the_promised_wait_is_exact(quota in any_quota(), moves in program(1..60), start in start()) {
        run(quota, &moves, start, |step| {
            let Outcome::Denied { retry_after, .. } = step.outcome else { return Ok(()) };
            let after = |wait: u64| {
                let at = Timestamp::from_nanos(step.now + wait);
                algorithm::decide(step.before, quota, step.cost, at).outcome
            };
            prop_assert!(retry_after > Nanos::ZERO);
            prop_assert!(!after(retry_after.get() - 1).is_allowed(), "a nanosecond early: {:?}", step);
            prop_assert!(after(retry_after.get()).is_allowed(), "as promised: {:?}", step);
            Ok(())
        })?;
    }

    /// The counter is full after reset_after, and not a nanosecond before.
    #[test]
    fn the_time_to_full_is_exact(quota in any_quota(), moves in program(1..60), start in start()) {
        run(quota, &moves, start, |step| {
            let reset_after = step.outcome.reset_after().get();
            let state = step.next.apply(step.before);
            let at = |wait: u64| algorithm::decide(state, quota, 0, Timestamp::from_nanos(step.now + wait)).outcome;
            prop_assert_eq!(at(reset_after).remaining(), quota.limit());
            prop_assert_eq!(at(reset_after).reset_after(), Nanos::ZERO);
            if reset_after > 0 {
                prop_assert!(at(reset_after - 1).reset_after() > Nanos::ZERO);
            }
            Ok(())
        })?;
    }
}

fn agree(quota: Quota, moves: &[ProgramStep], start: u64) -> Result<(), TestCaseError> {
    let mut model = Model::new(quota);
    run(quota, moves, start, |step| {
        prop_assert_eq!(
            step.outcome,
            model.decide(step.cost, step.now),
            "{:?}",
            step
        );
        Ok(())
    })
}
