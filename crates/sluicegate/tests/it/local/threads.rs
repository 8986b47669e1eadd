//! Exactness when many threads ask at once.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use sluicegate::{
    Clock, KeyPart, KeyedLimiter, Limit, Limiter, LocalOptions, LocalStore, ManualClock,
    MonotonicClock, Nanos, Policy, Quota, Store, Subject, Timestamp,
};

use crate::ready::ready_value;

const THREADS: usize = 4;
const START: Timestamp = Timestamp::from_nanos(1_800_000_000_000_000_000);

/// Runs `work` on every thread at once and adds up what they return.
fn total(work: impl Fn(usize) -> u64 + Sync) -> u64 {
    let gate = Barrier::new(THREADS);
    thread::scope(|scope| {
        let spawn = |number| {
            let (gate, work) = (&gate, &work);
            scope.spawn(move || {
                gate.wait();
                work(number)
            })
        };
        let threads: Vec<_> = (0..THREADS).map(spawn).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no thread panics"))
            .sum()
    })
}

#[test]
fn threads_on_one_key_admit_exactly_the_burst() {
    let options = LocalOptions {
        max_keys: 100,
        ..LocalOptions::default()
    };
    let limiter: KeyedLimiter<str, _> =
        KeyedLimiter::with_clock(Quota::per_day(100_000), options, ManualClock::new(START));
    let admitted = total(|_| {
        (0..50_000)
            .filter(|_| limiter.check("hot", 1).is_allowed())
            .count() as u64
    });
    assert_eq!(admitted, 100_000);
}

/// Half of the requests still have the old policy while the others have the new one: the counter
/// moves to and fro, and no charge is lost on the way.
#[test]
fn threads_under_an_old_and_a_new_quota_share_one_counter() {
    let policy = |quota: Quota| Policy::new([Limit::new("all", quota)]).unwrap();
    let policies = [
        policy(Quota::per_hour(600).burst(20_000).into()),
        policy(Quota::per_day(600).burst(20_000).into()),
        policy(Quota::sliding_window(20_000, Nanos::DAY).unwrap()),
    ];
    let (store, clock) = (LocalStore::default(), ManualClock::new(START));
    let admitted = total(|thread| {
        let is_allowed = |turn: &usize| {
            let policy = &policies[(turn / 3 + thread) % policies.len()];
            let charges = policy.charges_for(&Subject::ANONYMOUS, 1).unwrap();
            let outcomes = ready_value(store.decide(&charges, &clock)).unwrap();
            outcomes[0].is_allowed()
        };
        (0..8_000).filter(is_allowed).count() as u64
    });
    assert_eq!(admitted, 20_000);
    assert_eq!(store.live_keys(START), 1);
}

#[test]
fn threads_on_new_keys_admit_each_exactly_once() {
    const KEYS: u64 = 60_000;
    let options = LocalOptions {
        max_keys: KEYS as usize,
        ..LocalOptions::default()
    };
    let limiter: KeyedLimiter<u64, _> =
        KeyedLimiter::with_clock(Quota::per_day(1), options, ManualClock::new(START));
    let admitted = total(|_| {
        (0..KEYS)
            .filter(|key| limiter.check(key, 1).is_allowed())
            .count() as u64
    });
    assert_eq!(admitted, KEYS);
}

#[test]
fn threads_never_exceed_the_bound_while_keys_come_and_go() {
    // Every key is full again after a microsecond or so, so slots change hands all the time.
    let options = LocalOptions {
        max_keys: 16,
        ..LocalOptions::default()
    };
    let clock = MonotonicClock::new();
    let limiter: KeyedLimiter<u64, _> = KeyedLimiter::with_clock(
        Quota::per_second(1_000_000).burst(5),
        options,
        clock.clone(),
    );
    let admitted: Vec<AtomicU64> = (0..64).map(|_| AtomicU64::new(0)).collect();
    let start = clock.now();
    total(|thread| {
        for step in 0..200_000 {
            let key = (step * 7 + thread) as u64 % 64;
            if limiter.check(&key, 1).is_allowed() {
                admitted[key as usize].fetch_add(1, Ordering::Relaxed);
            }
        }
        0
    });
    let elapsed = clock.now().since(start).get();
    for (key, count) in admitted.iter().enumerate() {
        let count = count.load(Ordering::Relaxed);
        assert!(
            count <= 5 + elapsed / 1_000,
            "key {key}: {count} admitted in {elapsed} ns"
        );
    }
}

/// By host, which is looked at like any request, and by address, which goes the short way.
#[test]
fn threads_on_several_limits_take_all_or_nothing() {
    for key in [KeyPart::Host, KeyPart::ClientIp] {
        take_all_or_nothing(key);
    }
}

fn take_all_or_nothing(key: KeyPart) {
    let policy = Policy::new([
        Limit::new("all", Quota::per_day(1_000)),
        Limit::new("by-caller", Quota::per_day(300)).key([key]),
    ])
    .expect("plain names");
    let limiter = Limiter::new(policy, LocalStore::default(), ManualClock::new(START));
    let hosts = ["a", "b", "c", "d", "e"];
    let by_host: Vec<AtomicU64> = hosts.iter().map(|_| AtomicU64::new(0)).collect();
    let admitted = total(|thread| {
        let mut admitted = 0;
        for step in 0..10_000 {
            let host = (step + thread) % hosts.len();
            let subject = Subject {
                host: Some(hosts[host]),
                client_ip: Some([203, 0, 113, host as u8].into()),
                ..Subject::ANONYMOUS
            };
            if ready_value(limiter.check(&subject, 1)).is_forwarded() {
                admitted += 1;
                by_host[host].fetch_add(1, Ordering::Relaxed);
            }
        }
        admitted
    });
    // A request that loses a race is denied though a unit comes back a moment later, so the sum may
    // fall short, but the units are all there afterwards.
    assert!(admitted <= 1_000, "{admitted} admitted");
    let mut rest = 0;
    for (place, host) in hosts.iter().enumerate() {
        let subject = Subject {
            host: Some(host),
            client_ip: Some([203, 0, 113, place as u8].into()),
            ..Subject::ANONYMOUS
        };
        let mut count = by_host[place].load(Ordering::Relaxed);
        while ready_value(limiter.check(&subject, 1)).is_forwarded() {
            count += 1;
            rest += 1;
        }
        assert!(count <= 300, "host {host}: {count} admitted");
    }
    assert_eq!(admitted + rest, 1_000, "denied requests left no trace");
}

#[test]
fn time_before_1970_suspends_and_leaps_neither_panic_nor_mint() {
    let clock = ManualClock::new(Timestamp::from_nanos(0));
    let options = LocalOptions {
        max_keys: 10,
        ..LocalOptions::default()
    };
    let limiter: KeyedLimiter<str, _> =
        KeyedLimiter::with_clock(Quota::per_second(10).burst(10), options, clock.clone());
    let spend_all = || {
        (0..100)
            .filter(|_| limiter.check("k", 1).is_allowed())
            .count()
    };
    assert_eq!(spend_all(), 10);
    // A machine that slept for a day owes its callers one burst, not a day's worth.
    clock.advance(Nanos::DAY);
    assert_eq!(spend_all(), 10);
    // Steps back never give units, by any amount; a leap second is a step of one second.
    for back in [
        Nanos::new(1),
        Nanos::SECOND,
        Nanos::from_secs(30),
        Nanos::HOUR,
        Nanos::MAX,
    ] {
        clock.set(clock.now().before(back));
        assert_eq!(spend_all(), 0, "after a step back of {back}");
    }
    clock.advance(Nanos::from_millis(100));
    assert_eq!(spend_all(), 1, "a believed time is in force again");
    clock.set(Timestamp::from_nanos(u64::MAX));
    assert!(spend_all() <= 10);
}
