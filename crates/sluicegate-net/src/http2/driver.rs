//! The loop of one connection.
//!
//! Each turn reads once, follows the frames that have come, polls the streams that were woken, lets
//! the streams with something to send take turns, and writes everything in one go. Nothing is read
//! while a quarter of [`BufferBounds`] waits for the client, and no part of a response is asked for while
//! nobody could take it: so a client that does not read costs no more memory.

use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use http::request::Parts;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::buffer_bounds::BufferBounds;
use super::flow::{ReceiveWindow, SendWindow};
use super::frame::{self, ErrorCode, PREFACE, WINDOW_DEFAULT, WINDOW_MAX, flag, kind, setting};
use super::frame_credit::{Earned, FrameCredit};
use super::held_answers::HeldAnswers;
use super::ready_set::ReadySet;
use super::request_fields::ExtendedConnectUse;
use super::send_buffer::SendBuffer;
use super::sign_of_life::ClientSilence;
use super::spare_headers::SpareHeaders;
use super::stream::{AnsweredRequest, Receiving};
use super::streams::Streams;
use crate::activity::{Activity, ReadKind};
use crate::client_io::ClientIo;
use crate::counters::{ConnectionCounters, ConnectionRefusal};
use crate::handler::{IncomingRequest, ResponseBody, SignOfLife, WholeBodyBounds};
use crate::hpack::{Decoder, Encoder};
use crate::lingering::Lingering;
use crate::timeouts::TimeoutPolicy;
use crate::turn::Turns;

/// Unsent bytes with which a write is worth its call.
pub(super) const WRITE_BYTES: usize = 128 * 1024;
/// Bytes of one read.
const READ_BYTES: usize = 32 * 1024;
/// Turns after which others have theirs.
const TURNS_MAX: usize = 32;
/// The most headers of one turn: a read can bring a thousand of them, each of which is unpacked, and
/// answered or counted.
pub(super) const HEADERS_MAX: usize = 8;
/// Streams that we have reset, and on which frames may still come.
const RESETS_KEPT: usize = 128;
/// Payload of the PING whose answer shows that the client knows of the end.
const END_PING: [u8; 8] = *b"the end.";

/// Says of which requests the whole body is gathered before the handler is called.
pub(crate) type WholeBodyOf = Box<dyn Fn(&Parts) -> Option<WholeBodyBounds> + Send>;

/// What a connection is served with.
pub(crate) struct DriverSettings {
    /// The most bytes of a request's fields.
    pub(crate) header_bytes: usize,
    /// The bytes of bodies that may wait.
    pub(crate) bounds: BufferBounds,
    pub(crate) timeouts: TimeoutPolicy,
    /// Asks the handler whether it wants the whole body of a request.
    pub(crate) whole_body: WholeBodyOf,
    pub(crate) sign_of_life: Option<SignOfLife>,
    pub(crate) extended_connect: ExtendedConnectUse,
    pub(crate) activity: Arc<Activity>,
    pub(crate) counters: Arc<ConnectionCounters>,
    /// The task that polls the driver, and no other does.
    pub(crate) task: Waker,
}

/// A client's connection of HTTP/2. `begin` calls the handler.
pub(crate) struct Driver<S, F, B> {
    io: Lingering<Box<ClientIo>>,
    pub(super) settings: DriverSettings,
    pub(super) begin: S,
    pub(super) streams: Streams<F, B>,
    pub(super) ready: Arc<ReadySet>,

    /// A frame that has not come as a whole.
    input: Vec<u8>,
    /// Bytes of the preface that have not come.
    preface_left: usize,
    /// The client has sent its settings, which come first.
    pub(super) has_settings: bool,
    pub(super) decoder: Decoder,
    pub(super) spare_headers: SpareHeaders,
    /// A header that goes on in CONTINUATION frames.
    pub(super) block: Option<HeaderBlock>,
    /// The highest number of a stream that the client has begun.
    pub(super) last_stream: u32,
    /// The same before the last read.
    pub(super) last_stream_before: u32,
    pub(super) resets: VecDeque<u32>,
    pub(super) receive_window: ReceiveWindow,
    pub(super) credit: FrameCredit,

    pub(super) out: SendBuffer,
    pub(super) encoder: Encoder,
    pub(super) send_window: SendWindow,
    /// Window of new streams.
    pub(super) initial_window: u32,
    /// Bytes of responses that streams hold and that are not in `out`.
    pub(super) held: usize,
    /// Streams that were not asked for the next part of their response, because too much was held.
    pub(super) held_up: u128,
    /// Bytes of bodies that were sent since the last tick.
    pub(super) sent_in_tick: u64,
    /// Ticks of the timer that were looked at.
    ticks: u32,
    pub(super) silence: ClientSilence,
    /// Ready when a body that is gathered has taken too long.
    pub(super) body_timer: Option<Pin<Box<Sleep>>>,
    /// Headers that have come since others had their turn.
    pub(super) turns: Turns,
    /// Whole frames wait in `input` until others had their turn.
    pub(super) has_frames: bool,
    held_answers: HeldAnswers,
    /// The client has announced the end of the connection.
    pub(super) client_ends: bool,
    phase: Phase,
}

/// The beginning of a header.
pub(super) struct HeaderBlock {
    pub(super) stream: u32,
    pub(super) is_last: bool,
    pub(super) bytes: Vec<u8>,
}

/// Where a connection is between its beginning and its end (RFC 9113, section 6.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// The client was told to begin no more requests; those that it has sent until it knows are
    /// answered.
    Ending,
    /// No more requests are taken; the connection ends with the last response.
    Last,
    /// Everything was said. What is unsent is sent, and then the connection is closed.
    Closing,
}

impl<S, F, B> Driver<S, F, B>
where
    S: FnMut(IncomingRequest) -> F + Unpin,
    F: Future<Output = AnsweredRequest<B>>,
    B: ResponseBody,
{
    /// Serves a connection of which nothing was read but what `io` gives back.
    pub(crate) fn new(io: Box<ClientIo>, settings: DriverSettings, begin: S) -> Self {
        let mut out = SendBuffer::new(io.is_write_vectored());
        let header_bytes = u32::try_from(settings.header_bytes).unwrap_or(u32::MAX);
        let streams = Streams::<F, B>::MOST as u32;
        let window = settings.bounds.receive_window();
        let connect = settings.extended_connect as u32;
        let ours = [
            (setting::ENABLE_CONNECT_PROTOCOL, connect),
            (setting::MAX_CONCURRENT_STREAMS, streams),
            (setting::INITIAL_WINDOW_SIZE, window),
            (setting::MAX_HEADER_LIST_SIZE, header_bytes),
            (setting::NO_RFC7540_PRIORITIES, 1),
        ];
        frame::push_settings(out.text(), &ours);
        if window > WINDOW_DEFAULT {
            frame::push_window_update(out.text(), 0, window - WINDOW_DEFAULT);
        }
        Self {
            io: Lingering::new(io),
            ready: ReadySet::new(settings.task.clone()),
            settings,
            begin,
            streams: Streams::new(),
            input: Vec::new(),
            preface_left: PREFACE.len(),
            has_settings: false,
            decoder: Decoder::new(),
            spare_headers: SpareHeaders::default(),
            block: None,
            last_stream: 0,
            last_stream_before: 0,
            resets: VecDeque::new(),
            receive_window: ReceiveWindow::new(window),
            credit: FrameCredit::new(),
            out,
            encoder: Encoder::default(),
            send_window: SendWindow::new(WINDOW_DEFAULT),
            initial_window: WINDOW_DEFAULT,
            held: 0,
            held_up: 0,
            sent_in_tick: 0,
            ticks: 0,
            turns: Turns::default(),
            silence: ClientSilence::default(),
            body_timer: None,
            has_frames: false,
            held_answers: HeldAnswers::default(),
            client_ends: false,
            phase: Phase::Open,
        }
    }

    /// Ends the connection when its requests are answered. Called again, it waits no longer for
    /// requests that the client may have sent before it knew.
    pub(crate) fn end(mut self: Pin<&mut Self>) {
        match self.phase {
            Phase::Open => {
                self.phase = Phase::Ending;
                let out = self.out.text();
                frame::push_goaway(out, WINDOW_MAX, ErrorCode::No);
                frame::push_frame(out, kind::PING, 0, 0, &END_PING);
            }
            Phase::Ending => self.end_requests(),
            Phase::Last | Phase::Closing => {}
        }
    }

    /// Takes no more requests.
    pub(super) fn end_requests(&mut self) {
        if !self.takes_requests() {
            return;
        }
        self.phase = Phase::Last;
        frame::push_goaway(self.out.text(), self.last_stream, ErrorCode::No);
    }

    /// Returns true while requests are taken.
    pub(super) fn takes_requests(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Ending)
    }

    /// The client has answered a PING.
    pub(super) fn on_pong(&mut self, payload: &[u8]) {
        if self.phase == Phase::Ending && payload == END_PING {
            self.end_requests();
        }
    }

    /// Ends the connection because of what came on it.
    fn fail(&mut self, code: ErrorCode) {
        for _ in 0..self.streams.open() {
            self.settings.activity.end_request();
        }
        (self.streams, self.held) = (Streams::new(), 0);
        (self.input, self.block) = (Vec::new(), None);
        frame::push_goaway(self.out.text(), self.last_stream, code);
        self.settings.counters.refuse(ConnectionRefusal::Protocol);
        self.phase = Phase::Closing;
    }

    /// Turns until there is nothing to do.
    fn run(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..TURNS_MAX {
            if self.phase == Phase::Closing {
                return self.poll_close(cx).map(drop);
            }
            let Ok(has_read) = self.turn(cx) else {
                return Poll::Ready(());
            };
            if self.has_frames {
                break;
            }
            if self.comes_to_its_end() || has_read {
                continue;
            }
            if self.ready.rest() || self.is_full() {
                self.turns.rest();
                return Poll::Pending;
            }
            self.ready.begin();
        }
        // Other connections of this thread have their turn.
        self.turns.wait();
        self.ready.rest();
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Takes the next step to the end of the connection, if it is time; returns true if it was, or
    /// if the connection has failed.
    fn comes_to_its_end(&mut self) -> bool {
        let is_free = self.streams.open() == 0;
        match self.phase {
            Phase::Closing => true,
            Phase::Last if is_free && self.out.is_sent() => {
                self.phase = Phase::Closing;
                true
            }
            Phase::Open | Phase::Ending if is_free && self.client_ends => {
                self.end_requests();
                true
            }
            Phase::Open | Phase::Ending | Phase::Last => false,
        }
    }

    /// Reads, answers and writes. Returns true when something was read, and more may have come; an
    /// error when the client is gone.
    fn turn(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        let has_ticked = self.look_at_clock()?;
        if !self.held_answers.are_waiting() {
            self.poll_send(cx)?;
        }
        if self.is_full() {
            return Ok(false);
        }
        let has_read = match self.poll_read(cx) {
            Poll::Ready(read) => read.map(|()| true)?,
            Poll::Pending => false,
        };
        self.poll_woken();
        // Not in every turn, and not never where something comes all the time.
        if !has_read || has_ticked {
            self.give_up_slow_bodies(cx);
        }
        let is_more = self.has_frames && self.phase != Phase::Closing;
        if !self.held_answers.wait(is_more, self.out.unsent()) {
            self.poll_send(cx)?;
        }
        Ok(has_read)
    }

    /// Returns true when so much is unsent that nothing more is read or answered.
    fn is_full(&self) -> bool {
        self.out.unsent() >= self.settings.bounds.unsent_max()
    }

    /// Reads once, and follows the frames that are complete; or those that still wait.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if std::mem::take(&mut self.has_frames) {
            self.take_in(&[]);
            return Poll::Ready(Ok(()));
        }
        // On the stack, so that a connection that waits needs no memory for it.
        let mut room = [MaybeUninit::uninit(); READ_BYTES];
        let mut buf = ReadBuf::uninit(&mut room);
        ready!(Pin::new(&mut self.io).poll_read(cx, &mut buf))?;
        let bytes = buf.filled();
        if bytes.is_empty() {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        self.last_stream_before = self.last_stream;
        self.credit.earn(Earned {
            written: self.settings.activity.bytes_written(),
            ticks: self.settings.activity.ticks(),
        });
        self.take_in(bytes);
        Poll::Ready(Ok(()))
    }

    /// Follows the frames that are complete with these bytes, and keeps the rest.
    fn take_in(&mut self, bytes: &[u8]) {
        let used = if self.input.is_empty() {
            let used = self.follow(bytes);
            if let Ok(used) = used {
                self.input.extend_from_slice(&bytes[used..]);
            }
            used
        } else {
            let mut input = std::mem::take(&mut self.input);
            input.extend_from_slice(bytes);
            let used = self.follow(&input);
            match used {
                Ok(used) if used < input.len() => {
                    input.drain(..used);
                    self.input = input;
                }
                Ok(_) | Err(_) => {}
            }
            used
        };
        if let Err(code) = used {
            self.fail(code);
        }
        let is_within = self.preface_left > 0 || !self.input.is_empty() || self.block.is_some();
        self.settings.activity.record_kind(match is_within {
            true => ReadKind::Partial,
            false => ReadKind::WholeFrames,
        });
    }

    /// Follows the preface and the frames in `bytes`; returns the number of bytes that they have.
    fn follow(&mut self, bytes: &[u8]) -> Result<usize, ErrorCode> {
        let of_preface = self.preface_left.min(bytes.len());
        let (preface, frames) = bytes.split_at(of_preface);
        let expected = &PREFACE[PREFACE.len() - self.preface_left..][..of_preface];
        if preface != expected {
            return Err(ErrorCode::Protocol);
        }
        self.preface_left -= of_preface;
        Ok(of_preface + self.follow_frames(frames)?)
    }

    /// Looks at the clocks of the streams, if the timer has ticked; returns true if so, and fails if
    /// the client is gone. A quiet connection frees the memory that requests need.
    fn look_at_clock(&mut self) -> io::Result<bool> {
        let ticks = self.settings.activity.ticks();
        let passed = ticks.wrapping_sub(std::mem::replace(&mut self.ticks, ticks));
        if passed == 0 {
            return Ok(false);
        }
        self.give_up_stalled();
        self.ask_for_sign_of_life(passed)?;
        let waiting = self.held + self.out.unsent();
        self.settings.activity.record_waiting(waiting);
        if self.streams.open() == 0 {
            self.streams.shrink();
            self.decoder.shrink();
            self.spare_headers.shrink();
            self.out.shrink();
        }
        Ok(true)
    }

    /// Sends as much as the client takes, and lets the streams fill up again.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        loop {
            self.fill();
            match self.out.poll_send(&mut self.io, cx) {
                Poll::Ready(sent) => sent?,
                Poll::Pending => return Ok(()),
            }
            if self.streams.send == 0 {
                return Ok(());
            }
        }
    }

    /// Sends the rest, and closes so that the client receives it.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.out.poll_send(&mut self.io, cx))?;
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    /// Resets a stream, whether it is open or not.
    pub(super) fn reset(&mut self, stream: u32, code: ErrorCode) {
        frame::push_reset(self.out.text(), stream, code);
        if self.resets.len() == RESETS_KEPT {
            self.resets.pop_front();
        }
        self.resets.push_back(stream);
        if let Some(slot) = self.streams.find(stream) {
            self.close(slot);
        }
    }

    /// Forgets a stream. Its bytes that nobody read are no longer in the way of others.
    pub(super) fn close(&mut self, slot: usize) {
        let stream = self.streams.get_mut(slot);
        let unread = stream.receiving.as_ref().map_or(0, Receiving::unreturned);
        let unsent = stream
            .sending
            .as_ref()
            .map_or(0, |sending| sending.data.len());
        self.held -= unsent;
        self.streams.close(slot);
        self.settings.activity.end_request();
        self.give_back(unread);
        self.resume_held_up();
    }

    /// The client may send these bytes again, on any stream.
    pub(super) fn give_back(&mut self, bytes: usize) {
        if let Some(more) = self.receive_window.give_back(bytes) {
            frame::push_window_update(self.out.text(), 0, more);
        }
    }

    /// Counts a stream whose client was too slow.
    pub(super) fn count_slow(&self) {
        self.settings.counters.refuse(ConnectionRefusal::Slow);
    }
}

impl<S, F, B> Future for Driver<S, F, B>
where
    S: FnMut(IncomingRequest) -> F + Unpin,
    F: Future<Output = AnsweredRequest<B>>,
    B: ResponseBody,
{
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        this.ready.begin();
        this.run(cx)
    }
}

/// Flags of a frame with a whole header.
pub(super) fn header_flags(is_last: bool) -> u8 {
    flag::END_HEADERS | if is_last { flag::END_STREAM } else { 0 }
}
