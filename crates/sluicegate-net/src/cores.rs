//! A thread for each core, each with its own runtime and its own listening sockets of every
//! endpoint.
//!
//! A connection stays on the thread that accepted it, with everything that it needs: its buffers,
//! its timers and the connections to servers that it uses. Threads share nothing but counters.

use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use crate::client_connections::{ClientAdmission, ClientPermit};
use crate::counters::{ConnectionCounters, ConnectionRefusal};
use crate::inherited::InheritedSockets;
use crate::listen;

/// A service of this process: its addresses, and the function that serves a connection.
pub struct Endpoint {
    /// Key of the addresses in the configuration; errors name it.
    name: &'static str,
    listen: Vec<SocketAddr>,
    /// Most connections of all threads together; those beyond are closed at once.
    max_connections: usize,
    /// Decides about the connections of one client; `None` admits any number.
    clients: Option<Arc<ClientAdmission>>,
    spawn: Box<SpawnConnection>,
}

/// Spawns the task that serves a connection. Boxed once for each endpoint, not for each
/// connection.
type SpawnConnection = dyn Fn(TcpStream, SocketAddr, ConnectionPermit) + Send + Sync;

impl Endpoint {
    /// An endpoint whose connections are served by `serve`, which should end soon after the process
    /// is told to.
    pub fn new<S, F>(
        name: &'static str,
        listen: Vec<SocketAddr>,
        max_connections: usize,
        serve: S,
    ) -> Self
    where
        S: Fn(TcpStream, SocketAddr) -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let spawn = Box::new(move |stream, peer, permit| {
            tokio::spawn(with_permit(serve(stream, peer), permit));
        });
        Self {
            name,
            listen,
            max_connections,
            clients: None,
            spawn,
        }
    }

    /// The same endpoint, where `clients` decides whether a peer may have one more connection.
    #[must_use]
    pub fn admitting(mut self, clients: Arc<ClientAdmission>) -> Self {
        self.clients = Some(clients);
        self
    }
}

/// Keeps a permit until a connection is over. A combinator and no `async` block, which would have room
/// for the future twice, in every connection that waits.
fn with_permit(
    served: impl Future<Output = ()>,
    permit: ConnectionPermit,
) -> impl Future<Output = ()> {
    served.map(move |()| drop(permit))
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("name", &self.name)
            .field("listen", &self.listen)
            .finish_non_exhaustive()
    }
}

/// The running threads and their sockets.
pub struct Cores {
    /// Addresses of each endpoint, by its name.
    addresses: Vec<(&'static str, SocketAddr)>,
    /// Copies of the sockets that the threads accept from, for the process that replaces this one.
    sockets: Vec<TcpListener>,
    workers: Vec<JoinHandle<()>>,
}

/// Settings that all threads share.
#[derive(Clone)]
pub struct CoreSettings {
    /// Counts connections that are refused because there are too many.
    pub counters: Arc<ConnectionCounters>,
    /// Becomes true when the process is told to end.
    pub ending: watch::Receiver<bool>,
    /// Time for connections to end then; the rest are cut off.
    pub drain: Duration,
}

impl Cores {
    /// Binds every address of every endpoint and starts to serve. An error names the address.
    pub fn start(
        threads: usize,
        endpoints: Vec<Endpoint>,
        settings: &CoreSettings,
        inherited: &mut InheritedSockets,
    ) -> Result<Self, String> {
        let mut cores = Self {
            addresses: Vec::new(),
            sockets: Vec::new(),
            workers: Vec::new(),
        };
        if endpoints.is_empty() {
            return Ok(cores);
        }
        let mut listeners: Vec<Vec<Listener>> = (0..threads).map(|_| Vec::new()).collect();
        for endpoint in endpoints {
            cores.open(endpoint, &mut listeners, inherited)?;
        }
        for (number, listeners) in listeners.into_iter().enumerate() {
            let settings = settings.clone();
            let worker = thread::Builder::new()
                .name(format!("core-{number}"))
                .spawn(move || run(listeners, &settings))
                .map_err(|error| format!("no thread for a core: {error}"))?;
            cores.workers.push(worker);
        }
        Ok(cores)
    }

    /// Binds the sockets of an endpoint and gives each thread its own.
    fn open(
        &mut self,
        endpoint: Endpoint,
        threads: &mut [Vec<Listener>],
        inherited: &mut InheritedSockets,
    ) -> Result<(), String> {
        let limit = Arc::new(ConnectionLimit {
            used: AtomicUsize::new(0),
            max: endpoint.max_connections,
        });
        let endpoint = Arc::new(endpoint);
        for address in &endpoint.listen {
            let words = |error: std::io::Error| format!("{}: {address}: {error}", endpoint.name);
            let by_thread = listen::sockets(*address, threads.len(), inherited).map_err(words)?;
            let first = by_thread.iter().flatten().next();
            self.addresses
                .extend(first.and_then(|socket| Some((endpoint.name, socket.local_addr().ok()?))));
            for (thread, sockets) in threads.iter_mut().zip(by_thread) {
                for socket in sockets {
                    self.sockets.push(socket.try_clone().map_err(words)?);
                    thread.push(Listener {
                        socket,
                        endpoint: Arc::clone(&endpoint),
                        limit: Arc::clone(&limit),
                    });
                }
            }
        }
        Ok(())
    }

    /// Addresses on which an endpoint listens.
    pub fn addresses(&self, endpoint: &str) -> Vec<SocketAddr> {
        self.addresses
            .iter()
            .filter(|(name, _)| *name == endpoint)
            .map(|(_, address)| *address)
            .collect()
    }

    /// Listening sockets of all endpoints.
    pub fn sockets(&self) -> &[TcpListener] {
        &self.sockets
    }

    /// Waits until the threads have ended: after the process was told to end and the requests in
    /// progress were answered, or cut off.
    pub fn join(self) {
        drop(self.sockets);
        for worker in self.workers {
            if worker.join().is_err() {
                tracing::error!("the thread of a core panicked");
            }
        }
    }
}

/// One thread's socket of an endpoint.
struct Listener {
    socket: TcpListener,
    endpoint: Arc<Endpoint>,
    limit: Arc<ConnectionLimit>,
}

/// The connections of one thread, of all endpoints. There is no list of their tasks, which would
/// take more memory for each of them than its permit: they end with the runtime.
#[derive(Default)]
struct ThreadConnections {
    open: AtomicUsize,
    /// Told when the last one has ended.
    all_ended: Notify,
}

impl ThreadConnections {
    /// Waits until there is none.
    async fn ended(&self) {
        while self.open.load(Ordering::Relaxed) > 0 {
            self.all_ended.notified().await;
        }
    }
}

/// One thread from its start to its end.
fn run(listeners: Vec<Listener>, settings: &CoreSettings) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return tracing::error!("no runtime for a core: {error}"),
    };
    runtime.block_on(async {
        let mut accepting = JoinSet::new();
        let connections = Arc::<ThreadConnections>::default();
        for listener in listeners {
            accepting.spawn(accept(listener, settings.clone(), Arc::clone(&connections)));
        }
        while accepting.join_next().await.is_some() {}
        if tokio::time::timeout(settings.drain, connections.ended())
            .await
            .is_err()
        {
            let (left, drain) = (connections.open.load(Ordering::Relaxed), settings.drain);
            tracing::warn!("{left} connections were cut off: they did not end within {drain:?}");
        }
    });
}

/// Accepts connections until the process is told to end. An error never ends it: the next
/// connection may work.
async fn accept(
    listener: Listener,
    mut settings: CoreSettings,
    connections: Arc<ThreadConnections>,
) {
    const PAUSE: Duration = Duration::from_millis(50);
    let Listener {
        socket,
        endpoint,
        limit,
    } = listener;
    let socket = match tokio::net::TcpListener::from_std(socket) {
        Ok(socket) => socket,
        Err(error) => return tracing::error!("a listening socket cannot be used: {error}"),
    };
    let counters = Arc::clone(&settings.counters);
    let places = Arc::new(ConnectionPlaces { limit, connections });
    let serve = |stream, peer: SocketAddr| {
        match permit(&endpoint, &places, &counters, peer) {
            Ok(permit) => (endpoint.spawn)(stream, peer, permit),
            // The stream is dropped, and so closed.
            Err(reason) => counters.refuse(reason),
        }
    };
    let mut is_short = false;
    loop {
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            _ = settings.ending.wait_for(|ending| *ending) => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                is_short = false;
                serve(stream, peer);
            }
            // The client is gone already.
            Err(error) if listen::is_of_one_connection(&error) => {}
            // Out of descriptors or memory: they come back when connections end.
            Err(error) => {
                if !std::mem::replace(&mut is_short, true) {
                    tracing::warn!("no connection can be taken for the moment: {error}");
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    // The system has connections for us that nobody has accepted, and would reset them.
    while let Some((stream, peer)) = listen::take_waiting(&socket) {
        serve(stream, peer);
    }
}

/// Decides whether a connection of `peer` is served.
fn permit(
    endpoint: &Endpoint,
    places: &Arc<ConnectionPlaces>,
    counters: &ConnectionCounters,
    peer: SocketAddr,
) -> Result<ConnectionPermit, ConnectionRefusal> {
    let open = places.limit.used.load(Ordering::Relaxed);
    if counters.overload().refuses_new(open) {
        return Err(ConnectionRefusal::Overload);
    }
    let client = match &endpoint.clients {
        None => ClientPermit::uncounted(),
        Some(admit) => admit(peer.ip()).ok_or(ConnectionRefusal::TooManyOfClient)?,
    };
    ConnectionPermit::take(places, client).ok_or(ConnectionRefusal::TooMany)
}

/// Number of connections of an endpoint, over all threads.
struct ConnectionLimit {
    used: AtomicUsize,
    max: usize,
}

/// The connections of one thread's socket of an endpoint are counted here.
struct ConnectionPlaces {
    limit: Arc<ConnectionLimit>,
    connections: Arc<ThreadConnections>,
}

/// Permission for one connection; returned when dropped.
struct ConnectionPermit {
    places: Arc<ConnectionPlaces>,
    _client: ClientPermit,
}

impl ConnectionPermit {
    fn take(places: &Arc<ConnectionPlaces>, client: ClientPermit) -> Option<Self> {
        let limit = &places.limit;
        if limit.used.fetch_add(1, Ordering::Relaxed) >= limit.max {
            limit.used.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        places.connections.open.fetch_add(1, Ordering::Relaxed);
        Some(Self {
            places: Arc::clone(places),
            _client: client,
        })
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let ConnectionPlaces { limit, connections } = &*self.places;
        limit.used.fetch_sub(1, Ordering::Relaxed);
        if connections.open.fetch_sub(1, Ordering::Relaxed) == 1 {
            connections.all_ended.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::io::Read;

    use tokio::io::AsyncWriteExt;

    const ANY: &str = "127.0.0.1:0";
    const LONGEST: Duration = Duration::from_secs(20);

    #[test]
    fn a_permit_takes_no_more_room_than_two_pointers() {
        let bytes = [0_u8; 1_000];
        let served = async move {
            std::future::pending::<()>().await;
            std::hint::black_box(&bytes);
        };
        let limit = Arc::new(ConnectionLimit {
            max: 1,
            used: AtomicUsize::new(0),
        });
        let places = Arc::new(ConnectionPlaces {
            limit,
            connections: Arc::default(),
        });
        let (size, permit) = (
            size_of_val(&served),
            ConnectionPermit::take(&places, ClientPermit::uncounted()).unwrap(),
        );
        let whole = size_of_val(&with_permit(served, permit));
        assert!(whole <= size + 3 * size_of::<usize>(), "{whole} for {size}");
    }

    /// Says its word, then stays until the process ends.
    fn speaker(
        name: &'static str,
        max_connections: usize,
        ending: &watch::Receiver<bool>,
    ) -> Endpoint {
        let ending = ending.clone();
        Endpoint::new(
            name,
            vec![ANY.parse().unwrap()],
            max_connections,
            move |mut stream, _| {
                let mut ending = ending.clone();
                async move {
                    let _ = stream.write_all(name.as_bytes()).await;
                    let _ = ending.wait_for(|ending| *ending).await;
                }
            },
        )
    }

    fn connect(cores: &Cores, name: &str) -> std::net::TcpStream {
        let stream = std::net::TcpStream::connect(cores.addresses(name)[0]).unwrap();
        stream.set_read_timeout(Some(LONGEST)).unwrap();
        stream
    }

    fn word(stream: &mut std::net::TcpStream) -> String {
        let mut bytes = [0; 16];
        let length = stream.read(&mut bytes).unwrap_or(0);
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    #[test]
    fn every_door_is_served_has_its_own_bound_and_is_drained() {
        let (end, ending) = watch::channel(false);
        let endpoints = vec![speaker("one", 2, &ending), speaker("two", 1, &ending)];
        let settings = CoreSettings {
            counters: Arc::default(),
            ending,
            drain: LONGEST,
        };
        let cores =
            Cores::start(2, endpoints, &settings, &mut InheritedSockets::default()).unwrap();
        assert_eq!(cores.sockets().len(), 4);
        let mut first = [
            connect(&cores, "one"),
            connect(&cores, "one"),
            connect(&cores, "two"),
        ];
        assert_eq!(first.each_mut().map(word), ["one", "one", "two"]);
        for full in ["one", "two"] {
            assert_eq!(
                word(&mut connect(&cores, full)),
                "",
                "{full} has more than it may"
            );
        }
        end.send_replace(true);
        cores.join();
        assert_eq!(first.each_mut().map(word), ["", "", ""]);
    }

    #[test]
    fn an_address_that_cannot_be_had_is_told_with_its_key() {
        let (_end, ending) = watch::channel(false);
        let taken = TcpListener::bind(ANY).unwrap();
        let mut endpoint = speaker("decisions.http", 1, &ending);
        endpoint.listen = vec![taken.local_addr().unwrap()];
        let settings = CoreSettings {
            counters: Arc::default(),
            ending,
            drain: LONGEST,
        };
        let refused = Cores::start(
            1,
            vec![endpoint],
            &settings,
            &mut InheritedSockets::default(),
        )
        .err()
        .unwrap();
        assert!(
            refused.starts_with(&format!(
                "decisions.http: {}: ",
                taken.local_addr().unwrap()
            )),
            "{refused}"
        );
    }
}
