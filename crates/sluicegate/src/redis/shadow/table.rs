//! The memory of the shadows: lines of words in sets, read without a lock.
//!
//! **Invariant:** a set's version is odd while somebody writes to it. A reader who finds the same even version before
//! and after has read what one writer left.

use std::hint::black_box;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use smallvec::SmallVec;

use crate::sync::{AtomicU64, fence, spin_loop, yield_now};

const WAYS: usize = if cfg!(sluicegate_loom) { 1 } else { 8 };

/// Some words for each of as many counters as fit, its hash the first of them; of the counters that share a set, the one
/// with the nearest end makes room for another.
pub(super) struct ShadowTable<const WORDS: usize> {
    heads: Box<[SetHeader]>,
    lines: Box<[CacheLine<WORDS>]>,
}

/// What a search reads first. One that finds nothing reads no other line.
#[repr(align(64))]
struct SetHeader {
    version: AtomicU64,
    /// Sixteen bits of each counter's hash, four to a word; 0 where there is none.
    tags: [AtomicU64; 2],
    /// The ends of the counters, two to a word.
    ends: [AtomicU64; 4],
}

#[repr(align(64))]
struct CacheLine<const WORDS: usize>([AtomicU64; WORDS]);

impl<const WORDS: usize> ShadowTable<WORDS> {
    /// A table for so many counters at least.
    pub(super) fn new(counters: usize) -> Self {
        let sets = counters.div_ceil(WAYS).next_power_of_two();
        let zeros = || AtomicU64::new(0);
        let head = |_| SetHeader {
            version: zeros(),
            tags: std::array::from_fn(|_| zeros()),
            ends: std::array::from_fn(|_| zeros()),
        };
        let line = |_| CacheLine(std::array::from_fn(|_| zeros()));
        Self {
            heads: (0..sets).map(head).collect(),
            lines: (0..sets * WAYS).map(line).collect(),
        }
    }

    /// What was kept last for a hash.
    #[inline]
    pub(super) fn read(&self, hash: u64) -> Option<[u64; WORDS]> {
        let (head, lines) = self.set(hash);
        let mut tries = SpinWait::default();
        loop {
            let before = head.version.load(Acquire);
            if before.is_multiple_of(2) {
                let words = head
                    .find(hash, lines)
                    .map(|place| lines[place].0.each_ref().map(|word| word.load(Relaxed)));
                fence(Acquire);
                if head.version.load(Relaxed) == before {
                    return words;
                }
            }
            tries.wait();
        }
    }

    /// Keeps words until `end`; they are for the hash that is their first.
    pub(super) fn write(&self, words: [u64; WORDS], now: CoarseInstant, end: CoarseInstant) {
        let hash = words[0];
        let (head, lines) = self.set(hash);
        let writing = head.begin_to_write();
        if let Some(place) = head.place_for(hash, now, end, lines) {
            lines[place]
                .0
                .iter()
                .zip(words)
                .for_each(|(word, value)| word.store(value, Relaxed));
            head.set_tag(place, tag(hash));
            head.set_end(place, end);
        }
        head.version.store(writing + 1, Release);
    }

    /// Reads what [`Table::write`] will write to, so that the processor fetches all of it at the same time.
    pub(super) fn touch_all(
        &self,
        writes: impl Iterator<Item = (u64, CoarseInstant, CoarseInstant)> + Clone,
    ) {
        let heads = writes.clone().fold(0, |sum, (hash, ..)| {
            sum ^ self.set(hash).0.version.load(Relaxed)
        });
        let place = |(hash, now, end)| {
            let (head, lines) = self.set(hash);
            head.place_for(hash, now, end, lines)
                .map(|place| &lines[place].0[0])
        };
        // A list before the loads: between one and the next the processor would have too much else to do to look ahead.
        let places: SmallVec<[&AtomicU64; 256]> = writes.filter_map(place).collect();
        black_box(
            places
                .iter()
                .fold(heads, |sum, word| sum ^ word.load(Relaxed)),
        );
    }

    /// Keeps nothing for a hash any more.
    pub(super) fn forget(&self, hash: u64) {
        let (head, lines) = self.set(hash);
        let writing = head.begin_to_write();
        if let Some(place) = head.find(hash, lines) {
            head.set_tag(place, 0);
        }
        head.version.store(writing + 1, Release);
    }

    #[inline]
    fn set(&self, hash: u64) -> (&SetHeader, &[CacheLine<WORDS>]) {
        let set = hash as usize & (self.heads.len() - 1);
        (&self.heads[set], &self.lines[set * WAYS..][..WAYS])
    }
}

impl SetHeader {
    /// Waits for other writers and returns the version that says that one writes.
    fn begin_to_write(&self) -> u64 {
        let mut tries = SpinWait::default();
        loop {
            let version = self.version.load(Relaxed);
            let is_ours = version.is_multiple_of(2)
                && self
                    .version
                    .compare_exchange_weak(version, version + 1, Acquire, Relaxed)
                    .is_ok();
            if is_ours {
                // Whoever reads something written after this will also find that version.
                fence(Release);
                return version + 1;
            }
            tries.wait();
        }
    }

    #[inline]
    fn find<const WORDS: usize>(&self, hash: u64, lines: &[CacheLine<WORDS>]) -> Option<usize> {
        let wanted = tag(hash);
        (0..WAYS)
            .find(|place| self.tag(*place) == wanted && lines[*place].0[0].load(Relaxed) == hash)
    }

    /// Where words for a hash go, if there is room for them.
    fn place_for<const WORDS: usize>(
        &self,
        hash: u64,
        now: CoarseInstant,
        end: CoarseInstant,
        lines: &[CacheLine<WORDS>],
    ) -> Option<usize> {
        let free = || (0..WAYS).find(|place| self.tag(*place) == 0);
        self.find(hash, lines)
            .or_else(free)
            .or_else(|| self.nearest_end_before(now, end))
    }

    fn nearest_end_before(&self, now: CoarseInstant, end: CoarseInstant) -> Option<usize> {
        let nearest = (0..WAYS).min_by_key(|place| self.end(*place).since(now))?;
        (self.end(nearest).since(now) <= end.since(now)).then_some(nearest)
    }

    #[inline]
    fn tag(&self, place: usize) -> u16 {
        (self.tags[place / 4].load(Relaxed) >> (place % 4 * 16)) as u16
    }

    fn set_tag(&self, place: usize, tag: u16) {
        put(
            &self.tags[place / 4],
            place % 4 * 16,
            u64::from(u16::MAX),
            u64::from(tag),
        );
    }

    fn end(&self, place: usize) -> CoarseInstant {
        CoarseInstant((self.ends[place / 2].load(Relaxed) >> (place % 2 * 32)) as u32)
    }

    fn set_end(&self, place: usize, end: CoarseInstant) {
        put(
            &self.ends[place / 2],
            place % 2 * 32,
            u64::from(u32::MAX),
            u64::from(end.0),
        );
    }
}

/// Puts a value at a place in a word that nobody else writes to.
fn put(word: &AtomicU64, place: usize, mask: u64, value: u64) {
    word.store(
        word.load(Relaxed) & !(mask << place) | value << place,
        Relaxed,
    );
}

/// Bits of a hash that do not choose the set; never 0.
#[inline]
fn tag(hash: u64) -> u16 {
    (hash >> 48) as u16 | 1
}

/// Waits for a writer, who needs a few nanoseconds unless he was interrupted.
#[derive(Default)]
struct SpinWait(u32);

impl SpinWait {
    #[cold]
    fn wait(&mut self) {
        const SPINS: u32 = if cfg!(sluicegate_loom) { 0 } else { 64 };
        self.0 += 1;
        if self.0 > SPINS {
            yield_now()
        } else {
            spin_loop()
        }
    }
}

/// An instant to some 17 ms, which goes round in two years: enough to say which of two is nearer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CoarseInstant(u32);

impl CoarseInstant {
    const BITS: u32 = 24;
    const FURTHEST: u64 = i32::MAX as u64;

    pub(super) fn of(nanos: u64) -> Self {
        Self((nanos >> Self::BITS) as u32)
    }

    pub(super) fn after(self, nanos: u64) -> Self {
        Self(
            self.0
                .wrapping_add((nanos >> Self::BITS).min(Self::FURTHEST) as u32),
        )
    }

    /// How far it lies ahead, or behind if negative.
    fn since(self, now: Self) -> i32 {
        self.0.wrapping_sub(now.0) as i32
    }
}

#[cfg(all(test, sluicegate_loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    const NOW: CoarseInstant = CoarseInstant(0);
    const WORDS: usize = 2;

    fn write(table: &ShadowTable<WORDS>, hash: u64, value: u64) {
        table.write([hash, value], NOW, NOW.after(u64::MAX));
    }

    #[test]
    fn loom_what_is_read_was_written_by_one() {
        loom::model(|| {
            let table = Arc::new(ShadowTable::new(1));
            write(&table, 1, 10);
            let writer = thread::spawn({
                let table = Arc::clone(&table);
                move || write(&table, 2, 20)
            });
            assert!(matches!(table.read(1), Some([1, 10]) | None));
            assert!(matches!(table.read(2), Some([2, 20]) | None));
            writer.join().unwrap();
            assert_eq!((table.read(1), table.read(2)), (None, Some([2, 20])));
        });
    }

    #[test]
    fn loom_two_who_write_leave_the_words_of_one() {
        loom::model(|| {
            let table = Arc::new(ShadowTable::new(1));
            let other = thread::spawn({
                let table = Arc::clone(&table);
                move || write(&table, 1, 10)
            });
            write(&table, 2, 20);
            other.join().unwrap();
            assert!(matches!(
                (table.read(1), table.read(2)),
                (Some([1, 10]), None) | (None, Some([2, 20]))
            ));
        });
    }

    #[test]
    fn loom_what_is_forgotten_is_not_read_again() {
        loom::model(|| {
            let table = Arc::new(ShadowTable::new(1));
            write(&table, 1, 10);
            let other = thread::spawn({
                let table = Arc::clone(&table);
                move || write(&table, 1, 11)
            });
            other.join().unwrap();
            table.forget(1);
            assert_eq!(table.read(1), None);
        });
    }
}

#[cfg(all(test, not(sluicegate_loom)))]
mod tests {
    use super::*;

    const NOW: CoarseInstant = CoarseInstant(1_000);
    const WORDS: usize = 8;

    /// For so many seconds.
    fn write(table: &ShadowTable<WORDS>, hash: u64, seconds: u64) {
        let end = NOW.after(seconds * 1_000_000_000);
        table.write([hash, seconds, 0, 0, 0, 0, 0, 0], NOW, end);
    }

    fn read(table: &ShadowTable<WORDS>, hash: u64) -> Option<u64> {
        table.read(hash).map(|words| words[1])
    }

    #[test]
    fn a_head_is_one_line_of_the_cache_and_so_are_the_words_of_a_counter() {
        assert_eq!(
            (size_of::<SetHeader>(), size_of::<CacheLine<WORDS>>()),
            (64, 64)
        );
    }

    #[test]
    fn counters_whose_tags_are_the_same_stay_apart() {
        let table = ShadowTable::new(WAYS);
        write(&table, 1, 10);
        write(&table, 2, 20);
        assert_eq!(tag(1), tag(2));
        assert_eq!(
            (read(&table, 1), read(&table, 2), read(&table, 3)),
            (Some(10), Some(20), None)
        );
        table.forget(1);
        assert_eq!((read(&table, 1), read(&table, 2)), (None, Some(20)));
        write(&table, 3, 5);
        assert_eq!(
            (read(&table, 1), read(&table, 2), read(&table, 3)),
            (None, Some(20), Some(5))
        );
    }

    #[test]
    fn the_counter_with_the_nearest_end_makes_room() {
        let table = ShadowTable::new(WAYS);
        (1..=8).for_each(|hash| write(&table, hash, hash * 10));
        write(&table, 9, 5);
        assert_eq!(read(&table, 9), None, "it would be the first to go");
        write(&table, 10, 100);
        assert_eq!((read(&table, 10), read(&table, 1)), (Some(100), None));
        assert!((2..=8).all(|hash| read(&table, hash) == Some(hash * 10)));
        write(&table, 5, 1);
        assert_eq!(read(&table, 5), Some(1), "of itself the latest counts");
    }

    #[test]
    fn near_and_far_are_told_apart_wherever_the_clock_stands() {
        for now in [0, u64::from(u32::MAX) << CoarseInstant::BITS, u64::MAX >> 1] {
            let now = CoarseInstant::of(now);
            let [soon, later, never] = [1 << 30, 1 << 40, u64::MAX].map(|nanos| now.after(nanos));
            assert!(
                0 < soon.since(now)
                    && soon.since(now) < later.since(now)
                    && later.since(now) < never.since(now)
            );
        }
    }
}
