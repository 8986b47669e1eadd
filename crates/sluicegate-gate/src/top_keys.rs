//! Who asks most, and who is denied most: sketches of bounded size, one for each thread, merged when somebody looks.
//!
//! A sketch keeps the counts of the callers it knows. One that it does not know takes the place of the smallest with a
//! chance of one in that one's count: whoever asks often gets in soon, and a flood of new names hardly ever does.

use std::cell::Cell;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use foldhash::fast::RandomState;
use sluicegate_core::{Key, PartValue};

/// The heaviest callers of all limits.
pub struct TopKeys {
    seed: RandomState,
    sketches: Vec<Mutex<Sketches>>,
    /// How often it has faded.
    turn: AtomicU64,
}

/// Of one thread.
#[derive(Debug)]
struct Sketches {
    requests: Sketch,
    denied: Sketch,
}

/// A caller of one limit, and how much was seen of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopKey {
    /// The name of the limit.
    pub limit: String,
    /// The parts of the key; `None` when it cannot be named by parts.
    pub parts: Option<Vec<String>>,
    /// The whole key as text.
    pub text: String,
    /// Requests, estimated; older ones count for less.
    pub requests: u64,
    /// Denied requests, estimated like those above.
    pub denied: u64,
}

/// What the list is sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopKeysBy {
    /// By requests, the most first.
    Requests,
    /// By denied requests, the most first.
    Denied,
}

/// Threads with a sketch of their own; others share.
const SKETCHES: usize = 16;
/// Callers that a sketch knows.
const CALLERS: usize = 256;
/// Of a thread that has much to do, one charge of so many is looked at, and counts so often. Which one is left to chance: callers
/// may come in step.
const STRIDE: u64 = 8;
/// Before that, in each turn, all are.
const FIRST: u64 = 10_000;

thread_local! {
    static PLACE: Cell<usize> = const { Cell::new(usize::MAX) };
    /// The turn, and how many charges this thread has seen in it.
    static CHARGES: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
    static DICE: Dice = const { Dice::new() };
}

impl TopKeys {
    /// Empty sketches, one for each of the first threads.
    pub(crate) fn new() -> Self {
        let sketches = || Sketches {
            requests: Sketch::new(),
            denied: Sketch::new(),
        };
        Self {
            seed: RandomState::default(),
            sketches: (0..SKETCHES).map(|_| Mutex::new(sketches())).collect(),
            turn: AtomicU64::new(0),
        }
    }

    /// A caller asked, and was denied or not.
    #[inline]
    pub(crate) fn record(&self, key: &Key<'_>, is_denied: bool) {
        let (turn, charges) = CHARGES.get();
        let now = self.turn.load(Ordering::Relaxed);
        let charges = if turn == now { charges } else { 0 };
        CHARGES.set((now, charges + 1));
        let weight = if charges < FIRST { 1 } else { STRIDE };
        if weight > 1 && !DICE.with(|dice| dice.thrown(STRIDE)) {
            return;
        }
        let hash = self.seed.hash_one(key);
        let mut sketches = self.sketches[place()]
            .lock()
            .expect("no holder of this lock panics");
        sketches.requests.add(hash, weight, || Known::of(key));
        if is_denied {
            sketches.denied.add(hash, weight, || Known::of(key));
        }
    }

    /// Makes what was counted so far worth half as much.
    pub fn decay(&self) {
        self.turn.fetch_add(1, Ordering::Relaxed);
        for sketches in &self.sketches {
            let mut sketches = sketches.lock().expect("no holder of this lock panics");
            sketches.requests.halve();
            sketches.denied.halve();
        }
    }

    /// The first `most` callers, of one limit or of all.
    pub fn top(&self, by: TopKeysBy, limit: Option<&str>, most: usize) -> Vec<TopKey> {
        let mut callers: HashMap<u64, TopKey> = HashMap::new();
        for sketches in &self.sketches {
            let sketches = sketches.lock().expect("no holder of this lock panics");
            let mut merge = |sketch: &Sketch, add: fn(&mut TopKey, u64)| {
                for entry in &sketch.entries {
                    let caller = callers
                        .entry(entry.hash)
                        .or_insert_with(|| entry.known.caller());
                    add(caller, entry.count);
                }
            };
            merge(&sketches.requests, |caller, count| caller.requests += count);
            merge(&sketches.denied, |caller, count| caller.denied += count);
        }
        let is_meant = |caller: &TopKey| limit.is_none_or(|limit| caller.limit == limit);
        let mut callers: Vec<TopKey> = callers.into_values().filter(is_meant).collect();
        for caller in &mut callers {
            // The two sketches forget independently.
            caller.requests = caller.requests.max(caller.denied);
        }
        let count = |caller: &TopKey| match by {
            TopKeysBy::Requests => (caller.requests, caller.denied),
            TopKeysBy::Denied => (caller.denied, caller.requests),
        };
        callers.retain(|caller| count(caller).0 > 0);
        callers.sort_by(|one, other| {
            count(other)
                .cmp(&count(one))
                .then_with(|| one.text.cmp(&other.text))
        });
        callers.truncate(most);
        callers
    }
}

fn place() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let place = PLACE.get();
    if place < SKETCHES {
        return place;
    }
    let place = NEXT.fetch_add(1, Ordering::Relaxed) % SKETCHES;
    PLACE.set(place);
    place
}

/// Counts of the callers that matter.
#[derive(Debug)]
struct Sketch {
    entries: Vec<Entry>,
    places: HashMap<u64, usize, RandomState>,
    /// No entry counts less.
    least: u64,
    dice: Dice,
}

#[derive(Debug)]
struct Entry {
    hash: u64,
    count: u64,
    known: Known,
}

/// What a caller is called.
#[derive(Clone, Debug)]
struct Known {
    limit: Box<str>,
    parts: Option<Box<[Box<str>]>>,
    text: Box<str>,
}

impl Sketch {
    fn new() -> Self {
        Self {
            entries: Vec::new(),
            places: HashMap::default(),
            least: 0,
            dice: Dice::new(),
        }
    }

    #[inline]
    fn add(&mut self, hash: u64, weight: u64, known: impl FnOnce() -> Known) {
        if let Some(place) = self.places.get(&hash) {
            self.entries[*place].count += weight;
            return;
        }
        if self.entries.len() < CALLERS {
            self.places.insert(hash, self.entries.len());
            self.entries.push(Entry {
                hash,
                count: weight,
                known: known(),
            });
            return;
        }
        if self.dice.thrown(self.least / weight + 1) {
            self.replace(hash, weight, known());
        }
    }

    #[cold]
    fn replace(&mut self, hash: u64, weight: u64, known: Known) {
        let counts = self.entries.iter().map(|entry| entry.count);
        let Some((place, least)) = counts.enumerate().min_by_key(|(_, count)| *count) else {
            return;
        };
        self.least = least;
        self.places.remove(&self.entries[place].hash);
        self.places.insert(hash, place);
        self.entries[place] = Entry {
            hash,
            count: least + weight,
            known,
        };
    }

    /// Entries that count nothing any more make room.
    fn halve(&mut self) {
        self.entries.iter_mut().for_each(|entry| entry.count /= 2);
        self.entries.retain(|entry| entry.count > 0);
        self.places = self
            .entries
            .iter()
            .enumerate()
            .map(|(place, entry)| (entry.hash, place))
            .collect();
        self.least = 0;
    }
}

/// Good enough to choose by.
#[derive(Debug)]
struct Dice(Cell<u64>);

impl Dice {
    const fn new() -> Self {
        Self(Cell::new(0x9E37_79B9_7F4A_7C15))
    }

    /// True once in so many throws.
    #[inline]
    fn thrown(&self, sides: u64) -> bool {
        let mut state = self.0.get();
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        self.0.set(state);
        (state >> 16).is_multiple_of(sides)
    }
}

impl Known {
    fn of(key: &Key<'_>) -> Self {
        let part = |value: PartValue<'_>| match value {
            PartValue::Text(bytes) => std::str::from_utf8(bytes).ok().map(Box::from),
            PartValue::Query(text) => String::from_utf8(text.decoded().into()).ok().map(Box::from),
            PartValue::Path(path) => Some(path.to_ascii_lowercase().into()),
            PartValue::Address(address) => Some(address.to_string().into()),
            PartValue::Global => Some("".into()),
            PartValue::AddressInstead(_) | PartValue::Shared | PartValue::Tenant(_) => None,
        };
        let parts: Option<Vec<Box<str>>> = match key.limit().ad_hoc() {
            None => key.parts().map(part).collect(),
            Some(_) => None,
        };
        Self {
            limit: key.limit().name.as_str().into(),
            parts: parts.map(Vec::into_boxed_slice),
            text: key.to_string().into(),
        }
    }

    fn caller(&self) -> TopKey {
        let parts = self
            .parts
            .as_ref()
            .map(|parts| parts.iter().map(|part| part.to_string()).collect());
        TopKey {
            limit: self.limit.to_string(),
            parts,
            text: self.text.to_string(),
            requests: 0,
            denied: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_core::{KeyPart, Limit, Quota};

    use super::*;

    fn limit(name: &str) -> Limit {
        Limit::new(name, Quota::per_second(1)).key([KeyPart::header("x-tenant")])
    }

    fn record(top_keys: &TopKeys, limit: &Limit, tenant: &str, is_denied: bool) {
        top_keys.record(&Key::of_parts(limit, &[tenant]).unwrap(), is_denied);
    }

    #[test]
    fn few_callers_are_counted_exactly() {
        let (top_keys, a, b) = (TopKeys::new(), limit("a"), limit("b"));
        for number in 0..30 {
            record(&top_keys, &a, "heavy", number % 3 == 0);
            record(&top_keys, &b, "denied", number % 2 == 0);
        }
        record(&top_keys, &a, "rare", false);
        let top = top_keys.top(TopKeysBy::Requests, None, 10);
        let counts: Vec<(&str, u64, u64)> = top
            .iter()
            .map(|caller| (caller.text.as_str(), caller.requests, caller.denied))
            .collect();
        assert_eq!(
            counts,
            [("b:denied", 30, 15), ("a:heavy", 30, 10), ("a:rare", 1, 0)]
        );
        assert_eq!(
            top_keys.top(TopKeysBy::Denied, None, 10).len(),
            2,
            "who was never denied is not on that list"
        );
        let of_a = top_keys.top(TopKeysBy::Requests, Some("a"), 1);
        assert_eq!(
            (of_a.len(), of_a[0].parts.as_deref()),
            (1, Some(&["heavy".to_owned()][..]))
        );
    }

    #[test]
    fn heavy_callers_stay_on_top_of_a_flood_of_new_names() {
        let (top_keys, limit) = (TopKeys::new(), limit("a"));
        // Every tenth request is of one caller, all others are of callers that come once.
        for number in 0..200_000 {
            match number % 10 {
                0 => record(&top_keys, &limit, "heavy", true),
                _ => record(
                    &top_keys,
                    &limit,
                    &format!("tenant-{number}"),
                    number % 3 == 0,
                ),
            }
        }
        for by in [TopKeysBy::Requests, TopKeysBy::Denied] {
            let top = top_keys.top(by, None, 3);
            assert_eq!(top[0].text, "a:heavy", "{top:?}");
            assert!(
                (15_000..=25_000).contains(&top[0].requests),
                "about 20,000: {top:?}"
            );
            assert!(top[1].requests < top[0].requests / 4, "{top:?}");
        }
        assert!(top_keys.top(TopKeysBy::Requests, None, usize::MAX).len() <= 2 * CALLERS);
    }

    #[test]
    fn what_was_long_ago_fades() {
        let (top_keys, limit) = (TopKeys::new(), limit("a"));
        (0..8).for_each(|_| record(&top_keys, &limit, "then", true));
        top_keys.decay();
        (0..5).for_each(|_| record(&top_keys, &limit, "now", true));
        assert_eq!(top_keys.top(TopKeysBy::Denied, None, 1)[0].text, "a:now");
        (0..4).for_each(|_| top_keys.decay());
        assert!(top_keys.top(TopKeysBy::Requests, None, 9).is_empty());
    }

    #[test]
    fn keys_without_parts_of_their_own_have_none() {
        let (top_keys, limit) = (TopKeys::new(), limit("a"));
        let key = Key::of_parts(&limit, &["x"]).unwrap();
        top_keys.record(&key.of_tenant("acme"), false);
        assert_eq!(top_keys.top(TopKeysBy::Requests, None, 1)[0].parts, None);
    }
}
