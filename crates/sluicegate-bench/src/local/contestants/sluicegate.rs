//! Sluicegate's engine: one bucket per key in a fixed table.

use std::hash::Hash;
use std::hint::black_box;

use sluicegate::{KeyedLimiter, LocalOptions};

use super::BenchLimiter;
use crate::rate::Rate;

pub struct LocalSluicegate<K> {
    limiter: KeyedLimiter<K>,
}

impl<K: Hash> LocalSluicegate<K> {
    pub fn new(rate: Rate, max_keys: usize) -> Self {
        Self {
            limiter: KeyedLimiter::new(
                rate.quota(),
                LocalOptions {
                    max_keys,
                    ..LocalOptions::default()
                },
            ),
        }
    }
}

impl<K: Hash + Send + Sync> BenchLimiter<K> for LocalSluicegate<K> {
    #[inline]
    fn check(&self, key: &K) -> bool {
        black_box(self.limiter.check(key, 1)).is_allowed()
    }

    fn spend(&self, key: &K, cost: u32) -> bool {
        self.limiter.check(key, u64::from(cost)).is_allowed()
    }
}
