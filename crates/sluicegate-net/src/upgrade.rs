//! A connection that goes on in another protocol, such as WebSocket: bytes in both directions
//! until one side ends or both are silent for too long.

use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::sleep;

use crate::transport::Transport;

/// A server that has agreed to another protocol with `101 Switching Protocols`.
pub struct SwitchedServer {
    /// The connection, of which nothing but the response's head was used.
    pub stream: Transport,
    /// Bytes that the server sent after that head.
    pub first: Bytes,
    /// Longest time in which neither side sends anything.
    pub idle: Duration,
    /// The permission for the connection, which is held until it is closed.
    pub slot: Box<dyn Send + Sync>,
}

/// Copies bytes between client and server until both have ended, or nothing moves for too long.
pub(crate) async fn relay(client: impl AsyncRead + AsyncWrite + Unpin, server: SwitchedServer) {
    let SwitchedServer {
        stream,
        first,
        idle,
        slot: _slot,
    } = server;
    // An error on either side ends the relay; there is nobody to report it to.
    let _ = copy_both(client, stream, first, idle).await;
}

async fn copy_both(
    client: impl AsyncRead + AsyncWrite + Unpin,
    server: impl AsyncRead + AsyncWrite + Unpin,
    first: Bytes,
    idle: Duration,
) -> io::Result<()> {
    let moved = AtomicU64::new(0);
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut from_server, mut to_server) = tokio::io::split(server);
    let both = async {
        to_client.write_all(&first).await?;
        let up = copy(&mut from_client, &mut to_server, &moved);
        let down = copy(&mut from_server, &mut to_client, &moved);
        tokio::try_join!(up, down).map(|_| ())
    };
    tokio::select! {
        ended = both => ended,
        () = silence(&moved, idle) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// Copies one direction, and passes its end on. Each write adds one to `moved`.
async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    moved: &AtomicU64,
) -> io::Result<()> {
    const ROOM: usize = 16 * 1024;
    let mut bytes = vec![0; ROOM];
    loop {
        let read = from.read(&mut bytes).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        to.write_all(&bytes[..read]).await?;
        moved.fetch_add(1, Relaxed);
    }
}

/// Ends when nothing has moved for `idle`; at most that much late.
async fn silence(moved: &AtomicU64, idle: Duration) {
    let mut seen = moved.load(Relaxed);
    loop {
        sleep(idle).await;
        let now = moved.load(Relaxed);
        if now == seen {
            return;
        }
        seen = now;
    }
}
