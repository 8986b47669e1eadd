//! What was measured.

use super::contestants::Who;
use crate::median::{median, median_ratio};
use crate::samples::{Row, Sample, mib};

/// Everything one run found out.
#[derive(Default)]
pub struct Results {
    pub rows: Vec<Row<Who>>,
    pub idle: Vec<IdleCell>,
    pub outside: Vec<OutsideRound>,
    /// What could not be measured, and why.
    pub absent: Vec<String>,
}

/// Two turns of ours: with its own quota, and with one that a service told.
pub struct OutsideRound {
    pub own: Sample,
    pub told: Sample,
}

impl OutsideRound {
    /// What the service costs, in µs of processor time per request.
    pub fn extra_us(&self) -> f64 {
        self.told.cpu_us() - self.own.cpu_us()
    }
}

/// One contestant's memory, before any request and with all connections open and idle.
pub struct IdleCell {
    pub who: Who,
    pub samples: Vec<IdleSample>,
}

#[derive(Clone, Copy, Debug)]
pub struct IdleSample {
    pub fresh_bytes: u64,
    pub idle_bytes: u64,
}

impl IdleSample {
    pub fn fresh_mib(&self) -> f64 {
        mib(self.fresh_bytes)
    }

    pub fn idle_mib(&self) -> f64 {
        mib(self.idle_bytes)
    }
}

impl IdleCell {
    pub const fn new(who: Who) -> Self {
        Self {
            who,
            samples: Vec::new(),
        }
    }

    pub fn median(&self, figure: fn(&IdleSample) -> f64) -> f64 {
        median(self.samples.iter().map(figure)).unwrap_or(f64::NAN)
    }
}

impl Results {
    /// Our memory with idle connections over the peer's.
    pub fn idle_ratio_to(&self, peer: Who) -> Option<f64> {
        let cell = |who| self.idle.iter().find(|cell| cell.who == who);
        median_ratio(
            &cell(Who::Sluicegate)?.samples,
            &cell(peer)?.samples,
            IdleSample::idle_mib,
        )
    }
}
