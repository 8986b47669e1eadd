//! Listening sockets that the process inherits, so that no connection is refused while one process
//! replaces another.
//!
//! The protocol is that of socket activation: `LISTEN_FDS` is the number of sockets, and
//! `LISTEN_FDS_FIRST_FD` the first descriptor if it is not 3. Sockets are told apart by their
//! address.

use std::io;
use std::net::{SocketAddr, TcpListener};

use listenfd::ListenFd;

/// Sockets that the starter of this process has opened for it.
#[derive(Debug, Default)]
pub struct InheritedSockets(Vec<TcpListener>);

impl InheritedSockets {
    /// Takes them from the environment; to be called once, before any thread is started.
    pub fn from_env() -> io::Result<Self> {
        let mut given = ListenFd::from_env();
        let mut listeners = Vec::new();
        for index in 0..given.len() {
            listeners.extend(given.take_tcp_listener(index)?);
        }
        for listener in &listeners {
            listener.set_nonblocking(true)?;
        }
        Ok(Self(listeners))
    }

    /// Takes the sockets that listen on an address.
    pub fn take(&mut self, address: SocketAddr) -> Vec<TcpListener> {
        self.0
            .extract_if(.., |listener| {
                listener.local_addr().is_ok_and(|own| own == address)
            })
            .collect()
    }

    /// Addresses of the sockets that were not taken.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.0
            .iter()
            .filter_map(|listener| listener.local_addr().ok())
            .collect()
    }
}
