//! The races that matter, each run once for every order in which the threads can see each other's
//! writes, on a table of one slot.
//!
//! Run by `cargo xtask test --only loom`.

use loom::sync::Arc;
use loom::thread;
use sluicegate_core::{Limit, Nanos, Policy, Quota, Subject, Timestamp};

use super::address::CounterId;
use super::capacity::CounterCapacity;
use super::counters::HashedCounters;
use super::{FixedTime, LocalOptions, LocalStore};
use crate::clock::ManualClock;

const NOW: Timestamp = Timestamp::from_nanos(1_000_000_000_000);
/// Hashes that stay apart when they are stored.
const FIRST: u64 = 1;
const SECOND: u64 = 3;
const THIRD: u64 = 5;
const ONE_AN_HOUR: u64 = Nanos::HOUR.get();

fn counters() -> Arc<HashedCounters> {
    let sweep_interval = LocalOptions::default().sweep_interval;
    Arc::new(HashedCounters::new(
        CounterCapacity::keeping(1),
        sweep_interval,
        7,
    ))
}

fn per_hour(burst: u32) -> Quota {
    Quota::from(Quota::per_hour(1).burst(burst))
}

fn spend(counters: &HashedCounters, hash: u64, quota: Quota, now: Timestamp) -> bool {
    counters
        .decide(CounterId::of_one_pace(hash), &quota, 1, &FixedTime(now))
        .is_allowed()
}

/// Units left at `hash`, by a charge of zero.
fn left(counters: &HashedCounters, hash: u64, quota: Quota, now: Timestamp) -> u64 {
    counters
        .decide(CounterId::of_one_pace(hash), &quota, 0, &FixedTime(now))
        .remaining()
}

/// Two threads spend at one key of which one unit is left.
fn race_for_the_last_unit(counters: &Arc<HashedCounters>, quota: Quota) {
    let other = thread::spawn({
        let counters = Arc::clone(counters);
        move || spend(&counters, FIRST, quota, NOW)
    });
    let here = spend(counters, FIRST, quota, NOW);
    assert!(here != other.join().unwrap(), "exactly one of two passes");
}

#[test]
fn loom_one_unit_of_a_known_key_is_spent_once() {
    loom::model(|| {
        let counters = counters();
        assert!(spend(&counters, FIRST, per_hour(2), NOW));
        race_for_the_last_unit(&counters, per_hour(2));
    });
}

#[test]
fn loom_a_new_key_gets_one_counter() {
    loom::model(|| race_for_the_last_unit(&counters(), per_hour(1)));
}

#[test]
fn loom_a_slot_that_changes_hands_charges_no_stranger() {
    loom::model(|| {
        let counters = counters();
        let quota = per_hour(3);
        // The slot is the first key's and full again: a second key may take it while the first is
        // charged.
        assert!(spend(&counters, FIRST, quota, NOW));
        let later = NOW.after(Nanos::new(2 * ONE_AN_HOUR));
        let newcomer = thread::spawn({
            let counters = Arc::clone(&counters);
            move || spend(&counters, SECOND, quota, later)
        });
        assert!(spend(&counters, FIRST, quota, later));
        assert!(newcomer.join().unwrap());
        assert_eq!(
            (
                left(&counters, FIRST, quota, later),
                left(&counters, SECOND, quota, later)
            ),
            (2, 2)
        );
    });
}

#[test]
fn loom_an_evicted_key_takes_no_units_of_its_successor() {
    loom::model(|| {
        let counters = counters();
        let quota = per_hour(3);
        // The slot and the side map hold live keys, so the third pushes out the nearest to full:
        // the first.
        assert!(spend(&counters, FIRST, quota, NOW));
        assert!(spend(&counters, SECOND, quota, NOW.after(Nanos::new(1))));
        let newcomer = thread::spawn({
            let counters = Arc::clone(&counters);
            move || spend(&counters, THIRD, quota, NOW)
        });
        let passed = spend(&counters, FIRST, quota, NOW);
        assert!(passed && newcomer.join().unwrap());
        assert!(
            left(&counters, THIRD, quota, NOW) >= 2,
            "its own unit is all the newcomer paid"
        );
        assert_eq!(
            left(&counters, SECOND, quota, NOW),
            1,
            "the bystander keeps its debt"
        );
    });
}

#[test]
fn loom_several_charges_are_taken_all_or_nothing() {
    loom::model(|| {
        let store = Arc::new(LocalStore::new(LocalOptions {
            max_keys: 64,
            ..LocalOptions::default()
        }));
        let policy = |names: [&str; 2]| {
            Policy::new(names.map(|name| Limit::new(name, per_hour(1)))).unwrap()
        };
        let decide = move |store: &LocalStore, names: [&str; 2]| {
            let policy = policy(names);
            let charges = policy.charges_for(&Subject::ANONYMOUS, 1).unwrap();
            store
                .decide_all(&charges, &ManualClock::new(NOW))
                .iter()
                .all(|outcome| outcome.is_allowed())
        };
        let other = thread::spawn({
            let store = Arc::clone(&store);
            move || decide(&store, ["b", "a"])
        });
        let here = decide(&store, ["a", "b"]);
        let there = other.join().unwrap();
        assert!(!(here && there), "never over-admission");
        // Both may lose the race for the other's first unit; what was taken is then given back
        // exactly.
        let spent = u64::from(here || there);
        let policy = policy(["a", "b"]);
        let peeks = policy.charges_for(&Subject::ANONYMOUS, 0).unwrap();
        let left = store.decide_all(&peeks, &ManualClock::new(NOW));
        assert!(left.iter().all(|outcome| outcome.remaining() == 1 - spent));
    });
}

#[test]
fn loom_a_charge_under_the_old_quota_is_not_lost_when_its_key_moves() {
    loom::model(|| {
        let counters = counters();
        let (old, new) = (per_hour(3), Quota::from(Quota::per_minute(1).burst(3)));
        let id = CounterId::of_limit(FIRST, "all");
        let spend = move |counters: &HashedCounters, quota: Quota| {
            counters.decide(id, &quota, 1, &FixedTime(NOW)).is_allowed()
        };
        assert!(spend(&counters, old));
        let mover = thread::spawn({
            let counters = Arc::clone(&counters);
            move || spend(&counters, new)
        });
        assert!(spend(&counters, old));
        assert!(mover.join().unwrap());
        // Three are spent, whichever came first and wherever the key is now.
        for quota in [old, new] {
            assert_eq!(
                counters.decide(id, &quota, 0, &FixedTime(NOW)).remaining(),
                0
            );
        }
        assert_eq!(counters.live(NOW), 1, "it is in one place");
    });
}
