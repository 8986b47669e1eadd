//! What callers, drivers and the scout of one store share.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sluicegate_core::RedisClock;
use tokio::task::JoinSet;

use super::ask::Ask;
use super::dial::Dialing;
use super::health;
use super::options::RedisOptions;
use super::router::Router;
use super::shadow::{ClockRates, Shadows};
use super::waits::Waits;

/// The shared part of a store.
pub(super) struct Context {
    pub(super) options: RedisOptions,
    pub(super) dialing: Dialing,
    /// How the sentinels are reached, where that differs.
    pub(super) sentinel_dialing: Option<Dialing>,
    pub(super) deadline: Duration,
    pub(super) router: Router,
    pub(super) shadows: Shadows,
    pub(super) foreign_values: AtomicU64,
    pub(super) waits: Waits,
    tasks: Mutex<JoinSet<()>>,
}

impl Context {
    pub(super) fn new(
        options: RedisOptions,
        dialing: Dialing,
        sentinel_dialing: Option<Dialing>,
    ) -> Self {
        let rates = match options.clock {
            RedisClock::Given => ClockRates::Same,
            RedisClock::Server | RedisClock::Replica => ClockRates::Apart,
        };
        Self {
            dialing,
            sentinel_dialing,
            deadline: Duration::from_nanos(options.deadline.get()),
            router: Router::new(),
            shadows: Shadows::new(rates),
            foreign_values: AtomicU64::new(0),
            waits: Waits::default(),
            tasks: Mutex::new(JoinSet::new()),
            options,
        }
    }

    /// Runs a task for as long as the store exists, on the runtime of whoever calls.
    pub(super) fn spawn(self: &Arc<Self>, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().expect("no holder of this lock panics");
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    /// Ends every task.
    pub(super) fn stop(&self) {
        self.tasks
            .lock()
            .expect("no holder of this lock panics")
            .abort_all();
    }

    /// Counts a value under our name that is not ours, and says so: the first time, and then now and again.
    pub(super) fn foreign_value(&self, ask: &Ask, error: &str) {
        const REPEAT: u64 = 10_000;
        let seen = self.foreign_values.fetch_add(1, Ordering::Relaxed);
        if seen.is_multiple_of(REPEAT) {
            let key = ask
                .items()
                .and_then(|items| items.first())
                .map_or("", |item| item.key.as_str());
            health::log_foreign(key, error);
        }
    }
}
