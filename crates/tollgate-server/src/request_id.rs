//! Request ids: unique among all that this process and its like ever answered, and of no other meaning.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};

use http::{HeaderName, HeaderValue};

/// Where the id is told.
pub(crate) const HEADER: HeaderName = HeaderName::from_static("x-request-id");

thread_local! {
    /// A random start for each thread, then counting.
    static NEXT: Cell<Option<u128>> = const { Cell::new(None) };
}

/// The next id: 32 hexadecimal digits.
pub(crate) fn next() -> HeaderValue {
    let id = NEXT.with(|next| {
        let id = next.get().unwrap_or_else(random);
        next.set(Some(id.wrapping_add(1)));
        id
    });
    let mut digits = [0; 32];
    for (place, digit) in digits.iter_mut().enumerate() {
        *digit = b"0123456789abcdef"[(id >> (124 - 4 * place)) as usize & 15];
    }
    HeaderValue::from_bytes(&digits).expect("hexadecimal digits are a header value")
}

fn random() -> u128 {
    let half = || u128::from(RandomState::new().hash_one(std::thread::current().id()));
    half() << 64 | half()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_also_between_threads() {
        let ids = || (0..1_000).map(|_| next()).collect::<Vec<_>>();
        let mut all: Vec<_> =
            (0..4).map(|_| std::thread::spawn(ids)).flat_map(|thread| thread.join().unwrap()).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 4_000);
        assert!(all.iter().all(|id| id.len() == 32));
    }
}
