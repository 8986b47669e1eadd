//! Which lane an ask takes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use arc_swap::ArcSwap;
use tokio::sync::Notify;

use super::ask::{Ask, Fault};
use super::context::Context;
use super::driver;
use super::endpoint::Endpoint;
use super::lane::Lane;
use super::slot::SLOTS;

/// The nodes that are known, and which of them owns what.
pub(super) struct Router {
    map: ArcSwap<Map>,
    /// Where asks wait while no owner is known. Closed while there is no scout.
    lobby: ArcSwap<Lane>,
    lanes: Mutex<HashMap<Endpoint, Arc<Lane>>>,
    scout: Notify,
}

/// Who owns which key.
pub(super) enum Map {
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
        Self { lanes: Vec::new(), owner_of: vec![Self::NOBODY; usize::from(SLOTS)] }
    }

    /// Gives slots to a lane.
    pub(super) fn assign(&mut self, slots: std::ops::RangeInclusive<u16>, lane: &Arc<Lane>) {
        let place = self.lanes.iter().position(|known| Arc::ptr_eq(known, lane)).unwrap_or_else(|| {
            self.lanes.push(Arc::clone(lane));
            self.lanes.len() - 1
        });
        for slot in slots {
            if let Some(owner) = self.owner_of.get_mut(usize::from(slot)) {
                *owner = place as u16;
            }
        }
    }

    fn lane(&self, slot: u16) -> Option<&Arc<Lane>> {
        self.lanes.get(usize::from(*self.owner_of.get(usize::from(slot))?))
    }
}

impl Map {
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
        let lobby = Arc::new(Lane::new(Endpoint::new("", 0)));
        lobby.close();
        let map = ArcSwap::from_pointee(Map::Unknown(Arc::clone(&lobby)));
        Self { map, lobby: ArcSwap::from(lobby), lanes: Mutex::default(), scout: Notify::new() }
    }

    /// A new lobby, if there is no scout: whoever gets it has to send one.
    pub(super) fn open(&self) -> Option<Arc<Lane>> {
        if !self.lobby.load().is_closed() {
            return None;
        }
        let _one_at_a_time = self.lanes();
        if !self.lobby.load().is_closed() {
            return None;
        }
        let lobby = Arc::new(Lane::new(Endpoint::new("", 0)));
        self.lobby.store(Arc::clone(&lobby));
        self.map.store(Arc::new(Map::Unknown(Arc::clone(&lobby))));
        Some(lobby)
    }

    pub(super) fn map(&self) -> arc_swap::Guard<Arc<Map>> {
        self.map.load()
    }

    /// Puts another map in force; lanes that it does not lead to are retired.
    pub(super) fn publish(&self, map: Map) {
        let mut lanes = self.lanes();
        let kept = |lane: &Arc<Lane>| map.lanes().iter().any(|used| Arc::ptr_eq(used, lane));
        lanes.retain(|_, lane| {
            let keep = kept(lane);
            if !keep {
                lane.retire();
            }
            keep
        });
        self.map.store(Arc::new(map));
    }

    /// Wakes whoever looks for the owners.
    pub(super) fn wake_scout(&self) {
        self.scout.notify_one();
    }

    pub(super) async fn scout_woken(&self) {
        self.scout.notified().await;
    }

    /// A primary turned out to be one no more.
    pub(super) fn demoted(&self, lane: &Arc<Lane>) {
        if matches!(&**self.map(), Map::Primary(primary) if Arc::ptr_eq(primary, lane)) {
            self.publish(Map::Unknown(self.lobby.load_full()));
        }
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

impl Context {
    /// Brings an ask to the owner of its keys. Every ask is answered, sooner or later.
    pub(super) fn submit(self: &Arc<Self>, ask: Ask) {
        let map = self.router.map();
        match map.lane(ask.slot) {
            Some(lane) => self.submit_to(lane, ask),
            None => {
                self.router.wake_scout();
                ask.tell(Err(Fault::Away("no node serves the slot of the key".to_owned())));
            }
        }
    }

    /// Brings an ask to a node.
    pub(super) fn submit_to(self: &Arc<Self>, lane: &Arc<Lane>, ask: Ask) {
        if let Some(ask) = lane.submit(ask) {
            self.router.wake_scout();
            ask.tell(Err(Fault::Away("the connection was closed".to_owned())));
        }
    }

    /// The lane to a node; dialled when it is new.
    pub(super) fn lane(self: &Arc<Self>, endpoint: Endpoint) -> Arc<Lane> {
        let mut lanes = self.router.lanes();
        if let Some(known) = lanes.get(&endpoint).filter(|lane| !lane.is_closed() && !lane.is_retired()) {
            return Arc::clone(known);
        }
        let lane = Arc::new(Lane::new(endpoint.clone()));
        lanes.insert(endpoint, Arc::clone(&lane));
        drop(lanes);
        self.spawn(driver::drive(Arc::clone(&lane), Arc::clone(self)));
        lane
    }

    /// A slot has another owner: that is believed at once, and the rest of the map is asked for.
    pub(super) fn moved(self: &Arc<Self>, slot: u16, owner: Endpoint) -> Arc<Lane> {
        let lane = self.lane(owner);
        if let Map::Slots(slots) = &**self.router.map() {
            let mut slots = slots.clone();
            slots.assign(slot..=slot, &lane);
            // Nothing is retired here: lanes that lost their last slot go with the next whole map.
            self.router.map.store(Arc::new(Map::Slots(slots)));
        }
        self.router.wake_scout();
        lane
    }
}
