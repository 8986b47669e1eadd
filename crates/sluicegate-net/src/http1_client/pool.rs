//! Idle connections to servers, kept by each thread for itself, so that no two threads wait for a
//! lock.
//!
//! A task of the thread looks at them once a second, for as long as there are any: one that the
//! server has closed is closed here too, instead of staying half open until somebody wants to use
//! it, and so is one that nobody has used for a minute. When a request on any thread waits for a
//! connection to a server, all threads give up idle connections to it.

use std::cell::RefCell;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::Exchange;
use super::private::PrivateConnections;

/// Idle connections of one server that each thread keeps at most.
const IDLE_MAX: usize = 256;
/// Time between two looks at the idle connections.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// Looks after which an unused connection is closed: a minute, as in nginx.
const IDLE_SWEEPS: u32 = 60;

thread_local! {
    static POOL: RefCell<Pool> = const { RefCell::new(Pool::new()) };
}

struct Pool {
    /// Idle connections by the number of their server; those that were used last are at the end.
    idle: Vec<Vec<Exchange>>,
    /// Clients of this thread with idle connections of their own.
    private: Vec<Weak<PrivateConnections>>,
    /// Wakes the sweeper before its time because a request waits for a connection.
    wake: Option<Arc<Notify>>,
    /// Sweeps so far: the clock of idle connections, which costs nothing to read.
    sweeps: u32,
    has_sweeper: bool,
}

/// Takes an idle connection to a server out of the pool.
pub(super) fn take(server: usize) -> Option<Exchange> {
    loop {
        let mut exchange = POOL.with_borrow_mut(|pool| pool.idle.get_mut(server)?.pop())?;
        if exchange.0.is_quiet() {
            return Some(exchange);
        }
    }
}

/// Keeps an idle connection for the next request, unless one waits for it already.
pub(super) fn keep(exchange: Exchange) {
    let Some(server) = exchange.0.server else {
        return;
    };
    let slots = exchange.0.slot.of();
    let exchange = if slots.waiting() == 0 {
        exchange
    } else {
        let slots = Arc::clone(slots);
        let Some(exchange) = slots.hand_over(exchange) else {
            return;
        };
        exchange
    };
    let _too_many = POOL.with_borrow_mut(|pool| pool.push(server, exchange));
}

/// Closes idle connections of a client, too, when its server has closed them.
pub(super) fn watch(private: &Arc<PrivateConnections>) {
    POOL.with_borrow_mut(|pool| {
        pool.private.push(Arc::downgrade(private));
        pool.ensure_sweeper();
    });
}

impl Pool {
    const fn new() -> Self {
        Self {
            idle: Vec::new(),
            private: Vec::new(),
            wake: None,
            sweeps: 0,
            has_sweeper: false,
        }
    }

    /// Returns the connection if there are too many.
    fn push(&mut self, server: usize, mut exchange: Exchange) -> Option<Exchange> {
        if self.idle.len() <= server {
            self.idle.resize_with(server + 1, Vec::new);
        }
        // A vector that was used before keeps its room.
        if self.idle[server].capacity() == 0 {
            let wake = self.wake.get_or_insert_default();
            exchange.0.slot.of().add_keeper(wake);
        }
        let idle = &mut self.idle[server];
        if idle.len() >= IDLE_MAX {
            return Some(exchange);
        }
        exchange.0.idle_since = self.sweeps;
        idle.push(exchange);
        self.ensure_sweeper();
        None
    }

    fn ensure_sweeper(&mut self) {
        if self.has_sweeper {
            return;
        }
        if let Ok(runtime) = Handle::try_current() {
            self.has_sweeper = true;
            let wake = Arc::clone(self.wake.get_or_insert_default());
            // Every connection is looked at, however many there are.
            runtime.spawn(tokio::task::unconstrained(sweep(wake)));
        }
    }

    /// Closes connections that their server has closed, and those that were idle for too long.
    fn close_stale(&mut self) {
        self.sweeps = self.sweeps.wrapping_add(1);
        for idle in &mut self.idle {
            idle.retain_mut(|exchange| {
                let age = self.sweeps.wrapping_sub(exchange.0.idle_since);
                age < IDLE_SWEEPS && exchange.0.is_quiet()
            });
        }
        self.private.retain(|client| match client.upgrade() {
            Some(client) => client.close_stale(),
            None => false,
        });
    }

    /// Gives up as many connections to each server as requests wait for one, the oldest first.
    fn give_up_for_waiters(&mut self) {
        for idle in &mut self.idle {
            let waiting = idle.first().map_or(0, |first| first.0.slot.of().waiting());
            idle.drain(..waiting.min(idle.len()));
        }
    }

    fn is_empty(&self) -> bool {
        self.idle.iter().all(Vec::is_empty) && self.private.is_empty()
    }
}

/// The task that looks after the idle connections of its thread. It ends when there are none.
async fn sweep(wake: Arc<Notify>) {
    let _sweeper = Sweeper;
    let mut sweeps = interval_at(Instant::now() + SWEEP_INTERVAL, SWEEP_INTERVAL);
    sweeps.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let is_wanted = tokio::select! {
            () = wake.notified() => true,
            _ = sweeps.tick() => false,
        };
        let is_empty = POOL.with_borrow_mut(|pool| {
            if is_wanted {
                pool.give_up_for_waiters();
            } else {
                pool.close_stale();
            }
            pool.is_empty()
        });
        if is_empty {
            return;
        }
    }
}

/// The running sweeper. When it ends, by itself or with its runtime, the next idle connection starts
/// another.
struct Sweeper;

impl Drop for Sweeper {
    fn drop(&mut self) {
        // The pool may be gone when the runtime ends with its thread.
        let _ = POOL.try_with(|pool| {
            if let Ok(mut pool) = pool.try_borrow_mut() {
                pool.has_sweeper = false;
            }
        });
    }
}
