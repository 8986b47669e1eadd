//! governor with its defaults: DashMap, SipHash, and the quanta clock, which reads the time stamp counter like ours.

use std::hash::Hash;
use std::hint::black_box;
use std::num::NonZeroU32;

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use super::BenchLimiter;
use crate::rate::Rate;

pub struct Governor<K: Hash + Eq + Clone> {
    limiter: DefaultKeyedRateLimiter<K>,
}

impl<K: Hash + Eq + Clone> Governor<K> {
    pub fn new(rate: Rate) -> Self {
        let burst = NonZeroU32::new(rate.burst).expect("every load has a burst");
        let quota = Quota::with_period(rate.interval())
            .expect("every load has an interval")
            .allow_burst(burst);
        Self {
            limiter: RateLimiter::keyed(quota),
        }
    }
}

impl<K: Hash + Eq + Clone + Send + Sync> BenchLimiter<K> for Governor<K> {
    #[inline]
    fn check(&self, key: &K) -> bool {
        black_box(self.limiter.check_key(key)).is_ok()
    }

    fn spend(&self, key: &K, cost: u32) -> bool {
        let cost = NonZeroU32::new(cost).expect("a charge takes at least one unit");
        matches!(self.limiter.check_key_n(key, cost), Ok(Ok(())))
    }
}
