//! Bytes per key, counted by the allocator and by the operating system, each contestant in a process of its own; and
//! allocations of a stretch of work.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering::Relaxed};

use super::contestants::LocalContestant;
use super::keys::{Key, KeyKind};
use super::loads::MEMORY_RATE;
use super::results::LocalMemoryUse;
use crate::child;

/// Fills one contestant in a child process and asks what it took; `None` when it does not take this type of key.
pub fn measured(
    contestant: LocalContestant,
    key: KeyKind,
    keys: u32,
) -> Result<Option<LocalMemoryUse>, String> {
    let arguments = [
        "memory",
        "--contestant",
        contestant.id(),
        "--key",
        key.name(),
        "--n",
        &keys.to_string(),
    ];
    let answer = child::output(&arguments)?;
    let numbers: Vec<f64> = answer
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    match numbers[..] {
        [] => Ok(None),
        [allocated_bytes, resident_bytes] => Ok(Some(LocalMemoryUse {
            contestant,
            key,
            keys,
            allocated_bytes,
            resident_bytes,
        })),
        _ => Err(format!(
            "bytes per key of {}: not understood: {answer}",
            contestant.name()
        )),
    }
}

/// The child's side: prints the bytes allocated and the growth of the process, or nothing.
pub fn print_use<K: Key>(contestant: LocalContestant, keys: u32) {
    let resident_before = resident_bytes();
    IS_COUNTING.store(true, Relaxed);
    let Some(limiter) = contestant.build::<K>(MEMORY_RATE, keys as usize) else {
        return;
    };
    for index in 0..keys {
        limiter.spend(&K::nth(index), 1);
    }
    IS_COUNTING.store(false, Relaxed);
    let resident = resident_bytes().saturating_sub(resident_before);
    println!("{} {resident}", ALLOCATED.load(Relaxed));
    drop(limiter);
}

/// Allocations of this process while `work` is done.
pub fn allocations_of(work: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.load(Relaxed);
    IS_COUNTING.store(true, Relaxed);
    work();
    IS_COUNTING.store(false, Relaxed);
    ALLOCATIONS.load(Relaxed) - before
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kilobytes = status.lines().find_map(|line| {
        line.strip_prefix("VmRSS:")?
            .trim()
            .split(' ')
            .next()?
            .parse()
            .ok()
    });
    kilobytes.unwrap_or(0_u64) * 1024
}

/// The system's allocator, with a count of what is held. Off except where memory is measured.
struct CountingAllocator;

static IS_COUNTING: AtomicBool = AtomicBool::new(false);
static ALLOCATED: AtomicIsize = AtomicIsize::new(0);
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

impl CountingAllocator {
    #[inline]
    fn count(change: isize) {
        if IS_COUNTING.load(Relaxed) {
            ALLOCATED.fetch_add(change, Relaxed);
            ALLOCATIONS.fetch_add(usize::from(change > 0), Relaxed);
        }
    }
}

// SAFETY: every call goes to the system's allocator unchanged; counting touches three atomics and allocates nothing.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::count(layout.size().cast_signed());
        // SAFETY: the caller's promises are the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Self::count(layout.size().cast_signed());
        // SAFETY: the caller's promises are the system allocator's.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        Self::count(-layout.size().cast_signed());
        // SAFETY: the caller's promises are the system allocator's.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        Self::count(new_size.cast_signed() - layout.size().cast_signed());
        // SAFETY: the caller's promises are the system allocator's.
        unsafe { System.realloc(block, layout, new_size) }
    }
}
