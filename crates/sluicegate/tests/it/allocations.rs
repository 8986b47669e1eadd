//! A request that one limit or two cover is decided without an allocation.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::IpAddr;

use sluicegate::{KeyPart, Limit, Limiter, Match, Quota, Subject};

use crate::ready::ready_value;

/// The system's allocator, with a count of the allocations of each thread.
struct CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count_one() {
    // The count of a thread that is at its end is gone, and nobody asks for it.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call goes to the system's allocator unchanged; counting writes a number of the thread
// and allocates nothing.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_one();
        // SAFETY: the caller's promises are the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are the system allocator's.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count_one();
        // SAFETY: the caller's promises are the system allocator's.
        unsafe { System.realloc(block, layout, new_size) }
    }
}

/// The allocations of this thread during `work`.
fn allocations_of(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

fn per_ip() -> Limit {
    Limit::per_client("per-ip", Quota::per_hour(10))
}

fn api() -> Limit {
    Limit::per_client("api", Quota::per_hour(20))
        .matching(Match::path("/api").expect("a plain path"))
}

fn by_key() -> Limit {
    Limit::new("by-key", Quota::per_hour(20)).key([KeyPart::header("x-api-key")])
}

fn get() -> Limit {
    Limit::per_client("get", Quota::per_hour(20)).matching(Match::default().methods(["GET"]))
}

#[test]
fn one_limit_or_two_are_decided_without_an_allocation() {
    let policies = [
        vec![per_ip()],
        vec![per_ip(), api()],
        vec![per_ip(), Limit::new("all", Quota::per_hour(20))],
        vec![per_ip(), api().replaces("per-ip")],
        vec![per_ip(), by_key()],
        vec![api(), get()],
    ];
    let addresses: [IpAddr; 2] = ["203.0.113.7", "2001:db8::7"].map(|text| text.parse().unwrap());
    for limits in policies {
        let names: Vec<String> = limits.iter().map(|limit| limit.name.clone()).collect();
        let limiter = Limiter::local(limits).unwrap();
        for client_ip in addresses {
            let subject = Subject {
                client_ip: Some(client_ip),
                path: "/api/users/7",
                headers: &[("x-api-key", "secret")],
                ..Subject::ANONYMOUS
            };
            let check = || ready_value(limiter.check(&subject, 1)).is_forwarded();
            // The first request of a key gets a counter, and of a thread what the policy needs.
            assert!(check(), "{names:?}");
            let mut passed = 1;
            let allocations = allocations_of(|| {
                passed += (0..30).filter(|_| check()).count();
            });
            assert_eq!(allocations, 0, "{names:?} for {client_ip}");
            assert!((10..=20).contains(&passed), "{names:?}: {passed} passed");
        }
    }
}

#[test]
fn the_count_sees_an_allocation() {
    let boxed = || drop(std::hint::black_box(Box::new(7_u64)));
    assert_eq!(allocations_of(boxed), 1);
}
