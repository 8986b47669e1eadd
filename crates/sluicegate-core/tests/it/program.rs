//! Random quotas, and random programs of waits and costs that favour the edges.

use proptest::prelude::*;
use sluicegate_core::{Nanos, Outcome, Quota, TokenBucket};

/// Programs end here, in the year 2116: every counter is full again before the end of time.
pub const END: u64 = 1 << 62;

/// One step of a program, in terms that fit any quota.
#[derive(Clone, Copy, Debug)]
pub struct ProgramStep {
    wait: Wait,
    cost: Cost,
}

/// A wait, by what it is measured against.
#[derive(Clone, Copy, Debug)]
enum Wait {
    None,
    Nanos(u64),
    /// The time of this many units, give or take a nanosecond.
    Units {
        units: u64,
        off: i64,
    },
    /// A part of a drip, or of a unit where there are none, in 16ths.
    DripParts(u64),
    /// A part of the time in which the counter fills, in 256ths.
    Parts(u64),
    /// As long as the last denial said, less this much.
    Promised {
        less: u64,
    },
    /// As long as a computer may be suspended.
    Hours(u64),
}

#[derive(Clone, Copy, Debug)]
enum Cost {
    Peek,
    One,
    /// A part of the limit, in 256ths.
    Parts(u64),
    Whole,
    TooMuch,
}

impl ProgramStep {
    /// Nanoseconds to wait before this step.
    pub fn wait(&self, quota: Quota, last: Option<Outcome>) -> u64 {
        let whole = quota.window().get();
        let unit = (whole / quota.limit().max(1)).max(1);
        match self.wait {
            Wait::None => 0,
            Wait::Nanos(nanos) => nanos,
            Wait::Units { units, off } => (units * unit).saturating_add_signed(off),
            Wait::DripParts(parts) => match quota {
                Quota::Drip(bucket) => bucket.interval().get() * parts / 16,
                Quota::TokenBucket(_) | Quota::SlidingWindow(_) => unit * parts / 16,
            },
            Wait::Parts(parts) => (u128::from(whole) * u128::from(parts) / 256) as u64,
            Wait::Promised { less } => match last {
                Some(Outcome::Denied { retry_after, .. }) => retry_after.get().saturating_sub(less),
                _ => 0,
            },
            Wait::Hours(hours) => Nanos::HOUR.get() * hours,
        }
    }

    /// Units to charge.
    pub fn cost(&self, quota: Quota) -> u64 {
        let limit = quota.limit();
        match self.cost {
            Cost::Peek => 0,
            Cost::One => 1,
            Cost::Parts(parts) => (u128::from(limit) * u128::from(parts) / 256) as u64,
            Cost::Whole => limit,
            Cost::TooMuch => limit + 1,
        }
    }
}

/// A program of this many steps.
pub fn program(
    steps: impl Into<proptest::collection::SizeRange>,
) -> impl Strategy<Value = Vec<ProgramStep>> {
    proptest::collection::vec(
        (wait(), cost()).prop_map(|(wait, cost)| ProgramStep { wait, cost }),
        steps,
    )
}

fn wait() -> impl Strategy<Value = Wait> {
    prop_oneof![
        4 => Just(Wait::None),
        2 => (1_u64..3_000_000).prop_map(Wait::Nanos),
        4 => (0_u64..4, -1_i64..2).prop_map(|(units, off)| Wait::Units { units, off }),
        4 => (0_u64..20).prop_map(Wait::DripParts),
        2 => (0_u64..300).prop_map(Wait::Parts),
        4 => (0_u64..2).prop_map(|less| Wait::Promised { less }),
        1 => (1_u64..20_000).prop_map(Wait::Hours),
    ]
}

fn cost() -> impl Strategy<Value = Cost> {
    prop_oneof![
        1 => Just(Cost::Peek),
        6 => Just(Cost::One),
        4 => (0_u64..256).prop_map(Cost::Parts),
        2 => Just(Cost::Whole),
        1 => Just(Cost::TooMuch),
    ]
}

/// Any quota of any algorithm.
pub fn any_quota() -> impl Strategy<Value = Quota> {
    prop_oneof![
        3 => token_bucket().prop_map(|rated| rated.quota),
        1 => token_bucket_of_any_interval(),
        3 => leaky_bucket(),
        2 => fixed_window(),
        2 => sliding_window(),
    ]
}

/// A token bucket and the rate it was made from.
#[derive(Clone, Copy, Debug)]
pub struct Rated {
    pub quota: Quota,
    count: u64,
    period: u64,
}

impl Rated {
    /// The most that may pass within a span: burst + rate × Δt, with the rate as configured and
    /// not as rounded.
    pub fn most(&self, span: u64) -> u128 {
        let refilled = u128::from(span) * u128::from(self.count) / u128::from(self.period);
        u128::from(self.quota.limit()) + refilled
    }
}

/// A token bucket from a rate, mostly one that does not divide evenly.
pub fn token_bucket() -> impl Strategy<Value = Rated> {
    let period = prop_oneof![
        Just(Nanos::SECOND),
        Just(Nanos::MINUTE),
        Just(Nanos::HOUR),
        Just(Nanos::DAY),
        (1_u64..10_000_000_000).prop_map(Nanos::new),
    ];
    (log(1_000_000), period, log(1_000_000)).prop_filter_map(
        "can be represented",
        |(count, period, burst)| {
            let quota = Quota::new(count, period, burst).ok()?;
            matches!(quota, Quota::TokenBucket(_)).then_some(Rated {
                quota,
                count,
                period: period.get(),
            })
        },
    )
}

fn token_bucket_of_any_interval() -> impl Strategy<Value = Quota> {
    (log(1 << 52), log(1 << 52)).prop_filter_map("refills within 52 days", |(interval, burst)| {
        TokenBucket::with_interval(Nanos::new(interval), burst)
            .ok()
            .map(Quota::from)
    })
}

/// A leaky bucket, with drips from one unit to more than its size.
pub fn leaky_bucket() -> impl Strategy<Value = Quota> {
    (log(1_000_000), log(100_000_000), log(1_000))
        .prop_filter_map("can be represented", |(size, millis, drip)| {
            Quota::leaky_bucket(size, Nanos::from_millis(millis), drip).ok()
        })
}

/// A leaky bucket of a few units, where a single unit too many shows.
pub fn small_leaky_bucket() -> impl Strategy<Value = Quota> {
    (1_u64..12, 1_u64..2_000, prop_oneof![Just(1_u64), 1_u64..5]).prop_map(
        |(size, millis, drip)| Quota::leaky_bucket(size, Nanos::from_millis(millis), drip).unwrap(),
    )
}

/// A fixed window.
pub fn fixed_window() -> impl Strategy<Value = Quota> {
    (log(1_000_000), log(100_000_000)).prop_filter_map("can be represented", |(limit, millis)| {
        Quota::fixed_window(limit, Nanos::from_millis(millis)).ok()
    })
}

/// A sliding window.
pub fn sliding_window() -> impl Strategy<Value = Quota> {
    (log(1_000_000), log(100_000_000)).prop_filter_map("can be represented", |(limit, millis)| {
        Quota::sliding_window(limit, Nanos::from_millis(millis)).ok()
    })
}

/// An instant to start at: the epoch, today, or any time that leaves room to go on.
pub fn start() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0_u64), Just(1_800_000_000_000_000_000), 0_u64..1 << 61]
}

/// A number from 1 to `max`, small ones as likely as large ones.
pub fn log(max: u64) -> impl Strategy<Value = u64> {
    (0..=max.ilog2(), any::<u64>())
        .prop_map(move |(bits, raw)| (raw >> (63 - bits) | 1 << bits).min(max).max(1))
}
