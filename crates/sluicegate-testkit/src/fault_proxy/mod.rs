//! A bad network between a client and a server.

mod accept;
mod connection;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use connection::Connection;

use crate::processes::{free_port, wait_until};

/// A failure of the network, for connections that exist and for new ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// Every byte comes this much later, in each direction.
    Latency(Duration),
    /// One byte passes each second, in each direction.
    OneBytePerSecond,
    /// Connections are accepted, but no byte passes. What was sent meanwhile passes when the fault ends.
    Stall,
    /// As if packets were dropped: connections stall, and a connect is not answered.
    Drop,
    /// Connections are reset (RST), new ones as soon as they are accepted.
    Reset,
    /// The server seems to have closed its side: the client reads the end, what it writes is still delivered.
    HalfClose,
    /// New connections are refused. Existing ones work.
    Refuse,
}

impl Fault {
    fn is_stalled(self) -> bool {
        matches!(self, Self::Stall | Self::Drop)
    }
}

/// A proxy on loopback in front of one address. Dropping it closes its connections and ends its threads.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

impl FaultProxy {
    /// A proxy without a fault yet, on a free port.
    pub fn new(target: SocketAddr) -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let shared = Arc::new(Shared::new(target));
        let listener =
            accept::listen(address).expect("the port was free a moment ago and is kept for us");
        let for_thread = Arc::clone(&shared);
        let acceptor = Some(thread::spawn(move || {
            accept::run(&for_thread, address, listener)
        }));
        Self {
            address,
            shared,
            acceptor,
        }
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `redis://` with the address.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Changes the fault, and returns when it is in force for existing connections and for new ones.
    pub fn set(&self, fault: Fault) {
        let generation = {
            let mut state = self.shared.state();
            state.fault = fault;
            state.generation += 1;
            state.generation
        };
        self.shared.changed.notify_all();
        for connection in self.shared.connections() {
            connection.apply(fault);
        }
        wait_until(
            Duration::from_secs(5),
            "the listener knows the fault",
            || self.shared.state().generation_in_force >= generation,
        );
    }

    /// Makes black holes of the connections open now, for good; new ones work.
    pub fn stall_existing(&self) {
        for connection in self.shared.connections() {
            connection.become_black_hole();
        }
        self.shared.changed.notify_all();
    }

    /// How many connections were accepted since the start.
    pub fn connections_accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::Relaxed)
    }

    /// When each connection was accepted, to the millisecond.
    pub fn accept_times(&self) -> Vec<Instant> {
        self.shared.state().accept_times.clone()
    }

    /// How many connections are open now.
    pub fn connections_open(&self) -> usize {
        self.shared.connections().len()
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.shared.state().is_over = true;
        self.shared.changed.notify_all();
        if let Some(acceptor) = self.acceptor.take() {
            let _panicked = acceptor.join();
        }
        for connection in self.shared.connections() {
            connection.end();
        }
        let deadline = Instant::now() + Duration::from_secs(2);
        // No panic here: a test that panics already would abort.
        while self.shared.threads.load(Ordering::Relaxed) > 0 && Instant::now() < deadline {
            // bounded wait: until the deadline above
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// State that the threads of a proxy share.
#[derive(Debug)]
struct Shared {
    target: SocketAddr,
    state: Mutex<State>,
    changed: Condvar,
    accepted: AtomicU64,
    /// Threads of connections that run.
    threads: AtomicUsize,
}

#[derive(Debug)]
struct State {
    fault: Fault,
    /// Counts the changes of the fault, and up to which the acceptor has followed.
    generation: u64,
    generation_in_force: u64,
    is_over: bool,
    connections: Vec<Weak<Connection>>,
    accept_times: Vec<Instant>,
}

impl Shared {
    fn new(target: SocketAddr) -> Self {
        let state = State {
            fault: Fault::None,
            generation: 0,
            generation_in_force: 0,
            is_over: false,
            connections: Vec::new(),
            accept_times: Vec::new(),
        };
        Self {
            target,
            state: Mutex::new(state),
            changed: Condvar::new(),
            accepted: AtomicU64::new(0),
            threads: AtomicUsize::new(0),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connections(&self) -> Vec<Arc<Connection>> {
        let mut state = self.state();
        state
            .connections
            .retain(|connection| connection.strong_count() > 0);
        state.connections.iter().filter_map(Weak::upgrade).collect()
    }

    /// Waits until the fault may have changed, at most so long.
    fn wait_for_change(&self, at_most: Duration) {
        let state = self.state();
        if !state.is_over {
            let _woken = self
                .changed
                .wait_timeout(state, at_most)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Runs this in a thread that `drop` waits for.
    fn spawn(self: &Arc<Self>, run: impl FnOnce(&Arc<Self>) + Send + 'static) -> io::Result<()> {
        let shared = Arc::clone(self);
        self.threads.fetch_add(1, Ordering::Relaxed);
        let spawned = thread::Builder::new()
            .stack_size(128 * 1024)
            .spawn(move || {
                run(&shared);
                shared.threads.fetch_sub(1, Ordering::Relaxed);
            });
        if spawned.is_err() {
            self.threads.fetch_sub(1, Ordering::Relaxed);
        }
        spawned.map(drop)
    }
}
