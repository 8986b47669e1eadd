//! Fixed memory, and the debts that are forgiven when it is full.

use std::hash::BuildHasher;

use foldhash::quality::FixedState;
use sluicegate::{Clock, KeyedLimiter, LocalOptions, ManualClock, Nanos, Quota, Timestamp};
use sluicegate_testkit::alone;

const START: Timestamp = Timestamp::from_nanos(1_800_000_000_000_000_000);

fn limiter(
    quota: impl Into<Quota>,
    max_keys: usize,
) -> (KeyedLimiter<u64, ManualClock>, ManualClock) {
    let clock = ManualClock::new(START);
    let options = LocalOptions {
        max_keys,
        ..LocalOptions::default()
    };
    (
        KeyedLimiter::with_clock(quota, options, clock.clone()),
        clock,
    )
}

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("procfs is mounted");
    let pages: usize = statm
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .expect("statm has pages");
    pages * 4_096
}

/// In a process of its own: resident memory is the whole process's.
#[test]
fn ten_million_keys_neither_grow_the_store_nor_refill_a_drained_key() {
    if alone("local::bounds::ten_million_keys_neither_grow_the_store_nor_refill_a_drained_key") {
        flood_with_ten_million_keys();
    }
}

fn flood_with_ten_million_keys() {
    const CAPACITY: usize = 65_536;
    let (limiter, clock) = limiter(Quota::per_second(1).burst(20), CAPACITY);
    let drained = u64::MAX;
    while limiter.check(&drained, 1).is_allowed() {}
    // A first flood fills every place, so that the second shows growth and nothing else.
    for key in 0..(4 * CAPACITY as u64) {
        limiter.check(&key, 1);
    }
    let (set_aside, resident) = (limiter.store().memory_bytes(), resident_bytes());
    assert!(
        set_aside <= CAPACITY * 24,
        "{set_aside} bytes for {CAPACITY} keys"
    );
    for key in 0..10_000_000 {
        limiter.check(&key, 1);
        if key % 1_000_000 == 0 {
            clock.advance(Nanos::MILLISECOND);
            assert!(
                !limiter.check(&drained, 1).is_allowed(),
                "the drained key got a unit after {key} others"
            );
        }
    }
    assert!(limiter.store().memory_bytes() <= set_aside + set_aside / 10);
    let grown = resident_bytes().saturating_sub(resident);
    assert!(
        grown <= set_aside / 10 + (4 << 20),
        "resident memory grew by {grown} bytes"
    );
    assert!(!limiter.check(&drained, 1).is_allowed());
    clock.advance(Nanos::from_millis(990));
    assert!(
        limiter.check(&drained, 1).is_allowed(),
        "its own unit comes when it is due"
    );
    assert!(!limiter.check(&drained, 1).is_allowed());
}

#[test]
fn a_flood_of_ten_times_the_capacity_gives_no_extra_unit() {
    let (limiter, _clock) = limiter(Quota::per_minute(10).burst(10), 10_000);
    let callers = 1_000_000..1_000_020_u64;
    for caller in callers.clone() {
        assert_eq!(
            (0..20)
                .filter(|_| limiter.check(&caller, 1).is_allowed())
                .count(),
            10
        );
    }
    for key in 0..100_000 {
        limiter.check(&key, 1);
    }
    for caller in callers {
        assert!(
            !limiter.check(&caller, 1).is_allowed(),
            "caller {caller} got a fresh bucket"
        );
    }
}

#[test]
fn at_capacity_the_keys_nearest_to_full_go_first() {
    let (limiter, _clock) = limiter(Quota::per_hour(100).burst(100), 3_000);
    // A tenth owes fifty units, the rest one: the flood must push out the latter.
    let owes_much = |key: u64| key.is_multiple_of(10);
    for key in 0..3_000 {
        limiter.check(&key, if owes_much(key) { 50 } else { 1 });
    }
    for key in 10_000..16_000 {
        limiter.check(&key, 1);
    }
    let forgiven = (0..3_000)
        .filter(|key| owes_much(*key) && limiter.check(key, 0).remaining() > 50)
        .count();
    assert_eq!(
        forgiven, 0,
        "large debts were forgiven while small ones were there"
    );
}

#[test]
fn below_capacity_no_debt_is_forgiven() {
    for max_keys in [1, 2, 100, 20_000] {
        let (limiter, _clock) = limiter(Quota::per_hour(1), max_keys);
        for key in 0..max_keys as u64 {
            assert!(limiter.check(&key, 1).is_allowed());
        }
        let forgiven = (0..max_keys as u64)
            .filter(|key| limiter.check(key, 1).is_allowed())
            .count();
        assert_eq!(forgiven, 0, "with room for {max_keys}");
    }
}

#[test]
fn keys_that_are_full_again_make_room_and_debts_outlive_idleness() {
    let (limiter, clock) = limiter(Quota::per_hour(2).burst(2), 1_000);
    for key in 0..1_000 {
        limiter.check(&key, if key < 10 { 2 } else { 1 });
    }
    assert_eq!(limiter.store().live_keys(clock.now()), 1_000);
    // Idle for longer than five minutes: still owed.
    clock.advance(Nanos::from_secs(301));
    limiter.store().sweep(clock.now());
    assert!((0..10).all(|key| !limiter.check(&key, 1).is_allowed()));
    // Half an hour later the keys that owed one unit are full, and gone at once.
    clock.advance(Nanos::from_secs(1_800 - 301));
    assert_eq!(limiter.store().live_keys(clock.now()), 10);
    for key in 5_000..5_900 {
        limiter.check(&key, 1);
    }
    assert!(
        (0..10).all(|key| limiter.check(&key, 0).remaining() == 1),
        "their places were taken, nobody else's"
    );
}

#[test]
fn sliding_windows_are_bounded_swept_and_exact() {
    let quota = Quota::sliding_window(10, Nanos::MINUTE).unwrap();
    let (limiter, clock) = limiter(quota, 1_000);
    for key in 0..50_000 {
        limiter.check(&key, 1);
    }
    assert!(limiter.store().live_keys(clock.now()) <= 1_100);
    let held = limiter.store().memory_bytes();
    for key in 50_000..200_000 {
        limiter.check(&key, 1);
    }
    assert!(
        limiter.store().memory_bytes() <= held + held / 10,
        "the side maps stopped growing"
    );
    let drained = u64::MAX;
    while limiter.check(&drained, 1).is_allowed() {}
    assert!(!limiter.check(&drained, 1).is_allowed());
    clock.advance(Nanos::from_secs(180));
    limiter.check(&1, 1);
    limiter.store().sweep(clock.now());
    assert_eq!(limiter.store().live_keys(clock.now()), 1);
}

#[test]
fn a_flood_gives_no_extra_unit_of_a_sliding_window() {
    let (limiter, _clock) = limiter(Quota::sliding_window(10, Nanos::MINUTE).unwrap(), 10_000);
    let callers = 1_000_000..1_000_020_u64;
    for caller in callers.clone() {
        assert_eq!(
            (0..20)
                .filter(|_| limiter.check(&caller, 1).is_allowed())
                .count(),
            10
        );
    }
    for key in 0..100_000 {
        limiter.check(&key, 1);
    }
    let refilled = callers
        .filter(|caller| limiter.check(caller, 1).is_allowed())
        .count();
    assert_eq!(refilled, 0, "callers got a fresh window");
}

#[test]
fn sweeping_happens_by_itself_after_its_interval() {
    let quota = Quota::sliding_window(10, Nanos::SECOND).unwrap();
    let clock = ManualClock::new(START);
    let options = LocalOptions {
        max_keys: 64,
        sweep_interval: Nanos::from_secs(5),
    };
    let limiter: KeyedLimiter<u64, _> = KeyedLimiter::with_clock(quota, options, clock.clone());
    for key in 0..50 {
        limiter.check(&key, 1);
    }
    let clock_shows = |seconds| clock.set(START.after(Nanos::from_secs(seconds)));
    // Counters that are still held are live when asked for a time in the past, when they were not
    // full yet.
    let held = || limiter.store().live_keys(START);
    clock_shows(4);
    limiter.check(&0, 1);
    assert_eq!(held(), 50, "not due yet");
    clock_shows(6);
    limiter.check(&0, 1);
    assert_eq!(held(), 1);
}

#[test]
fn slow_quotas_keep_their_years() {
    let year = Nanos::from_secs(365 * 86_400);
    let (limiter, clock) = limiter(Quota::new(1, year, 5).unwrap(), 100);
    for _ in 0..5 {
        assert!(limiter.check(&1, 1).is_allowed());
    }
    clock.advance(Nanos::new(year.get() - Nanos::MILLISECOND.get()));
    assert!(!limiter.check(&1, 1).is_allowed());
    clock.advance(Nanos::MILLISECOND);
    assert!(limiter.check(&1, 1).is_allowed());
    assert!(!limiter.check(&1, 1).is_allowed());
}

/// Keys chosen so that a store hashing with a fixed seed would put them all into one window.
fn aimed_keys(count: usize) -> Vec<u64> {
    let fixed = FixedState::default();
    (0..u64::MAX)
        .filter(|key| fixed.hash_one(key) >> 54 == 7)
        .take(count)
        .collect()
}

#[test]
fn keys_that_collide_under_a_fixed_seed_are_as_cheap_as_others() {
    const KEYS: usize = 4_000;
    let aimed = aimed_keys(KEYS);
    let random: Vec<u64> = (0..KEYS as u64)
        .map(|key| key.wrapping_mul(0x9E37_79B9_7F4A_7C15))
        .collect();
    let (limiter, _clock) = limiter(Quota::per_hour(1), 2 * KEYS);
    let time = |keys: &[u64]| {
        let start = std::time::Instant::now();
        for _ in 0..20 {
            for key in keys {
                std::hint::black_box(limiter.check(key, 1));
            }
        }
        start.elapsed()
    };
    // Other work on the machine lengthens single turns; keys that really collide are slower in
    // every one.
    let turns: Vec<_> = (0..20).map(|_| (time(&aimed), time(&random))).collect();
    assert!(
        turns
            .iter()
            .any(|(aimed, random)| *random >= aimed.mul_f64(0.8)),
        "aimed and random keys took {turns:?}"
    );
}

#[test]
fn keys_that_collide_under_a_fixed_seed_find_room() {
    const KEYS: usize = 4_000;
    let aimed = aimed_keys(KEYS);
    let (limiter, _clock) = limiter(Quota::per_hour(1), KEYS);
    for key in &aimed {
        assert!(limiter.check(key, 1).is_allowed());
    }
    let forgiven = aimed
        .iter()
        .filter(|key| limiter.check(key, 1).is_allowed())
        .count();
    assert_eq!(forgiven, 0, "aimed keys pushed each other out");
}
