//! Request ids: unique over all replicas and restarts, without any other meaning.
//!
//! A trusted proxy in front has named the request already, and its name is kept, so that one search
//! finds the request in the logs of both. For everybody else the id is made here.
//!
//! Each thread counts its ids and shows the count through a keyed hash (SipHash) with a random key
//! of its own. So an id costs two short hashes and no system call or lock, two threads practically
//! never meet, and whoever sees ids learns neither how many there were nor in which order: for that
//! he would have to find the key.

use std::cell::Cell;
use std::fmt;
use std::hash::{BuildHasher, RandomState};

use http::{HeaderMap, HeaderName, HeaderValue};
use sluicegate::http::{REQUEST_ID, REQUEST_ID_MAX, sent_request_id};

/// The header that carries the id, to the server behind and back to the client.
pub const HEADER: HeaderName = REQUEST_ID;

thread_local! {
    static IDS: IdSource = IdSource::new();
}

/// Makes the ids of a thread.
struct IdSource {
    /// The number of ids so far.
    count: Cell<u64>,
    /// Hashes with a random key, which the standard library takes from the system once per thread.
    hasher: RandomState,
}

impl IdSource {
    fn new() -> Self {
        Self {
            count: Cell::new(0),
            hasher: RandomState::new(),
        }
    }

    fn next(&self) -> u128 {
        let count = self.count.get();
        self.count.set(count.wrapping_add(1));
        // Two numbers that no other id of this thread is made from.
        let halves = [count.wrapping_mul(2), count.wrapping_mul(2).wrapping_add(1)];
        let [high, low] = halves.map(|half| u128::from(self.hasher.hash_one(half)));
        high << 64 | low
    }
}

/// The id of a request.
#[derive(Clone, PartialEq, Eq)]
pub struct RequestId(IdText);

/// The text of an id, by its origin.
#[derive(Clone, PartialEq, Eq)]
enum IdText {
    /// Made here: 32 hexadecimal digits.
    Made([u8; 32]),
    /// Sent by a trusted proxy, and plain.
    Sent(HeaderValue),
}

impl RequestId {
    /// The longest id that is kept, in bytes.
    pub const LENGTH_MAX: usize = REQUEST_ID_MAX;

    /// A new id.
    pub fn next() -> Self {
        let id = IDS.with(IdSource::next);
        let mut digits = [0; 32];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(id.to_be_bytes()) {
            pair.copy_from_slice(&DIGITS[usize::from(byte)]);
        }
        Self(IdText::Made(digits))
    }

    /// The id that a trusted proxy gave the request, or a new one. Ids of other peers, ids that come
    /// twice and ids that are not plain ([`sent_request_id`]) are not believed.
    pub fn of_request(headers: &HeaderMap, peer_is_trusted: bool) -> Self {
        if !peer_is_trusted || sent_request_id(headers).is_none() {
            return Self::next();
        }
        let sent = headers.get(HEADER).cloned();
        sent.map_or_else(Self::next, |sent| Self(IdText::Sent(sent)))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    /// The id as bytes of ASCII, ready for a header or a log line.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            IdText::Made(digits) => digits,
            IdText::Sent(value) => value.as_bytes(),
        }
    }

    /// The number that the id stands for; `None` when it is not 32 hexadecimal digits.
    pub(crate) fn as_number(&self) -> Option<u128> {
        let digits = self.as_str();
        let is_number = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_number
            .then(|| u128::from_str_radix(digits, 16).ok())
            .flatten()
    }
}

/// The two hexadecimal digits of each byte.
const DIGITS: [[u8; 2]; 256] = {
    const SIGNS: &[u8; 16] = b"0123456789abcdef";
    let mut digits = [[0; 2]; 256];
    let mut byte = 0;
    while byte < digits.len() {
        digits[byte] = [SIGNS[byte >> 4], SIGNS[byte & 15]];
        byte += 1;
    }
    digits
};

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_also_between_threads() {
        let ids = || (0..1_000).map(|_| RequestId::next()).collect::<Vec<_>>();
        let mut all: Vec<_> = (0..4)
            .map(|_| std::thread::spawn(ids))
            .flat_map(|thread| thread.join().unwrap())
            .collect();
        all.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
        all.dedup();
        assert_eq!(all.len(), 4_000);
        assert!(
            all.iter().all(
                |id| id.as_str().len() == 32 && id.as_bytes().iter().all(u8::is_ascii_hexdigit)
            )
        );
    }

    /// Of ids that are random numbers, half are greater than the one before, and half of the bits
    /// differ. Bounds of ten standard deviations.
    #[test]
    fn ids_tell_neither_how_many_nor_in_which_order() {
        const COUNT: usize = 10_000;
        let ids: Vec<u128> = (0..=COUNT)
            .map(|_| RequestId::next().as_number().unwrap())
            .collect();
        let pairs = || ids.windows(2).map(|pair| (pair[0], pair[1]));
        let ascents = pairs().filter(|(one, next)| one < next).count();
        assert!((4_710..5_290).contains(&ascents), "{ascents}");
        let bits: u32 = pairs().map(|(one, next)| (one ^ next).count_ones()).sum();
        let bits = f64::from(bits) / COUNT as f64;
        assert!((63.0..65.0).contains(&bits), "{bits}");
        for half in [0, 64] {
            let mut halves: Vec<u64> = ids.iter().map(|id| (id >> half) as u64).collect();
            halves.sort_unstable();
            halves.dedup();
            assert_eq!(halves.len(), COUNT + 1, "each half alone is unique");
            let steps: std::collections::BTreeSet<u64> =
                halves.windows(2).map(|pair| pair[1] - pair[0]).collect();
            assert!(steps.len() > COUNT - 10, "no step repeats");
        }
    }

    fn headers(ids: &[&[u8]]) -> HeaderMap {
        let line = |id: &&[u8]| (HEADER, HeaderValue::from_bytes(id).unwrap());
        ids.iter().map(line).collect()
    }

    #[test]
    fn a_valid_id_of_a_trusted_proxy_is_kept_and_any_other_is_replaced() {
        let longest = "a".repeat(RequestId::LENGTH_MAX);
        for id in [
            "7",
            "f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
            "Root=1-67891233-abcdef012345678912345678",
            "a/b+c==@edge:1._~",
            longest.as_str(),
        ] {
            let headers = headers(&[id.as_bytes()]);
            assert_eq!(RequestId::of_request(&headers, true).as_str(), id);
            let replaced = RequestId::of_request(&headers, false);
            assert!(replaced.as_number().is_some(), "{id} of a stranger");
        }
        let too_long = "a".repeat(RequestId::LENGTH_MAX + 1);
        let bad: [&[&[u8]]; 9] = [
            &[],
            &[b""],
            &[b"a b"],
            &[b"a\tb"],
            &[b"a\"b"],
            &[b"a{b}"],
            &[b"\xc3\xa9"],
            &[too_long.as_bytes()],
            &[b"one", b"two"],
        ];
        for ids in bad {
            let id = RequestId::of_request(&headers(ids), true);
            assert!(id.as_number().is_some(), "{ids:?} became {id:?}");
        }
    }
}
