//! The waits between attempts to reach a server that is away.
//!
//! Drivers and the scout each have a [`Backoff`] of their own.

use std::hash::{BuildHasher, RandomState};

use sluicegate_core::Nanos;

/// The delays between attempts to reach a server that is away: they double from `base` to `cap`.
///
/// A random part is added, so that replicas which lost a server together do not return together.
///
/// ```
/// use sluicegate::{Nanos, Recovery};
///
/// let gentle = Recovery { base: Nanos::SECOND, cap: Nanos::from_secs(30) };
/// let delays: Vec<u64> = (0..7).map(|failures| gentle.delay(failures).as_secs_ceil()).collect();
/// assert_eq!(delays, [1, 2, 4, 8, 16, 30, 30]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// The first delay.
    pub base: Nanos,
    /// The longest delay.
    pub cap: Nanos,
}

impl Recovery {
    /// The delay after the first failed attempt and `failures` more, without the random part.
    pub fn delay(self, failures: u32) -> Nanos {
        let doubled = match 1_u64.checked_shl(failures) {
            Some(factor) => self.base.get().saturating_mul(factor),
            None => u64::MAX,
        };
        Nanos::new(doubled).min(self.cap)
    }
}

/// From 50 ms to 1 s, so that decisions are normal again within a second after the server is back.
/// From 1 s to 30 s is a gentle setting for very large fleets.
impl Default for Recovery {
    fn default() -> Self {
        Self {
            base: Nanos::from_millis(50),
            cap: Nanos::SECOND,
        }
    }
}

/// The waits of one task that tries to reach a server.
///
/// A wait is the delay plus a uniform jitter of 0..delay. Where that sum could exceed the cap, the
/// wait is drawn from cap/2 to 9/10 of the cap instead: otherwise it could be twice the cap, and
/// decisions must be normal again within one cap after the server is back. The last tenth is left
/// for dialling.
#[derive(Clone, Debug)]
pub(super) struct Backoff {
    recovery: Recovery,
    /// Attempts since the last reset; all but perhaps the last one failed.
    failures: u32,
    /// State of the random numbers.
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

    /// Attempts since the last reset.
    pub(super) fn attempts(&self) -> u32 {
        self.failures
    }

    /// Starts again from the base, because the server has answered.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }

    /// A whole number below `bound`, for spreading other things than waits.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.uniform(0, bound.saturating_sub(1)).get()
    }

    /// A random number from `from` to `to`, both included.
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
