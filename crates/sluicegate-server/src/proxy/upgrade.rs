//! A connection that goes on in another protocol, such as WebSocket: bytes both ways until one side ends.

use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::sleep;

use super::http1::Client;
use super::link::Link;
use super::watch::Watch;

/// A server that has agreed to speak something else.
pub(super) struct Switched {
    pub(super) server: Link,
    /// What it said already.
    pub(super) first: Bytes,
    /// How long both may be silent.
    pub(super) idle: Duration,
}

/// Lets client and server talk. While bytes go to and fro, the connection is not between requests.
pub(super) async fn relay(watch: &Watch, client: Client, switched: Switched) {
    watch.begin();
    let Switched {
        server,
        first,
        idle,
    } = switched;
    // Whoever breaks off has reasons of its own.
    let _ = copy_both(client, server, first, idle).await;
    watch.end();
}

/// Copies both ways; ends when both sides have ended, or nothing has moved for too long.
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
        let up = pump(&mut from_client, &mut to_server, &moved);
        let down = pump(&mut from_server, &mut to_client, &moved);
        tokio::try_join!(up, down).map(|_| ())
    };
    tokio::select! {
        ended = both => ended,
        () = stillness(&moved, idle) => Err(io::ErrorKind::TimedOut.into()),
    }
}

async fn pump(
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

/// Ends when nothing has moved for so long.
async fn stillness(moved: &AtomicU64, idle: Duration) {
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
