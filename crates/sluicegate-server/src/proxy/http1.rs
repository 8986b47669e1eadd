//! A client of HTTP/1: requests are read, answered and read again, all in the connection's own task.
//!
//! **Invariant:** while a request is answered, nothing of the next one is looked at; it waits in [`Wire::input`].

mod body;
mod date;
mod reply;
mod request;

pub(super) use body::WireBody;

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use sluicegate_config::Bounds;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

use self::request::{Head, Unreadable};
use super::body::{AnswerBody, ClientBody};
use super::io::ClientIo;
use super::service::{self, Caller};
use super::upgrade;
use super::watch::{Part, Watch};
use super::wire::{Framing, Outgoing};

/// A client's connection. Whoever answers a request has a share in it, and so has the body of that request.
#[derive(Clone)]
pub(super) struct Client(Arc<Shared>);

struct Shared {
    wire: Mutex<Wire>,
    /// No request may begin any more.
    is_ending: AtomicBool,
}

struct Wire {
    io: Box<ClientIo>,
    /// What has come and is not taken yet.
    input: BytesMut,
    heads: request::Reader,
    /// Where the body of the request ends that is being answered.
    body: Framing,
    /// The client waits for a word before it sends the body.
    waits_for_word: bool,
    /// Nobody knows where the body ends.
    is_lost: bool,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    /// As connections do.
    Done,
    /// What came is no HTTP.
    NotHttp,
}

/// Room for a head and a short body.
const ROOM: usize = 4 * 1024;

impl Client {
    pub(super) fn new(io: Box<ClientIo>) -> Self {
        let (input, body) = (BytesMut::new(), Framing::EMPTY);
        let wire = Wire {
            io,
            input,
            heads: request::Reader::default(),
            body,
            waits_for_word: false,
            is_lost: false,
        };
        Self(Arc::new(Shared {
            wire: Mutex::new(wire),
            is_ending: AtomicBool::new(false),
        }))
    }

    /// Lets the request come to its end that is under way, and no other begin.
    pub(super) fn end(&self) {
        self.0.is_ending.store(true, Ordering::Relaxed);
    }

    fn is_ending(&self) -> bool {
        self.0.is_ending.load(Ordering::Relaxed)
    }

    /// Waits until there is something to read, in as little memory as can be.
    pub(super) async fn rest(&self) {
        self.wire().forget_room();
        // An error is found again by whoever reads.
        let _ = poll_fn(|cx| self.wire().io.poll_readable(cx)).await;
    }

    /// Answers requests until there are no more.
    pub(super) async fn serve(&self, caller: &Arc<Caller>, bounds: &Bounds) -> Over {
        let mut outgoing = Outgoing::default();
        loop {
            self.wire().wait_for_head(&caller.watch);
            let head = match poll_fn(|cx| self.poll_head(cx, bounds)).await {
                Ok(Some(head)) => head,
                Ok(None) | Err(Unreadable::Gone) => return Over::Done,
                Err(Unreadable::Head(status, words)) => {
                    let mut outgoing = Outgoing::default();
                    reply::refuse(&mut outgoing, status, words);
                    let mut io = self.clone();
                    let _ = poll_fn(|cx| outgoing.poll_send(&mut io, cx)).await;
                    self.linger().await;
                    return Over::NotHttp;
                }
            };
            match self.answer(caller, head, &mut outgoing).await {
                Next::Request => {}
                Next::Nothing => return Over::Done,
                Next::End => {
                    self.finish().await;
                    return Over::Done;
                }
            }
        }
    }

    async fn answer(
        &self,
        caller: &Arc<Caller>,
        head: Head,
        outgoing: &mut Outgoing<AnswerBody>,
    ) -> Next {
        let Head {
            parts,
            end,
            framing,
            asked,
        } = head;
        let body = self.wire().begin_body(framing, asked.waits_for_word);
        let body = if body {
            ClientBody::Wire(WireBody::new(self.clone()))
        } else {
            ClientBody::None
        };
        let answer = self
            .unless_gone(pin!(service::answer(caller, parts, end, body)))
            .await;
        let Some(mut answer) = answer else {
            return Next::Nothing;
        };
        let switched = answer.body.take_switched();
        let may_go_on = !self.is_ending() && self.wire().has_reachable_end();
        let stays_open = reply::begin(outgoing, answer, asked, may_go_on);
        let mut io = self.clone();
        match self
            .unless_gone(pin!(poll_fn(|cx| outgoing.poll_send(&mut io, cx))))
            .await
        {
            Some(Ok(())) => {}
            // An answer that breaks off is not made to look like a whole one.
            Some(Err(_)) | None => return Next::Nothing,
        }
        if let Some(switched) = switched {
            self.wire().put_back();
            upgrade::relay(&caller.watch, self.clone(), *switched).await;
            return Next::Nothing;
        }
        // The server had enough of the body before it was there: what is left of it is no request.
        if stays_open && self.wire().body.is_over() {
            Next::Request
        } else {
            Next::End
        }
    }

    /// Waits for something, unless the client goes away meanwhile.
    async fn unless_gone<F: Future>(&self, mut awaited: Pin<&mut F>) -> Option<F::Output> {
        poll_fn(|cx| match awaited.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => self.wire().poll_gone(cx).map(|()| None),
        })
        .await
    }

    fn poll_head(
        &self,
        cx: &mut Context<'_>,
        bounds: &Bounds,
    ) -> Poll<Result<Option<Head>, Unreadable>> {
        let mut wire = self.wire();
        loop {
            if let Some(head) = wire.take_head(bounds)? {
                return Poll::Ready(Ok(Some(head)));
            }
            if wire.input.is_empty() && self.is_ending() {
                return Poll::Ready(Ok(None));
            }
            match ready!(wire.poll_read(cx, ROOM)) {
                Ok(0) | Err(_) => return Poll::Ready(Err(Unreadable::Gone)),
                Ok(_) => {}
            }
        }
    }

    /// Ends the connection. If there is something unread, the system would take back what was sent, so it is read first.
    async fn finish(&self) {
        let (is_over, is_empty) = {
            let wire = self.wire();
            (wire.body.is_over(), wire.input.is_empty())
        };
        if is_over && is_empty {
            let _ = self.clone().shutdown().await;
        } else {
            self.linger().await;
        }
    }

    /// Tells the client that no more comes, and reads on until it has ended too, or for a while.
    async fn linger(&self) {
        const LONGEST: Duration = Duration::from_secs(1);
        let read = async {
            let mut io = self.clone();
            io.shutdown().await?;
            let mut unread = vec![0; ROOM];
            while io.read(&mut unread).await? > 0 {}
            io::Result::Ok(())
        };
        let _ = tokio::time::timeout(LONGEST, read).await;
    }

    fn wire(&self) -> MutexGuard<'_, Wire> {
        self.0.wire.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What follows an answer.
enum Next {
    Request,
    /// The connection ends, and the client is told.
    End,
    /// The client has gone, or the connection is of no more use.
    Nothing,
}

impl Wire {
    /// Some of the next request may have come while the last one was answered.
    fn wait_for_head(&mut self, watch: &Watch) {
        if !self.input.is_empty() {
            watch.has_read(0, Part::Unfinished);
        }
    }

    fn take_head(&mut self, bounds: &Bounds) -> Result<Option<Head>, Unreadable> {
        self.heads.take(&mut self.input, bounds)
    }

    /// Whether there is a body.
    fn begin_body(&mut self, framing: Framing, waits_for_word: bool) -> bool {
        self.waits_for_word = waits_for_word;
        self.body = framing;
        !self.body.is_over()
    }

    /// Whether the body comes to its end, or has: then another request can follow.
    fn has_reachable_end(&self) -> bool {
        !self.waits_for_word && !self.is_lost
    }

    /// Ready when the client has ended: nobody waits for the answer. As long as there is something unread, nobody knows.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.body.is_over() || !self.input.is_empty() {
            return Poll::Pending;
        }
        match ready!(self.poll_read(cx, 1)) {
            Ok(0) | Err(_) => Poll::Ready(()),
            Ok(_) => Poll::Pending,
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, room: usize) -> Poll<io::Result<usize>> {
        let free = self.input.capacity() - self.input.len();
        if free == 0 || free < room && self.input.is_empty() {
            self.input.reserve(room.max(ROOM));
        }
        pin!(self.io.read_buf(&mut self.input)).poll(cx)
    }

    fn forget_room(&mut self) {
        if self.input.is_empty() {
            self.input = BytesMut::new();
        }
    }

    /// What came after the head belongs to whoever reads on.
    fn put_back(&mut self) {
        let unread = self.input.split().freeze();
        self.io.put_back(unread);
    }
}

impl AsyncRead for Client {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.wire().io).poll_read(cx, buf)
    }
}

impl AsyncWrite for Client {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.wire().io).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.wire().io).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.wire().io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.wire().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.wire().io).poll_shutdown(cx)
    }
}
