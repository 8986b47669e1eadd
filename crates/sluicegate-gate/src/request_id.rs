//! Request ids: unique over all replicas and restarts, without any other meaning.
//!
//! Each thread starts at a random 128-bit number and counts up, so that an id costs an addition and
//! no system call or lock, and two threads practically never meet.

use std::cell::Cell;
use std::fmt;
use std::hash::{BuildHasher, RandomState};

use http::HeaderName;

/// The header that carries the id, to the server behind and back to the client.
pub const HEADER: HeaderName = HeaderName::from_static("x-request-id");

thread_local! {
    /// The next id of this thread; `None` before its first.
    static NEXT: Cell<Option<u128>> = const { Cell::new(None) };
}

/// An id: 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId([u8; 32]);

impl RequestId {
    /// A new id.
    pub fn next() -> Self {
        let id = NEXT.with(|next| {
            let id = next.get().unwrap_or_else(random);
            next.set(Some(id.wrapping_add(1)));
            id
        });
        let mut digits = [0; 32];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(id.to_be_bytes()) {
            pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
        }
        Self(digits)
    }

    /// The digits as text.
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.0).unwrap_or_default()
    }

    /// The digits as bytes of ASCII, ready for a header or a log line.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

fn digit(value: u8) -> u8 {
    value + if value < 10 { b'0' } else { b'a' - 10 }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A random start, from the keys that the standard library seeds its hash maps with.
fn random() -> u128 {
    let half = || u128::from(RandomState::new().hash_one(std::thread::current().id()));
    half() << 64 | half()
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
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 4_000);
        assert!(
            all.iter().all(
                |id| id.as_str().len() == 32 && id.as_bytes().iter().all(u8::is_ascii_hexdigit)
            )
        );
    }
}
