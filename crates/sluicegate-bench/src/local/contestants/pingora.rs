//! pingora-limits: a count-min sketch per interval. It never stores a key, so keys that collide count together.

use std::hash::Hash;
use std::hint::black_box;
use std::time::Duration;

use pingora_limits::rate::Rate as SketchedRate;

use super::BenchLimiter;
use crate::rate::Rate;

pub struct Pingora {
    sketch: SketchedRate,
    limit: isize,
}

impl Pingora {
    pub fn new(rate: Rate) -> Self {
        Self {
            sketch: SketchedRate::new(Duration::from_secs(1)),
            limit: rate.burst as isize,
        }
    }
}

impl<K: Hash> BenchLimiter<K> for Pingora {
    #[inline]
    fn check(&self, key: &K) -> bool {
        black_box(self.sketch.observe(key, 1)) <= self.limit
    }

    fn spend(&self, key: &K, cost: u32) -> bool {
        self.sketch.observe(key, cost as isize) <= self.limit
    }
}
