//! State that callers, drivers and the scout of one store share.
//!
//! There is one [`StoreContext`] per store, in an `Arc`. The store ends all tasks when it is
//! dropped; the tasks keep the context alive until then.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use sluicegate_core::RedisClock;
use tokio::task::JoinSet;

use super::base_pace::BasePaces;
use super::dial::Dialer;
use super::endpoint::Endpoint;
use super::health;
use super::lane::Lane;
use super::options::{RedisMode, RedisOptions};
use super::primary_trust::PrimaryTrust;
use super::request::StoreRequest;
use super::router::Router;
use super::shadow::{ClockRates, Shadows};
use super::slot;
use super::waits::WaitHistogram;
use crate::excess::ExcessTable;

/// The shared state of a store.
pub(super) struct StoreContext {
    /// As validated when the store was made; never changed.
    pub(super) options: RedisOptions,
    /// Dials the nodes that hold counters.
    pub(super) dialer: Dialer,
    /// Dials the sentinels; `None` in other modes.
    pub(super) sentinel_dialer: Option<Dialer>,
    /// `options.deadline` in the runtime's type, converted once.
    pub(super) deadline: Duration,
    /// Which node owns which keys.
    pub(super) router: Router,
    /// Last seen states of counters; written by drivers, read by callers.
    pub(super) shadows: Shadows,
    /// Counters that owe more than their limit has; written by drivers, read by callers.
    pub(super) excess: ExcessTable,
    /// The pace at which the unmarked values of each limit were written.
    pub(super) bases: BasePaces,
    /// Replies that found a value under one of our keys that is no counter.
    pub(super) foreign_values: AtomicU64,
    /// Reports of sentinels that named a primary which was replaced.
    stale_reports: AtomicU64,
    /// Which primary the sentinels' reports lead to. Outlives the scout, whose runtime may end.
    primary_trust: Mutex<PrimaryTrust>,
    /// How long decisions took.
    pub(super) waits: WaitHistogram,
    /// Starts the driver of a new lane: `driver::start`. A pointer, because the driver's module
    /// uses this one.
    start_driver: StartDriver,
    /// Drivers and the scout.
    tasks: Mutex<JoinSet<()>>,
}

/// Starts the driver of a lane on the current runtime.
pub(super) type StartDriver = fn(Arc<Lane>, Arc<StoreContext>);

impl StoreContext {
    pub(super) fn new(
        options: RedisOptions,
        dialer: Dialer,
        sentinel_dialer: Option<Dialer>,
        start_driver: StartDriver,
    ) -> Self {
        let rates = match options.clock {
            RedisClock::Given => ClockRates::Same,
            RedisClock::Server | RedisClock::Replica => ClockRates::MayDrift,
        };
        Self {
            dialer,
            sentinel_dialer,
            deadline: Duration::from_nanos(options.deadline.get()),
            router: Router::new(),
            shadows: Shadows::new(rates),
            excess: ExcessTable::default(),
            bases: BasePaces::default(),
            foreign_values: AtomicU64::new(0),
            stale_reports: AtomicU64::new(0),
            primary_trust: Mutex::new(PrimaryTrust::new(options.endpoints.len())),
            waits: WaitHistogram::default(),
            start_driver,
            tasks: Mutex::new(JoinSet::new()),
            options,
        }
    }

    /// Cluster slot of a key; 0 where there is no cluster, so that all keys are together.
    pub(super) fn slot(&self, key: &str) -> u16 {
        if matches!(self.options.mode, RedisMode::Cluster) {
            slot::slot(key.as_bytes())
        } else {
            0
        }
    }

    /// The lane to a node; a new one gets a driver, which dials at once.
    pub(super) fn lane(self: &Arc<Self>, endpoint: Endpoint) -> Arc<Lane> {
        self.router.lane(endpoint, |lane| self.drive(lane))
    }

    /// Corrects the owner of a slot and returns the owner's lane.
    pub(super) fn slot_moved(self: &Arc<Self>, slot: u16, owner: Endpoint) -> Arc<Lane> {
        self.router.slot_moved(slot, owner, |lane| self.drive(lane))
    }

    fn drive(self: &Arc<Self>, lane: &Arc<Lane>) {
        (self.start_driver)(Arc::clone(lane), Arc::clone(self));
    }

    /// Runs a task on the current runtime for as long as the store exists.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().expect("no holder of this lock panics");
        // Tasks that have ended are only dropped here: there are few, and spawning is rare.
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

    /// The memory about primaries that sentinels reported. The guard is not held across a wait.
    pub(super) fn primary_trust(&self) -> MutexGuard<'_, PrimaryTrust> {
        self.primary_trust
            .lock()
            .expect("no holder of this lock panics")
    }

    /// Counts reports of sentinels that named a primary which was replaced.
    pub(super) fn note_stale_reports(&self, count: u64) {
        self.stale_reports.fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn stale_reports(&self) -> u64 {
        self.stale_reports.load(Ordering::Relaxed)
    }

    /// Counts a value under one of our keys that is no counter, and logs it: the first time, and
    /// then once in a while, because a busy key would fill the log.
    pub(super) fn foreign_value(&self, request: &StoreRequest, error: &str) {
        const REPEAT: u64 = 10_000;
        let earlier = self.foreign_values.fetch_add(1, Ordering::Relaxed);
        if earlier.is_multiple_of(REPEAT) {
            let key = request
                .charges()
                .and_then(|charges| charges.first())
                .map_or("", |charge| charge.key.as_str());
            health::log_foreign(key, error);
        }
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_core::{Nanos, Timestamp};
    use tokio::sync::oneshot;
    use tokio::time::{Instant, timeout};

    use super::*;
    use crate::redis::driver;
    use crate::redis::request::{Operation, RequestState};
    use crate::redis::router::OwnerMap;

    fn context() -> Arc<StoreContext> {
        let mut options = RedisOptions::standalone(Endpoint::new("127.0.0.1", 1));
        options.connect_timeout = Nanos::from_secs(60);
        let dialer = Dialer::prepare(&options).unwrap();
        Arc::new(StoreContext::new(options, dialer, None, driver::start))
    }

    /// A lane without a driver: requests stay in it.
    fn quiet_lane() -> Arc<Lane> {
        Arc::new(Lane::new(Endpoint::new("127.0.0.1", 2)))
    }

    fn request() -> StoreRequest {
        let now = Instant::now();
        let (answer, _) = oneshot::channel();
        let operation = Operation::Delete {
            key: "counter".to_owned(),
            hash: 1,
        };
        let submitted_at = Timestamp::from_nanos(1);
        let deadline = now + Duration::from_secs(60);
        let answer = Some(answer);
        RequestState {
            operation,
            slot: 0,
            submitted_at,
            submitted: now,
            submitted_at_latest: submitted_at,
            deadline,
            hops: 0,
            asking: false,
            responder: answer,
        }
        .into()
    }

    fn asks_in(lane: &Lane) -> usize {
        let mut requests = Vec::new();
        lane.take_requests(&mut requests);
        requests.len()
    }

    #[tokio::test]
    async fn a_request_for_a_closed_lane_goes_to_the_owner() {
        let (context, old, new) = (context(), quiet_lane(), quiet_lane());
        context.router.publish(OwnerMap::Primary(Arc::clone(&new)));
        old.close();
        context.router.submit_to(&old, request());
        assert_eq!(asks_in(&new), 1);
    }

    #[tokio::test]
    async fn requests_that_wait_for_a_dial_go_to_the_owner_when_the_lane_is_retired() {
        // Accepts the connection and never writes.
        let node = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (context, new) = (context(), quiet_lane());
        let old = context.lane(Endpoint::new(
            "127.0.0.1",
            node.local_addr().unwrap().port(),
        ));
        context.router.publish(OwnerMap::Primary(Arc::clone(&old)));
        context.router.submit(request());
        let _connection = node.accept().await.unwrap();
        context.router.publish(OwnerMap::Primary(Arc::clone(&new)));
        timeout(Duration::from_secs(10), new.woken())
            .await
            .expect("the request comes over");
        assert_eq!(asks_in(&new), 1);
    }

    #[tokio::test]
    async fn a_demotion_that_comes_late_leaves_the_new_primary_alone() {
        let (context, old, new) = (context(), quiet_lane(), quiet_lane());
        context.router.publish(OwnerMap::Primary(Arc::clone(&new)));
        context.router.report_demotion(&old);
        assert!(
            matches!(&**context.router.map(), OwnerMap::Primary(lane) if Arc::ptr_eq(lane, &new))
        );
    }
}
