//! `Limiter::check` for a request that meets two limits: instructions and allocations.

use std::net::IpAddr;

use super::callgrind;
use super::contestants::LocalContestant;
use super::keys::{Key, KeyKind};
use super::loads::LocalLoad;
use super::memory::allocations_of;
use crate::rate::ExpectedAnswer;

/// The section, as `--only` knows it.
pub const TWO_LIMITS: &str = "two limits";

/// The cost of one check.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TwoLimitsCost {
    /// `None` when they were not counted.
    pub instructions: Option<f64>,
    pub allocations: f64,
}

/// Measures it under the load of this name; instructions only `with_callgrind`.
pub fn measured(load: &LocalLoad, with_callgrind: bool) -> Result<TwoLimitsCost, String> {
    let contestant = LocalContestant::TwoLimits;
    let instructions = match with_callgrind {
        true => Some(callgrind::counted(contestant, KeyKind::IpAddr, load)?.per_decision),
        false => None,
    };
    Ok(TwoLimitsCost {
        instructions,
        allocations: allocations_per_check(load),
    })
}

/// Of a limiter that knows the key: the first check of a key may fill tables.
fn allocations_per_check(load: &LocalLoad) -> f64 {
    const CHECKS: u32 = 10_000;
    let rate = load.rate(ExpectedAnswer::Allowed);
    let limiter = LocalContestant::TwoLimits.build::<IpAddr>(rate, load.keys as usize);
    let limiter = limiter.expect("the limiter takes addresses");
    let key = IpAddr::nth(1);
    limiter.check(&key);
    let allocations = allocations_of(|| {
        (0..CHECKS).for_each(|_| {
            limiter.check(&key);
        });
    });
    allocations as f64 / f64::from(CHECKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_are_counted_in_the_work_only() {
        let kept = vec![1_u8; 100];
        let count = allocations_of(|| {
            std::hint::black_box(vec![2_u8; 100]);
        });
        assert!(count >= 1);
        drop(kept);
    }
}
