//! The results of `bench local`, and the targets they are held to.

use super::contestants::LocalContestant;
use super::keys::KeyKind;
use super::matching::MatchingTime;
use super::two_limits::TwoLimitsCost;
use crate::median::{median, median_ratio};
use crate::rate::ExpectedAnswer;

/// The results of one run.
#[derive(Default)]
pub struct LocalResults {
    pub rows: Vec<LocalRow>,
    pub memory: Vec<LocalMemoryUse>,
    pub instructions: Vec<InstructionCount>,
    pub two_limits: Option<TwoLimitsCost>,
    pub matching: Vec<MatchingTime>,
    /// Why instructions were not counted.
    pub not_counted: Option<String>,
}

/// Our cost per decision at most so many times governor's.
pub const RATIO_MAX: f64 = 1.0 / 3.0;
/// Our bytes per key at most.
pub const BYTES_PER_KEY_MAX: f64 = 24.0;
/// Our cost with 10 M keys at most so many times that with 10,000.
pub const GROWTH_MAX: f64 = 8.0;

/// Instructions of `Limiter::check` for a request that meets two limits, at most.
pub const TWO_LIMITS_INSTRUCTIONS_MAX: f64 = 450.0;
/// Its allocations, at most.
pub const TWO_LIMITS_ALLOCATIONS_MAX: f64 = 0.0;

/// Finding a request's charges among 10,000 limits takes at most so many nanoseconds.
pub const MATCHING_NS_MAX: f64 = 2_000.0;

/// One load, one type of key, one answer, one number of threads.
pub struct LocalRow {
    pub load: &'static str,
    pub key: KeyKind,
    pub answer: ExpectedAnswer,
    pub threads: usize,
    pub cells: Vec<LocalCell>,
}

impl LocalRow {
    pub fn cell(&self, contestant: LocalContestant) -> Option<&LocalCell> {
        self.cells.iter().find(|cell| cell.contestant == contestant)
    }

    /// Our cost over governor's: the median of the rounds' ratios, in which both met the same machine.
    pub fn ratio_to_governor(&self, cost: fn(&LocalSample) -> f64) -> Option<f64> {
        let (ours, theirs) = (
            self.cell(LocalContestant::Sluicegate)?,
            self.cell(LocalContestant::Governor)?,
        );
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
pub struct LocalCell {
    pub contestant: LocalContestant,
    pub samples: Vec<LocalSample>,
}

impl LocalCell {
    pub const fn new(contestant: LocalContestant) -> Self {
        Self {
            contestant,
            samples: Vec::new(),
        }
    }

    pub fn cpu_ns(&self) -> f64 {
        median(self.samples.iter().map(LocalSample::cpu)).unwrap_or(f64::NAN)
    }

    pub fn wall_ns(&self) -> f64 {
        median(self.samples.iter().map(LocalSample::wall)).unwrap_or(f64::NAN)
    }

    /// The worst round's share of answers other than the expected one.
    pub fn wrong_share(&self) -> f64 {
        self.samples
            .iter()
            .map(|sample| sample.wrong_share)
            .fold(0.0, f64::max)
    }
}

/// One contestant in one round, per decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LocalSample {
    pub cpu_ns: f64,
    pub wall_ns: f64,
    pub wrong_share: f64,
}

impl LocalSample {
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
pub struct LocalMemoryUse {
    pub contestant: LocalContestant,
    pub key: KeyKind,
    pub keys: u32,
    /// Asked of the allocator and not given back.
    pub allocated_bytes: f64,
    /// Growth of the process.
    pub resident_bytes: f64,
}

impl LocalMemoryUse {
    pub fn allocated_per_key(&self) -> f64 {
        self.allocated_bytes / f64::from(self.keys)
    }

    pub fn resident_per_key(&self) -> f64 {
        self.resident_bytes / f64::from(self.keys)
    }
}

/// Instructions per decision of one contestant under one load.
pub struct InstructionCount {
    pub contestant: LocalContestant,
    pub key: KeyKind,
    pub load: &'static str,
    pub per_decision: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(contestant: LocalContestant, costs: &[f64]) -> LocalCell {
        let samples = costs.iter().map(|cost| LocalSample {
            cpu_ns: *cost,
            wall_ns: cost * 2.0,
            wrong_share: 0.0,
        });
        LocalCell {
            contestant,
            samples: samples.collect(),
        }
    }

    #[test]
    fn the_ratio_compares_costs_of_the_same_round() {
        // A machine that becomes ten times slower in the second round changes no ratio.
        let cells = vec![
            cell(LocalContestant::Sluicegate, &[10.0, 100.0, 10.0]),
            cell(LocalContestant::Governor, &[40.0, 400.0, 40.0]),
        ];
        let row = LocalRow {
            load: "x",
            key: KeyKind::U64,
            answer: ExpectedAnswer::Allowed,
            threads: 1,
            cells,
        };
        assert_eq!(row.ratio_to_governor(LocalSample::cpu), Some(0.25));
        assert_eq!(row.title(), "x, u64, allowed, 1 thread");
    }

    #[test]
    fn a_row_without_governor_has_no_ratio() {
        let cells = vec![cell(LocalContestant::Sluicegate, &[10.0])];
        let row = LocalRow {
            load: "x",
            key: KeyKind::U64,
            answer: ExpectedAnswer::Denied,
            threads: 2,
            cells,
        };
        assert_eq!(row.ratio_to_governor(LocalSample::wall), None);
    }
}
