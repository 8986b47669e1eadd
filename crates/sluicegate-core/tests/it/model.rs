//! Each algorithm by its definition, in exact numbers, without the tricks of the implementation.
//!
//! A model only says how many units are free at an instant and takes some. The algorithms compute
//! waits in closed form; here they are found by searching for the first instant at which the charge
//! fits.

use std::collections::HashMap;

use sluicegate_core::{Nanos, Outcome, Quota};

/// A millisecond in nanoseconds.
const MS: i128 = 1_000_000;

/// The definition of one algorithm. Times are nanoseconds since the epoch.
pub trait Law {
    /// Whole units that a charge could take at this instant; negative when too many are taken.
    fn free(&self, at: i128) -> i128;
    /// Returns true when no unit is taken at this instant.
    fn is_full(&self, at: i128) -> bool;
    /// Takes units that are free.
    fn take(&mut self, cost: i128, at: i128);
}

/// A counter that obeys the law of a quota.
pub struct Model {
    law: Box<dyn Law>,
    limit: u64,
}

impl Model {
    /// A full counter. The numbers come from the quota's public methods only.
    pub fn new(quota: Quota) -> Self {
        let limit = quota.limit();
        let size = i128::from(limit);
        let law: Box<dyn Law> = match quota {
            Quota::TokenBucket(bucket) => Box::new(TokenBucketLaw {
                interval: span(bucket.interval()),
                burst: size,
                content: None,
            }),
            Quota::Drip(bucket) if bucket.is_fixed_window() => Box::new(FixedWindowLaw {
                window: span(bucket.interval()),
                limit: size,
                counts: HashMap::new(),
            }),
            Quota::Drip(bucket) => {
                let (drip_rate, drip_size) =
                    (span(bucket.interval()) / MS, i128::from(bucket.drip()));
                Box::new(LeakyBucketLaw {
                    size,
                    drip_rate,
                    drip_size,
                    level: 0,
                    ts: 0,
                })
            }
            Quota::SlidingWindow(_) => {
                let window = span(quota.window()) / MS;
                Box::new(SlidingWindowLaw {
                    window,
                    limit: size,
                    counts: HashMap::new(),
                })
            }
        };
        Self { law, limit }
    }

    /// Decides as the law says.
    pub fn decide(&mut self, cost: u64, now: u64) -> Outcome {
        let now = i128::from(now);
        let wanted = i128::from(cost);
        if cost > self.limit {
            return Outcome::TooLarge {
                remaining: self.remaining(now),
                reset_after: self.reset_after(now),
            };
        }
        if cost > 0 && self.law.free(now) < wanted {
            let retry_after = first_wait(|wait| self.law.free(now + wait) >= wanted);
            let (remaining, reset_after) = (self.remaining(now), self.reset_after(now));
            return Outcome::Denied {
                remaining,
                retry_after,
                reset_after,
            };
        }
        if cost > 0 {
            self.law.take(wanted, now);
        }
        Outcome::Allowed {
            remaining: self.remaining(now),
            reset_after: self.reset_after(now),
        }
    }

    fn remaining(&self, now: i128) -> u64 {
        u64::try_from(self.law.free(now).max(0)).expect("no more than the limit")
    }

    fn reset_after(&self, now: i128) -> Nanos {
        first_wait(|wait| self.law.is_full(now + wait))
    }
}

/// The shortest wait after which a condition holds that stays true once it is.
fn first_wait(holds: impl Fn(i128) -> bool) -> Nanos {
    let (mut too_short, mut enough) = (-1_i128, 1_i128 << 63);
    assert!(holds(enough), "it never holds");
    while enough - too_short > 1 {
        let middle = (too_short + enough) / 2;
        if holds(middle) {
            enough = middle
        } else {
            too_short = middle
        }
    }
    Nanos::new(u64::try_from(enough).expect("at most 2^63"))
}

/// A bucket of `burst` tokens that gains one every `interval`: content grows by elapsed time, up to
/// full.
struct TokenBucketLaw {
    interval: i128,
    burst: i128,
    /// Tokens in `interval`ths at an instant; `None` is full. Time that runs back takes content
    /// away again.
    content: Option<(i128, i128)>,
}

impl TokenBucketLaw {
    fn content(&self, at: i128) -> i128 {
        let full = self.burst * self.interval;
        self.content
            .map_or(full, |(content, since)| full.min(content + (at - since)))
    }
}

impl Law for TokenBucketLaw {
    fn free(&self, at: i128) -> i128 {
        self.content(at).div_euclid(self.interval)
    }

    fn is_full(&self, at: i128) -> bool {
        self.content(at) == self.burst * self.interval
    }

    fn take(&mut self, cost: i128, at: i128) {
        self.content = Some((self.content(at) - cost * self.interval, at));
    }
}

/// A leaky bucket as a meter: whole drips only, and an empty bucket starts its clock at the first
/// request.
struct LeakyBucketLaw {
    size: i128,
    drip_rate: i128,
    drip_size: i128,
    level: i128,
    ts: i128,
}

impl LeakyBucketLaw {
    /// `ticks = floor((now − ts) / drip_rate)`; the level falls by `ticks × drip_size`, the time
    /// moves by `ticks × drip_rate`.
    fn drained(&self, at: i128) -> (i128, i128) {
        let ticks = (at.div_euclid(MS) - self.ts).div_euclid(self.drip_rate);
        if self.level == 0 {
            return (0, self.ts);
        }
        (
            (self.level - ticks * self.drip_size).max(0),
            self.ts + ticks * self.drip_rate,
        )
    }
}

impl Law for LeakyBucketLaw {
    fn free(&self, at: i128) -> i128 {
        self.size - self.drained(at).0
    }

    fn is_full(&self, at: i128) -> bool {
        self.drained(at).0 == 0
    }

    fn take(&mut self, cost: i128, at: i128) {
        (self.level, self.ts) = self.drained(at);
        if self.level == 0 {
            self.ts = at.div_euclid(MS);
        }
        self.level += cost;
    }
}

/// A limit in each window of the clock, counted window by window.
struct FixedWindowLaw {
    window: i128,
    limit: i128,
    counts: HashMap<i128, i128>,
}

impl FixedWindowLaw {
    fn count(&self, at: i128) -> i128 {
        self.counts
            .get(&at.div_euclid(self.window))
            .copied()
            .unwrap_or(0)
    }
}

impl Law for FixedWindowLaw {
    fn free(&self, at: i128) -> i128 {
        self.limit - self.count(at)
    }

    fn is_full(&self, at: i128) -> bool {
        self.count(at) == 0
    }

    fn take(&mut self, cost: i128, at: i128) {
        *self.counts.entry(at.div_euclid(self.window)).or_default() += cost;
    }
}

/// The window before counts by the part of it that a window ending now still covers.
struct SlidingWindowLaw {
    /// Milliseconds.
    window: i128,
    limit: i128,
    counts: HashMap<i128, i128>,
}

impl SlidingWindowLaw {
    /// Units in view, times the window: an exact fraction.
    fn in_view(&self, at: i128) -> i128 {
        let at = at.div_euclid(MS);
        let (window, elapsed) = (at.div_euclid(self.window), at.rem_euclid(self.window));
        let count = |window| self.counts.get(&window).copied().unwrap_or(0);
        count(window - 1) * (self.window - elapsed) + count(window) * self.window
    }
}

impl Law for SlidingWindowLaw {
    fn free(&self, at: i128) -> i128 {
        (self.limit * self.window - self.in_view(at)).div_euclid(self.window)
    }

    fn is_full(&self, at: i128) -> bool {
        self.in_view(at) == 0
    }

    fn take(&mut self, cost: i128, at: i128) {
        *self
            .counts
            .entry(at.div_euclid(MS).div_euclid(self.window))
            .or_default() += cost;
    }
}

fn span(span: Nanos) -> i128 {
    i128::from(span.get())
}
