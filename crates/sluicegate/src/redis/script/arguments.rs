//! Writes keys and arguments of a script call, as `lua/decide.lua` and `lua/refund.lua` describe
//! them.
//!
//! A call may hold hundreds of charges, so its size matters to both sides. Each key is written
//! once; a charge whose key is the next new one does not name it; charges are written in few bytes
//! and encoded once while they repeat.

use std::io::Write;

use sluicegate_core::{Draw, Nanos, Quota};
use smallvec::{SmallVec, smallvec};

use super::{ChargeTime, ScriptTime};
use crate::redis::charge::StoreCharge;
use crate::redis::wire::{push_number, write_bulk};

/// Appends numkeys, keys and arguments of a decide call for many requests to `out`, as RESP
/// strings. Returns the number of strings.
pub(in crate::redis) fn write_decide(
    out: &mut Vec<u8>,
    requests: &[&[StoreCharge]],
    now: ScriptTime,
) -> usize {
    let mut text = Vec::with_capacity(64);
    // One charge needs no list of keys, and is what goes out when nothing else waits.
    if let [[charge]] = requests {
        write_number(out, &mut text, 1);
        write_bulk(out, charge.key.as_bytes());
        write_now(out, &mut text, now);
        write_charge(&mut text, charge);
        write_bulk(out, &text);
        return 4;
    }
    let keys = CallKeys::of(requests);
    write_number(out, &mut text, keys.unique.len() as u64);
    for key in &keys.unique {
        write_bulk(out, key.as_bytes());
    }
    write_now(out, &mut text, now);
    2 + keys.unique.len() + write_charges(out, requests, &keys)
}

/// Appends numkeys, key and arguments of a refund call to `out`, as RESP strings. Returns the
/// number of strings.
pub(in crate::redis) fn write_refund(
    out: &mut Vec<u8>,
    charge: &StoreCharge,
    charged: ChargeTime,
    now: ScriptTime,
) -> usize {
    let mut text = Vec::with_capacity(64);
    write_number(out, &mut text, 1);
    write_bulk(out, charge.key.as_bytes());
    write_now(out, &mut text, now);
    text.clear();
    write_quota_and_cost(&mut text, charge, charge.cost.min(EXACT_MAX));
    write_bulk(out, &text);
    text.clear();
    let (kind, nanos) = match charged {
        ChargeTime::Ago(age) => (b'a', age.get()),
        ChargeTime::At(instant) => (b'@', instant.as_nanos()),
    };
    write_numbers(&mut text, kind, &[nanos]);
    write_bulk(out, &text);
    5
}

/// Lua numbers are exact up to here. A refund of more empties the counter in any case.
const EXACT_MAX: u64 = 1 << 53;

/// The keys of a call, each once, in the order of their first use. Calls of the usual size need no
/// allocation.
struct CallKeys<'r> {
    unique: SmallVec<[&'r str; USUAL]>,
    /// For each charge, the index of its key in `unique`.
    indices: SmallVec<[u32; USUAL]>,
}

/// Charges of a full call; see `CHARGES_MAX` in `traffic`.
const USUAL: usize = 256;

impl<'r> CallKeys<'r> {
    fn of(requests: &[&'r [StoreCharge]]) -> Self {
        const EMPTY: u32 = u32::MAX;
        let mut keys = Self {
            unique: SmallVec::new(),
            indices: SmallVec::new(),
        };
        let count: usize = requests.iter().map(|request| request.len()).sum();
        // A hash table with open addressing, at most half full, from hashes to indices of keys.
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

    /// Notes the key of the next charge; `known` is its index if it was used before.
    fn add(&mut self, name: &'r str, known: Option<u32>) {
        self.indices.push(known.unwrap_or(self.unique.len() as u32));
        if known.is_none() {
            self.unique.push(name);
        }
    }
}

/// Appends the charges with the marks that precede them: `*` before a request of several charges,
/// `@` before a key that was used before. Returns the number of strings.
fn write_charges(out: &mut Vec<u8>, requests: &[&[StoreCharge]], keys: &CallKeys<'_>) -> usize {
    let mut text = Vec::with_capacity(64);
    let mut mark = Vec::with_capacity(8);
    let mut last: Option<&StoreCharge> = None;
    let mut written = 0;
    let (mut indices, mut next_key) = (keys.indices.iter(), 0);
    for request in requests {
        if request.len() > 1 {
            written += write_mark(out, &mut mark, b'*', request.len() as u64);
        }
        for (charge, &index) in request.iter().zip(&mut indices) {
            if index == next_key {
                next_key += 1;
            } else {
                written += write_mark(out, &mut mark, b'@', u64::from(index) + 1);
            }
            // Most charges of a call are alike: the text of the last one is used again.
            if !last.is_some_and(|last| alike(last, charge)) {
                write_charge(&mut text, charge);
            }
            last = Some(charge);
            write_bulk(out, &text);
            written += 1;
        }
    }
    written
}

/// Returns true when two charges have the same text.
fn alike(one: &StoreCharge, other: &StoreCharge) -> bool {
    one.cost == other.cost
        && one.enforced == other.enforced
        && one.draw == other.draw
        && one.quota == other.quota
        && one.base == other.base
        && one.digits_only == other.digits_only
}

/// Appends one mark and its number as a string; returns 1, the number of strings.
fn write_mark(out: &mut Vec<u8>, mark: &mut Vec<u8>, kind: u8, number: u64) -> usize {
    mark.clear();
    write_numbers(mark, kind, &[number]);
    write_bulk(out, mark);
    1
}

fn write_number(out: &mut Vec<u8>, text: &mut Vec<u8>, number: u64) {
    text.clear();
    push_number(text, number);
    write_bulk(out, text);
}

/// Appends the clock argument, which `lua/time.lua` reads.
fn write_now(out: &mut Vec<u8>, text: &mut Vec<u8>, now: ScriptTime) {
    text.clear();
    match now {
        ScriptTime::Server => {}
        ScriptTime::Replica(instant) => write_numbers(text, b'r', &[instant.as_nanos()]),
        ScriptTime::Given(instant) => write_numbers(text, b'=', &[instant.as_nanos()]),
    }
    write_bulk(out, text);
}

/// Encodes a charge as `lua/decide.lua` reads it, in place of what `text` held.
fn write_charge(text: &mut Vec<u8>, charge: &StoreCharge) {
    text.clear();
    // Every cost beyond the limit is denied alike, and a huge one would not be exact in Lua.
    let cost_max = charge.quota.limit().saturating_add(1);
    write_quota_and_cost(text, charge, charge.cost.min(cost_max));
    if !charge.enforced {
        text[0].make_ascii_uppercase();
    }
    if charge.draw == Draw::Look {
        text.insert(0, b'?');
    }
}

/// Appends the numbers of a charge, the base pace of its limit where that is another, and `~` where
/// no mark may be written.
fn write_quota_and_cost(text: &mut Vec<u8>, charge: &StoreCharge, cost: u64) {
    let millis = |span: Nanos| span.get() / Nanos::MILLISECOND.get();
    let limit = charge.quota.limit();
    match charge.quota {
        Quota::TokenBucket(bucket) => {
            write_numbers(text, b't', &[bucket.interval().get(), limit, cost]);
        }
        Quota::Drip(bucket) => {
            let aligned = u64::from(bucket.is_fixed_window());
            let interval_ms = millis(bucket.interval());
            write_numbers(
                text,
                b'd',
                &[interval_ms, bucket.drip(), limit, aligned, cost],
            );
        }
        Quota::SlidingWindow(window) => {
            write_numbers(text, b'w', &[millis(window.window()), limit, cost]);
        }
    }
    if let Some(base) = charge.base {
        // Writing to a vector never fails.
        let _ = write!(text, "@{base}");
    }
    if charge.digits_only {
        text.push(b'~');
    }
}

/// Appends a letter and numbers with colons between them.
fn write_numbers(text: &mut Vec<u8>, kind: u8, numbers: &[u64]) {
    text.push(kind);
    for (index, number) in numbers.iter().enumerate() {
        if index > 0 {
            text.push(b':');
        }
        push_number(text, *number);
    }
}
