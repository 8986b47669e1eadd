//! A sight: what was seen of one counter, and its form in memory.

use sluicegate_core::algorithm::sliding_window::Windows;
use sluicegate_core::algorithm::{self, State};
use sluicegate_core::{Nanos, Quota, Timestamp};

use super::table::CoarseInstant;

/// The form of a sight in memory, the hash first: one line of the processor's cache.
pub(super) type Words = [u64; PackedObservation::WORDS];

/// What was seen of one counter, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::redis) struct Observation {
    pub quota: Quota,
    /// The state after the answer, by the server's clock.
    pub state: Option<State>,
    /// The server's time of the answer. By the caller's clock, that was between the next two.
    pub server_now: Timestamp,
    pub sent_at: Timestamp,
    pub received_at: Timestamp,
}

impl Observation {
    /// When the counter is full again: the sight is of no more use.
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

    pub(super) fn now(&self) -> CoarseInstant {
        CoarseInstant::of(self.received_at.as_nanos())
    }

    /// The form in memory; `None` for an answer that was more than an hour on its way.
    pub(super) fn words(&self, hash: u64) -> Option<Words> {
        // Rather too early: whether to deny is asked for the longest time since.
        let way_us = self
            .received_at
            .since(self.sent_at)
            .get()
            .div_ceil(MICROSECOND);
        let head = |kind: u64| {
            let state = if self.state.is_some() { STATE } else { 0 };
            Some(kind | state | u64::from(u32::try_from(way_us).ok()?) << WAY_SHIFT)
        };
        let (received_at, server_now) = (self.received_at.as_nanos(), self.server_now.as_nanos());
        let instant = match self.state {
            Some(State::Instant(instant)) => instant.as_nanos(),
            Some(State::Windows(_)) | None => 0,
        };
        Some(match self.quota {
            Quota::TokenBucket(bucket) => {
                let (interval, burst) = (bucket.interval().get(), self.quota.limit());
                [
                    hash,
                    head(TOKEN_BUCKET)?,
                    received_at,
                    server_now,
                    interval,
                    burst,
                    instant,
                    0,
                ]
            }
            Quota::Drip(bucket) => {
                let kind = if bucket.is_fixed_window() {
                    FIXED_WINDOW
                } else {
                    DRIP
                };
                let (interval, size) = (bucket.interval().get(), self.quota.limit());
                [
                    hash,
                    head(kind)?,
                    received_at,
                    server_now,
                    interval,
                    size,
                    bucket.drip(),
                    instant,
                ]
            }
            Quota::SlidingWindow(window) => {
                let (length, limit) = (window.window().get(), self.quota.limit());
                let Windows {
                    index,
                    previous,
                    current,
                } = match self.state {
                    Some(State::Windows(windows)) => windows,
                    Some(State::Instant(_)) | None => Windows {
                        index: 0,
                        previous: 0,
                        current: 0,
                    },
                };
                // Counts beyond four thousand million are kept as that many: less than is owed, which denies nobody.
                let half = |count: u64| count.min(u64::from(u32::MAX));
                let counts = half(previous) << 32 | half(current);
                [
                    hash,
                    head(SLIDING_WINDOW)?,
                    received_at,
                    server_now,
                    length,
                    limit,
                    index,
                    counts,
                ]
            }
        })
    }
}

const MICROSECOND: u64 = 1_000;
const WAY_SHIFT: u32 = 32;
const STATE: u64 = 1 << 8;
const KIND: u64 = STATE - 1;
const TOKEN_BUCKET: u64 = 0;
const DRIP: u64 = 1;
const FIXED_WINDOW: u64 = 2;
const SLIDING_WINDOW: u64 = 3;

/// The words of a sight.
#[derive(Clone, Copy)]
pub(super) struct PackedObservation(pub(super) Words);

impl PackedObservation {
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
            .before(Nanos::new((self.0[1] >> WAY_SHIFT) * MICROSECOND))
    }

    /// Whether the counter was seen under this quota.
    #[inline]
    pub(super) fn is_of(&self, quota: &Quota) -> bool {
        let [_, head, _, _, first, second, third, _] = self.0;
        let kind = head & KIND;
        match quota {
            Quota::TokenBucket(bucket) => {
                kind == TOKEN_BUCKET && first == bucket.interval().get() && second == quota.limit()
            }
            Quota::Drip(bucket) => {
                let own_kind = if bucket.is_fixed_window() {
                    FIXED_WINDOW
                } else {
                    DRIP
                };
                let numbers = (bucket.interval().get(), quota.limit(), bucket.drip());
                kind == own_kind && (first, second, third) == numbers
            }
            Quota::SlidingWindow(window) => {
                kind == SLIDING_WINDOW && first == window.window().get() && second == quota.limit()
            }
        }
    }

    /// The state, by the server's clock.
    #[inline]
    pub(super) fn state(&self) -> Option<State> {
        let [_, head, _, _, _, _, third, fourth] = self.0;
        if head & STATE == 0 {
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

    /// The state when the caller's clock shows `now`, by that clock, for a counter that now has this quota.
    pub(super) fn moved_to(&self, now: Timestamp, quota: &Quota) -> Option<State> {
        let from = self.server_now().after(now.since(self.received_at()));
        let state = self.state()?;
        match (self.0[1] & KIND, state) {
            // An instant is a debt under any quota.
            (TOKEN_BUCKET, State::Instant(full_at)) => {
                Some(State::Instant(now.after(full_at.since(from))))
            }
            (_, State::Instant(packed)) => {
                // The end in whole milliseconds, with the slack in the digits below, which must stay as they are.
                let slack = packed.as_nanos() % Nanos::MILLISECOND.get();
                let left_ms = packed.as_millis().saturating_sub(from.as_millis());
                let end = Timestamp::from_millis(now.as_millis().saturating_add(left_ms));
                Some(State::Instant(end.after(Nanos::new(slack))))
            }
            // Counts are of windows of one length.
            (_, State::Windows(windows)) => self.is_of(quota).then(|| {
                let window_ms = (quota.window().get() / Nanos::MILLISECOND.get()).max(1);
                let index = (windows.index + now.as_millis() / window_ms)
                    .saturating_sub(from.as_millis() / window_ms);
                State::Windows(Windows { index, ..windows })
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: fn(u64) -> Timestamp = Timestamp::from_millis;

    fn sight(quota: Quota, state: Option<State>) -> Observation {
        Observation {
            quota,
            state,
            server_now: AT(100_000),
            sent_at: AT(5_000),
            received_at: AT(5_010),
        }
    }

    fn kept(sight: Observation) -> PackedObservation {
        PackedObservation(sight.words(7).expect("not long on its way"))
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
    fn words_say_what_was_seen() {
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
                let kept = kept(sight(quota, state));
                assert_eq!(kept.state(), state, "{quota:?}");
                let instants = (kept.server_now(), kept.sent_at(), kept.received_at());
                assert_eq!(instants, (AT(100_000), AT(5_000), AT(5_010)));
                let of: Vec<_> = quotas()
                    .into_iter()
                    .filter(|other| kept.is_of(other))
                    .collect();
                assert_eq!(of, [quota], "no other quota is taken for it");
            }
        }
    }

    #[test]
    fn counts_too_large_to_keep_are_kept_as_fewer() {
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
            kept(sight(quota, Some(State::Windows(windows)))).state(),
            Some(State::Windows(fewer))
        );
    }

    #[test]
    fn an_answer_is_taken_as_longer_on_its_way_than_it_was_but_no_shorter() {
        let quota = quotas()[0];
        let sent_at = AT(5_010).before(Nanos::new(1));
        let kept = kept(Observation {
            sent_at,
            ..sight(quota, None)
        });
        assert_eq!(kept.sent_at(), AT(5_010).before(Nanos::new(MICROSECOND)));
        let slow = Observation {
            received_at: AT(5_000_000),
            ..sight(quota, None)
        };
        assert!(slow.words(7).is_none(), "83 minutes");
    }

    #[test]
    fn a_remembered_state_is_told_by_the_callers_clock() {
        let [bucket, ..] = quotas();
        let moved = |quota, state| kept(sight(quota, Some(state))).moved_to(AT(5_110), &quota);
        assert_eq!(
            moved(bucket, State::Instant(AT(100_200))),
            Some(State::Instant(AT(5_210))),
            "100 ms are left"
        );

        let leaky = Quota::leaky_bucket(5, Nanos::SECOND, 2).expect("a quota");
        let packed = State::Instant(AT(103_000).after(Nanos::new(1)));
        let there = State::Instant(AT(8_010).after(Nanos::new(1)));
        assert_eq!(moved(leaky, packed), Some(there), "slack kept");

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
        let seen = kept(sight(sliding, Some(State::Windows(windows))));
        assert_eq!(
            seen.moved_to(AT(5_110), &longer),
            None,
            "counts of windows of another length"
        );
    }
}
