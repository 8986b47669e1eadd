//! The reverse proxy: a thread for each core, each with its own runtime, listening sockets and connections to servers.

mod answer;
mod bell;
mod body;
mod connection;
mod ending;
mod exchange;
mod forward;
mod frame_guard;
mod grpc;
mod http1;
mod io;
mod link;
pub(crate) mod listen;
mod proxy_protocol;
pub(crate) mod rewrite;
mod service;
mod streams;
pub(crate) mod tls;
mod upgrade;
mod upload;
pub(crate) mod upstream;
mod validate;
mod watch;
mod wire;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::sync::watch as signal;
use tokio::task::JoinSet;
use tollgate_config as config;

use self::connection::Door;
use crate::handover::Inherited;
use crate::live::Gate;
use crate::telemetry::metrics::ConnectionRefusal;

/// A running proxy.
pub(crate) struct Proxy {
    addresses: Vec<SocketAddr>,
    /// The same sockets that the threads accept from, for whoever replaces this process.
    sockets: Vec<TcpListener>,
    draining: signal::Sender<bool>,
    workers: Vec<JoinHandle<()>>,
}

/// Connections of all threads together.
struct Places {
    taken: AtomicUsize,
    most: usize,
}

impl Proxy {
    /// Binds every address and begins to serve. An error names the address.
    pub(crate) fn start(config: &config::Proxy, gate: &Arc<Gate>, inherited: &mut Inherited) -> Result<Self, String> {
        let threads = config.workers.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
        let mut sockets: Vec<Vec<TcpListener>> = (0..threads).map(|_| Vec::new()).collect();
        let (mut addresses, mut kept) = (Vec::new(), Vec::new());
        for address in &config.listen {
            let words = |error: std::io::Error| format!("proxy.listen: {address}: {error}");
            let by_thread = listen::sockets(*address, threads, inherited).map_err(words)?;
            addresses.extend(by_thread.iter().flatten().next().and_then(|socket| socket.local_addr().ok()));
            for socket in by_thread.iter().flatten() {
                kept.push(socket.try_clone().map_err(words)?);
            }
            sockets.iter_mut().zip(by_thread).for_each(|(own, more)| own.extend(more));
        }
        let (draining, receiver) = signal::channel(false);
        let door = Arc::new(Door {
            gate: Arc::clone(gate),
            proxy_protocol_from: config.proxy_protocol_from.clone(),
            draining: receiver,
        });
        let places = Arc::new(Places { taken: AtomicUsize::new(0), most: config.max_connections });
        let drain = Duration::from(config.timeouts.drain);
        let mut workers = Vec::new();
        for (number, sockets) in sockets.into_iter().enumerate() {
            let (door, places) = (Arc::clone(&door), Arc::clone(&places));
            let worker = thread::Builder::new()
                .name(format!("proxy-{number}"))
                .spawn(move || run(sockets, &door, &places, drain))
                .map_err(|error| format!("no thread for the proxy: {error}"))?;
            workers.push(worker);
        }
        Ok(Self { addresses, sockets: kept, draining, workers })
    }

    /// Where it listens.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The listening sockets.
    pub(crate) fn sockets(&self) -> &[TcpListener] {
        &self.sockets
    }

    /// Lets every request come to its end, as long as the configuration allows, and no other begin.
    pub(crate) fn drain(self) {
        drop(self.sockets);
        self.draining.send_replace(true);
        for worker in self.workers {
            if worker.join().is_err() {
                tracing::error!("a thread of the proxy panicked");
            }
        }
    }
}

/// One thread of the proxy.
fn run(sockets: Vec<TcpListener>, door: &Arc<Door>, places: &Arc<Places>, drain: Duration) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return tracing::error!("no runtime for a thread of the proxy: {error}"),
    };
    runtime.block_on(async {
        let mut accepting = JoinSet::new();
        let connections = Arc::new(tokio::sync::Mutex::new(JoinSet::new()));
        for socket in sockets {
            accepting.spawn(accept(socket, Arc::clone(door), Arc::clone(places), Arc::clone(&connections)));
        }
        while accepting.join_next().await.is_some() {}
        let mut connections = connections.lock().await;
        let all_ended = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(drain, all_ended).await.is_err() {
            tracing::warn!("{} connections were cut off: they did not end within {drain:?}", connections.len());
        }
    });
}

/// Takes connections until the process is told to end; whatever goes wrong, the next one is waited for.
async fn accept(
    socket: TcpListener,
    door: Arc<Door>,
    places: Arc<Places>,
    connections: Arc<tokio::sync::Mutex<JoinSet<()>>>,
) {
    const PAUSE: Duration = Duration::from_millis(50);
    let socket = match tokio::net::TcpListener::from_std(socket) {
        Ok(socket) => socket,
        Err(error) => return tracing::error!("a listening socket cannot be used: {error}"),
    };
    let mut draining = door.draining.clone();
    let mut is_short = false;
    loop {
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            _ = draining.wait_for(|draining| *draining) => return,
        };
        match accepted {
            Ok((stream, peer)) => {
                is_short = false;
                let Some(place) = Place::take(&places) else {
                    door.gate.metrics.connection_refused(ConnectionRefusal::TooMany);
                    continue;
                };
                let door = Arc::clone(&door);
                let mut connections = connections.lock().await;
                while connections.try_join_next().is_some() {}
                connections.spawn(async move {
                    connection::serve(door, stream, peer).await;
                    drop(place);
                });
            }
            // The client has gone already.
            Err(error) if is_of_one_connection(&error) => {}
            // No more descriptors or memory: they come back when connections end.
            Err(error) => {
                if !std::mem::replace(&mut is_short, true) {
                    tracing::warn!("no connection can be taken for the moment: {error}");
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

fn is_of_one_connection(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// One of the connections that may exist; free again when dropped.
struct Place(Arc<Places>);

impl Place {
    fn take(places: &Arc<Places>) -> Option<Self> {
        if places.taken.fetch_add(1, Ordering::Relaxed) >= places.most {
            places.taken.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(Self(Arc::clone(places)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}
