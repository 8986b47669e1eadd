//! A thread for each core, each with its own runtime and its own listening sockets of every door.

use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;

use crate::handover::Inherited;
use crate::proxy::listen;
use crate::telemetry::Metrics;
use crate::telemetry::metrics::ConnectionRefusal;

/// Something that is listened for: its addresses, and what is done with a connection.
pub(crate) struct Door {
    /// The key that the addresses have in the configuration.
    name: &'static str,
    listen: Vec<SocketAddr>,
    /// Connections of all threads together; those beyond are closed at once.
    max_connections: usize,
    begin: Box<Begin>,
}

/// Begins to serve a connection, as one of the tasks of a thread.
type Begin = dyn Fn(TcpStream, SocketAddr, Place, &mut JoinSet<()>) + Send + Sync;

impl Door {
    /// A door whose connections are served by `serve`, which should end soon after the process is told to.
    pub(crate) fn new<S, F>(
        name: &'static str,
        listen: Vec<SocketAddr>,
        max_connections: usize,
        serve: S,
    ) -> Self
    where
        S: Fn(TcpStream, SocketAddr) -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let begin = Box::new(move |stream, peer, place, connections: &mut JoinSet<()>| {
            let served = serve(stream, peer);
            connections.spawn(async move {
                served.await;
                drop(place);
            });
        });
        Self {
            name,
            listen,
            max_connections,
            begin,
        }
    }
}

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Door")
            .field("name", &self.name)
            .field("listen", &self.listen)
            .finish_non_exhaustive()
    }
}

/// The threads.
pub(crate) struct Cores {
    /// Where each door listens, by its name.
    addresses: Vec<(&'static str, SocketAddr)>,
    /// The same sockets that the threads accept from, for whoever replaces this process.
    sockets: Vec<TcpListener>,
    workers: Vec<JoinHandle<()>>,
}

/// What all threads have in common.
#[derive(Clone)]
pub(crate) struct Common {
    pub(crate) metrics: Arc<Metrics>,
    /// Becomes true when the process is told to end.
    pub(crate) ending: watch::Receiver<bool>,
    /// How long connections may take to end then.
    pub(crate) drain: Duration,
}

impl Cores {
    /// Binds every address of every door and begins to serve. An error names the address.
    pub(crate) fn start(
        threads: usize,
        doors: Vec<Door>,
        common: &Common,
        inherited: &mut Inherited,
    ) -> Result<Self, String> {
        let mut cores = Self {
            addresses: Vec::new(),
            sockets: Vec::new(),
            workers: Vec::new(),
        };
        if doors.is_empty() {
            return Ok(cores);
        }
        let mut entrances: Vec<Vec<Entrance>> = (0..threads).map(|_| Vec::new()).collect();
        for door in doors {
            cores.open(door, &mut entrances, inherited)?;
        }
        for (number, entrances) in entrances.into_iter().enumerate() {
            let common = common.clone();
            let worker = thread::Builder::new()
                .name(format!("core-{number}"))
                .spawn(move || run(entrances, &common))
                .map_err(|error| format!("no thread for a core: {error}"))?;
            cores.workers.push(worker);
        }
        Ok(cores)
    }

    /// Gives each thread its sockets of a door.
    fn open(
        &mut self,
        door: Door,
        threads: &mut [Vec<Entrance>],
        inherited: &mut Inherited,
    ) -> Result<(), String> {
        let places = Arc::new(Places {
            taken: AtomicUsize::new(0),
            most: door.max_connections,
        });
        let door = Arc::new(door);
        for address in &door.listen {
            let words = |error: std::io::Error| format!("{}: {address}: {error}", door.name);
            let by_thread = listen::sockets(*address, threads.len(), inherited).map_err(words)?;
            let first = by_thread.iter().flatten().next();
            self.addresses
                .extend(first.and_then(|socket| Some((door.name, socket.local_addr().ok()?))));
            for (thread, sockets) in threads.iter_mut().zip(by_thread) {
                for socket in sockets {
                    self.sockets.push(socket.try_clone().map_err(words)?);
                    thread.push(Entrance {
                        socket,
                        door: Arc::clone(&door),
                        places: Arc::clone(&places),
                    });
                }
            }
        }
        Ok(())
    }

    /// Where a door listens.
    pub(crate) fn addresses(&self, door: &str) -> Vec<SocketAddr> {
        self.addresses
            .iter()
            .filter(|(name, _)| *name == door)
            .map(|(_, address)| *address)
            .collect()
    }

    /// The listening sockets of all doors.
    pub(crate) fn sockets(&self) -> &[TcpListener] {
        &self.sockets
    }

    /// Waits until the threads have ended, which they do once the process is told to and what is under way is answered.
    pub(crate) fn join(self) {
        drop(self.sockets);
        for worker in self.workers {
            if worker.join().is_err() {
                tracing::error!("the thread of a core panicked");
            }
        }
    }
}

/// One thread's socket of a door.
struct Entrance {
    socket: TcpListener,
    door: Arc<Door>,
    places: Arc<Places>,
}

type Connections = Arc<Mutex<JoinSet<()>>>;

fn run(entrances: Vec<Entrance>, common: &Common) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return tracing::error!("no runtime for a core: {error}"),
    };
    runtime.block_on(async {
        let mut accepting = JoinSet::new();
        let connections = Connections::default();
        for entrance in entrances {
            accepting.spawn(accept(entrance, common.clone(), Arc::clone(&connections)));
        }
        while accepting.join_next().await.is_some() {}
        let mut connections = connections.lock().await;
        let all_ended = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(common.drain, all_ended).await.is_err() {
            let (left, drain) = (connections.len(), common.drain);
            tracing::warn!("{left} connections were cut off: they did not end within {drain:?}");
        }
    });
}

/// Takes connections until the process is told to end; whatever goes wrong, the next one is waited for.
async fn accept(entrance: Entrance, mut common: Common, connections: Connections) {
    const PAUSE: Duration = Duration::from_millis(50);
    let Entrance {
        socket,
        door,
        places,
    } = entrance;
    let socket = match tokio::net::TcpListener::from_std(socket) {
        Ok(socket) => socket,
        Err(error) => return tracing::error!("a listening socket cannot be used: {error}"),
    };
    let mut is_short = false;
    loop {
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            _ = common.ending.wait_for(|ending| *ending) => return,
        };
        match accepted {
            Ok((stream, peer)) => {
                is_short = false;
                let Some(place) = Place::take(&places) else {
                    common
                        .metrics
                        .connection_refused(ConnectionRefusal::TooMany);
                    continue;
                };
                let mut connections = connections.lock().await;
                while connections.try_join_next().is_some() {}
                (door.begin)(stream, peer, place, &mut connections);
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
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted
    )
}

/// Connections of a door, of all threads together.
struct Places {
    taken: AtomicUsize,
    most: usize,
}

/// One of the connections that may exist; free again when dropped.
pub(crate) struct Place(Arc<Places>);

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

#[cfg(test)]
mod tests {
    use super::*;

    use std::io::Read;

    use tokio::io::AsyncWriteExt;

    const ANY: &str = "127.0.0.1:0";
    const LONGEST: Duration = Duration::from_secs(20);

    /// Says its word, then stays until the process ends.
    fn speaker(name: &'static str, max_connections: usize, ending: &watch::Receiver<bool>) -> Door {
        let ending = ending.clone();
        Door::new(
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
        let (told, ending) = watch::channel(false);
        let doors = vec![speaker("one", 2, &ending), speaker("two", 1, &ending)];
        let common = Common {
            metrics: Metrics::new(),
            ending,
            drain: LONGEST,
        };
        let cores = Cores::start(2, doors, &common, &mut Inherited::default()).unwrap();
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
        told.send_replace(true);
        cores.join();
        assert_eq!(first.each_mut().map(word), ["", "", ""]);
    }

    #[test]
    fn an_address_that_cannot_be_had_is_told_with_its_key() {
        let (_told, ending) = watch::channel(false);
        let taken = TcpListener::bind(ANY).unwrap();
        let mut door = speaker("decisions.http", 1, &ending);
        door.listen = vec![taken.local_addr().unwrap()];
        let common = Common {
            metrics: Metrics::new(),
            ending,
            drain: LONGEST,
        };
        let refused = Cores::start(1, vec![door], &common, &mut Inherited::default())
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
