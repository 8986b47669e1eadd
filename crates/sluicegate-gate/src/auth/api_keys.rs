//! API keys: the owner of the key in a header, found in constant time.
//!
//! Only SHA-256 digests of keys are known here. A plain digest is enough: keys are long and random,
//! unlike passwords, so there is nothing to guess from a stolen file.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use http::header::{HeaderMap, HeaderName};
use sha2::{Digest, Sha256};
use sluicegate_config as config;
use sluicegate_core::Principal;
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use super::key_file::{self, KeyOwner};
use super::unauthorized::AuthFailure;
use super::{header_name, single_value};

/// The SHA-256 of a key.
pub(super) type KeyDigest = [u8; 32];

/// The API keys of a file, and the header that they come in.
pub(super) struct ApiKeys {
    header: HeaderName,
    table: KeyTable,
}

impl ApiKeys {
    /// Longer values are refused before they are hashed, so that nobody can make us hash megabytes.
    const KEY_BYTES_MAX: usize = 4096;

    /// Reads the key file, or returns all mistakes.
    pub(super) fn load(settings: &config::ApiKeys) -> Result<Self, Vec<String>> {
        let header = header_name("principals.api_keys.header", &settings.header);
        match (header, key_file::read(&settings.file)) {
            (Ok(header), Ok(owners)) => Ok(Self {
                header,
                table: KeyTable::new(owners),
            }),
            (header, owners) => Err(header
                .err()
                .into_iter()
                .chain(owners.err().into_iter().flatten())
                .collect()),
        }
    }

    pub(super) fn header(&self) -> &HeaderName {
        &self.header
    }

    /// The number of keys.
    pub(super) fn len(&self) -> usize {
        self.table.owners.len()
    }

    /// The owner of the key in the headers; `None` without one.
    pub(super) fn verify(
        &self,
        headers: &HeaderMap,
    ) -> Result<Option<Arc<Principal>>, AuthFailure> {
        let Some(key) = single_value(headers, &self.header)? else {
            return Ok(None);
        };
        let is_printable = key.iter().all(|byte| matches!(byte, b' '..=b'~'));
        if key.is_empty() || key.len() > Self::KEY_BYTES_MAX || !is_printable {
            return Err(AuthFailure::Malformed);
        }
        let digest = Sha256::digest(key).into();
        self.table
            .find(&digest, is_same)
            .cloned()
            .map(Some)
            .ok_or(AuthFailure::UnknownKey)
    }
}

/// Owners by the digest of their key, in buckets of equal length.
///
/// Idea: the time of a lookup must not tell which keys exist. A lookup hashes the key, chooses one
/// bucket and compares the digest with every slot in it, each in constant time and without stopping
/// at a match. All buckets are padded to one length, so a known key, an unknown one and an empty
/// bucket take the same number of comparisons. The bucket depends on a random secret of this table,
/// so nobody can probe for keys that share a bucket with somebody else's.
///
/// It is not a plain hash map, which stops at the first difference, nor one long list, which would
/// compare 400,000 digests for each request.
struct KeyTable {
    owners: Vec<Arc<Principal>>,
    /// All buckets, one after the other.
    slots: Vec<KeySlot>,
    /// The slots of each bucket: as many as the fullest one needs.
    bucket_len: usize,
    /// The number of buckets, a power of two.
    buckets: usize,
    /// Chooses the bucket of a digest.
    secret: RandomState,
}

/// A digest and its owner.
#[derive(Clone, Copy)]
struct KeySlot {
    digest: KeyDigest,
    /// An index of `owners`, or [`NOBODY`].
    owner: u32,
}

/// Pads a bucket. No known key has this digest, and if one had, it would belong to nobody.
const EMPTY: KeySlot = KeySlot {
    digest: [0; 32],
    owner: NOBODY,
};
const NOBODY: u32 = u32::MAX;

impl KeyTable {
    /// Few enough to compare them all, and enough that the fullest bucket is not much fuller than
    /// the others.
    const KEYS_PER_BUCKET: usize = 8;

    fn new(owners: Vec<KeyOwner>) -> Self {
        let buckets = owners
            .len()
            .div_ceil(Self::KEYS_PER_BUCKET)
            .next_power_of_two();
        let mut table = Self {
            owners: Vec::new(),
            slots: Vec::new(),
            bucket_len: 0,
            buckets,
            secret: RandomState::new(),
        };
        let mut filled = vec![Vec::new(); buckets];
        for owner in owners {
            let index = u32::try_from(table.owners.len())
                .expect("a file of bounded size has fewer keys than that");
            filled[table.bucket_of(&owner.digest)].push(KeySlot {
                digest: owner.digest,
                owner: index,
            });
            table.owners.push(Arc::new(owner.principal));
        }
        table.bucket_len = filled.iter().map(Vec::len).max().unwrap_or(0);
        for mut bucket in filled {
            bucket.resize(table.bucket_len, EMPTY);
            table.slots.append(&mut bucket);
        }
        table
    }

    /// The owner of a digest. `is_same` is an argument so that a test can count its calls.
    fn find(
        &self,
        digest: &KeyDigest,
        is_same: impl Fn(&KeyDigest, &KeyDigest) -> Choice,
    ) -> Option<&Arc<Principal>> {
        let start = self.bucket_of(digest) * self.bucket_len;
        let mut found = NOBODY;
        for slot in &self.slots[start..start + self.bucket_len] {
            found.conditional_assign(&slot.owner, is_same(&slot.digest, digest));
        }
        self.owners.get(found as usize)
    }

    fn bucket_of(&self, digest: &KeyDigest) -> usize {
        self.secret.hash_one(digest) as usize % self.buckets
    }
}

/// Compares in constant time.
fn is_same(one: &KeyDigest, other: &KeyDigest) -> Choice {
    one.as_slice().ct_eq(other.as_slice())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn digest_of(key: usize) -> KeyDigest {
        Sha256::digest(key.to_string()).into()
    }

    fn table_of(keys: usize) -> KeyTable {
        let owner = |key: usize| KeyOwner {
            digest: digest_of(key),
            principal: Principal::new(key.to_string()),
        };
        KeyTable::new((0..keys).map(owner).collect())
    }

    #[test]
    fn known_and_unknown_keys_take_the_same_path() {
        let table = table_of(1000);
        let comparisons = |digest: &KeyDigest| {
            let count = Cell::new(0);
            let counted = |one: &KeyDigest, other: &KeyDigest| {
                count.set(count.get() + 1);
                is_same(one, other)
            };
            let is_known = table.find(digest, counted).is_some();
            (is_known, count.get())
        };
        for known in 0..1000 {
            assert_eq!(comparisons(&digest_of(known)), (true, table.bucket_len));
        }
        for unknown in 1000..3000 {
            assert_eq!(comparisons(&digest_of(unknown)), (false, table.bucket_len));
        }
    }

    #[test]
    fn every_key_finds_its_owner_and_no_other() {
        for keys in [0, 1, 2, 8, 9, 5000] {
            let table = table_of(keys);
            for key in 0..keys {
                assert_eq!(
                    table.find(&digest_of(key), is_same).unwrap().id,
                    key.to_string()
                );
            }
            assert!(table.find(&digest_of(keys), is_same).is_none());
        }
    }

    #[test]
    fn a_digest_that_differs_in_one_bit_is_another() {
        let digest = digest_of(1);
        assert!(bool::from(is_same(&digest, &digest)));
        for bit in 0..256 {
            let mut other = digest;
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(!bool::from(is_same(&digest, &other)), "{bit}");
        }
    }

    #[test]
    fn the_filling_of_buckets_belongs_to_nobody() {
        let table = table_of(3);
        assert!(table.find(&EMPTY.digest, is_same).is_none());
        assert!(
            KeyTable::new(Vec::new())
                .find(&EMPTY.digest, is_same)
                .is_none()
        );
    }

    #[test]
    fn buckets_stay_short() {
        let table = table_of(50_000);
        assert!(table.bucket_len <= 40, "{}", table.bucket_len);
    }

    #[test]
    fn two_tables_keep_the_same_keys_in_different_places() {
        let (one, other) = (table_of(1000), table_of(1000));
        assert!(
            (0..1000).any(|key| one.bucket_of(&digest_of(key)) != other.bucket_of(&digest_of(key)))
        );
    }
}
