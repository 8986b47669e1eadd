//! The state of one client's connection, told by those who read and write it.
//!
//! No clock is read here and no timer is set for a request: [`crate::timeouts`] looks at this
//! state once a tick and finds out what has not changed for too long.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64};

use crate::wake_flag::WakeFlag;

/// Progress of one connection, in atomics, because the parts of a connection share it.
///
/// Relaxed ordering is enough: the values are only compared with those of earlier ticks. Each value
/// has one writer at a time: bytes are recorded by whoever has the connection's stream for itself
/// ([`ClientIo`](crate::client_io::ClientIo), by `&mut`), and requests and ticks by the future that
/// serves the connection. So a value is changed by a load and a store, which do not lock the memory
/// as a read-modify-write does ([`add`]).
#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// A [`ConnectionPhase`] as a number.
    phase: AtomicU8,
    /// Requests that are being answered; several at a time over HTTP/2.
    requests: AtomicU32,
    /// Requests that have begun on this connection since it was accepted.
    begun: AtomicU64,
    /// Bytes that came from the client.
    read: AtomicU64,
    /// Bytes that went to the client.
    written: AtomicU64,
    /// The last write did not go through: the client has yet to take what was sent.
    is_write_blocked: AtomicBool,
    /// Bytes of bodies that wait for a client of HTTP/2.
    waiting: AtomicU64,
    /// Ticks of the supervisor's timer so far.
    ticks: AtomicU32,
    is_given_up: AtomicBool,
    /// Set when the connection's supervisor has something to look at. It is here so that a
    /// connection which waits needs no memory block more.
    flag: WakeFlag,
}

/// Kind of the bytes that were read last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadKind {
    /// Part of something that is to go on, such as a header. If no request is being answered, the
    /// next one has begun.
    Partial,
    /// Whole frames of HTTP/2, which begin no request by themselves.
    WholeFrames,
}

/// Position of a connection between or within its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionPhase {
    /// Nothing of the next request has come.
    Idle,
    /// Some of a header has come, or a handshake is going on.
    Header,
    /// A request is being answered.
    Busy,
}

impl Activity {
    /// Buffers of a request, about.
    pub(crate) const BYTES_OF_REQUEST: u64 = 64 << 10;
    /// Bytes of a response that wait for a client that does not read, at most.
    const BYTES_UNREAD: u64 = 256 << 10;

    /// State of a connection that was just accepted. It is in the header phase: a client that
    /// connects and says nothing has only the time of a header.
    pub(crate) fn new() -> Self {
        let activity = Self::default();
        activity.set_phase(ConnectionPhase::Header);
        activity
    }

    /// Set when the connection's supervisor has something to look at.
    pub(crate) fn flag(&self) -> &WakeFlag {
        &self.flag
    }

    /// Records bytes from the client.
    pub(crate) fn record_read(&self, bytes: usize, kind: ReadKind) {
        self.record_bytes(bytes);
        self.record_kind(kind);
    }

    /// Records bytes from the client whose kind is found out later.
    pub(crate) fn record_bytes(&self, bytes: usize) {
        add(&self.read, bytes as u64);
    }

    /// Records what the bytes that were read last are.
    pub(crate) fn record_kind(&self, kind: ReadKind) {
        if self.requests.load(Relaxed) > 0 {
            return;
        }
        self.set_phase(match kind {
            ReadKind::WholeFrames if self.requests_begun() > 0 => ConnectionPhase::Idle,
            ReadKind::WholeFrames | ReadKind::Partial => ConnectionPhase::Header,
        });
    }

    /// Records bytes that the client's connection has taken.
    pub(crate) fn record_write(&self, bytes: usize) {
        add(&self.written, bytes as u64);
        self.is_write_blocked.store(false, Relaxed);
    }

    /// Records a write that has to wait for the client.
    pub(crate) fn record_blocked_write(&self) {
        self.is_write_blocked.store(true, Relaxed);
    }

    /// Counts a tick of the supervisor's timer.
    pub(crate) fn record_tick(&self) {
        let ticks = self.ticks.load(Relaxed).wrapping_add(1);
        self.ticks.store(ticks, Relaxed);
    }

    /// Ticks so far; the number begins again after the largest.
    pub(crate) fn ticks(&self) -> u32 {
        self.ticks.load(Relaxed)
    }

    /// Records that the client does not read, so that unsent bytes may be thrown away.
    pub(crate) fn give_up(&self) {
        self.is_given_up.store(true, Relaxed);
    }

    /// Returns true after [`Activity::give_up`].
    pub(crate) fn is_given_up(&self) -> bool {
        self.is_given_up.load(Relaxed)
    }

    /// A request's header is complete; the request lasts until [`Activity::end_request`].
    pub(crate) fn begin_request(&self) {
        let requests = self.requests.load(Relaxed) + 1;
        self.requests.store(requests, Relaxed);
        add(&self.begun, 1);
        self.set_phase(ConnectionPhase::Busy);
    }

    /// A request is answered to its last byte, or was abandoned.
    pub(crate) fn end_request(&self) {
        let requests = self.requests.load(Relaxed) - 1;
        self.requests.store(requests, Relaxed);
        if requests == 0 {
            self.set_phase(ConnectionPhase::Idle);
        }
    }

    /// Begins a request that ends when the guard is dropped. For HTTP/1, where the connection's
    /// own task answers it.
    pub(crate) fn request(&self) -> ActivityGuard<'_> {
        self.begin_request();
        ActivityGuard(self)
    }

    /// Requests that have begun so far.
    pub(crate) fn requests_begun(&self) -> u64 {
        self.begun.load(Relaxed)
    }

    /// Bytes that came from the client so far.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.read.load(Relaxed)
    }

    /// Bytes that went to the client so far.
    pub(crate) fn bytes_written(&self) -> u64 {
        self.written.load(Relaxed)
    }

    /// Returns true while a write waits for the client to read. The streams of HTTP/2 wait for
    /// other reasons too, each with a clock of its own.
    pub(crate) fn is_unread(&self) -> bool {
        self.is_write_blocked.load(Relaxed)
    }

    /// Records the bytes of bodies that wait for the client of HTTP/2.
    pub(crate) fn record_waiting(&self, bytes: usize) {
        self.waiting.store(bytes as u64, Relaxed);
    }

    /// Bytes that the connection may hold, estimated from its requests: each has buffers, and a
    /// response that is not read has full ones.
    pub(crate) fn held_bytes(&self) -> u64 {
        let requests = u64::from(self.requests.load(Relaxed));
        let unread = u64::from(self.is_write_blocked.load(Relaxed));
        requests * Self::BYTES_OF_REQUEST + unread * Self::BYTES_UNREAD + self.waiting.load(Relaxed)
    }

    /// Returns true when no request is going on and everything is sent.
    pub(crate) fn is_quiet(&self) -> bool {
        self.phase() == ConnectionPhase::Idle && !self.is_write_blocked.load(Relaxed)
    }

    pub(crate) fn phase(&self) -> ConnectionPhase {
        match self.phase.load(Relaxed) {
            0 => ConnectionPhase::Idle,
            1 => ConnectionPhase::Header,
            _ => ConnectionPhase::Busy,
        }
    }

    fn set_phase(&self, phase: ConnectionPhase) {
        self.phase.store(phase as u8, Relaxed);
    }
}

/// Adds to a value that nobody else changes meanwhile.
fn add(value: &AtomicU64, more: u64) {
    value.store(value.load(Relaxed).wrapping_add(more), Relaxed);
}

/// A request of HTTP/1 that is being answered until this is dropped.
pub(crate) struct ActivityGuard<'a>(&'a Activity);

impl Drop for ActivityGuard<'_> {
    fn drop(&mut self) {
        self.0.end_request();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_quiet_when_nothing_is_under_way_and_everything_is_sent() {
        let activity = Activity::new();
        assert!(!activity.is_quiet(), "its first request is to come");
        activity.begin_request();
        assert!(!activity.is_quiet());
        activity.end_request();
        assert!(activity.is_quiet());
        activity.record_blocked_write();
        assert!(
            !activity.is_quiet(),
            "the client has yet to take its response"
        );
        activity.record_write(1);
        assert!(activity.is_quiet());
        activity.record_read(1, ReadKind::Partial);
        assert!(!activity.is_quiet(), "a request has begun");
    }
}
