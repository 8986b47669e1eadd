//! A bounded number of slots, such as connections to one server, given out in order of arrival.
//!
//! A [`Slot`] is held for as long as the thing that it counts exists, and comes back when it is
//! dropped, however that came about. Who finds no slot may wait for a bounded time, in a queue of
//! bounded length. What becomes idle while somebody waits is handed over if the first in the queue
//! is on the same thread; otherwise it is given up, and the first in the queue makes its own.
//!
//! **Invariant:** nobody gets a slot while another waits for one.
//!
//! The lock is taken when something is opened, closed or waited for; not for each request that
//! goes over an open connection.

use std::collections::VecDeque;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, ThreadId};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

/// The slots of one server; `T` is what can be handed over instead of a slot.
pub struct Slots<T> {
    /// The most that may be held; whoever shares it may change it at any time.
    max: Arc<AtomicUsize>,
    /// Slots that are held, readable without the lock.
    used: AtomicUsize,
    /// Length of the queue, readable without the lock.
    waiting: AtomicUsize,
    state: Mutex<SlotState<T>>,
}

struct SlotState<T> {
    queue: VecDeque<Waiter<T>>,
    /// Threads that keep idle things, each of which holds a slot. They are told when somebody waits.
    keepers: Vec<Arc<Notify>>,
}

struct Waiter<T> {
    thread: ThreadId,
    grant: oneshot::Sender<Grant<T>>,
}

/// Something that was waited for.
pub enum Grant<T> {
    /// The permission to make one.
    Slot(Slot<T>),
    /// One that another request has finished with.
    HandedOver(T),
}

/// The permission for one more. It comes back when this is dropped.
pub struct Slot<T>(Arc<Slots<T>>);

/// No slot came free in time, or too many wait already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSlot;

/// Most requests that wait for the slots of one server. A second's worth of requests for a server
/// that is as slow as that; more would only wait in vain.
const WAITERS_MAX: usize = 1_024;

impl<T> Slots<T> {
    /// No slot is held yet; `max` may change later.
    pub fn new(max: Arc<AtomicUsize>) -> Self {
        Self {
            max,
            used: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            state: Mutex::new(SlotState {
                queue: VecDeque::new(),
                keepers: Vec::new(),
            }),
        }
    }

    /// Takes a slot if one is free and nobody waits for it.
    pub fn try_take(self: &Arc<Self>) -> Option<Slot<T>> {
        self.take_free(&mut self.lock())
    }

    /// Takes a slot, or waits for one in order of arrival. Dropping the future leaves the queue.
    pub async fn take(self: &Arc<Self>, wait: Duration) -> Result<Grant<T>, NoSlot> {
        let granted = {
            let mut state = self.lock();
            if let Some(slot) = self.take_free(&mut state) {
                return Ok(Grant::Slot(slot));
            }
            // Under the same lock, so that no slot comes back in between.
            self.join_queue(&mut state)?
        };
        match tokio::time::timeout(wait, granted).await {
            Ok(Ok(grant)) => Ok(grant),
            Ok(Err(_)) | Err(_) => Err(NoSlot),
        }
    }

    fn take_free(self: &Arc<Self>, state: &mut SlotState<T>) -> Option<Slot<T>> {
        self.forget_gone(state);
        let is_free = state.queue.is_empty() && self.used() < self.max.load(Relaxed);
        is_free.then(|| {
            self.used.fetch_add(1, Relaxed);
            Slot(Arc::clone(self))
        })
    }

    fn join_queue(&self, state: &mut SlotState<T>) -> Result<oneshot::Receiver<Grant<T>>, NoSlot> {
        let (grant, granted) = oneshot::channel();
        if state.queue.len() >= WAITERS_MAX {
            state.queue.retain(|waiter| !waiter.grant.is_closed());
        }
        if state.queue.len() >= WAITERS_MAX {
            return Err(NoSlot);
        }
        let thread = thread::current().id();
        state.queue.push_back(Waiter { thread, grant });
        self.waiting.store(state.queue.len(), Relaxed);
        state.keepers.iter().for_each(|keeper| keeper.notify_one());
        Ok(granted)
    }

    /// The length of the queue. Some of those in it may have left.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Relaxed)
    }

    /// The number of slots that are held. It changes under the lock only.
    pub fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// How many of these one client may have more while they are scarce, which they are when more
    /// than half of them are held; `None` while there are enough for all.
    pub fn scarce_share(&self) -> Option<usize> {
        /// So many may wait for a server that has only a few.
        const LEAST: usize = 32;
        let max = self.max.load(Relaxed);
        (self.used() > max / 2).then(|| (max / 8).max(LEAST))
    }

    /// Gives something that became idle, and that holds a slot, to the first in the queue. Returns
    /// it if nobody waits.
    pub(crate) fn hand_over(&self, mut idle: T) -> Option<T> {
        loop {
            let waiter = {
                let mut state = self.lock();
                self.forget_gone(&mut state);
                let first = state.queue.front();
                let Some(first) = first else {
                    return Some(idle);
                };
                // Sockets and timers belong to the thread that made them.
                let is_near = first.thread == thread::current().id();
                if !is_near || self.used() > self.max.load(Relaxed) {
                    drop(state);
                    // Its slot goes to the first in the queue.
                    drop(idle);
                    return None;
                }
                self.pop(&mut state)?
            };
            match waiter.grant.send(Grant::HandedOver(idle)) {
                Err(Grant::HandedOver(unwanted)) => idle = unwanted,
                _ => return None,
            }
        }
    }

    /// Notifies `keeper` from now on whenever somebody begins to wait.
    pub(crate) fn add_keeper(&self, keeper: &Arc<Notify>) {
        let mut state = self.lock();
        state.keepers.push(Arc::clone(keeper));
        if !state.queue.is_empty() {
            keeper.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, SlotState<T>> {
        self.state.lock().expect("no holder of this lock panics")
    }

    /// Removes those from the front of the queue who no longer wait.
    fn forget_gone(&self, state: &mut SlotState<T>) {
        while (state.queue.front()).is_some_and(|waiter| waiter.grant.is_closed()) {
            state.queue.pop_front();
        }
        self.waiting.store(state.queue.len(), Relaxed);
    }

    fn pop(&self, state: &mut SlotState<T>) -> Option<Waiter<T>> {
        let first = state.queue.pop_front();
        self.waiting.store(state.queue.len(), Relaxed);
        first
    }
}

impl<T> Slot<T> {
    /// The slots that this is one of.
    pub(crate) fn of(&self) -> &Arc<Slots<T>> {
        &self.0
    }
}

impl<T> Drop for Slot<T> {
    fn drop(&mut self) {
        let Self(slots) = self;
        let waiter = {
            let mut state = slots.lock();
            slots.forget_gone(&mut state);
            // After the bound was lowered, slots that come back are not given out again.
            let is_spare = slots.used() <= slots.max.load(Relaxed);
            let waiter = is_spare.then(|| slots.pop(&mut state)).flatten();
            if waiter.is_none() {
                slots.used.fetch_sub(1, Relaxed);
            }
            waiter
        };
        if let Some(waiter) = waiter {
            // One who has just left drops the slot, which comes back here for the next.
            let _ = waiter.grant.send(Grant::Slot(Self(Arc::clone(slots))));
        }
    }
}

#[cfg(test)]
mod tests;
