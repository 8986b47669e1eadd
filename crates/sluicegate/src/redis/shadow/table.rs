//! The memory of the shadows: a set-associative table of cache lines, read without a lock.
//!
//! The idea: the hash of a counter chooses a set of eight lines. Each set has one header line with
//! a version, a short tag per line, and the time at which each counter is full again. A search that
//! finds no tag reads only the header, one cache miss; one that does reads one line more.
//!
//! **Invariant:** the version of a set is odd while a writer changes it, and a writer makes it odd
//! by compare-and-swap, so there is one at a time. A reader that finds the same even version before
//! and after has read words that one writer left (a sequence lock). It retries otherwise; writes
//! are a few nanoseconds long and rare.
//!
//! A concurrent map would be simpler to use, but takes a lock or an atomic write per read,
//! allocates per entry and grows without bound. Here memory is fixed, a read writes nothing, and
//! when a set is full the counter that is full again soonest goes: a flood of new keys cannot
//! displace the counters with the largest debts. The loom tests below check the orderings.

use std::hint::black_box;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use smallvec::SmallVec;

use crate::sync::{AtomicU64, fence, spin_loop, yield_now};

/// Lines per set. The model checker gets one, or it would not end.
const WAYS: usize = if cfg!(sluicegate_loom) { 1 } else { 8 };

/// `WORDS` words for each counter; the first of them is its hash.
pub(super) struct ShadowTable<const WORDS: usize> {
    /// One per set; a power of two.
    headers: Box<[SetHeader]>,
    /// [`WAYS`] per set, next to each other.
    lines: Box<[CacheLine<WORDS>]>,
}

/// The header of a set, which a search reads first.
#[repr(align(64))]
struct SetHeader {
    /// Odd while a writer changes the set; each write adds two.
    version: AtomicU64,
    /// 16 bits of the hash of each counter, four to a word; 0 for a free line.
    tags: [AtomicU64; 2],
    /// When each counter is full again, two to a word.
    ends: [AtomicU64; 4],
}

/// The words of one counter.
#[repr(align(64))]
struct CacheLine<const WORDS: usize>([AtomicU64; WORDS]);

impl<const WORDS: usize> ShadowTable<WORDS> {
    /// An empty table for at least this many counters.
    pub(super) fn new(counters: usize) -> Self {
        let sets = counters.div_ceil(WAYS).next_power_of_two();
        let zeros = || AtomicU64::new(0);
        let header = |_| SetHeader {
            version: zeros(),
            tags: std::array::from_fn(|_| zeros()),
            ends: std::array::from_fn(|_| zeros()),
        };
        let line = |_| CacheLine(std::array::from_fn(|_| zeros()));
        Self {
            headers: (0..sets).map(header).collect(),
            lines: (0..sets * WAYS).map(line).collect(),
        }
    }

    /// The words that were written last for a hash.
    #[inline]
    pub(super) fn read(&self, hash: u64) -> Option<[u64; WORDS]> {
        let (header, lines) = self.set(hash);
        let mut spin = SpinWait::default();
        loop {
            let before = header.version.load(Acquire);
            if before.is_multiple_of(2) {
                let words = header
                    .find(hash, lines)
                    .map(|way| lines[way].0.each_ref().map(|word| word.load(Relaxed)));
                fence(Acquire);
                if header.version.load(Relaxed) == before {
                    return words;
                }
            }
            spin.wait();
        }
    }

    /// Writes the words of a counter that is full again at `end`. Does nothing if the set is full
    /// of counters with later ends.
    pub(super) fn write(&self, words: [u64; WORDS], now: CoarseInstant, end: CoarseInstant) {
        let hash = words[0];
        let (header, lines) = self.set(hash);
        let version = header.lock_for_write();
        if let Some(way) = header.way_for(hash, now, end, lines) {
            lines[way]
                .0
                .iter()
                .zip(words)
                .for_each(|(word, value)| word.store(value, Relaxed));
            header.set_tag(way, tag(hash));
            header.set_end(way, end);
        }
        header.version.store(version + 1, Release);
    }

    /// Reads every line that [`ShadowTable::write`] will write to, so that the processor fetches
    /// all of them at the same time.
    pub(super) fn touch_all(
        &self,
        writes: impl Iterator<Item = (u64, CoarseInstant, CoarseInstant)> + Clone,
    ) {
        let headers = writes.clone().fold(0, |sum, (hash, ..)| {
            sum ^ self.set(hash).0.version.load(Relaxed)
        });
        let way = |(hash, now, end)| {
            let (header, lines) = self.set(hash);
            header
                .way_for(hash, now, end, lines)
                .map(|way| &lines[way].0[0])
        };
        // A list first: loads in a tight loop overlap, loads between searches do not.
        let words: SmallVec<[&AtomicU64; 256]> = writes.filter_map(way).collect();
        black_box(
            words
                .iter()
                .fold(headers, |sum, word| sum ^ word.load(Relaxed)),
        );
    }

    /// Forgets the words of a hash.
    pub(super) fn forget(&self, hash: u64) {
        let (header, lines) = self.set(hash);
        let version = header.lock_for_write();
        if let Some(way) = header.find(hash, lines) {
            header.set_tag(way, 0);
        }
        header.version.store(version + 1, Release);
    }

    /// Header and lines of the set that a hash belongs to.
    #[inline]
    fn set(&self, hash: u64) -> (&SetHeader, &[CacheLine<WORDS>]) {
        let set = hash as usize & (self.headers.len() - 1);
        (&self.headers[set], &self.lines[set * WAYS..][..WAYS])
    }
}

impl SetHeader {
    /// Waits for another writer, makes the version odd and returns it. The writer stores the next
    /// even version when it is done.
    fn lock_for_write(&self) -> u64 {
        let mut spin = SpinWait::default();
        loop {
            let version = self.version.load(Relaxed);
            let is_ours = version.is_multiple_of(2)
                && self
                    .version
                    .compare_exchange_weak(version, version + 1, Acquire, Relaxed)
                    .is_ok();
            if is_ours {
                // A reader that sees any word written after this fence also sees the odd version.
                fence(Release);
                return version + 1;
            }
            spin.wait();
        }
    }

    /// Index of the line that holds a hash. Tags are compared first, as they are in the header.
    #[inline]
    fn find<const WORDS: usize>(&self, hash: u64, lines: &[CacheLine<WORDS>]) -> Option<usize> {
        let wanted = tag(hash);
        (0..WAYS).find(|way| self.tag(*way) == wanted && lines[*way].0[0].load(Relaxed) == hash)
    }

    /// Index of the line that a hash may write to: its own, a free one, or the one whose counter is
    /// full again soonest, if that is no later than `end`.
    fn way_for<const WORDS: usize>(
        &self,
        hash: u64,
        now: CoarseInstant,
        end: CoarseInstant,
        lines: &[CacheLine<WORDS>],
    ) -> Option<usize> {
        let free = || (0..WAYS).find(|way| self.tag(*way) == 0);
        self.find(hash, lines)
            .or_else(free)
            .or_else(|| self.nearest_end_before(now, end))
    }

    fn nearest_end_before(&self, now: CoarseInstant, end: CoarseInstant) -> Option<usize> {
        let nearest = (0..WAYS).min_by_key(|way| self.end(*way).since(now))?;
        (self.end(nearest).since(now) <= end.since(now)).then_some(nearest)
    }

    #[inline]
    fn tag(&self, way: usize) -> u16 {
        (self.tags[way / 4].load(Relaxed) >> (way % 4 * 16)) as u16
    }

    fn set_tag(&self, way: usize, tag: u16) {
        set_bits(
            &self.tags[way / 4],
            way % 4 * 16,
            u64::from(u16::MAX),
            u64::from(tag),
        );
    }

    fn end(&self, way: usize) -> CoarseInstant {
        CoarseInstant((self.ends[way / 2].load(Relaxed) >> (way % 2 * 32)) as u32)
    }

    fn set_end(&self, way: usize, end: CoarseInstant) {
        set_bits(
            &self.ends[way / 2],
            way % 2 * 32,
            u64::from(u32::MAX),
            u64::from(end.0),
        );
    }
}

/// Replaces some bits of a word. The set is locked, so no other thread writes to it.
fn set_bits(word: &AtomicU64, shift: usize, mask: u64, value: u64) {
    word.store(
        word.load(Relaxed) & !(mask << shift) | value << shift,
        Relaxed,
    );
}

/// Bits of a hash that do not choose the set; never 0, which marks a free line.
#[inline]
fn tag(hash: u64) -> u16 {
    (hash >> 48) as u16 | 1
}

/// Waits for a writer: spins a little, then yields, in case the writer's thread was suspended.
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

/// An instant in units of 2^24 ns, about 17 ms, that wraps after two years: enough to tell which of
/// two instants within a year is nearer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CoarseInstant(u32);

impl CoarseInstant {
    const BITS: u32 = 24;
    /// The furthest instant that still counts as ahead.
    const FURTHEST: u64 = i32::MAX as u64;

    pub(super) fn from_nanos(nanos: u64) -> Self {
        Self((nanos >> Self::BITS) as u32)
    }

    pub(super) fn after(self, nanos: u64) -> Self {
        Self(
            self.0
                .wrapping_add((nanos >> Self::BITS).min(Self::FURTHEST) as u32),
        )
    }

    /// Distance from `now` in units; negative for the past.
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
    fn loom_a_reader_sees_the_words_of_one_writer() {
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
    fn loom_two_writers_leave_the_words_of_one() {
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
    fn loom_forgotten_words_are_not_read_again() {
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

    /// Writes a counter that is full again after so many seconds.
    fn write(table: &ShadowTable<WORDS>, hash: u64, seconds: u64) {
        let end = NOW.after(seconds * 1_000_000_000);
        table.write([hash, seconds, 0, 0, 0, 0, 0, 0], NOW, end);
    }

    fn read(table: &ShadowTable<WORDS>, hash: u64) -> Option<u64> {
        table.read(hash).map(|words| words[1])
    }

    #[test]
    fn a_header_is_one_cache_line_and_so_are_the_words_of_a_counter() {
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
    fn the_counter_that_is_full_again_soonest_makes_room() {
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
            let now = CoarseInstant::from_nanos(now);
            let [soon, later, never] = [1 << 30, 1 << 40, u64::MAX].map(|nanos| now.after(nanos));
            assert!(
                0 < soon.since(now)
                    && soon.since(now) < later.since(now)
                    && later.since(now) < never.since(now)
            );
        }
    }
}
