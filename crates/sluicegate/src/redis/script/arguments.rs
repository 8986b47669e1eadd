//! What goes into a call: keys and charges in the words of `lua/decide.lua` and `lua/refund.lua`.

use sluicegate_core::Quota;
use smallvec::{SmallVec, smallvec};

use super::{Drawn, Now};
use crate::redis::Item;
use crate::redis::wire::{bulk, push_number};

/// Appends numkeys, keys and arguments of one call over many requests to `out` as strings; returns how many.
pub(in crate::redis) fn write_decide(out: &mut Vec<u8>, requests: &[&[Item]], now: Now) -> usize {
    let mut words = Vec::with_capacity(64);
    if let [[item]] = requests {
        write_number(out, &mut words, 1);
        bulk(out, item.key.as_bytes());
        write_now(out, &mut words, now);
        charge(&mut words, item);
        bulk(out, &words);
        return 4;
    }
    let keys = Keys::of(requests);
    write_number(out, &mut words, keys.unique.len() as u64);
    for key in &keys.unique {
        bulk(out, key.as_bytes());
    }
    write_now(out, &mut words, now);
    2 + keys.unique.len() + write_charges(out, requests, &keys)
}

/// Appends numkeys, key and arguments of one refund to `out` as strings; returns how many.
pub(in crate::redis) fn write_refund(
    out: &mut Vec<u8>,
    item: &Item,
    drawn: Drawn,
    now: Now,
) -> usize {
    let mut words = Vec::with_capacity(64);
    write_number(out, &mut words, 1);
    bulk(out, item.key.as_bytes());
    write_now(out, &mut words, now);
    words.clear();
    match item.quota {
        Quota::TokenBucket(bucket) => {
            let worth = item
                .cost
                .saturating_mul(bucket.interval().get())
                .min(EXACT_MAX);
            numbers(&mut words, b't', &[bucket.tolerance().get(), worth]);
        }
        Quota::Drip(_) | Quota::SlidingWindow(_) => {
            counted(&mut words, item, item.cost.min(EXACT_MAX))
        }
    }
    bulk(out, &words);
    words.clear();
    let (kind, nanos) = match drawn {
        Drawn::Ago(age) => (b'a', age.get()),
        Drawn::At(instant) => (b'@', instant.as_nanos()),
    };
    numbers(&mut words, kind, &[nanos]);
    bulk(out, &words);
    5
}

/// Lua numbers are exact up to here.
const EXACT_MAX: u64 = 1 << 53;

/// The keys of a call, each once, in the order of their first use. In place for calls of the usual size.
struct Keys<'r> {
    unique: SmallVec<[&'r str; USUAL]>,
    /// For each charge, the place of its key among them.
    places: SmallVec<[u32; USUAL]>,
}

/// As many charges as a call holds, unless the last request is a large one.
const USUAL: usize = 256;

impl<'r> Keys<'r> {
    fn of(requests: &[&'r [Item]]) -> Self {
        const EMPTY: u32 = u32::MAX;
        let mut keys = Self {
            unique: SmallVec::new(),
            places: SmallVec::new(),
        };
        let count: usize = requests.iter().map(|request| request.len()).sum();
        // Open addressing, half full at most: a place among the keys for each hash.
        let slots = (2 * count).next_power_of_two();
        let mut table: SmallVec<[u32; 2 * USUAL]> = smallvec![EMPTY; slots];
        for item in requests.iter().copied().flatten() {
            let mut slot = item.hash as usize & (slots - 1);
            while table[slot] != EMPTY && keys.unique[table[slot] as usize] != item.key {
                slot = (slot + 1) & (slots - 1);
            }
            let known = (table[slot] != EMPTY).then_some(table[slot]);
            table[slot] = known.unwrap_or(keys.unique.len() as u32);
            keys.add(&item.key, known);
        }
        keys
    }

    fn add(&mut self, name: &'r str, place: Option<u32>) {
        self.places.push(place.unwrap_or(self.unique.len() as u32));
        if place.is_none() {
            self.unique.push(name);
        }
    }
}

fn write_charges(out: &mut Vec<u8>, requests: &[&[Item]], keys: &Keys<'_>) -> usize {
    let mut words = Vec::with_capacity(64);
    let mut mark = Vec::with_capacity(8);
    let mut last: Option<&Item> = None;
    let mut written = 0;
    let (mut places, mut next_key) = (keys.places.iter(), 0);
    for request in requests {
        if request.len() > 1 {
            written += write_mark(out, &mut mark, b'*', request.len() as u64);
        }
        for (item, &place) in request.iter().zip(&mut places) {
            if place == next_key {
                next_key += 1;
            } else {
                written += write_mark(out, &mut mark, b'@', u64::from(place) + 1);
            }
            // Most charges of a call are alike.
            if !last.is_some_and(|last| alike(last, item)) {
                charge(&mut words, item);
            }
            last = Some(item);
            bulk(out, &words);
            written += 1;
        }
    }
    written
}

fn alike(one: &Item, other: &Item) -> bool {
    one.cost == other.cost && one.enforced == other.enforced && one.quota == other.quota
}

fn write_mark(out: &mut Vec<u8>, mark: &mut Vec<u8>, kind: u8, number: u64) -> usize {
    mark.clear();
    numbers(mark, kind, &[number]);
    bulk(out, mark);
    1
}

fn write_number(out: &mut Vec<u8>, words: &mut Vec<u8>, number: u64) {
    words.clear();
    push_number(words, number);
    bulk(out, words);
}

fn write_now(out: &mut Vec<u8>, words: &mut Vec<u8>, now: Now) {
    words.clear();
    match now {
        Now::Server => {}
        Now::Replica(instant) => numbers(words, b'r', &[instant.as_nanos()]),
        Now::Given(instant) => numbers(words, b'=', &[instant.as_nanos()]),
    }
    bulk(out, words);
}

/// A charge in the words of `lua/decide.lua`.
fn charge(words: &mut Vec<u8>, item: &Item) {
    words.clear();
    let limit = item.quota.limit();
    match item.quota {
        Quota::TokenBucket(bucket) => {
            numbers(words, b't', &[bucket.tolerance().get()]);
            if item.cost > limit {
                words.extend_from_slice(b":-1");
            } else {
                words.push(b':');
                // No overflow: cost ≤ burst, and burst · interval is at most 2^52.
                push_number(words, item.cost * bucket.interval().get());
            }
        }
        // One more than the limit is too large in the same way as any other cost beyond it.
        Quota::Drip(_) | Quota::SlidingWindow(_) => {
            counted(words, item, item.cost.min(limit.saturating_add(1)))
        }
    }
    if !item.enforced {
        words[0].make_ascii_uppercase();
    }
}

/// The words of the machines that count in units.
fn counted(words: &mut Vec<u8>, item: &Item, cost: u64) {
    let millis =
        |span: sluicegate_core::Nanos| span.get() / sluicegate_core::Nanos::MILLISECOND.get();
    match item.quota {
        Quota::Drip(bucket) => {
            let aligned = u64::from(bucket.is_fixed_window());
            numbers(
                words,
                b'd',
                &[
                    millis(bucket.interval()),
                    bucket.drip(),
                    item.quota.limit(),
                    aligned,
                    cost,
                ],
            );
        }
        Quota::SlidingWindow(window) => {
            numbers(
                words,
                b'w',
                &[millis(window.window()), item.quota.limit(), cost],
            );
        }
        Quota::TokenBucket(_) => unreachable!("a token bucket counts in time"),
    }
}

fn numbers(words: &mut Vec<u8>, kind: u8, numbers: &[u64]) {
    words.push(kind);
    for (place, number) in numbers.iter().enumerate() {
        if place > 0 {
            words.push(b':');
        }
        push_number(words, *number);
    }
}
