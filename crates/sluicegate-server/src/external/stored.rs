//! Answers in Redis, for all replicas: their names, and what is believed of what is found there.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use sluicegate_core::Nanos;

use super::answer::Answer;

/// The two names of a caller's answer. No name is that of a counter, as no limit has a `~` in its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Names {
    /// As long as it holds.
    pub(super) fresh: String,
    /// And for a while after that.
    pub(super) stale: String,
    /// What both end in, so that a value tells whose it is.
    of: String,
}

impl Names {
    pub(super) fn new(prefix: &str, limit: &str, key: &str) -> Self {
        /// Longer ones are hashed.
        const LENGTH_MAX: usize = 200;
        let readable = format!("{}:{}", escaped(limit), escaped(key));
        let of = if readable.len() <= LENGTH_MAX {
            readable
        } else {
            hashed(limit, key)
        };
        Self {
            fresh: format!("{prefix}:~ext:f:{of}"),
            stale: format!("{prefix}:~ext:s:{of}"),
            of,
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
struct Value {
    v: u32,
    of: String,
    ttl_ms: u64,
    answer: Answer,
}

const VERSION: u32 = 1;
/// Longer than any answer of ours is.
const LENGTH_MAX: usize = 2 * super::REPLY_MAX;

/// Writes an answer down, with the time that it holds.
pub(super) fn write(names: &Names, answer: &Answer, ttl: Nanos) -> Option<Vec<u8>> {
    let ttl_ms = ttl.get() / Nanos::MILLISECOND.get();
    let value = Value {
        v: VERSION,
        of: names.of.clone(),
        ttl_ms,
        answer: answer.clone(),
    };
    serde_json::to_vec(&value).ok()
}

/// Reads an answer and the time that it held when it was written; `None` when somebody else wrote it, or for another caller.
pub(super) fn read(names: &Names, text: &[u8]) -> Option<(Answer, Nanos)> {
    if text.len() > LENGTH_MAX {
        return None;
    }
    let value: Value = serde_json::from_slice(text).ok()?;
    let ttl = Nanos::from_millis(
        value
            .ttl_ms
            .min(Nanos::DAY.get() / Nanos::MILLISECOND.get()),
    );
    (value.v == VERSION && value.of == names.of && ttl >= Nanos::SECOND)
        .then_some((value.answer, ttl))
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
                let names = Names::new("sluicegate", limit, key);
                for name in [names.fresh, names.stale] {
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
            Names::new("sluicegate", &long, &long).of,
            Names::new("sluicegate", "", &hash[1..]).of
        );
    }

    #[test]
    fn names_can_be_read() {
        let names = Names::new("sluicegate", "tenant", "acme:eu");
        assert_eq!(names.fresh, "sluicegate:~ext:f:tenant:acme%3Aeu");
        assert_eq!(names.stale, "sluicegate:~ext:s:tenant:acme%3Aeu");
    }

    fn answer() -> Answer {
        let (period, tenant_key) = ("1m".to_owned(), "acme".to_owned());
        Answer {
            average: 10,
            burst: 5,
            period,
            tenant_key,
            failure_policy: 2,
            ..Answer::default()
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let names = Names::new("sluicegate", "tenant", "acme");
        let text = write(&names, &answer(), Nanos::from_secs(90)).unwrap();
        assert_eq!(read(&names, &text), Some((answer(), Nanos::from_secs(90))));
    }

    /// T-57
    #[test]
    fn what_somebody_else_wrote_is_refused() {
        let names = Names::new("sluicegate", "tenant", "acme");
        let good = String::from_utf8(write(&names, &answer(), Nanos::MINUTE).unwrap()).unwrap();
        let other = Names::new("sluicegate", "tenant", "other");
        assert_eq!(read(&other, good.as_bytes()), None, "of another caller");
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
                read(&names, text.as_bytes()),
                None,
                "{}",
                &text[..text.len().min(200)]
            );
        }
        let long = good.replace("\"ttl_ms\":60000", "\"ttl_ms\":99999999999");
        assert_eq!(
            read(&names, long.as_bytes()).unwrap().1,
            Nanos::DAY,
            "never longer than a day"
        );
    }
}
