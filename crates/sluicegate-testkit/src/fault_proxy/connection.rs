//! One connection through a proxy: two directions, each with a thread that reads and one that writes.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use socket2::SockRef;

use super::{Fault, Shared};

/// The two sockets. They are closed when the last thread lets go of the connection.
#[derive(Debug)]
pub struct Connection {
    client: TcpStream,
    server: TcpStream,
    is_black_hole: AtomicBool,
    is_ended: AtomicBool,
}

impl Connection {
    /// Does what a fault does at once; the rest is done by the threads when the next byte comes.
    pub fn apply(&self, fault: Fault) {
        match fault {
            Fault::Reset => {
                reset_when_closed(&self.client);
                self.end();
            }
            Fault::HalfClose => drop(self.client.shutdown(Shutdown::Write)),
            _ => {}
        }
    }

    pub fn become_black_hole(&self) {
        self.is_black_hole.store(true, Ordering::Relaxed);
    }

    /// Wakes the threads that read, by an end that the other side does not see, and all threads stop.
    pub fn end(&self) {
        self.is_ended.store(true, Ordering::Relaxed);
        drop(self.client.shutdown(Shutdown::Read));
        drop(self.server.shutdown(Shutdown::Read));
    }

    fn socket(&self, side: Side) -> &TcpStream {
        match side {
            Side::Client => &self.client,
            Side::Server => &self.server,
        }
    }
}

/// Lets the socket end with a reset instead of a polite close.
pub fn reset_when_closed(socket: &TcpStream) {
    SockRef::from(socket)
        .set_linger(Some(Duration::ZERO))
        .expect("lingering is allowed on every socket");
}

/// Connects to the server and passes bytes until both sides have ended. A server that is away means a reset.
pub fn serve(shared: &Arc<Shared>, client: TcpStream) {
    let server = TcpStream::connect_timeout(&shared.target, Duration::from_secs(1));
    let (Ok(server), Ok(())) = (server, client.set_nonblocking(false)) else {
        return reset_when_closed(&client);
    };
    for socket in [&client, &server] {
        let prepared = socket
            .set_nodelay(true)
            .and_then(|()| socket.set_write_timeout(Some(LOOK_AGAIN)));
        prepared.expect("a timeout above zero and no delay are allowed on every socket");
    }
    let flags = (AtomicBool::new(false), AtomicBool::new(false));
    let connection = Arc::new(Connection {
        client,
        server,
        is_black_hole: flags.0,
        is_ended: flags.1,
    });
    let fault = {
        let mut state = shared.state();
        state.connections.push(Arc::downgrade(&connection));
        state.fault
    };
    connection.apply(fault);
    for from in [Side::Client, Side::Server] {
        let (sender, receiver) = sync_channel(256);
        let (reading, writing) = (Arc::clone(&connection), Arc::clone(&connection));
        let reader = shared.spawn(move |shared| read(shared, &reading, from, &sender));
        let writer = shared.spawn(move |shared| write(shared, &writing, from.other(), &receiver));
        if reader.and(writer).is_err() {
            connection.end();
        }
    }
}

#[derive(Clone, Copy)]
enum Side {
    Client,
    Server,
}

impl Side {
    fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// Bytes and when they came.
type Chunk = (Instant, Vec<u8>);

const LOOK_AGAIN: Duration = Duration::from_millis(100);

fn read(shared: &Shared, connection: &Connection, from: Side, sender: &SyncSender<Chunk>) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        if passing_fault(shared, connection).is_none() {
            return;
        }
        match connection.socket(from).read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => return,
            Ok(length) => {
                if sender
                    .send((Instant::now(), buffer[..length].to_vec()))
                    .is_err()
                {
                    return;
                }
            }
        }
    }
}

fn write(shared: &Shared, connection: &Connection, to: Side, receiver: &Receiver<Chunk>) {
    for (came_at, bytes) in receiver {
        if !write_chunk(shared, connection, to, came_at, &bytes) {
            return;
        }
    }
    // The end passes like the bytes before it, unless the end is the fault.
    if passing_fault(shared, connection).is_some() {
        drop(connection.socket(to).shutdown(Shutdown::Write));
    }
}

/// Returns true when the chunk was written; if not, this direction is over.
fn write_chunk(
    shared: &Shared,
    connection: &Connection,
    to: Side,
    came_at: Instant,
    mut bytes: &[u8],
) -> bool {
    while !bytes.is_empty() {
        let Some(fault) = passing_fault(shared, connection) else {
            return false;
        };
        let length = match fault {
            Fault::Latency(latency) if came_at.elapsed() < latency => {
                shared.wait_for_change(latency.saturating_sub(came_at.elapsed()));
                continue;
            }
            Fault::OneBytePerSecond => 1,
            _ => bytes.len(),
        };
        match connection.socket(to).write(&bytes[..length]) {
            Ok(written) => bytes = &bytes[written..],
            // The other side does not read: look whether the fault has changed.
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => return false,
        }
        if fault == Fault::OneBytePerSecond {
            wait_while(shared, connection, Duration::from_secs(1), |fault| {
                fault == Fault::OneBytePerSecond
            });
        }
    }
    true
}

/// The present fault, when it lets bytes pass; waits while it does not. `None` when the connection is over.
fn passing_fault(shared: &Shared, connection: &Connection) -> Option<Fault> {
    wait_while(shared, connection, Duration::MAX, Fault::is_stalled)
}

/// Waits at most so long while the fault is such a one, and for ever in a black hole. `None` when the connection is over.
fn wait_while(
    shared: &Shared,
    connection: &Connection,
    at_most: Duration,
    is: impl Fn(Fault) -> bool,
) -> Option<Fault> {
    let start = Instant::now();
    let mut state = shared.state();
    loop {
        if state.is_over || connection.is_ended.load(Ordering::Relaxed) {
            return None;
        }
        let is_black_hole = connection.is_black_hole.load(Ordering::Relaxed);
        let left = at_most.saturating_sub(start.elapsed());
        if !is_black_hole && (left.is_zero() || !is(state.fault)) {
            return Some(state.fault);
        }
        let look_again = if is_black_hole {
            LOOK_AGAIN
        } else {
            left.min(LOOK_AGAIN)
        };
        state = shared
            .changed
            .wait_timeout(state, look_again)
            .unwrap_or_else(PoisonError::into_inner)
            .0;
    }
}
