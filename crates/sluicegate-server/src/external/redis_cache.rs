//! Answers in Redis, for all replicas: their names, and what is believed of what is found there.

use std::fmt::Write;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use sluicegate::{RedisStore, StoreError};
use sluicegate_core::Nanos;

use super::reply::ServiceReply;

/// The Redis of the store, or one of its own.
pub(super) enum RedisCache {
    Redis(Arc<RedisStore>),
    /// A Redis for tests that tell the time themselves.
    #[cfg(test)]
    Fake(super::fakes::FakeRedis),
}

impl RedisCache {
    /// What all names begin with.
    pub(super) fn prefix(&self) -> &str {
        match self {
            Self::Redis(store) => &store.options().key_prefix,
            #[cfg(test)]
            Self::Fake(_) => "test",
        }
    }

    pub(super) async fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        match self {
            Self::Redis(store) => store.get(name).await,
            #[cfg(test)]
            Self::Fake(redis) => redis.get(name),
        }
    }

    pub(super) async fn put(
        &self,
        name: &str,
        value: Vec<u8>,
        ttl: Nanos,
    ) -> Result<(), StoreError> {
        match self {
            Self::Redis(store) => store.put(name, value, ttl).await,
            #[cfg(test)]
            Self::Fake(redis) => redis.put(name, value, ttl),
        }
    }
}

/// The two names of a caller's answer. No name is that of a counter, as no limit has a `~` in its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RedisKeys {
    /// As long as it holds.
    pub(super) fresh: String,
    /// And for a while after that.
    pub(super) stale: String,
    /// What both end in, so that a value tells whose it is.
    caller: String,
}

impl RedisKeys {
    pub(super) fn new(prefix: &str, limit: &str, key: &str) -> Self {
        /// Longer ones are hashed.
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

/// Letters, digits, `.`, `_` and `-` as they are, all other bytes as `%` and two digits: no separator of ours, and no brace
/// that chooses a slot.
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

/// Begins with a letter that no escaped text holds.
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

/// A value; other versions are not ours to read.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredReply {
    v: u32,
    #[serde(rename = "of")]
    caller: String,
    ttl_ms: u64,
    #[serde(rename = "answer")]
    reply: ServiceReply,
}

const VERSION: u32 = 1;
/// Longer than any answer of ours is.
const LENGTH_MAX: usize = 2 * super::REPLY_MAX;

/// Writes an answer down, with the time that it holds.
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

/// Reads an answer and the time that it held when it was written; `None` when somebody else wrote it, or for another caller.
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

    /// T-57
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

    /// T-57
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
