//! The streams of one client's HTTP/2 connection: the bytes that each has yet to take, and for how
//! long they wait.
//!
//! Every stream has a window of its own, so a client can read one response and leave all others
//! unread for ever, with what they hold. So each stream has a clock. No timer is set for it: the
//! parts of a response's body count themselves as they leave ([`SentPart`]), and the connection's
//! supervisor compares the counts once a tick. A stream that is too slow loses its task, which
//! resets it; the others go on.
//!
//! The same counts bound the memory of the connection. A body is asked for its next part only while
//! the connection owes its client little, or its own stream owes nothing: so a few streams that
//! nobody reads do not hold up the others.

use std::mem;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};
use tokio::task::AbortHandle;

use crate::timeouts::UnreadPolicy;

/// Streams that a client may have at a time on one connection.
pub(crate) const STREAMS_MAX: u32 = 100;

/// The streams of one connection that have a response to send.
pub(crate) struct StreamClocks {
    budget: SendBudget,
    /// Bytes of all streams that have not left.
    owed: AtomicUsize,
    /// There are tasks in [`Registry::waiting`].
    has_waiting: AtomicBool,
    registry: Mutex<Registry>,
}

#[derive(Default)]
struct Registry {
    /// By the place of each stream.
    entries: Vec<Option<ClockEntry>>,
    free_places: Vec<usize>,
    /// Tasks that wait until less is owed.
    waiting: Vec<Waker>,
    /// The stream that began last, until its task is known.
    latest: Option<Arc<StreamClock>>,
}

/// A stream as the supervisor sees it.
struct ClockEntry {
    clock: Weak<StreamClock>,
    /// Ticks since the client is waited for.
    waited_ticks: u32,
    /// Bytes that had left when that wait began.
    taken_before: u64,
    /// Its task was ended. Its last part may be on the way to the socket for a while.
    is_reset: bool,
}

/// Bytes that may wait for one client, by how much it owes to its connection already.
#[derive(Clone, Copy, Debug)]
struct SendBudget {
    /// Below this, every stream may have its next part, of at most `part_max` bytes.
    plenty: usize,
    part_max: usize,
    /// Below this, a stream of which nothing waits may have a part of `small_part_max`.
    most: usize,
    small_part_max: usize,
}

impl SendBudget {
    fn new(bytes_max: usize) -> Self {
        let (plenty, part_max) = (bytes_max / 4, bytes_max / 8);
        Self {
            plenty,
            part_max,
            most: bytes_max,
            small_part_max: (bytes_max - plenty - part_max) / STREAMS_MAX as usize,
        }
    }
}

/// Result of a tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StalledStreams {
    /// Streams that were reset.
    pub(crate) reset: usize,
    /// A response was handed over to its last byte and is not taken. Nobody can reset such a
    /// stream alone, so its connection has to end.
    pub(crate) is_connection_stalled: bool,
}

impl StreamClocks {
    /// The streams of a new connection, for which at most `bytes_max` may wait to be sent.
    pub(crate) fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self {
            budget: SendBudget::new(bytes_max),
            owed: AtomicUsize::new(0),
            has_waiting: AtomicBool::new(false),
            registry: Mutex::default(),
        })
    }

    /// Bytes of the largest part of a body.
    pub(crate) fn part_max(&self) -> usize {
        self.budget.part_max
    }

    /// Begins a stream. Its task follows with [`StreamClocks::run`].
    pub(crate) fn begin(self: &Arc<Self>) -> Arc<StreamClock> {
        let mut registry = self.registry();
        let place = registry.free_places.pop().unwrap_or_else(|| {
            registry.entries.push(None);
            registry.entries.len() - 1
        });
        let clock = Arc::new(StreamClock {
            connection: Arc::clone(self),
            place,
            owed: AtomicUsize::new(0),
            taken: AtomicU64::new(0),
            task: Mutex::default(),
        });
        registry.entries[place] = Some(ClockEntry {
            clock: Arc::downgrade(&clock),
            waited_ticks: 0,
            taken_before: 0,
            is_reset: false,
        });
        let before = registry.latest.replace(Arc::clone(&clock));
        // Its end takes the lock.
        drop(registry);
        drop(before);
        clock
    }

    /// Runs the task of the stream that began last.
    pub(crate) fn run(&self, future: impl Future<Output: Send> + Send + 'static) {
        let latest = self.registry().latest.take();
        let task = tokio::spawn(future);
        if let Some(clock) = latest {
            *clock.task() = Some(task.abort_handle());
        }
    }

    /// Looks at all streams once a tick, and resets those whose client takes too little.
    pub(crate) fn tick(&self, policy: UnreadPolicy) -> StalledStreams {
        let mut stalled = StalledStreams::default();
        // Dropped after the lock is released, because the end of a stream takes it.
        let mut looked_at = Vec::new();
        let mut registry = self.registry();
        for entry in registry.entries.iter_mut().flatten() {
            let Some(clock) = entry.clock.upgrade() else {
                continue;
            };
            if entry.is_stalled(&clock, policy) {
                match clock.task().take() {
                    Some(task) => {
                        task.abort();
                        entry.is_reset = true;
                        stalled.reset += 1;
                    }
                    None => stalled.is_connection_stalled = true,
                }
            }
            looked_at.push(clock);
        }
        drop(registry);
        stalled
    }

    /// Bytes of responses that were handed over and have not left.
    pub(crate) fn owed(&self) -> usize {
        self.owed.load(Relaxed)
    }

    /// The most bytes that a stream may have next; `None` when it has to wait.
    fn room(&self, owed_by_stream: usize) -> Option<usize> {
        let (owed, budget) = (self.owed.load(Relaxed), &self.budget);
        if owed < budget.plenty {
            Some(budget.part_max)
        } else if owed_by_stream == 0 && owed < budget.most {
            Some(budget.small_part_max)
        } else {
            None
        }
    }

    /// Waits until `find` finds something; asked again whenever a part has left.
    fn poll_until<T>(&self, cx: &mut Context<'_>, find: impl Fn() -> Option<T>) -> Poll<T> {
        if let Some(found) = find() {
            return Poll::Ready(found);
        }
        let mut registry = self.registry();
        if !registry
            .waiting
            .iter()
            .any(|other| other.will_wake(cx.waker()))
        {
            registry.waiting.push(cx.waker().clone());
        }
        self.has_waiting.store(true, Relaxed);
        drop(registry);
        // Once more, because a part may have left meanwhile.
        find().map_or(Poll::Pending, Poll::Ready)
    }

    fn wake_waiting(&self) {
        if !self.has_waiting.load(Relaxed) {
            return;
        }
        let mut registry = self.registry();
        self.has_waiting.store(false, Relaxed);
        let waiting = mem::take(&mut registry.waiting);
        drop(registry);
        waiting.into_iter().for_each(Waker::wake);
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClockEntry {
    /// Counts the ticks at which the client was waited for. After each full window the bytes that
    /// left in it are compared with the least that must.
    fn is_stalled(&mut self, clock: &StreamClock, policy: UnreadPolicy) -> bool {
        let taken = clock.taken.load(Relaxed);
        if clock.owed() == 0 || self.is_reset {
            (self.waited_ticks, self.taken_before) = (0, taken);
            return false;
        }
        self.waited_ticks += 1;
        if self.waited_ticks <= policy.ticks {
            return false;
        }
        let went = taken - self.taken_before;
        (self.waited_ticks, self.taken_before) = (0, taken);
        went < policy.bytes_min
    }
}

/// One stream. It lives until its last byte has left, which may be after the end of its task.
pub(crate) struct StreamClock {
    connection: Arc<StreamClocks>,
    place: usize,
    /// Bytes that were handed over for sending and have not left.
    owed: AtomicUsize,
    /// Bytes that have left.
    taken: AtomicU64,
    /// The task whose end resets the stream; `None` once everything was handed over.
    task: Mutex<Option<AbortHandle>>,
}

impl StreamClock {
    /// Ready when the stream may have another part, with its most bytes.
    pub(crate) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<usize> {
        let room = || self.connection.room(self.owed());
        self.connection.poll_until(cx, room)
    }

    /// Ready when the end of the response may follow.
    pub(crate) fn poll_end(&self, cx: &mut Context<'_>, window: u32) -> Poll<()> {
        self.connection
            .poll_until(cx, || self.may_end(window).then_some(()))
    }

    /// Returns true when everything has left, or is sure to fit into the `window` with which the
    /// client begins a stream. After the end nobody can reset the stream any more, so the end is
    /// held back while the window of the stream may keep the rest.
    pub(crate) fn may_end(&self, window: u32) -> bool {
        let owed = self.owed() as u64;
        owed == 0 || self.taken.load(Relaxed) + owed <= u64::from(window)
    }

    /// Counts a part as owed until it has left.
    pub(crate) fn hand_over(self: &Arc<Self>, bytes: Bytes) -> SentPart {
        self.owed.fetch_add(bytes.len(), Relaxed);
        self.connection.owed.fetch_add(bytes.len(), Relaxed);
        SentPart {
            bytes,
            clock: Arc::clone(self),
        }
    }

    /// Forgets the task, which is about to end by itself.
    pub(crate) fn forget_task(&self) {
        self.task().take();
    }

    fn owed(&self) -> usize {
        self.owed.load(Relaxed)
    }

    fn record_left(&self, bytes: usize) {
        self.owed.fetch_sub(bytes, Relaxed);
        self.connection.owed.fetch_sub(bytes, Relaxed);
        self.taken.fetch_add(bytes as u64, Relaxed);
    }

    fn task(&self) -> MutexGuard<'_, Option<AbortHandle>> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for StreamClock {
    fn drop(&mut self) {
        let mut registry = self.connection.registry();
        registry.entries[self.place] = None;
        registry.free_places.push(self.place);
    }
}

/// A part of a response's body that counts its bytes as they leave.
pub(crate) struct SentPart {
    bytes: Bytes,
    clock: Arc<StreamClock>,
}

impl Buf for SentPart {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        self.clock.record_left(count);
    }
}

impl Drop for SentPart {
    fn drop(&mut self) {
        self.clock.record_left(self.bytes.len());
        self.clock.connection.wake_waiting();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: UnreadPolicy = UnreadPolicy {
        ticks: 8,
        bytes_min: 200,
    };

    fn part(clock: &Arc<StreamClock>, bytes: usize) -> SentPart {
        clock.hand_over(Bytes::from(vec![0; bytes]))
    }

    /// A stream with a task that never ends.
    fn stream(clocks: &Arc<StreamClocks>) -> Arc<StreamClock> {
        let clock = clocks.begin();
        clocks.run(std::future::pending::<()>());
        clock
    }

    /// Ticks until something is stalled, at most fifty.
    fn ticks(
        clocks: &StreamClocks,
        mut meanwhile: impl FnMut(),
    ) -> Option<(usize, StalledStreams)> {
        (1..=50).find_map(|tick| {
            meanwhile();
            let stalled = clocks.tick(POLICY);
            (stalled != StalledStreams::default()).then_some((tick, stalled))
        })
    }

    const ONE_RESET: StalledStreams = StalledStreams {
        reset: 1,
        is_connection_stalled: false,
    };

    #[tokio::test]
    async fn a_stream_is_reset_alone_however_much_the_others_take() {
        let clocks = StreamClocks::new(1 << 20);
        let (unread, read) = (stream(&clocks), stream(&clocks));
        let _waits = part(&unread, 10_000);
        let moving = || drop(part(&read, 10_000));
        assert_eq!(ticks(&clocks, moving), Some((9, ONE_RESET)));
        assert_eq!(ticks(&clocks, moving), None, "its task is gone");
    }

    #[tokio::test]
    async fn a_stream_must_be_read_at_a_hundred_bytes_a_second() {
        let clocks = StreamClocks::new(1 << 20);
        let first = stream(&clocks);
        let mut fast_enough = part(&first, 10_000);
        assert_eq!(ticks(&clocks, || fast_enough.advance(60)), None);
        drop(fast_enough);
        let second = stream(&clocks);
        let mut slow = part(&second, 10_000);
        assert_eq!(ticks(&clocks, || slow.advance(10)), Some((9, ONE_RESET)));
    }

    #[tokio::test]
    async fn a_response_that_is_handed_over_to_its_end_and_not_taken_ends_the_connection() {
        let clocks = StreamClocks::new(1 << 20);
        let stream = stream(&clocks);
        let rest = part(&stream, 10);
        stream.forget_task();
        drop(stream);
        let (_, stalled) = ticks(&clocks, || {}).unwrap();
        assert!(stalled.is_connection_stalled && stalled.reset == 0);
        drop(rest);
        assert!(clocks.registry().entries.iter().all(Option::is_none));
    }

    #[test]
    fn what_waits_for_one_client_is_bounded_and_unread_streams_do_not_stop_the_others() {
        let bytes_max = 512 << 10;
        let clocks = StreamClocks::new(bytes_max);
        let streams: Vec<_> = (0..STREAMS_MAX).map(|_| clocks.begin()).collect();
        let mut cx = Context::from_waker(Waker::noop());
        let mut unread = Vec::new();
        for stream in &streams {
            while let Poll::Ready(room) = stream.poll_room(&mut cx) {
                unread.push(part(stream, room));
            }
        }
        assert!(clocks.owed.load(Relaxed) <= bytes_max);
        assert!(streams.iter().all(|stream| stream.owed() > 0));
        drop(unread.pop());
        assert!(streams.last().unwrap().poll_room(&mut cx).is_ready());
        drop(unread);
        assert_eq!(clocks.owed.load(Relaxed), 0);
        assert_eq!(
            streams[0].poll_room(&mut cx),
            Poll::Ready(clocks.part_max())
        );
    }

    #[test]
    fn the_end_of_a_response_waits_for_what_its_window_may_keep() {
        let clocks = StreamClocks::new(1 << 20);
        let stream = clocks.begin();
        let mut first = part(&stream, 60);
        assert!(stream.may_end(100), "all of it fits");
        first.advance(50);
        let second = part(&stream, 60);
        assert!(!stream.may_end(100), "the window may be used up");
        drop(first);
        assert!(!stream.may_end(100));
        drop(second);
        assert!(stream.may_end(100), "everything has left");
        assert!(stream.may_end(0));
    }
}
