//! The cache in Redis, shared by all replicas: its keys, its values, and which values are believed.
//!
//! Each reply is written twice. The *fresh* copy lives as long as the reply may be reused, the
//! *stale* copy five minutes longer; Redis removes both by itself. Two keys and not one with a
//! timestamp, because then no replica's clock has a say in what is fresh.
//!
//! Redis may be shared with other programs, so a value is believed only if it decodes exactly, has
//! our version, names the caller it is for and passes the same checks as a reply of the service.

use std::fmt::Write;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use sluicegate::{RedisStore, StoreError};
use sluicegate_core::Nanos;

use super::reply::ServiceReply;

/// The Redis that holds the cache: the one of the counters, or one of its own.
pub(super) enum RedisCache {
    Store(Arc<RedisStore>),
    /// A Redis in memory, for tests with a paused clock.
    #[cfg(test)]
    Fake(super::fakes::FakeRedis),
}

impl RedisCache {
    /// The beginning of all keys.
    pub(super) fn prefix(&self) -> &str {
        match self {
            Self::Store(store) => &store.options().key_prefix,
            #[cfg(test)]
            Self::Fake(_) => "test",
        }
    }

    /// The value of a key; `None` when there is none or it has expired.
    pub(super) async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        match self {
            Self::Store(store) => store.get(key).await,
            #[cfg(test)]
            Self::Fake(redis) => redis.get(key),
        }
    }

    /// Writes a value that Redis removes after `ttl`.
    pub(super) async fn put(
        &self,
        key: &str,
        value: Vec<u8>,
        ttl: Nanos,
    ) -> Result<(), StoreError> {
        match self {
            Self::Store(store) => store.put(key, value, ttl).await,
            #[cfg(test)]
            Self::Fake(redis) => redis.put(key, value, ttl),
        }
    }
}

/// The two keys of a caller's reply.
///
/// They never collide with a counter, because `~` cannot be in the name of a limit, nor with those
/// of another caller, because limit and key are escaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RedisKeys {
    /// The copy that answers requests.
    pub(super) fresh: String,
    /// The copy for when no newer reply can be had.
    pub(super) stale: String,
    /// The caller, at the end of both keys and again in the value.
    caller: String,
}

impl RedisKeys {
    pub(super) fn new(prefix: &str, limit: &str, key: &str) -> Self {
        /// A longer name is replaced by its hash, so that callers cannot make keys of any size.
        const LENGTH_MAX: usize = 200;
        let readable = format!("{}:{}", escaped(limit), escaped(key));
        let caller = if readable.len() <= LENGTH_MAX {
            readable
        } else {
            hashed(limit, key)
        };
        Self {
            fresh: format!("{prefix}:~ext:f:{caller}"),
            stale: format!("{prefix}:~ext:s:{caller}"),
            caller,
        }
    }
}

/// Letters, digits, `.`, `_` and `-` stay; every other byte becomes `%` and two hexadecimal digits.
/// So the text holds no separator of ours, and no brace that would choose a slot of a cluster.
fn escaped(text: &str) -> String {
    let mut whole = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            byte if byte.is_ascii_alphanumeric() || b"._-".contains(&byte) => {
                whole.push(byte.into())
            }
            byte => {
                let _ = write!(whole, "%{byte:02X}");
            }
        }
    }
    whole
}

/// Begins with `#`, which no escaped text contains. The lengths are hashed too, so that limit and
/// key cannot be split in another place.
fn hashed(limit: &str, key: &str) -> String {
    let mut hash = Sha256::new();
    for text in [limit, key] {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    }
    let digest: [u8; 32] = hash.finalize().into();
    digest.iter().fold("#".to_owned(), |mut whole, byte| {
        let _ = write!(whole, "{byte:02x}");
        whole
    })
}

/// A value in Redis, as JSON. The names of its fields are part of the format that replicas of
/// different versions share.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredReply {
    /// Other versions are ignored, not converted: the service can be asked again.
    v: u32,
    /// The caller it is for, so that a value copied to another key is not believed.
    #[serde(rename = "of")]
    caller: String,
    /// The fresh lifetime that it had when it was written, in milliseconds.
    ttl_ms: u64,
    #[serde(rename = "answer")]
    reply: ServiceReply,
}

const VERSION: u32 = 1;
/// The longest value that is decoded, in bytes; no reply of ours gets that long.
const LENGTH_MAX: usize = 2 * super::REPLY_MAX;

/// The value for a reply with this fresh lifetime.
pub(super) fn encode(keys: &RedisKeys, reply: &ServiceReply, ttl: Nanos) -> Option<Vec<u8>> {
    let ttl_ms = ttl.get() / Nanos::MILLISECOND.get();
    let value = StoredReply {
        v: VERSION,
        caller: keys.caller.clone(),
        ttl_ms,
        reply: reply.clone(),
    };
    serde_json::to_vec(&value).ok()
}

/// The reply in a value, and the fresh lifetime that it had when it was written.
///
/// `None` when the value is not ours or belongs to another caller. A lifetime of more than a day is
/// cut, in case somebody else wrote it.
pub(super) fn decode(keys: &RedisKeys, text: &[u8]) -> Option<(ServiceReply, Nanos)> {
    if text.len() > LENGTH_MAX {
        return None;
    }
    let value: StoredReply = serde_json::from_slice(text).ok()?;
    let ttl = Nanos::from_millis(
        value
            .ttl_ms
            .min(Nanos::DAY.get() / Nanos::MILLISECOND.get()),
    );
    (value.v == VERSION && value.caller == keys.caller && ttl >= Nanos::SECOND)
        .then_some((value.reply, ttl))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    #[test]
    fn no_two_callers_have_a_name_in_common() {
        let long = "x".repeat(300);
        let texts = [
            "", "a", "a:b", "b", ":", "::", "%", "%3A", "%3a", "stale:x", "s:x", "f:x", "t:a", "x",
            "{a}", "*", "ä", "a b", "\0", "\r\n", "#", "~", &long,
        ];
        let mut seen = HashSet::new();
        let mut count = 0;
        for limit in texts {
            for key in texts {
                let keys = RedisKeys::new("sluicegate", limit, key);
                for name in [keys.fresh, keys.stale] {
                    assert!(
                        name.bytes()
                            .all(|byte| byte.is_ascii_graphic() && !b"{}*".contains(&byte)),
                        "{name}"
                    );
                    assert!(name.len() <= 300, "{name}");
                    assert!(seen.insert(name.clone()), "{name}");
                    count += 1;
                }
            }
        }
        assert_eq!(seen.len(), count);
        let hash = hashed(&long, &long);
        assert_ne!(
            RedisKeys::new("sluicegate", &long, &long).caller,
            RedisKeys::new("sluicegate", "", &hash[1..]).caller
        );
    }

    #[test]
    fn names_can_be_read() {
        let keys = RedisKeys::new("sluicegate", "tenant", "acme:eu");
        assert_eq!(keys.fresh, "sluicegate:~ext:f:tenant:acme%3Aeu");
        assert_eq!(keys.stale, "sluicegate:~ext:s:tenant:acme%3Aeu");
    }

    fn reply() -> ServiceReply {
        let (period, tenant_key) = ("1m".to_owned(), "acme".to_owned());
        ServiceReply {
            average: 10,
            burst: 5,
            period,
            tenant_key,
            failure_policy: 2,
            ..ServiceReply::default()
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let keys = RedisKeys::new("sluicegate", "tenant", "acme");
        let text = encode(&keys, &reply(), Nanos::from_secs(90)).unwrap();
        assert_eq!(decode(&keys, &text), Some((reply(), Nanos::from_secs(90))));
    }
    #[test]
    fn what_somebody_else_wrote_is_refused() {
        let keys = RedisKeys::new("sluicegate", "tenant", "acme");
        let good = String::from_utf8(encode(&keys, &reply(), Nanos::MINUTE).unwrap()).unwrap();
        let other = RedisKeys::new("sluicegate", "tenant", "other");
        assert_eq!(decode(&other, good.as_bytes()), None, "of another caller");
        let huge = format!("{good}{}", " ".repeat(LENGTH_MAX));
        for text in [
            "",
            "1",
            "{}",
            "null",
            "\u{0}",
            &good.replace("\"v\":1", "\"v\":2"),
            &good.replace("\"v\":1,", ""),
            &good.replace("\"average\":10", "\"average\":\"10\""),
            &good.replace("\"average\"", "\"avarage\""),
            &good.replace("\"ttl_ms\":60000", "\"ttl_ms\":-1"),
            &good.replace("\"ttl_ms\":60000", "\"ttl_ms\":0"),
            &good.replace("}}", "},\"more\":1}"),
            &good[..good.len() - 1],
            &huge,
        ] {
            assert_ne!(text, good);
            assert_eq!(
                decode(&keys, text.as_bytes()),
                None,
                "{}",
                &text[..text.len().min(200)]
            );
        }
        let long = good.replace("\"ttl_ms\":60000", "\"ttl_ms\":99999999999");
        assert_eq!(
            decode(&keys, long.as_bytes()).unwrap().1,
            Nanos::DAY,
            "never longer than a day"
        );
    }
}
