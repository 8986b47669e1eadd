//! The streams of a connection, and whose turn it is to send.

use super::priority::Urgency;
use super::ready_set::ReadySet;
use super::stream::{HandlerMemory, Stream};

/// The open streams, each in a slot that it keeps until it ends. Sets of slots are the bits of a
/// number.
pub(super) struct Streams<F, B> {
    /// The numbers of the streams by their slots; 0 is a free slot.
    ids: Vec<u32>,
    slots: Vec<Stream<F, B>>,
    /// Memory for handlers that was used before. Streams that are being sent have no handler any
    /// more, and a client that does not read must not cost us a hundred of them.
    spare: Vec<HandlerMemory<F>>,
    open: usize,
    /// Streams whose handlers wait for the whole body of their request.
    pub(super) gathering: u128,
    /// Streams with a response's body.
    pub(super) sending: u128,
    /// Those of them that may have something to send now.
    pub(super) send: u128,
    by_urgency: [u128; Urgency::COUNT],
    /// The slot that sent last.
    last: usize,
}

impl<F, B> Streams<F, B> {
    /// Streams that may be open at a time.
    pub(super) const MOST: usize = 100;

    pub(super) fn new() -> Self {
        const { assert!(Self::MOST <= ReadySet::SLOTS) }
        Self {
            ids: Vec::new(),
            slots: Vec::new(),
            spare: Vec::new(),
            open: 0,
            gathering: 0,
            sending: 0,
            send: 0,
            by_urgency: [0; Urgency::COUNT],
            last: 0,
        }
    }

    /// Open streams.
    pub(super) fn open(&self) -> usize {
        self.open
    }

    /// The slot of a stream that is open.
    pub(super) fn find(&self, id: u32) -> Option<usize> {
        self.ids.iter().position(|other| *other == id)
    }

    /// The stream in a slot.
    pub(super) fn get_mut(&mut self, slot: usize) -> &mut Stream<F, B> {
        &mut self.slots[slot]
    }

    /// The stream in a slot; `None` if it has ended.
    pub(super) fn open_mut(&mut self, slot: usize) -> Option<&mut Stream<F, B>> {
        self.slots.get_mut(slot).filter(|stream| stream.id != 0)
    }

    /// All open streams with their slots.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut Stream<F, B>)> {
        let slots = self.slots.iter_mut().enumerate();
        slots.filter(|(_, stream)| stream.id != 0)
    }

    /// Opens a stream in a free slot. `make` makes a slot if there is none.
    pub(super) fn open_stream(
        &mut self,
        id: u32,
        make: impl FnOnce(usize) -> Stream<F, B>,
    ) -> usize {
        let slot = self.find(0).unwrap_or_else(|| {
            let slot = self.slots.len();
            self.slots.push(make(slot));
            self.ids.push(0);
            slot
        });
        self.ids[slot] = id;
        self.slots[slot].id = id;
        self.open += 1;
        self.set_urgency(slot, Urgency::default());
        slot
    }

    /// Begins the handler of a stream. It is large, so `make` makes it where it stays.
    #[inline]
    pub(super) fn set_handler(&mut self, slot: usize, make: impl FnOnce() -> F) {
        let mut memory = self.spare.pop().unwrap_or_else(|| Box::pin(None));
        memory.as_mut().set(Some(make()));
        self.slots[slot].handler = Some(memory);
    }

    /// Drops the handler of a stream, if it has one.
    pub(super) fn drop_handler(&mut self, slot: usize) {
        /// As many as answer at the same time in most connections.
        const SPARE_MAX: usize = 16;
        if let Some(mut memory) = self.slots[slot].handler.take()
            && self.spare.len() < SPARE_MAX
        {
            memory.as_mut().set(None);
            self.spare.push(memory);
        }
    }

    /// Ends a stream.
    pub(super) fn close(&mut self, slot: usize) {
        self.drop_handler(slot);
        self.slots[slot].clear();
        self.ids[slot] = 0;
        self.open -= 1;
        self.gathering &= !(1 << slot);
        self.sending &= !(1 << slot);
        self.send &= !(1 << slot);
    }

    /// Gives a stream its urgency.
    pub(super) fn set_urgency(&mut self, slot: usize, urgency: Urgency) {
        let stream = &mut self.slots[slot];
        self.by_urgency[stream.urgency.index()] &= !(1 << slot);
        stream.urgency = urgency;
        self.by_urgency[urgency.index()] |= 1 << slot;
    }

    /// The stream whose turn it is: of the most urgent that have something to send, the one after
    /// the last.
    pub(super) fn next_to_send(&mut self) -> Option<usize> {
        if self.send == 0 {
            return None;
        }
        let most_urgent = self.by_urgency.iter().map(|slots| slots & self.send);
        let slots = most_urgent.into_iter().find(|slots| *slots != 0)?;
        let behind = slots & (u128::MAX << self.last << 1);
        let next = if behind == 0 { slots } else { behind };
        self.last = next.trailing_zeros() as usize;
        Some(self.last)
    }

    /// Frees the memory of slots, if none is in use.
    pub(super) fn shrink(&mut self) {
        if self.open == 0 && !self.slots.is_empty() {
            (self.ids, self.slots, self.spare) = (Vec::new(), Vec::new(), Vec::new());
            self.by_urgency = [0; Urgency::COUNT];
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::super::flow::SendWindow;
    use super::*;

    fn streams(count: usize) -> Streams<std::future::Ready<()>, ()> {
        let mut streams = Streams::new();
        for number in 0..count {
            streams.open_stream(number as u32 * 2 + 1, |_| Stream {
                id: 0,
                waker: Waker::noop().clone(),
                handler: None,
                gathering: None,
                receiving: None,
                sending: None,
                window: SendWindow::new(0),
                urgency: Urgency::default(),
                is_head: false,
            });
        }
        streams
    }

    fn turns(streams: &mut Streams<std::future::Ready<()>, ()>, count: usize) -> Vec<usize> {
        (0..count)
            .map(|_| streams.next_to_send().unwrap())
            .collect()
    }

    #[test]
    fn streams_of_one_urgency_take_turns_and_the_most_urgent_go_first() {
        let mut streams = streams(100);
        streams.send = 1 | 1 << 5 | 1 << 99;
        assert_eq!(turns(&mut streams, 4), [5, 99, 0, 5]);
        streams.set_urgency(99, Urgency::parse(b"u=1"));
        assert_eq!(turns(&mut streams, 2), [99, 99]);
        streams.send &= !(1 << 99);
        assert_eq!(turns(&mut streams, 2), [0, 5]);
        streams.send = 0;
        assert_eq!(streams.next_to_send(), None);
    }

    #[test]
    fn a_slot_is_used_again_and_forgets_its_stream() {
        let mut streams = streams(3);
        let slot = streams.find(3).unwrap();
        streams.set_urgency(slot, Urgency::parse(b"u=0"));
        (streams.send, streams.sending) = (u128::MAX, u128::MAX);
        streams.close(slot);
        assert_eq!((streams.find(3), streams.open()), (None, 2));
        assert!(streams.open_mut(slot).is_none());
        assert_eq!(
            streams.open_stream(7, |_| unreachable!("a slot is free")),
            slot
        );
        assert_eq!(streams.get_mut(slot).urgency, Urgency::default());
        assert_eq!((streams.send | streams.sending) & (1 << slot), 0);
    }

    #[test]
    fn the_last_slot_of_all_has_a_turn() {
        let mut streams = streams(100);
        streams.last = 127;
        streams.send = 1 << 3;
        assert_eq!(turns(&mut streams, 1), [3]);
    }
}
