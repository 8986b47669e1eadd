//! Which lane an ask takes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use arc_swap::ArcSwap;
use tokio::sync::Notify;

use super::context::StoreContext;
use super::driver;
use super::endpoint::Endpoint;
use super::lane::Lane;
use super::request::{RequestError, StoreRequest};
use super::slot::SLOTS;

/// The nodes that are known, and which of them owns what.
pub(super) struct Router {
    map: ArcSwap<OwnerMap>,
    /// Where asks wait while no owner is known. Closed while there is no scout.
    pending: ArcSwap<Lane>,
    lanes: Mutex<HashMap<Endpoint, Arc<Lane>>>,
    scout: Notify,
}

/// Who owns which key.
pub(super) enum OwnerMap {
    /// Nobody is known: asks wait in the lobby until the scout has found out, or their time is up.
    Unknown(Arc<Lane>),
    /// One primary owns all keys.
    Primary(Arc<Lane>),
    /// Each slot has its owner.
    Slots(SlotMap),
}

/// The owners of a cluster's slots.
#[derive(Clone)]
pub(super) struct SlotMap {
    pub(super) lanes: Vec<Arc<Lane>>,
    /// A place in `lanes`, or [`SlotMap::NOBODY`].
    pub(super) owner_of: Vec<u16>,
}

impl SlotMap {
    pub(super) const NOBODY: u16 = u16::MAX;

    pub(super) fn new() -> Self {
        Self {
            lanes: Vec::new(),
            owner_of: vec![Self::NOBODY; usize::from(SLOTS)],
        }
    }

    /// Gives slots to a lane.
    pub(super) fn assign(&mut self, slots: std::ops::RangeInclusive<u16>, lane: &Arc<Lane>) {
        let index = self
            .lanes
            .iter()
            .position(|known| Arc::ptr_eq(known, lane))
            .unwrap_or_else(|| {
                self.lanes.push(Arc::clone(lane));
                self.lanes.len() - 1
            });
        for slot in slots {
            if let Some(owner) = self.owner_of.get_mut(usize::from(slot)) {
                *owner = index as u16;
            }
        }
    }

    fn lane(&self, slot: u16) -> Option<&Arc<Lane>> {
        self.lanes
            .get(usize::from(*self.owner_of.get(usize::from(slot))?))
    }
}

impl OwnerMap {
    /// Every node that asks go to.
    pub(super) fn lanes(&self) -> &[Arc<Lane>] {
        match self {
            Self::Unknown(_) => &[],
            Self::Primary(lane) => std::slice::from_ref(lane),
            Self::Slots(slots) => &slots.lanes,
        }
    }

    fn lane(&self, slot: u16) -> Option<&Arc<Lane>> {
        match self {
            Self::Unknown(lane) | Self::Primary(lane) => Some(lane),
            Self::Slots(slots) => slots.lane(slot),
        }
    }
}

impl Router {
    /// Knows nobody; its lobby is closed until there is a scout.
    pub(super) fn new() -> Self {
        let pending = Arc::new(Lane::new(Endpoint::new("", 0)));
        pending.close();
        let map = ArcSwap::from_pointee(OwnerMap::Unknown(Arc::clone(&pending)));
        Self {
            map,
            pending: ArcSwap::from(pending),
            lanes: Mutex::default(),
            scout: Notify::new(),
        }
    }

    /// A new lobby, if there is no scout: whoever gets it has to send one.
    pub(super) fn open_pending(&self) -> Option<Arc<Lane>> {
        if !self.pending.load().is_closed() {
            return None;
        }
        let _one_at_a_time = self.lanes();
        if !self.pending.load().is_closed() {
            return None;
        }
        let pending = Arc::new(Lane::new(Endpoint::new("", 0)));
        self.pending.store(Arc::clone(&pending));
        self.map
            .store(Arc::new(OwnerMap::Unknown(Arc::clone(&pending))));
        Some(pending)
    }

    pub(super) fn map(&self) -> arc_swap::Guard<Arc<OwnerMap>> {
        self.map.load()
    }

    /// Puts another map in force; lanes that it does not lead to are retired.
    pub(super) fn publish(&self, map: OwnerMap) {
        self.install(&mut self.lanes(), map);
    }

    /// The map comes first: what a retired lane gives back must find its new owner.
    fn install(&self, lanes: &mut HashMap<Endpoint, Arc<Lane>>, map: OwnerMap) {
        let map = Arc::new(map);
        self.map.store(Arc::clone(&map));
        lanes.retain(|_, lane| {
            let keep = map.lanes().iter().any(|used| Arc::ptr_eq(used, lane));
            if !keep {
                lane.retire();
            }
            keep
        });
    }

    /// Wakes whoever looks for the owners.
    pub(super) fn wake_scout(&self) {
        self.scout.notify_one();
    }

    pub(super) async fn scout_woken(&self) {
        self.scout.notified().await;
    }

    /// A primary turned out to be one no more.
    pub(super) fn report_demotion(&self, lane: &Arc<Lane>) {
        let mut lanes = self.lanes();
        if matches!(&**self.map(), OwnerMap::Primary(primary) if Arc::ptr_eq(primary, lane)) {
            self.install(&mut lanes, OwnerMap::Unknown(self.pending.load_full()));
        }
        drop(lanes);
        self.wake_scout();
    }

    /// A lane has ended.
    pub(super) fn forget(&self, lane: &Arc<Lane>) {
        self.lanes().retain(|_, known| !Arc::ptr_eq(known, lane));
    }

    fn lanes(&self) -> MutexGuard<'_, HashMap<Endpoint, Arc<Lane>>> {
        self.lanes.lock().expect("no holder of this lock panics")
    }
}

impl StoreContext {
    /// Brings an ask to the owner of its keys. Every ask is answered, sooner or later.
    pub(super) fn submit(self: &Arc<Self>, mut request: StoreRequest) {
        /// A lane may end between our look at the map and our knock; then there is another map already.
        const TRIES: usize = 3;
        for _ in 0..TRIES {
            let map = self.router.map();
            let Some(lane) = map.lane(request.slot) else {
                self.router.wake_scout();
                return request.respond(Err(RequestError::Unavailable(
                    "no node serves the slot of the key".to_owned(),
                )));
            };
            match lane.submit(request) {
                None => return,
                Some(back) => request = back,
            }
        }
        self.router.wake_scout();
        request.respond(Err(RequestError::Unavailable(
            "the connection was closed".to_owned(),
        )));
    }

    /// Brings an ask to a node that another one named; to the owner of its keys if that lane has ended meanwhile.
    pub(super) fn submit_to(self: &Arc<Self>, lane: &Arc<Lane>, request: StoreRequest) {
        if let Some(request) = lane.submit(request) {
            self.submit(request);
        }
    }

    /// The lane to a node; dialled when it is new.
    pub(super) fn lane(self: &Arc<Self>, endpoint: Endpoint) -> Arc<Lane> {
        self.lane_among(&mut self.router.lanes(), endpoint)
    }

    fn lane_among(
        self: &Arc<Self>,
        lanes: &mut HashMap<Endpoint, Arc<Lane>>,
        endpoint: Endpoint,
    ) -> Arc<Lane> {
        if let Some(known) = lanes
            .get(&endpoint)
            .filter(|lane| !lane.is_closed() && !lane.is_retired())
        {
            return Arc::clone(known);
        }
        let lane = Arc::new(Lane::new(endpoint.clone()));
        lanes.insert(endpoint, Arc::clone(&lane));
        self.spawn(driver::drive(Arc::clone(&lane), Arc::clone(self)));
        lane
    }

    /// A slot has another owner: that is believed at once, and the rest of the map is asked for.
    pub(super) fn slot_moved(self: &Arc<Self>, slot: u16, owner: Endpoint) -> Arc<Lane> {
        // Held throughout: a whole map that came between would retire the lane, or be overwritten by this older one.
        let mut lanes = self.router.lanes();
        let lane = self.lane_among(&mut lanes, owner);
        if let OwnerMap::Slots(slots) = &**self.router.map() {
            let mut slots = slots.clone();
            slots.assign(slot..=slot, &lane);
            // Nothing is retired here: lanes that lost their last slot go with the next whole map.
            self.router.map.store(Arc::new(OwnerMap::Slots(slots)));
        }
        drop(lanes);
        self.router.wake_scout();
        lane
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sluicegate_core::{Nanos, Timestamp};
    use tokio::sync::oneshot;
    use tokio::time::{Instant, timeout};

    use super::*;
    use crate::redis::dial::Dialer;
    use crate::redis::options::RedisOptions;
    use crate::redis::request::{Operation, RequestState};

    fn context() -> Arc<StoreContext> {
        let mut options = RedisOptions::standalone(Endpoint::new("127.0.0.1", 1));
        options.connect_timeout = Nanos::from_secs(60);
        let dialer = Dialer::prepare(&options).unwrap();
        Arc::new(StoreContext::new(options, dialer, None))
    }

    /// A lane without a driver: what comes in stays.
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
    async fn who_knocks_at_a_lane_that_has_ended_is_sent_to_the_owner() {
        let (context, old, new) = (context(), quiet_lane(), quiet_lane());
        context.router.publish(OwnerMap::Primary(Arc::clone(&new)));
        old.close();
        context.submit_to(&old, request());
        assert_eq!(asks_in(&new), 1);
    }

    #[tokio::test]
    async fn what_waits_for_a_dial_goes_to_the_owner_when_the_lane_is_retired() {
        // Takes the connection and never says a word.
        let node = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (context, new) = (context(), quiet_lane());
        let old = context.lane(Endpoint::new(
            "127.0.0.1",
            node.local_addr().unwrap().port(),
        ));
        context.router.publish(OwnerMap::Primary(Arc::clone(&old)));
        context.submit(request());
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
