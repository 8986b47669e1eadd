//! What goes into a call: keys and charges in the words of `lua/decide.lua` and `lua/refund.lua`.

use sluicegate_core::Quota;
use smallvec::{SmallVec, smallvec};

use super::{ChargeTime, ScriptTime};
use crate::redis::charge::StoreCharge;
use crate::redis::wire::{push_number, write_bulk};

/// Appends numkeys, keys and arguments of one call over many requests to `out` as strings; returns how many.
pub(in crate::redis) fn write_decide(
    out: &mut Vec<u8>,
    requests: &[&[StoreCharge]],
    now: ScriptTime,
) -> usize {
    let mut words = Vec::with_capacity(64);
    if let [[charge]] = requests {
        write_number(out, &mut words, 1);
        write_bulk(out, charge.key.as_bytes());
        write_now(out, &mut words, now);
        write_charge(&mut words, charge);
        write_bulk(out, &words);
        return 4;
    }
    let keys = CallKeys::of(requests);
    write_number(out, &mut words, keys.unique.len() as u64);
    for key in &keys.unique {
        write_bulk(out, key.as_bytes());
    }
    write_now(out, &mut words, now);
    2 + keys.unique.len() + write_charges(out, requests, &keys)
}

/// Appends numkeys, key and arguments of one refund to `out` as strings; returns how many.
pub(in crate::redis) fn write_refund(
    out: &mut Vec<u8>,
    charge: &StoreCharge,
    charged: ChargeTime,
    now: ScriptTime,
) -> usize {
    let mut words = Vec::with_capacity(64);
    write_number(out, &mut words, 1);
    write_bulk(out, charge.key.as_bytes());
    write_now(out, &mut words, now);
    words.clear();
    match charge.quota {
        Quota::TokenBucket(bucket) => {
            let worth = charge
                .cost
                .saturating_mul(bucket.interval().get())
                .min(EXACT_MAX);
            write_numbers(&mut words, b't', &[bucket.tolerance().get(), worth]);
        }
        Quota::Drip(_) | Quota::SlidingWindow(_) => {
            write_counted(&mut words, charge, charge.cost.min(EXACT_MAX))
        }
    }
    write_bulk(out, &words);
    words.clear();
    let (kind, nanos) = match charged {
        ChargeTime::Ago(age) => (b'a', age.get()),
        ChargeTime::At(instant) => (b'@', instant.as_nanos()),
    };
    write_numbers(&mut words, kind, &[nanos]);
    write_bulk(out, &words);
    5
}

/// Lua numbers are exact up to here.
const EXACT_MAX: u64 = 1 << 53;

/// The keys of a call, each once, in the order of their first use. In place for calls of the usual size.
struct CallKeys<'r> {
    unique: SmallVec<[&'r str; USUAL]>,
    /// For each charge, the place of its key among them.
    places: SmallVec<[u32; USUAL]>,
}

/// As many charges as a call holds, unless the last request is a large one.
const USUAL: usize = 256;

impl<'r> CallKeys<'r> {
    fn of(requests: &[&'r [StoreCharge]]) -> Self {
        const EMPTY: u32 = u32::MAX;
        let mut keys = Self {
            unique: SmallVec::new(),
            places: SmallVec::new(),
        };
        let count: usize = requests.iter().map(|request| request.len()).sum();
        // Open addressing, half full at most: a place among the keys for each hash.
        let slots = (2 * count).next_power_of_two();
        let mut table: SmallVec<[u32; 2 * USUAL]> = smallvec![EMPTY; slots];
        for charge in requests.iter().copied().flatten() {
            let mut slot = charge.hash as usize & (slots - 1);
            while table[slot] != EMPTY && keys.unique[table[slot] as usize] != charge.key {
                slot = (slot + 1) & (slots - 1);
            }
            let known = (table[slot] != EMPTY).then_some(table[slot]);
            table[slot] = known.unwrap_or(keys.unique.len() as u32);
            keys.add(&charge.key, known);
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

fn write_charges(out: &mut Vec<u8>, requests: &[&[StoreCharge]], keys: &CallKeys<'_>) -> usize {
    let mut words = Vec::with_capacity(64);
    let mut mark = Vec::with_capacity(8);
    let mut last: Option<&StoreCharge> = None;
    let mut written = 0;
    let (mut places, mut next_key) = (keys.places.iter(), 0);
    for request in requests {
        if request.len() > 1 {
            written += write_mark(out, &mut mark, b'*', request.len() as u64);
        }
        for (charge, &place) in request.iter().zip(&mut places) {
            if place == next_key {
                next_key += 1;
            } else {
                written += write_mark(out, &mut mark, b'@', u64::from(place) + 1);
            }
            // Most charges of a call are alike.
            if !last.is_some_and(|last| alike(last, charge)) {
                write_charge(&mut words, charge);
            }
            last = Some(charge);
            write_bulk(out, &words);
            written += 1;
        }
    }
    written
}

fn alike(one: &StoreCharge, other: &StoreCharge) -> bool {
    one.cost == other.cost && one.enforced == other.enforced && one.quota == other.quota
}

fn write_mark(out: &mut Vec<u8>, mark: &mut Vec<u8>, kind: u8, number: u64) -> usize {
    mark.clear();
    write_numbers(mark, kind, &[number]);
    write_bulk(out, mark);
    1
}

fn write_number(out: &mut Vec<u8>, words: &mut Vec<u8>, number: u64) {
    words.clear();
    push_number(words, number);
    write_bulk(out, words);
}

fn write_now(out: &mut Vec<u8>, words: &mut Vec<u8>, now: ScriptTime) {
    words.clear();
    match now {
        ScriptTime::Server => {}
        ScriptTime::Replica(instant) => write_numbers(words, b'r', &[instant.as_nanos()]),
        ScriptTime::Given(instant) => write_numbers(words, b'=', &[instant.as_nanos()]),
    }
    write_bulk(out, words);
}

/// A charge in the words of `lua/decide.lua`.
fn write_charge(words: &mut Vec<u8>, charge: &StoreCharge) {
    words.clear();
    let limit = charge.quota.limit();
    match charge.quota {
        Quota::TokenBucket(bucket) => {
            write_numbers(words, b't', &[bucket.tolerance().get()]);
            if charge.cost > limit {
                words.extend_from_slice(b":-1");
            } else {
                words.push(b':');
                // No overflow: cost ≤ burst, and burst · interval is at most 2^52.
                push_number(words, charge.cost * bucket.interval().get());
            }
        }
        // One more than the limit is too large in the same way as any other cost beyond it.
        Quota::Drip(_) | Quota::SlidingWindow(_) => {
            write_counted(words, charge, charge.cost.min(limit.saturating_add(1)))
        }
    }
    if !charge.enforced {
        words[0].make_ascii_uppercase();
    }
}

/// The words of the machines that count in units.
fn write_counted(words: &mut Vec<u8>, charge: &StoreCharge, cost: u64) {
    let millis =
        |span: sluicegate_core::Nanos| span.get() / sluicegate_core::Nanos::MILLISECOND.get();
    match charge.quota {
        Quota::Drip(bucket) => {
            let aligned = u64::from(bucket.is_fixed_window());
            write_numbers(
                words,
                b'd',
                &[
                    millis(bucket.interval()),
                    bucket.drip(),
                    charge.quota.limit(),
                    aligned,
                    cost,
                ],
            );
        }
        Quota::SlidingWindow(window) => {
            write_numbers(
                words,
                b'w',
                &[millis(window.window()), charge.quota.limit(), cost],
            );
        }
        Quota::TokenBucket(_) => unreachable!("a token bucket counts in time"),
    }
}

fn write_numbers(words: &mut Vec<u8>, kind: u8, write_numbers: &[u64]) {
    words.push(kind);
    for (place, number) in write_numbers.iter().enumerate() {
        if place > 0 {
            words.push(b':');
        }
        push_number(words, *number);
    }
}
