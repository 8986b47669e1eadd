//! The TCP sockets of this machine, as the system sees them.

use std::fs;
use std::net::{IpAddr, SocketAddr};

/// A state of a TCP socket (RFC 9293, section 3.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpState {
    /// Both sides may send.
    Established,
    /// The peer has closed its side, and this side has not.
    CloseWait,
}

/// Counts the sockets in this state that are connected to `peer`, an IPv4 address.
///
/// ```
/// use sluicegate_testkit::{TcpState, UpstreamRecorder, count_sockets, raw_socket};
///
/// let upstream = UpstreamRecorder::start();
/// let _connection = raw_socket::connect(upstream.address);
/// assert_eq!(count_sockets(upstream.address, TcpState::Established), 1);
/// ```
///
/// # Panics
/// If the system does not tell, or `peer` is not IPv4.
pub fn count_sockets(peer: SocketAddr, state: TcpState) -> usize {
    let IpAddr::V4(address) = peer.ip() else {
        panic!("only IPv4 is looked for")
    };
    let number = u32::from_ne_bytes(address.octets());
    let peer = format!("{number:08X}:{:04X}", peer.port());
    let state = match state {
        TcpState::Established => "01",
        TcpState::CloseWait => "08",
    };
    let table = fs::read_to_string("/proc/self/net/tcp").expect("Linux lists its sockets");
    table
        .lines()
        .filter(|line| {
            // Number, own address, the peer's, state, and more.
            let mut words = line.split_whitespace().skip(2);
            words.next() == Some(&peer) && words.next() == Some(state)
        })
        .count()
}
