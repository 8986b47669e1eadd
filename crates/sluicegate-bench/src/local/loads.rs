//! The loads of `bench local`: how many keys, in which order, under which rate.

use std::time::Duration;

use super::keys::Key;
use crate::rate::{ExpectedAnswer, Rate};

/// A pattern of requests and the numbers that go with it.
#[derive(Clone, Copy, Debug)]
pub struct LocalLoad {
    pub name: &'static str,
    /// Short name for the command line.
    pub id: &'static str,
    pub keys: u32,
    pub pattern: KeyPattern,
    /// The rate under which everything passes.
    pub allowed: Rate,
    /// Decisions in one round, per thread.
    pub decisions: usize,
}

/// The order in which keys are asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KeyPattern {
    Uniform,
    /// The key of rank k comes up in proportion to k^-exponent.
    Zipf {
        exponent: f64,
    },
    /// Every key once and never seen before: each decision inserts.
    New,
}

/// Denies everything for an hour once both units are spent. Two, because throttlecrab forgets a burst of one at once.
pub const DENIED: Rate = Rate {
    count: 1,
    period: Duration::from_secs(3600),
    burst: 2,
};
/// The units that each key is charged before a load that is to be denied.
pub const DENIED_FILL: u32 = DENIED.burst;

// Under the rates below no bucket runs empty during a run, and none that is visited is full again before its next
// visit: a full bucket may be dropped, and looking for a key that is not there is another load.
/// One key takes hundreds of millions of decisions.
const HOT: Rate = Rate::per_second(1_000, 4_000_000_000);
/// The first rank takes an eighth of all decisions.
const SKEWED: Rate = Rate::per_second(1, 4_000_000);
/// Each key takes a few thousand decisions at most, minutes apart.
const EVEN: Rate = Rate {
    count: 1,
    period: Duration::from_secs(600),
    burst: 7_000,
};

/// Every load of a full run; `bench local --quick` leaves the largest out.
pub const LOADS: [LocalLoad; 6] = [
    LocalLoad {
        name: "1 hot key",
        id: "hot",
        keys: 1,
        pattern: KeyPattern::Uniform,
        allowed: HOT,
        decisions: 1_000_000,
    },
    LocalLoad {
        name: "10,000 keys",
        id: "10k",
        keys: 10_000,
        pattern: KeyPattern::Uniform,
        allowed: EVEN,
        decisions: 1_000_000,
    },
    LocalLoad {
        name: "1 M uniform",
        id: "1m",
        keys: MILLION,
        pattern: KeyPattern::Uniform,
        allowed: EVEN,
        decisions: 500_000,
    },
    LocalLoad {
        name: "1 M Zipf 1.1",
        id: "zipf",
        keys: MILLION,
        pattern: ZIPF,
        allowed: SKEWED,
        decisions: 500_000,
    },
    LocalLoad {
        name: "10 M uniform",
        id: "10m",
        keys: TEN_MILLION,
        pattern: KeyPattern::Uniform,
        allowed: EVEN,
        decisions: 500_000,
    },
    LocalLoad {
        name: "new keys",
        id: "new",
        keys: MILLION,
        pattern: KeyPattern::New,
        allowed: EVEN,
        decisions: MILLION as usize,
    },
];

pub const MILLION: u32 = 1_000_000;
pub const TEN_MILLION: u32 = 10_000_000;
/// The rate under which bytes per key are counted.
pub const MEMORY_RATE: Rate = EVEN;
const ZIPF: KeyPattern = KeyPattern::Zipf { exponent: 1.1 };

impl LocalLoad {
    pub fn by_id(id: &str) -> Option<Self> {
        LOADS.into_iter().find(|load| load.id == id)
    }

    pub const fn rate(&self, answer: ExpectedAnswer) -> Rate {
        match answer {
            ExpectedAnswer::Allowed => self.allowed,
            ExpectedAnswer::Denied => DENIED,
        }
    }

    /// The same load with fewer decisions and, where every decision is a new key, fewer keys.
    pub fn shortened(self, factor: usize) -> Self {
        let decisions = self.decisions / factor;
        let keys = if self.pattern == KeyPattern::New {
            decisions as u32
        } else {
            self.keys
        };
        Self {
            decisions,
            keys,
            ..self
        }
    }

    /// The keys of a run in the order in which they will be asked for.
    pub fn stream<K: Key>(&self) -> KeyStream<K> {
        let per_chunk = self.decisions.min(self.distinct_per_chunk());
        let chunks = if self.decisions > per_chunk || self.pattern == KeyPattern::New {
            1
        } else {
            CHUNKS
        };
        let mut random = Random::seeded(u64::from(self.keys));
        let count = per_chunk * chunks;
        let keys = match self.pattern {
            KeyPattern::New => (0..self.keys).map(K::nth).collect(),
            KeyPattern::Uniform => (0..count)
                .map(|_| K::nth(random.below(self.keys)))
                .collect(),
            KeyPattern::Zipf { exponent } => {
                let zipf = Zipf::new(self.keys, exponent);
                (0..count).map(|_| K::nth(zipf.draw(&mut random))).collect()
            }
        };
        KeyStream {
            keys,
            per_chunk,
            passes: self.decisions / per_chunk,
        }
    }

    /// Few keys are walked several times in a round, so that the stream itself stays in the caches as a request does.
    const fn distinct_per_chunk(&self) -> usize {
        match self.keys {
            1 => 50,
            2..=100_000 => 100_000,
            _ => usize::MAX,
        }
    }
}

/// Rounds and threads take turns on so many stretches of the stream: a stretch is cold again when its turn comes back.
const CHUNKS: usize = 4;

/// Keys side by side in memory, because a key that comes with a request is in the cache when the limiter is asked.
pub struct KeyStream<K> {
    keys: Vec<K>,
    per_chunk: usize,
    pub passes: usize,
}

impl<K> KeyStream<K> {
    /// The stretch for the `turn`-th walk.
    pub fn chunk(&self, turn: usize) -> &[K] {
        let chunks = self.keys.len() / self.per_chunk;
        &self.keys[turn % chunks * self.per_chunk..][..self.per_chunk]
    }
}

/// Ranks drawn by looking a uniform number up in the cumulative weights.
struct Zipf {
    cumulative: Vec<f64>,
}

impl Zipf {
    fn new(ranks: u32, exponent: f64) -> Self {
        let mut total = 0.0;
        let cumulative = (1..=ranks).map(|rank| {
            total += f64::from(rank).powf(-exponent);
            total
        });
        Self {
            cumulative: cumulative.collect(),
        }
    }

    /// A rank from 0; rank 0 is the most frequent.
    fn draw(&self, random: &mut Random) -> u32 {
        let total = self.cumulative.last().copied().unwrap_or_default();
        let at = random.fraction() * total;
        self.cumulative.partition_point(|below| *below <= at) as u32
    }
}

/// SplitMix64: small, quick, and the same sequence in every run.
struct Random {
    state: u64,
}

impl Random {
    const fn seeded(seed: u64) -> Self {
        Self { state: seed }
    }

    const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    const fn below(&mut self, bound: u32) -> u32 {
        (((self.next() >> 32) * bound as u64) >> 32) as u32
    }

    /// At least 0 and below 1.
    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zipf_ranks_come_up_in_proportion_to_their_weight() {
        let (ranks, exponent, draws) = (1_000, 1.1, 200_000);
        let zipf = Zipf::new(ranks, exponent);
        let mut random = Random::seeded(1);
        let mut seen = vec![0_u32; ranks as usize];
        for _ in 0..draws {
            seen[zipf.draw(&mut random) as usize] += 1;
        }
        let total: f64 = (1..=ranks)
            .map(|rank| f64::from(rank).powf(-exponent))
            .sum();
        for rank in [1, 2, 10, 100] {
            let expected = f64::from(rank).powf(-exponent) / total * f64::from(draws);
            let got = f64::from(seen[rank as usize - 1]);
            assert!(
                (got / expected - 1.0).abs() < 0.15,
                "rank {rank}: {got} of {expected}"
            );
        }
    }

    #[test]
    fn uniform_numbers_stay_below_their_bound_and_reach_both_ends() {
        let mut random = Random::seeded(2);
        let drawn: Vec<u32> = (0..1_000).map(|_| random.below(10)).collect();
        assert_eq!(drawn.iter().min(), Some(&0));
        assert_eq!(drawn.iter().max(), Some(&9));
    }

    #[test]
    fn a_round_makes_the_decisions_it_promises() {
        for load in LOADS.map(|load| load.shortened(100)) {
            let stream = load.stream::<u64>();
            assert_eq!(
                stream.chunk(7).len() * stream.passes,
                load.decisions,
                "{}",
                load.name
            );
        }
    }

    #[test]
    fn new_keys_are_all_different() {
        let load = LOADS[5].shortened(100);
        let stream = load.stream::<u64>();
        let distinct: std::collections::HashSet<_> = stream.chunk(0).iter().collect();
        assert_eq!(distinct.len(), load.decisions);
    }

    #[test]
    fn every_rate_is_one_that_the_engine_keeps_exactly() {
        for rate in LOADS.map(|load| load.allowed).into_iter().chain([DENIED]) {
            let tolerance = rate.interval().as_nanos() * u128::from(rate.burst);
            assert!(tolerance <= 1 << 52, "{rate:?}");
            assert_eq!(rate.interval() * rate.count, rate.period, "{rate:?}");
        }
    }
}
