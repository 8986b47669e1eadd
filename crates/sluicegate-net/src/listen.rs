//! Listening sockets: one for each thread and address, so that no two threads wait for the same.
//!
//! The system spreads new connections over sockets that share a port (`SO_REUSEPORT`).

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::TcpStream;

use crate::inherited::InheritedSockets;

/// Connections that may wait to be accepted, for each socket.
const BACKLOG: i32 = 4_096;

/// Sockets of an address for each thread: inherited ones if there are any, new ones otherwise.
pub(crate) fn sockets(
    address: SocketAddr,
    threads: usize,
    inherited: &mut InheritedSockets,
) -> io::Result<Vec<Vec<TcpListener>>> {
    let given = inherited.take(address);
    let own = if given.is_empty() {
        bind(address, threads)?
    } else {
        given
    };
    let mut by_thread: Vec<Vec<TcpListener>> = (0..threads).map(|_| Vec::new()).collect();
    // With fewer sockets than threads, some threads share one. With more, some threads have
    // several: a socket from which nobody accepts would swallow its share of the connections.
    for place in 0..threads.max(own.len()) {
        by_thread[place % threads].push(own[place % own.len()].try_clone()?);
    }
    Ok(by_thread)
}

/// Binds new sockets that share one port, also if the system chooses it.
fn bind(address: SocketAddr, count: usize) -> io::Result<Vec<TcpListener>> {
    // Another program that listens there would share its port with us unnoticed. A socket that
    // does not share finds out.
    if address.port() != 0 {
        bind_one(address, false)?;
    }
    let first = bind_one(address, true)?;
    let address = first.local_addr()?;
    let mut sockets = vec![first];
    for _ in 1..count {
        sockets.push(bind_one(address, true)?);
    }
    Ok(sockets)
}

/// Binds one socket that does not block. A shared one lets other shared ones have the same port.
pub fn bind_one(address: SocketAddr, shared: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    if shared {
        socket.set_reuse_port(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// A connection that the system has for us, if there is one now. The runtime would tell later.
pub fn take_waiting(listener: &tokio::net::TcpListener) -> Option<(TcpStream, SocketAddr)> {
    let (stream, peer) = loop {
        match SockRef::from(listener).accept() {
            Ok(accepted) => break accepted,
            Err(error) if is_of_one_connection(&error) => {}
            Err(_) => return None,
        }
    };
    stream.set_nonblocking(true).ok()?;
    let stream = TcpStream::from_std(stream.into()).ok()?;
    Some((stream, peer.as_socket()?))
}

/// Returns true for errors that concern only the connection that was about to be accepted.
pub(crate) fn is_of_one_connection(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: &str = "127.0.0.1:0";

    #[test]
    fn sockets_of_one_address_share_its_port_and_a_second_program_is_told() {
        let sockets = bind(ANY.parse().unwrap(), 3).unwrap();
        let address = sockets[0].local_addr().unwrap();
        assert!(
            sockets
                .iter()
                .all(|socket| socket.local_addr().unwrap() == address)
        );
        assert_eq!(
            bind(address, 1).unwrap_err().kind(),
            io::ErrorKind::AddrInUse
        );
    }

    #[test]
    fn every_thread_has_a_socket() {
        let by_thread = sockets(ANY.parse().unwrap(), 3, &mut InheritedSockets::default()).unwrap();
        assert_eq!(
            by_thread.iter().map(Vec::len).collect::<Vec<_>>(),
            [1, 1, 1]
        );
    }
}
