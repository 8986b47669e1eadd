//! The results of one run, with the figures made from them.

use super::contestants::RedisContestant;
use super::loads::RedisLoad;
use super::turn::TurnFigures;
use crate::median::{median, median_ratio};

/// The results of one run.
#[derive(Default)]
pub struct RedisResults {
    pub rows: Vec<RedisRow>,
    pub memory: Vec<RedisMemoryUse>,
}

/// One load and one number of callers.
pub struct RedisRow {
    pub load: RedisLoad,
    pub callers: usize,
    pub cells: Vec<RedisCell>,
}

/// One contestant under one load.
pub struct RedisCell {
    pub contestant: RedisContestant,
    pub samples: Vec<RedisSample>,
}

/// One turn.
#[derive(Clone, Copy, Debug)]
pub struct RedisSample {
    pub figures: TurnFigures,
    /// Processor time of Redis meanwhile, its idling and our questions included.
    pub redis_cpu_seconds: f64,
    /// Script calls that Redis counted.
    pub calls: u64,
}

/// The bytes that a key takes in Redis, by its own count.
#[derive(Clone, Copy, Debug)]
pub struct RedisMemoryUse {
    pub contestant: RedisContestant,
    pub bytes_per_key: f64,
}

/// Less processor time than this is not told apart from nothing.
const CPU_FLOOR_SECONDS: f64 = 0.001;

impl RedisSample {
    pub fn decisions_per_second(&self) -> f64 {
        self.decisions() / self.figures.wall.as_secs_f64()
    }

    /// Processor time of the contestant's process per decision, in µs.
    pub fn client_us(&self) -> f64 {
        self.figures.cpu.as_secs_f64().max(CPU_FLOOR_SECONDS) * 1e6 / self.decisions()
    }

    /// Processor time of Redis per decision, in µs.
    pub fn redis_us(&self) -> f64 {
        self.redis_cpu_seconds.max(CPU_FLOOR_SECONDS) * 1e6 / self.decisions()
    }

    pub fn calls_per_decision(&self) -> f64 {
        self.calls as f64 / self.decisions()
    }

    fn decisions(&self) -> f64 {
        self.figures.decisions.max(1) as f64
    }

    fn wrong_share(&self) -> f64 {
        self.figures.wrong as f64 / self.decisions()
    }
}

impl RedisCell {
    pub const fn new(contestant: RedisContestant) -> Self {
        Self {
            contestant,
            samples: Vec::new(),
        }
    }

    pub fn median(&self, figure: fn(&RedisSample) -> f64) -> f64 {
        median(self.samples.iter().map(figure)).unwrap_or(f64::NAN)
    }

    /// The worst round's share of answers other than the expected one.
    pub fn wrong_share(&self) -> f64 {
        self.samples
            .iter()
            .map(RedisSample::wrong_share)
            .fold(0.0, f64::max)
    }
}

impl RedisRow {
    pub fn cell(&self, contestant: RedisContestant) -> Option<&RedisCell> {
        self.cells.iter().find(|cell| cell.contestant == contestant)
    }

    /// How many times our cost the peer's is: the median of the rounds' ratios, in which both met the same machine.
    pub fn times_ours(&self, peer: RedisContestant, cost: fn(&RedisSample) -> f64) -> Option<f64> {
        let (ours, theirs) = (self.cell(RedisContestant::Sluicegate)?, self.cell(peer)?);
        median_ratio(&theirs.samples, &ours.samples, cost)
    }

    pub fn title(&self) -> String {
        row_title(self.load, self.callers)
    }
}

pub fn row_title(load: RedisLoad, callers: usize) -> String {
    let callers = if callers == 1 {
        "1 caller".to_string()
    } else {
        format!("{callers} callers")
    };
    format!("{}, {callers}", load.name())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn sample(cpu_us: u64, redis_cpu_seconds: f64) -> RedisSample {
        let (wall, cpu) = (Duration::from_secs(1), Duration::from_micros(cpu_us));
        RedisSample {
            figures: TurnFigures {
                decisions: 1_000,
                wall,
                cpu,
                wrong: 10,
            },
            redis_cpu_seconds,
            calls: 50,
        }
    }

    #[test]
    fn figures_are_per_decision() {
        let sample = sample(4_000, 0.007);
        assert!((sample.client_us() - 4.0).abs() < 1e-9);
        assert!((sample.redis_us() - 7.0).abs() < 1e-9);
        assert!((sample.calls_per_decision() - 0.05).abs() < 1e-9);
        assert!((sample.decisions_per_second() - 1_000.0).abs() < 1e-9);
    }

    #[test]
    fn no_cost_at_all_counts_as_the_least_that_can_be_seen() {
        assert!((sample(0, 0.0).redis_us() - 1.0).abs() < 1e-9);
        assert!((sample(0, 0.0).client_us() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn ratios_compare_turns_of_the_same_round() {
        let cell = |contestant, costs: [f64; 3]| RedisCell {
            contestant,
            samples: costs.map(|cost| sample(9_000, cost)).into(),
        };
        let cells = vec![
            cell(RedisContestant::Sluicegate, [0.01, 0.1, 0.01]),
            cell(RedisContestant::Gcra, [0.02, 0.2, 0.02]),
        ];
        let row = RedisRow {
            load: RedisLoad::Cold,
            callers: 512,
            cells,
        };
        assert!(
            (row.times_ours(RedisContestant::Gcra, RedisSample::redis_us)
                .unwrap()
                - 2.0)
                .abs()
                < 1e-9
        );
        assert_eq!(
            row.times_ours(RedisContestant::HashBucket, RedisSample::redis_us),
            None
        );
        assert_eq!(row.title(), "cold keys, 512 callers");
    }
}
