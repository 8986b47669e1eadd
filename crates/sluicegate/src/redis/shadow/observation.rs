//! An observation: the state of one counter in one reply, and its packed form.
//!
//! The idea: one observation is eight words, exactly one cache line, so a prediction reads one line
//! of memory. `table` stores the words without knowing what they mean; only this file does.
//!
//! ```text
//! word  0     1                         2            3           4..7
//!       hash  kind, has state, call_us  received_at  server_now  quota and state
//!
//!       token bucket    interval  burst  full_at           0
//!       drip, fixed     interval  size   drip              end and slack
//!       sliding window  length    limit  index of window   previous count, current count
//! ```
//!
//! **Invariant:** packing loses only to the safe side. The time before `received_at` is rounded up,
//! and a count that is too large becomes smaller; neither denies a charge that Redis would admit.

use sluicegate_core::algorithm::sliding_window::Windows;
use sluicegate_core::algorithm::{self, State};
use sluicegate_core::{Nanos, Pace, Quota, Timestamp};

use super::table::CoarseInstant;

/// The packed form of an observation, the hash first.
pub(super) type PackedWords = [u64; PackedObservation::WORDS];

/// The state of one counter in one reply, and when that was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::redis) struct Observation {
    /// The quota that the charge was decided under.
    pub quota: Quota,
    /// The state after the charge, by the server's clock; `None` for a full counter.
    pub state: Option<State>,
    /// The server's time of the decision. It lies between the next two instants.
    pub server_now: Timestamp,
    /// When the call was sent, by the caller's clock, or a little earlier.
    pub sent_at: Timestamp,
    /// When the reply was received, by the caller's clock, or a little later.
    pub received_at: Timestamp,
}

impl Observation {
    /// When the counter is full again, by the caller's clock: from then on the observation has no
    /// use. The table keeps the counters for which that is furthest away.
    pub(super) fn end(&self) -> CoarseInstant {
        let reset_after = match (self.quota, self.state) {
            (_, None) => Nanos::ZERO,
            (Quota::TokenBucket(bucket), Some(State::Instant(full_at))) => {
                full_at.since(self.server_now).min(bucket.tolerance())
            }
            (quota, state) => algorithm::decide(state, quota, 0, self.server_now)
                .outcome
                .reset_after(),
        };
        self.now().after(reset_after.get())
    }

    /// When the reply was received, in the coarse time of the table.
    pub(super) fn now(&self) -> CoarseInstant {
        CoarseInstant::from_nanos(self.received_at.as_nanos())
    }

    /// The packed form; `None` for a reply that took more than an hour, which nobody waits for.
    pub(super) fn packed(&self, hash: u64) -> Option<PackedWords> {
        // Rounded up, so that `sent_at` becomes earlier: a denial is judged for the longest time.
        let call_us = self
            .received_at
            .since(self.sent_at)
            .get()
            .div_ceil(MICROSECOND);
        let call_us = u64::from(u32::try_from(call_us).ok()?);
        let has_state = if self.state.is_some() { HAS_STATE } else { 0 };
        let (kind, [first, second, third, fourth]) = self.packed_quota_and_state();
        Some([
            hash,
            kind | has_state | call_us << CALL_SHIFT,
            self.received_at.as_nanos(),
            self.server_now.as_nanos(),
            first,
            second,
            third,
            fourth,
        ])
    }

    /// The kind of the quota, and the last four words: numbers of the quota, then of the state.
    fn packed_quota_and_state(&self) -> (u64, [u64; 4]) {
        let instant = match self.state {
            Some(State::Instant(instant)) => instant.as_nanos(),
            Some(State::Windows(_)) | None => 0,
        };
        let limit = self.quota.limit();
        match self.quota {
            Quota::TokenBucket(bucket) => {
                (TOKEN_BUCKET, [bucket.interval().get(), limit, instant, 0])
            }
            Quota::Drip(bucket) => {
                let numbers = [bucket.interval().get(), limit, bucket.drip(), instant];
                (drip_kind(bucket.is_fixed_window()), numbers)
            }
            Quota::SlidingWindow(window) => {
                let (index, previous, current) = match self.state {
                    Some(State::Windows(windows)) => {
                        (windows.index, windows.previous, windows.current)
                    }
                    Some(State::Instant(_)) | None => (0, 0, 0),
                };
                // A count that does not fit is packed as the largest that does: a smaller debt than
                // the real one denies nobody wrongly.
                let half = |count: u64| count.min(u64::from(u32::MAX));
                let counts = half(previous) << 32 | half(current);
                (
                    SLIDING_WINDOW,
                    [window.window().get(), limit, index, counts],
                )
            }
        }
    }
}

fn drip_kind(is_fixed_window: bool) -> u64 {
    if is_fixed_window { FIXED_WINDOW } else { DRIP }
}

const MICROSECOND: u64 = 1_000;
// Word 1: bits 0–7 the kind, bit 8 whether there is a state, bits 32–63 the duration of the call
// in microseconds.
const CALL_SHIFT: u32 = 32;
const HAS_STATE: u64 = 1 << 8;
const KIND: u64 = HAS_STATE - 1;
const TOKEN_BUCKET: u64 = 0;
const DRIP: u64 = 1;
const FIXED_WINDOW: u64 = 2;
const SLIDING_WINDOW: u64 = 3;

/// An observation in its packed form, as the table returns it.
#[derive(Clone, Copy)]
pub(super) struct PackedObservation(pub(super) PackedWords);

impl PackedObservation {
    /// Words of an observation: one cache line.
    pub(super) const WORDS: usize = 8;

    #[inline]
    pub(super) fn server_now(&self) -> Timestamp {
        Timestamp::from_nanos(self.0[3])
    }

    #[inline]
    pub(super) fn received_at(&self) -> Timestamp {
        Timestamp::from_nanos(self.0[2])
    }

    #[inline]
    pub(super) fn sent_at(&self) -> Timestamp {
        self.received_at()
            .before(Nanos::new((self.0[1] >> CALL_SHIFT) * MICROSECOND))
    }

    /// Returns true when the observation was made under this quota. After a change of the quota the
    /// stored numbers mean something else.
    #[inline]
    pub(super) fn is_of(&self, quota: &Quota) -> bool {
        let [_, head, _, _, first, second, third, _] = self.0;
        let kind = head & KIND;
        match quota {
            Quota::TokenBucket(bucket) => {
                kind == TOKEN_BUCKET && first == bucket.interval().get() && second == quota.limit()
            }
            Quota::Drip(bucket) => {
                let own_kind = drip_kind(bucket.is_fixed_window());
                let numbers = (bucket.interval().get(), quota.limit(), bucket.drip());
                kind == own_kind && (first, second, third) == numbers
            }
            Quota::SlidingWindow(window) => {
                kind == SLIDING_WINDOW && first == window.window().get() && second == quota.limit()
            }
        }
    }

    /// The state, by the server's clock; `None` for a full counter.
    #[inline]
    pub(super) fn state(&self) -> Option<State> {
        let [_, head, _, _, _, _, third, fourth] = self.0;
        if head & HAS_STATE == 0 {
            return None;
        }
        Some(match head & KIND {
            TOKEN_BUCKET => State::Instant(Timestamp::from_nanos(third)),
            SLIDING_WINDOW => {
                let (previous, current) = (fourth >> 32, fourth & u64::from(u32::MAX));
                State::Windows(Windows {
                    index: third,
                    previous,
                    current,
                })
            }
            _ => State::Instant(Timestamp::from_nanos(fourth)),
        })
    }

    /// The pace of the quota that the observation was made under.
    fn pace(&self) -> Pace {
        let [_, head, _, _, first, _, third, _] = self.0;
        let millis = first / Nanos::MILLISECOND.get();
        match head & KIND {
            TOKEN_BUCKET => Pace::TokenBucket { interval: first },
            SLIDING_WINDOW => Pace::SlidingWindow { window_ms: millis },
            kind => Pace::Drip {
                interval_ms: millis,
                drip: third,
                aligned: kind == FIXED_WINDOW,
            },
        }
    }

    /// The state at `now`, converted to the caller's clock and to the pace of the quota that the
    /// counter has now. `None` when the counter was full.
    pub(super) fn moved_to(&self, now: Timestamp, quota: &Quota) -> Option<State> {
        let from = self.server_now().after(now.since(self.received_at()));
        let mut state = self.state()?;
        if self.pace() != quota.pace() {
            state = algorithm::convert(Some(state), self.pace(), *quota, from).state?;
        }
        Some(match (quota, state) {
            (Quota::TokenBucket(_), State::Instant(full_at)) => {
                State::Instant(now.after(full_at.since(from)))
            }
            (_, State::Instant(packed)) => {
                // The end is in whole milliseconds; the digits below hold the slack and must not
                // move.
                let slack = packed.as_nanos() % Nanos::MILLISECOND.get();
                let left_ms = packed.as_millis().saturating_sub(from.as_millis());
                let end = Timestamp::from_millis(now.as_millis().saturating_add(left_ms));
                State::Instant(end.after(Nanos::new(slack)))
            }
            (_, State::Windows(windows)) => {
                let window_ms = (quota.window().get() / Nanos::MILLISECOND.get()).max(1);
                let index = (windows.index + now.as_millis() / window_ms)
                    .saturating_sub(from.as_millis() / window_ms);
                State::Windows(Windows { index, ..windows })
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: fn(u64) -> Timestamp = Timestamp::from_millis;

    fn observation(quota: Quota, state: Option<State>) -> Observation {
        Observation {
            quota,
            state,
            server_now: AT(100_000),
            sent_at: AT(5_000),
            received_at: AT(5_010),
        }
    }

    fn packed(observation: Observation) -> PackedObservation {
        PackedObservation(observation.packed(7).expect("not long on its way"))
    }

    fn quotas() -> [Quota; 8] {
        let sliding = |limit, seconds| {
            Quota::sliding_window(limit, Nanos::from_secs(seconds)).expect("a quota")
        };
        [
            Quota::per_second(10).burst(2).into(),
            Quota::per_second(10).burst(3).into(),
            Quota::per_second(11).burst(2).into(),
            Quota::leaky_bucket(2, Nanos::SECOND, 1).expect("a quota"),
            Quota::leaky_bucket(2, Nanos::SECOND, 2).expect("a quota"),
            Quota::fixed_window(2, Nanos::SECOND).expect("a quota"),
            sliding(2, 1),
            sliding(2, 2),
        ]
    }

    #[test]
    fn packing_an_observation_loses_nothing() {
        for quota in quotas() {
            let windows = State::Windows(Windows {
                index: 9,
                previous: 3,
                current: u64::from(u32::MAX),
            });
            let is_window = matches!(quota, Quota::SlidingWindow(_));
            let some = if is_window {
                windows
            } else {
                State::Instant(AT(100_200))
            };
            for state in [None, Some(some)] {
                let packed = packed(observation(quota, state));
                assert_eq!(packed.state(), state, "{quota:?}");
                let instants = (packed.server_now(), packed.sent_at(), packed.received_at());
                assert_eq!(instants, (AT(100_000), AT(5_000), AT(5_010)));
                let of: Vec<_> = quotas()
                    .into_iter()
                    .filter(|other| packed.is_of(other))
                    .collect();
                assert_eq!(of, [quota], "no other quota is taken for it");
            }
        }
    }

    #[test]
    fn counts_that_do_not_fit_are_packed_as_fewer() {
        let quota = Quota::sliding_window(1 << 40, Nanos::SECOND).expect("a quota");
        let windows = Windows {
            index: 9,
            previous: 1 << 39,
            current: 1 << 40,
        };
        let most = u64::from(u32::MAX);
        let fewer = Windows {
            previous: most,
            current: most,
            ..windows
        };
        assert_eq!(
            packed(observation(quota, Some(State::Windows(windows)))).state(),
            Some(State::Windows(fewer))
        );
    }

    #[test]
    fn the_duration_of_a_call_is_rounded_up() {
        let quota = quotas()[0];
        let sent_at = AT(5_010).before(Nanos::new(1));
        let packed = packed(Observation {
            sent_at,
            ..observation(quota, None)
        });
        assert_eq!(packed.sent_at(), AT(5_010).before(Nanos::new(MICROSECOND)));
        let slow = Observation {
            received_at: AT(5_000_000),
            ..observation(quota, None)
        };
        assert!(slow.packed(7).is_none(), "83 minutes");
    }

    #[test]
    fn a_remembered_state_is_converted_to_the_callers_clock() {
        let [bucket, ..] = quotas();
        let moved =
            |quota, state| packed(observation(quota, Some(state))).moved_to(AT(5_110), &quota);
        assert_eq!(
            moved(bucket, State::Instant(AT(100_200))),
            Some(State::Instant(AT(5_210))),
            "100 ms are left"
        );

        let leaky = Quota::leaky_bucket(5, Nanos::SECOND, 2).expect("a quota");
        let end = State::Instant(AT(103_000).after(Nanos::new(1)));
        let there = State::Instant(AT(8_010).after(Nanos::new(1)));
        assert_eq!(moved(leaky, end), Some(there), "slack packed");

        let sliding = Quota::sliding_window(5, Nanos::SECOND).expect("a quota");
        let windows = Windows {
            index: 100,
            previous: 1,
            current: 2,
        };
        let there = Windows {
            index: 5,
            ..windows
        };
        assert_eq!(
            moved(sliding, State::Windows(windows)),
            Some(State::Windows(there))
        );
        let longer = Quota::sliding_window(5, Nanos::from_secs(2)).expect("a quota");
        let seen = packed(observation(sliding, Some(State::Windows(windows))));
        let there = Windows {
            index: 2,
            previous: 0,
            current: 3,
        };
        assert_eq!(
            seen.moved_to(AT(5_110), &longer),
            Some(State::Windows(there)),
            "the units of windows of another length"
        );
    }
}
