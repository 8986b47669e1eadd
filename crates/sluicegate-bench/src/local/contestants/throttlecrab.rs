//! throttlecrab: GCRA over a map of owned text. It needs `&mut`, so a shared one needs a lock.

use std::hint::black_box;
use std::sync::Mutex;
use std::time::SystemTime;

use throttlecrab::{PeriodicStore, RateLimiter};

use super::BenchLimiter;
use crate::rate::Rate;

/// With the periodic store: the adaptive one walks all keys every 100,000 decisions, which costs it more.
pub struct Throttlecrab {
    limiter: Mutex<RateLimiter<PeriodicStore>>,
    rate: Rate,
}

impl Throttlecrab {
    pub fn new(rate: Rate, max_keys: usize) -> Self {
        Self {
            limiter: Mutex::new(RateLimiter::new(PeriodicStore::with_capacity(max_keys))),
            rate,
        }
    }
}

impl BenchLimiter<String> for Throttlecrab {
    #[inline]
    fn check(&self, key: &String) -> bool {
        self.spend(key, 1)
    }

    #[inline]
    fn spend(&self, key: &String, cost: u32) -> bool {
        let Rate {
            count,
            period,
            burst,
        } = self.rate;
        let now = SystemTime::now();
        let mut limiter = self.limiter.lock().expect("no contestant panics");
        let (burst, count, period) = (i64::from(burst), i64::from(count), period.as_secs() as i64);
        let answer = limiter.rate_limit(key, burst, count, period, i64::from(cost), now);
        black_box(answer).is_ok_and(|(is_allowed, _)| is_allowed)
    }
}
