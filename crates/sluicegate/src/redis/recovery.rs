//! How long to wait before the next attempt to reach a store that is away.

use std::hash::{BuildHasher, RandomState};

use sluicegate_core::Nanos;

/// The delays between attempts: they double from `base` to `cap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// The first delay.
    pub base: Nanos,
    /// The longest delay.
    pub cap: Nanos,
}

impl Recovery {
    /// The delay after `failures` failed attempts that followed a first one, without jitter: with 1 s and 30 s these are
    /// 1, 2, 4, 8, 16, 30, 30 … seconds.
    pub fn delay(self, failures: u32) -> Nanos {
        let doubled = match 1_u64.checked_shl(failures) {
            Some(factor) => self.base.get().saturating_mul(factor),
            None => u64::MAX,
        };
        Nanos::new(doubled).min(self.cap)
    }
}

/// 50 ms up to 1 s, so that service is normal within a second of healing. 1 s up to 30 s is the gentle setting for very
/// large fleets.
impl Default for Recovery {
    fn default() -> Self {
        Self {
            base: Nanos::from_millis(50),
            cap: Nanos::SECOND,
        }
    }
}

/// The waits of one connection that is being restored.
///
/// A wait is the delay plus a uniform jitter of 0..delay, so that replicas which lost the store together do not come back
/// together. Where that sum could pass the cap, the wait is drawn from cap/2 to 9/10 of the cap instead: waits of up to
/// twice the cap would break the promise that service is normal within one cap (a second, by default) of healing, and the
/// last tenth is left for dialing.
#[derive(Clone, Debug)]
pub(super) struct Backoff {
    recovery: Recovery,
    failures: u32,
    random: u64,
}

impl Backoff {
    /// Waits that differ from those of every other process and connection.
    pub(super) fn random(recovery: Recovery) -> Self {
        // Each `RandomState` has keys of its own.
        Self::new(recovery, RandomState::new().hash_one(0))
    }

    /// The waits that belong to `seed`.
    pub(super) fn new(recovery: Recovery, seed: u64) -> Self {
        Self {
            recovery,
            failures: 0,
            random: seed,
        }
    }

    /// How long to wait after one more failed attempt.
    pub(super) fn next_wait(&mut self) -> Nanos {
        let delay = self.recovery.delay(self.failures).get();
        let cap = self.recovery.cap.get();
        self.failures = self.failures.saturating_add(1);
        if delay.saturating_mul(2) <= cap {
            return self.uniform(delay, 2 * delay);
        }
        self.uniform(cap / 2, cap - cap / 10)
    }

    /// Starts again from the base: the store has answered.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }

    /// A whole number below `bound`, for spreading other things than waits.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.uniform(0, bound.saturating_sub(1)).get()
    }

    fn uniform(&mut self, from: u64, to: u64) -> Nanos {
        let span = u128::from(to.saturating_sub(from)) + 1;
        let share = (u128::from(self.next_random()) * span) >> 64;
        Nanos::new(from.saturating_add(share as u64))
    }

    /// SplitMix64: good enough to spread waits, and the same for a seed everywhere.
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    const GENTLE: Recovery = Recovery {
        base: Nanos::SECOND,
        cap: Nanos::from_secs(30),
    };

    fn millis(nanos: Nanos) -> u64 {
        nanos.get() / Nanos::MILLISECOND.get()
    }

    #[test]
    fn delays_double_from_the_base_to_the_cap() {
        let delays = |recovery: Recovery| {
            (0..7)
                .map(|k| millis(recovery.delay(k)))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            delays(GENTLE),
            [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]
        );
        assert_eq!(
            delays(Recovery::default()),
            [50, 100, 200, 400, 800, 1_000, 1_000]
        );
        for failures in [63, 64, 65, u32::MAX] {
            assert_eq!(GENTLE.delay(failures), GENTLE.cap);
        }
    }

    #[test]
    fn a_wait_is_the_delay_plus_jitter_and_never_longer_than_nine_tenths_of_the_cap() {
        // The bounds of each wait, in milliseconds.
        let default = [
            (50, 100),
            (100, 200),
            (200, 400),
            (400, 800),
            (500, 900),
            (500, 900),
            (500, 900),
        ];
        let gentle = [
            (1, 2),
            (2, 4),
            (4, 8),
            (8, 16),
            (15, 27),
            (15, 27),
            (15, 27),
        ]
        .map(|(a, b)| (a * 1_000, b * 1_000));
        for seed in 0..1_000 {
            for (recovery, bounds) in [(Recovery::default(), default), (GENTLE, gentle)] {
                let mut backoff = Backoff::new(recovery, seed);
                for (least, most) in bounds {
                    let wait = backoff.next_wait();
                    let fits =
                        Nanos::from_millis(least) <= wait && wait <= Nanos::from_millis(most);
                    assert!(fits, "seed {seed}: {wait} is not within {least}..{most} ms");
                }
            }
        }
    }

    #[test]
    fn a_store_that_answered_is_tried_again_from_the_base() {
        let mut backoff = Backoff::new(GENTLE, 7);
        for _ in 0..10 {
            backoff.next_wait();
        }
        backoff.reset();
        assert!(backoff.next_wait() <= Nanos::from_secs(2));
    }

    #[test]
    fn a_thousand_replicas_do_not_come_back_in_the_same_moment() {
        let at_the_cap = |mut backoff: Backoff| (0..6).map(|_| backoff.next_wait()).last().unwrap();
        let seeded: Vec<Nanos> = (0..1_000)
            .map(|seed| at_the_cap(Backoff::new(Recovery::default(), seed)))
            .collect();
        let unseeded: Vec<Nanos> = (0..1_000)
            .map(|_| at_the_cap(Backoff::random(Recovery::default())))
            .collect();
        for waits in [seeded, unseeded] {
            let mut buckets: HashMap<u64, u32> = HashMap::new();
            for wait in waits {
                *buckets.entry(millis(wait) / 10).or_default() += 1;
            }
            let fullest = buckets.values().max().unwrap();
            assert!(
                *fullest <= 60,
                "{fullest} of 1,000 waits fell into the same 10 ms"
            );
        }
    }
}
