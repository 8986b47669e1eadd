//! A stream of HTTP/2 that goes on in another protocol, such as WebSocket (RFC 8441).
//!
//! The server behind speaks HTTP/1 and has switched protocols on a connection of its own. What it
//! sends is the body of the response; what the client sends is the body of the request, which
//! [`Tunnel::poll_upload`] takes to the server. So each direction is held back by the windows of its
//! stream, and neither waits for the other.

use std::error::Error;
use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http_body::{Body, Frame};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::body_error::BodyError;
use crate::request_body::ClientBody;
use crate::transport::Transport;
use crate::upgrade::SwitchedServer;

/// The server's side of a stream that has changed its protocol: the body of the response.
pub struct Tunnel {
    stream: Transport,
    /// Bytes that the server sent together with its head.
    first: Bytes,
    upload: Upload,
    /// The most bytes of the next part.
    part_max: usize,
    idle: Duration,
    /// The time at which the tunnel is closed if nothing moves until then.
    deadline: Instant,
    timer: Option<Pin<Box<Sleep>>>,
    is_over: bool,
    /// The permission for the connection, which is held until it is closed.
    _slot: Box<dyn Send + Sync>,
}

/// What the client sends, on its way to the server.
struct Upload {
    /// `None` after its end.
    body: Option<ClientBody>,
    /// Bytes that the server has not taken yet.
    unsent: Bytes,
    /// The server was not told yet that nothing more comes.
    is_open: bool,
    error: Option<TunnelError>,
}

/// Reason why a tunnel has broken off.
#[derive(Debug)]
pub enum TunnelError {
    /// The connection to the server.
    Server(io::Error),
    /// The client's side of the stream.
    Client(BodyError),
    /// Neither side has sent anything for too long.
    Idle,
}

impl fmt::Display for TunnelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(error) => write!(f, "the connection to the server broke: {error}"),
            Self::Client(error) => error.fmt(f),
            Self::Idle => f.write_str("neither side has sent anything for too long"),
        }
    }
}

impl Error for TunnelError {}

impl Tunnel {
    /// Bytes that are read at a time.
    const PART: usize = 16 * 1024;

    /// Joins a server that has agreed and the body of the request.
    pub fn new(server: SwitchedServer, upload: ClientBody) -> Self {
        let SwitchedServer {
            stream,
            first,
            idle,
            slot,
        } = server;
        Self {
            stream,
            first,
            upload: Upload {
                body: Some(upload),
                unsent: Bytes::new(),
                is_open: true,
                error: None,
            },
            part_max: Self::PART,
            idle,
            deadline: Instant::now() + idle,
            timer: None,
            is_over: false,
            _slot: slot,
        }
    }

    /// Reads at most so many bytes at a time from now on.
    pub fn limit_part(&mut self, bytes_max: usize) {
        self.part_max = bytes_max.clamp(1, Self::PART);
    }

    /// Takes what the client has sent to the server, as far as that takes it. An error is told by
    /// the next part of the response, which is asked for as soon as the client reads.
    pub fn poll_upload(&mut self, cx: &mut Context<'_>) {
        if self.upload.error.is_some() {
            return;
        }
        match self.upload.poll(&mut self.stream, cx) {
            Ok(true) => self.deadline = Instant::now() + self.idle,
            Ok(false) => {}
            Err(error) => self.upload.error = Some(error),
        }
    }

    /// Reads what the server has sent; `None` is its end.
    fn poll_download(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        if !self.first.is_empty() {
            let length = self.first.len().min(self.part_max);
            return Poll::Ready(Ok(Some(self.first.split_to(length))));
        }
        let mut room = [MaybeUninit::uninit(); Self::PART];
        let mut buf = ReadBuf::uninit(&mut room[..self.part_max]);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buf))?;
        let bytes = buf.filled();
        Poll::Ready(Ok(
            (!bytes.is_empty()).then(|| Bytes::copy_from_slice(bytes))
        ))
    }

    /// Ready when nothing has moved for too long.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let deadline = self.deadline;
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        loop {
            ready!(timer.as_mut().poll(cx));
            if timer.deadline() >= deadline {
                return Poll::Ready(());
            }
            // Something has moved since it was set.
            timer.as_mut().reset(deadline);
        }
    }
}

impl Upload {
    /// Writes what has come. Returns true when something was written.
    fn poll(&mut self, stream: &mut Transport, cx: &mut Context<'_>) -> Result<bool, TunnelError> {
        let mut stream = Pin::new(stream);
        let mut has_moved = false;
        loop {
            while !self.unsent.is_empty() {
                match stream.as_mut().poll_write(cx, &self.unsent) {
                    Poll::Pending => return Ok(has_moved),
                    Poll::Ready(Ok(0)) => {
                        return Err(TunnelError::Server(io::ErrorKind::WriteZero.into()));
                    }
                    Poll::Ready(Ok(wrote)) => self.unsent.advance(wrote),
                    Poll::Ready(Err(error)) => return Err(TunnelError::Server(error)),
                }
                has_moved = true;
            }
            let Some(body) = &mut self.body else {
                if self.is_open
                    && let Poll::Ready(closed) = stream.as_mut().poll_shutdown(cx)
                {
                    self.is_open = false;
                    closed.map_err(TunnelError::Server)?;
                }
                return Ok(has_moved);
            };
            match Pin::new(body).poll_frame(cx) {
                Poll::Pending => {
                    // TLS may hold written bytes back.
                    if let Poll::Ready(Err(error)) = stream.as_mut().poll_flush(cx) {
                        return Err(TunnelError::Server(error));
                    }
                    return Ok(has_moved);
                }
                Poll::Ready(Some(Ok(frame))) => {
                    // Trailers mean nothing to a protocol that is not HTTP.
                    self.unsent = frame.into_data().unwrap_or_default();
                }
                Poll::Ready(Some(Err(error))) => return Err(TunnelError::Client(error)),
                Poll::Ready(None) => self.body = None,
            }
        }
    }
}

impl Body for Tunnel {
    type Data = Bytes;
    type Error = TunnelError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, TunnelError>>> {
        let this = &mut *self;
        this.poll_upload(cx);
        if let Some(error) = this.upload.error.take() {
            this.is_over = true;
            return Poll::Ready(Some(Err(error)));
        }
        if this.is_over {
            return Poll::Ready(None);
        }
        match this.poll_download(cx) {
            Poll::Ready(Ok(Some(bytes))) => {
                this.deadline = Instant::now() + this.idle;
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Poll::Ready(Ok(None)) => {
                this.is_over = true;
                Poll::Ready(None)
            }
            Poll::Ready(Err(error)) => {
                this.is_over = true;
                Poll::Ready(Some(Err(TunnelError::Server(error))))
            }
            Poll::Pending => {
                ready!(this.poll_idle(cx));
                this.is_over = true;
                Poll::Ready(Some(Err(TunnelError::Idle)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.is_over
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use http_body_util::BodyExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;
    use crate::stream_body::{StreamBodySender, stream_body};

    const IDLE: Duration = Duration::from_secs(10);

    /// A tunnel, the client's end of its upload and the server's end of its connection.
    fn tunnel(first: &'static [u8]) -> (Tunnel, StreamBodySender, DuplexStream) {
        let (near, far) = duplex(64);
        let (sender, body) = stream_body(None, Waker::noop().clone());
        let server = SwitchedServer {
            stream: Transport::Other(Box::new(near)),
            first: Bytes::from_static(first),
            idle: IDLE,
            slot: Box::new(()),
        };
        (Tunnel::new(server, ClientBody::Stream(body)), sender, far)
    }

    async fn next(tunnel: &mut Tunnel) -> Option<Result<Bytes, TunnelError>> {
        let frame = tunnel.frame().await?;
        Some(frame.map(|frame| frame.into_data().unwrap()))
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_go_both_ways_and_neither_waits_for_the_other() {
        let (mut tunnel, sender, mut server) = tunnel(b"first");
        tunnel.limit_part(3);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(sender.push(b"up"));
        // Nobody asks for the next part, and the upload goes on.
        tunnel.poll_upload(&mut cx);
        let mut came = [0; 2];
        server.read_exact(&mut came).await.unwrap();
        assert_eq!((&came, sender.take_read()), (b"up", 2));
        server.write_all(b"down").await.unwrap();
        let mut parts = Vec::new();
        for _ in 0..4 {
            parts.push(next(&mut tunnel).await.unwrap().unwrap());
        }
        assert_eq!(parts, ["fir", "st", "dow", "n"]);
        sender.finish(None);
        tunnel.poll_upload(&mut cx);
        assert_eq!(server.read(&mut came).await.unwrap(), 0, "the client's end");
        assert!(!tunnel.is_end_stream());
        drop(server);
        assert!(next(&mut tunnel).await.is_none() && tunnel.is_end_stream());
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_server_does_not_take_waits_within_the_window_of_the_client() {
        let (mut tunnel, sender, _server) = tunnel(b"");
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..3 {
            assert!(sender.push(&[7; 100]));
            tunnel.poll_upload(&mut cx);
        }
        assert_eq!(sender.take_read(), 100, "the rest was not read");
        assert_eq!(sender.unreturned(), 200);
    }

    #[tokio::test(start_paused = true)]
    async fn a_tunnel_in_which_nothing_moves_ends() {
        let (mut tunnel, sender, mut server) = tunnel(b"");
        let begun = Instant::now();
        let moves = async {
            // bounded wait: the clock is paused
            tokio::time::sleep(IDLE / 2).await;
            server.write_all(b"x").await.unwrap();
        };
        let (_, part) = tokio::join!(moves, next(&mut tunnel));
        assert_eq!(part.unwrap().unwrap(), "x");
        let end = next(&mut tunnel).await.unwrap();
        assert!(matches!(end, Err(TunnelError::Idle)), "{end:?}");
        assert!(begun.elapsed() >= IDLE + IDLE / 2);
        assert!(next(&mut tunnel).await.is_none());
        drop(sender);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_breaks_off_is_no_end() {
        let (mut tunnel, sender, _server) = tunnel(b"");
        drop(sender);
        let end = next(&mut tunnel).await.unwrap();
        assert!(matches!(end, Err(TunnelError::Client(_))), "{end:?}");
    }
}
