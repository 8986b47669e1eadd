//! Which lane a request takes.
//!
//! The router holds the map from slots to lanes, which every caller reads without a
//! lock, and the list of open lanes, one per node. The scout replaces the map whenever it finds
//! other owners; drivers correct a single slot when a node says `MOVED`.
//!
//! **Invariant:** the map changes only while the list of lanes is locked. A whole map retires every
//! lane that it does not lead to, and the drivers of those lanes resubmit what they hold. A lane in
//! the map may still close at any time, because its runtime may end, so a submit that finds a
//! closed lane reads the map again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use arc_swap::ArcSwap;
use tokio::sync::Notify;

use super::endpoint::Endpoint;
use super::lane::Lane;
use super::request::{RequestError, StoreRequest};
use super::slot::SLOTS;

/// The known nodes, and which of them owns which keys.
pub(super) struct Router {
    /// Read by every request; written under the lock of `lanes`.
    map: ArcSwap<OwnerMap>,
    /// Lane without a node, in which requests wait while no owner is known. The scout empties it.
    /// It is closed while there is no scout.
    pending: ArcSwap<Lane>,
    /// Every lane that has a driver and is not retired.
    lanes: Mutex<HashMap<Endpoint, Arc<Lane>>>,
    /// Wakes the scout before its usual pause is over.
    scout: Notify,
}

/// The owner of each key.
pub(super) enum OwnerMap {
    /// No owner is known. Requests wait in this pending lane until the scout finds one, or until
    /// their deadline.
    Unknown(Arc<Lane>),
    /// One primary owns all keys.
    Primary(Arc<Lane>),
    /// Each slot of a cluster has its owner.
    Slots(SlotMap),
}

/// The owners of a cluster's slots.
#[derive(Clone)]
pub(super) struct SlotMap {
    /// Each owner once, in no particular order.
    lanes: Vec<Arc<Lane>>,
    /// For each slot an index into `lanes`, or [`SlotMap::NOBODY`].
    owner_of: Vec<u16>,
}

impl SlotMap {
    /// Index that is beyond any list of lanes: no node serves the slot.
    const NOBODY: u16 = u16::MAX;

    pub(super) fn new() -> Self {
        Self {
            lanes: Vec::new(),
            owner_of: vec![Self::NOBODY; usize::from(SLOTS)],
        }
    }

    /// Makes a lane the owner of some slots. Slots beyond the last one are ignored.
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
    /// Every lane that leads to a node.
    pub(super) fn lanes(&self) -> &[Arc<Lane>] {
        match self {
            Self::Unknown(_) => &[],
            Self::Primary(lane) => std::slice::from_ref(lane),
            Self::Slots(slots) => &slots.lanes,
        }
    }

    /// The lane of the owner of a slot.
    pub(super) fn lane(&self, slot: u16) -> Option<&Arc<Lane>> {
        match self {
            Self::Unknown(lane) | Self::Primary(lane) => Some(lane),
            Self::Slots(slots) => slots.lane(slot),
        }
    }
}

impl Router {
    /// A router that knows no owner. Its pending lane is closed until there is a scout.
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

    /// A new pending lane if there is no scout; the caller that gets it must start one. `None` when
    /// a scout is at work, which is the usual case and costs one look at the lane.
    pub(super) fn open_pending(&self) -> Option<Arc<Lane>> {
        if !self.pending.load().is_closed() {
            return None;
        }
        // Several callers may come here at once; the lock lets one of them start a scout.
        let _guard = self.lock();
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

    /// Puts a request into the lane of the owner of its keys. Every request gets a response, here
    /// if it finds no lane.
    pub(super) fn submit(&self, mut request: StoreRequest) {
        /// A lane may close between reading the map and submitting; then there is a newer map.
        const TRIES: usize = 3;
        for _ in 0..TRIES {
            let map = self.map();
            let Some(lane) = map.lane(request.slot) else {
                self.wake_scout();
                return request.respond(Err(RequestError::Unavailable(
                    "no node serves the slot of the key".to_owned(),
                )));
            };
            match lane.submit(request) {
                None => return,
                Some(rejected) => request = rejected,
            }
        }
        self.wake_scout();
        request.respond(Err(RequestError::closed()));
    }

    /// Puts a request into the lane of a node that another node named; into the lane of the owner
    /// of its keys if that lane has closed meanwhile.
    pub(super) fn submit_to(&self, lane: &Lane, request: StoreRequest) {
        if let Some(request) = lane.submit(request) {
            self.submit(request);
        }
    }

    /// The lane to a node. `start` gives a new lane its driver.
    pub(super) fn lane(&self, endpoint: Endpoint, start: impl FnOnce(&Arc<Lane>)) -> Arc<Lane> {
        find_or_open(&mut self.lock(), endpoint, start)
    }

    /// Corrects the owner of one slot, which a node has just named, and wakes the scout for the
    /// rest of the map. Returns the owner's lane.
    pub(super) fn slot_moved(
        &self,
        slot: u16,
        owner: Endpoint,
        start: impl FnOnce(&Arc<Lane>),
    ) -> Arc<Lane> {
        // Held throughout: otherwise a whole map could come between, and either retire the lane or
        // be overwritten by this older copy.
        let mut lanes = self.lock();
        let lane = find_or_open(&mut lanes, owner, start);
        if let OwnerMap::Slots(slots) = &**self.map() {
            let mut slots = slots.clone();
            slots.assign(slot..=slot, &lane);
            // No lane is retired here: one that lost its last slot goes with the next whole map.
            self.map.store(Arc::new(OwnerMap::Slots(slots)));
        }
        drop(lanes);
        self.wake_scout();
        lane
    }

    /// Replaces the map and retires the lanes that it does not lead to.
    pub(super) fn publish(&self, map: OwnerMap) {
        self.install(&mut self.lock(), map);
    }

    /// Stores the map first: a retired lane resubmits its requests, which must find the new owner.
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

    /// Makes the scout look for the owners soon.
    pub(super) fn wake_scout(&self) {
        self.scout.notify_one();
    }

    /// Waits for [`Router::wake_scout`]; one call before the wait is enough.
    pub(super) async fn scout_woken(&self) {
        self.scout.notified().await;
    }

    /// Notes that a primary has become a replica. A late report about a primary that was replaced
    /// already changes nothing.
    pub(super) fn report_demotion(&self, lane: &Arc<Lane>) {
        let mut lanes = self.lock();
        if matches!(&**self.map(), OwnerMap::Primary(primary) if Arc::ptr_eq(primary, lane)) {
            self.install(&mut lanes, OwnerMap::Unknown(self.pending.load_full()));
        }
        drop(lanes);
        self.wake_scout();
    }

    /// Removes a lane whose driver has ended, so that the next use of the node opens another one.
    pub(super) fn forget(&self, lane: &Arc<Lane>) {
        self.lock().retain(|_, known| !Arc::ptr_eq(known, lane));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Endpoint, Arc<Lane>>> {
        self.lanes.lock().expect("no holder of this lock panics")
    }
}

fn find_or_open(
    lanes: &mut HashMap<Endpoint, Arc<Lane>>,
    endpoint: Endpoint,
    start: impl FnOnce(&Arc<Lane>),
) -> Arc<Lane> {
    if let Some(known) = lanes
        .get(&endpoint)
        .filter(|lane| !lane.is_closed() && !lane.is_retired())
    {
        return Arc::clone(known);
    }
    let lane = Arc::new(Lane::new(endpoint.clone()));
    lanes.insert(endpoint, Arc::clone(&lane));
    start(&lane);
    lane
}
