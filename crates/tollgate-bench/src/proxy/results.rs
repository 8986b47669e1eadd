//! What was measured.

use std::time::Duration;

use super::contestants::Who;
use super::loads::Load;
use crate::results::{median, median_ratio};

/// Everything one run found out.
#[derive(Default)]
pub struct Results {
    pub rows: Vec<Row>,
    pub idle: Vec<IdleCell>,
    /// What could not be measured, and why.
    pub absent: Vec<String>,
}

/// One load.
pub struct Row {
    pub load: Load,
    pub cells: Vec<Cell>,
}

/// One contestant under one load.
pub struct Cell {
    pub who: Who,
    pub samples: Vec<Sample>,
}

/// One turn.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub requests: u64,
    pub wall: Duration,
    /// Of all processes of the contestant, in user mode and in the kernel.
    pub cpu: Duration,
    pub p50: Duration,
    pub p99: Duration,
    /// At the end of the turn.
    pub memory_bytes: u64,
    /// Answers that were not what the load is made for.
    pub wrong: u64,
    /// Connections that the contestant closed, so that the client had to open others.
    pub reconnects: u64,
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

impl Sample {
    pub fn cpu_us(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.requests.max(1) as f64
    }

    pub fn requests_per_second(&self) -> f64 {
        self.requests as f64 / self.wall.as_secs_f64()
    }

    pub fn p50_ms(&self) -> f64 {
        self.p50.as_secs_f64() * 1e3
    }

    pub fn p99_ms(&self) -> f64 {
        self.p99.as_secs_f64() * 1e3
    }

    pub fn memory_mib(&self) -> f64 {
        mib(self.memory_bytes)
    }

    fn wrong_share(&self) -> f64 {
        self.wrong as f64 / self.requests.max(1) as f64
    }

    pub fn reconnect_share(&self) -> f64 {
        self.reconnects as f64 / self.requests.max(1) as f64
    }
}

impl IdleSample {
    pub fn fresh_mib(&self) -> f64 {
        mib(self.fresh_bytes)
    }

    pub fn idle_mib(&self) -> f64 {
        mib(self.idle_bytes)
    }
}

impl Cell {
    pub const fn new(who: Who) -> Self {
        Self { who, samples: Vec::new() }
    }

    pub fn median(&self, figure: fn(&Sample) -> f64) -> f64 {
        median(self.samples.iter().map(figure)).unwrap_or(f64::NAN)
    }

    /// The worst round's share of answers that were not what the load is made for.
    pub fn wrong_share(&self) -> f64 {
        self.samples.iter().map(Sample::wrong_share).fold(0.0, f64::max)
    }
}

impl IdleCell {
    pub const fn new(who: Who) -> Self {
        Self { who, samples: Vec::new() }
    }

    pub fn median(&self, figure: fn(&IdleSample) -> f64) -> f64 {
        median(self.samples.iter().map(figure)).unwrap_or(f64::NAN)
    }
}

impl Row {
    pub fn cell(&self, who: Who) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.who == who)
    }

    /// Our processor time per request over the peer's.
    pub fn cpu_ratio_to(&self, peer: Who) -> Option<f64> {
        let (ours, theirs) = (self.cell(Who::Tollgate)?, self.cell(peer)?);
        median_ratio(&ours.samples, &theirs.samples, Sample::cpu_us)
    }
}

impl Results {
    /// Our memory with idle connections over the peer's.
    pub fn idle_ratio_to(&self, peer: Who) -> Option<f64> {
        let cell = |who| self.idle.iter().find(|cell| cell.who == who);
        median_ratio(&cell(Who::Tollgate)?.samples, &cell(peer)?.samples, IdleSample::idle_mib)
    }
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1_u32 << 20)
}

#[cfg(test)]
mod tests {
    use super::super::loads::LOADS;
    use super::*;

    fn sample(cpu_ms: u64) -> Sample {
        let (wall, cpu) = (Duration::from_secs(2), Duration::from_millis(cpu_ms));
        let (p50, p99) = (Duration::from_micros(500), Duration::from_millis(3));
        Sample { requests: 50_000, wall, cpu, p50, p99, memory_bytes: 3 << 20, wrong: 500, reconnects: 0 }
    }

    #[test]
    fn figures_are_per_request() {
        let sample = sample(1_000);
        assert!((sample.cpu_us() - 20.0).abs() < 1e-9);
        assert!((sample.requests_per_second() - 25_000.0).abs() < 1e-9);
        assert!((sample.p99_ms() - 3.0).abs() < 1e-9);
        assert!((sample.memory_mib() - 3.0).abs() < 1e-9);
        assert!((sample.wrong_share() - 0.01).abs() < 1e-9);
    }

    #[test]
    fn ratios_compare_turns_of_the_same_round() {
        // A machine that becomes ten times slower in the second round changes no ratio.
        let cell = |who, cpu_ms: [u64; 3]| Cell { who, samples: cpu_ms.map(sample).into() };
        let cells = vec![cell(Who::Tollgate, [900, 9_000, 900]), cell(Who::Nginx, [1_000, 10_000, 1_000])];
        let row = Row { load: LOADS[0], cells };
        assert!((row.cpu_ratio_to(Who::Nginx).unwrap() - 0.9).abs() < 1e-9);
        assert_eq!(row.cpu_ratio_to(Who::Envoy), None);
    }
}
