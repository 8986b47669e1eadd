//! What was measured, and what it says about the targets.

use super::contestants::Who;
use super::keys::KeyKind;
use super::matching::Matching;
use crate::median::{median, median_ratio};
use crate::rate::Answer;

/// Everything one run found out.
#[derive(Default)]
pub struct Results {
    pub rows: Vec<Row>,
    pub memory: Vec<MemoryUse>,
    pub instructions: Vec<Instructions>,
    pub matching: Vec<Matching>,
    /// Why instructions were not counted.
    pub not_counted: Option<String>,
}

/// Our cost per decision at most so many times governor's.
pub const RATIO_MAX: f64 = 1.0 / 3.0;
/// Our bytes per key at most.
pub const BYTES_PER_KEY_MAX: f64 = 24.0;
/// Our cost with 10 M keys at most so many times that with 10,000.
pub const GROWTH_MAX: f64 = 8.0;

/// Finding a request's charges among 10,000 limits takes at most so many nanoseconds.
pub const MATCHING_NS_MAX: f64 = 2_000.0;

/// One load, one type of key, one answer, one number of threads.
pub struct Row {
    pub load: &'static str,
    pub key: KeyKind,
    pub answer: Answer,
    pub threads: usize,
    pub cells: Vec<Cell>,
}

impl Row {
    pub fn cell(&self, who: Who) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.who == who)
    }

    /// Our cost over governor's: the median of the rounds' ratios, in which both met the same machine.
    pub fn ratio_to_governor(&self, cost: fn(&Sample) -> f64) -> Option<f64> {
        let (ours, theirs) = (self.cell(Who::Sluicegate)?, self.cell(Who::Governor)?);
        median_ratio(&ours.samples, &theirs.samples, cost)
    }

    pub fn title(&self) -> String {
        let threads = if self.threads == 1 {
            "1 thread".to_string()
        } else {
            format!("{} threads", self.threads)
        };
        format!(
            "{}, {}, {}, {threads}",
            self.load,
            self.key.name(),
            self.answer.name()
        )
    }
}

/// One contestant under one load.
pub struct Cell {
    pub who: Who,
    pub samples: Vec<Sample>,
}

impl Cell {
    pub const fn new(who: Who) -> Self {
        Self {
            who,
            samples: Vec::new(),
        }
    }

    pub fn cpu_ns(&self) -> f64 {
        median(self.samples.iter().map(Sample::cpu)).unwrap_or(f64::NAN)
    }

    pub fn wall_ns(&self) -> f64 {
        median(self.samples.iter().map(Sample::wall)).unwrap_or(f64::NAN)
    }

    /// The worst round's share of answers that were not what the load is made for.
    pub fn wrong_share(&self) -> f64 {
        self.samples
            .iter()
            .map(|sample| sample.wrong_share)
            .fold(0.0, f64::max)
    }
}

/// One contestant in one round, per decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    pub cpu_ns: f64,
    pub wall_ns: f64,
    pub wrong_share: f64,
}

impl Sample {
    pub const fn cpu(&self) -> f64 {
        self.cpu_ns
    }

    pub const fn wall(&self) -> f64 {
        self.wall_ns
    }

    pub fn mean(samples: &[Self]) -> Self {
        let mean =
            |part: fn(&Self) -> f64| samples.iter().map(part).sum::<f64>() / samples.len() as f64;
        Self {
            cpu_ns: mean(Self::cpu),
            wall_ns: mean(Self::wall),
            wrong_share: mean(|sample| sample.wrong_share),
        }
    }
}

/// The memory of one contestant with so many keys in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryUse {
    pub who: Who,
    pub key: KeyKind,
    pub keys: u32,
    /// Asked of the allocator and not given back.
    pub allocated_bytes: f64,
    /// Growth of the process.
    pub resident_bytes: f64,
}

impl MemoryUse {
    pub fn allocated_per_key(&self) -> f64 {
        self.allocated_bytes / f64::from(self.keys)
    }

    pub fn resident_per_key(&self) -> f64 {
        self.resident_bytes / f64::from(self.keys)
    }
}

/// Instructions per decision of one contestant under one load.
pub struct Instructions {
    pub who: Who,
    pub key: KeyKind,
    pub load: &'static str,
    pub per_decision: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(who: Who, costs: &[f64]) -> Cell {
        let samples = costs.iter().map(|cost| Sample {
            cpu_ns: *cost,
            wall_ns: cost * 2.0,
            wrong_share: 0.0,
        });
        Cell {
            who,
            samples: samples.collect(),
        }
    }

    #[test]
    fn the_ratio_compares_costs_of_the_same_round() {
        // A machine that becomes ten times slower in the second round changes no ratio.
        let cells = vec![
            cell(Who::Sluicegate, &[10.0, 100.0, 10.0]),
            cell(Who::Governor, &[40.0, 400.0, 40.0]),
        ];
        let row = Row {
            load: "x",
            key: KeyKind::U64,
            answer: Answer::Allowed,
            threads: 1,
            cells,
        };
        assert_eq!(row.ratio_to_governor(Sample::cpu), Some(0.25));
        assert_eq!(row.title(), "x, u64, allowed, 1 thread");
    }

    #[test]
    fn a_row_without_governor_has_no_ratio() {
        let cells = vec![cell(Who::Sluicegate, &[10.0])];
        let row = Row {
            load: "x",
            key: KeyKind::U64,
            answer: Answer::Denied,
            threads: 2,
            cells,
        };
        assert_eq!(row.ratio_to_governor(Sample::wall), None);
    }
}
