//! The listener of a proxy: accepts, refuses, or lets connects go unanswered.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use socket2::SockRef;

use super::connection::{self, reset_when_closed};
use super::{Fault, Shared};

/// A listener that does not block.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Accepts until the proxy is over.
pub fn run(shared: &Arc<Shared>, address: SocketAddr, listener: TcpListener) {
    let mut listener = FaultListener {
        address,
        listener: Some(listener),
        fillers: Vec::new(),
        is_shut: false,
    };
    loop {
        let (fault, generation, is_over) = {
            let state = shared.state();
            (state.fault, state.generation, state.is_over)
        };
        if is_over {
            return;
        }
        if fault == Fault::Refuse {
            // A client that connected before the fault is in, though it is not accepted yet.
            std::iter::from_fn(|| listener.accept())
                .for_each(|client| serve(shared, client, fault));
        }
        listener.follow(fault);
        shared.state().generation_in_force = generation;
        let accepted = if fault == Fault::Drop {
            None
        } else {
            listener.accept()
        };
        match accepted {
            Some(client) => serve(shared, client, fault),
            // bounded wait: a look at the listener each millisecond until the proxy is over
            None => thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// The listener, and what keeps others out.
struct FaultListener {
    address: SocketAddr,
    /// `None` while connections are refused.
    listener: Option<TcpListener>,
    /// Our own connections in the queue of the listener: the kernel answers nobody while it is full.
    fillers: Vec<(SocketAddr, TcpStream)>,
    is_shut: bool,
}

impl FaultListener {
    fn follow(&mut self, fault: Fault) {
        if fault == Fault::Refuse {
            self.listener = None;
            self.fillers.clear();
            self.is_shut = false;
            return;
        }
        if self.listener.is_none() {
            // A failure is tried again in a millisecond; the test sees a refused connection until then.
            self.listener = listen(self.address).ok();
        }
        match (fault == Fault::Drop, self.is_shut) {
            (true, false) => self.shut(),
            (false, true) => self.open(),
            _ => {}
        }
    }

    fn shut(&mut self) {
        let Some(listener) = &self.listener else {
            return;
        };
        // Asking a second time only changes the length of the queue.
        SockRef::from(listener)
            .listen(0)
            .expect("a socket that listens can be told to listen");
        while let Ok(filler) = TcpStream::connect_timeout(&self.address, FULL_AFTER) {
            let name = filler.local_addr().expect("a connected socket has a name");
            self.fillers.push((name, filler));
        }
        self.is_shut = true;
    }

    fn open(&mut self) {
        if let Some(listener) = &self.listener {
            SockRef::from(listener)
                .listen(QUEUE)
                .expect("a socket that listens can be told to listen");
        }
        self.is_shut = false;
    }

    fn accept(&mut self) -> Option<TcpStream> {
        let (client, peer) = self.listener.as_ref()?.accept().ok()?;
        let filler = self.fillers.iter().position(|(name, _)| *name == peer);
        if let Some(filler) = filler {
            self.fillers.swap_remove(filler);
            return None;
        }
        Some(client)
    }
}

/// The kernel answers on loopback within microseconds, or not for a second.
const FULL_AFTER: Duration = Duration::from_millis(50);
/// As the standard library listens.
const QUEUE: i32 = 128;

fn serve(shared: &Arc<Shared>, client: TcpStream, fault: Fault) {
    shared.accepted.fetch_add(1, Ordering::Relaxed);
    shared.state().accept_times.push(Instant::now());
    if fault == Fault::Reset {
        reset_when_closed(&client);
        return;
    }
    // Without a thread the client is dropped, which it sees.
    let _closed = shared.spawn(move |shared| connection::serve(shared, client));
}
