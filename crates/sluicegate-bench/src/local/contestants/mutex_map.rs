//! A token bucket per key in a locked map, with nothing but the standard library: the obvious first attempt.

use std::collections::HashMap;
use std::hash::Hash;
use std::hint::black_box;
use std::sync::Mutex;
use std::time::Instant;

use super::BenchLimiter;
use crate::rate::Rate;

pub struct MutexMap<K> {
    buckets: Mutex<HashMap<K, TokenBucket>>,
    burst: f64,
    units_per_second: f64,
}

struct TokenBucket {
    tokens: f64,
    filled_at: Instant,
}

impl<K> MutexMap<K> {
    pub fn new(rate: Rate) -> Self {
        Self {
            buckets: Mutex::new(HashMap::new()),
            burst: f64::from(rate.burst),
            units_per_second: 1.0 / rate.interval().as_secs_f64(),
        }
    }

    #[inline]
    fn take(&self, bucket: &mut TokenBucket, cost: u32, now: Instant) -> bool {
        let elapsed = now.duration_since(bucket.filled_at).as_secs_f64();
        bucket.tokens = (bucket.tokens + elapsed * self.units_per_second).min(self.burst);
        bucket.filled_at = now;
        if bucket.tokens < f64::from(cost) {
            return false;
        }
        bucket.tokens -= f64::from(cost);
        true
    }
}

impl<K: Hash + Eq + Clone + Send> BenchLimiter<K> for MutexMap<K> {
    #[inline]
    fn check(&self, key: &K) -> bool {
        self.spend(key, 1)
    }

    #[inline]
    fn spend(&self, key: &K, cost: u32) -> bool {
        let now = Instant::now();
        let mut buckets = self.buckets.lock().expect("no contestant panics");
        if let Some(bucket) = buckets.get_mut(key) {
            return black_box(self.take(bucket, cost, now));
        }
        let mut bucket = TokenBucket {
            tokens: self.burst,
            filled_at: now,
        };
        let is_allowed = self.take(&mut bucket, cost, now);
        buckets.insert(key.clone(), bucket);
        is_allowed
    }
}
