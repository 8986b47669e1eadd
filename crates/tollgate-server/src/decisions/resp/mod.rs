//! The protocol of Redis: `CL.THROTTLE` as clients of redis-cell send it, and the configured limits by name.
//!
//! Everything that has come is answered at once: decisions of this process on the spot, those of a shared store side by side,
//! and all answers in one write.

mod asked;
mod command;
mod connection;
mod parse;
mod reply;
mod session;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

use super::{Desk, Impatient};
use connection::Connection;

/// Serves one client until it goes, says something that is no command, or the process ends.
pub(super) async fn serve(desk: Arc<Desk>, stream: TcpStream, _peer: SocketAddr) {
    /// Clients keep connections for days; one that is gone without a word is noticed after this time without any.
    const QUIET: Duration = Duration::from_secs(60);
    let keepalive = TcpKeepalive::new().with_time(QUIET).with_interval(QUIET / 4);
    if stream.set_nodelay(true).is_err() || SockRef::from(&stream).set_tcp_keepalive(&keepalive).is_err() {
        return;
    }
    // Whatever goes wrong with one connection, its client sees it close.
    let _ = Connection::new(desk, Impatient::new(stream)).run().await;
}
