//! The names of counters in a store that other programs look into.
//!
//! In this process a key is a hash. In Redis it is a name, and the name has to be many things at
//! once: readable for people who debug, short for memory, the same in every process and version (or
//! counters are lost at an upgrade), and on one slot of a cluster for all limits of a caller (so
//! that one script can take them all or nothing).
//!
//! **Invariant:** two different keys never share a name, whatever bytes they hold. The layouts of
//! older programs keep it for limits that [`KeyLayout::may_share`] can tell apart. Where a name is
//! written out, the core escapes everything that could be taken for a separator, a brace or the
//! [`MARK`] of a shortened name. Where it is a digest, the texts are measured before they are
//! hashed and enough bits are kept.
//!
//! **Invariant:** names that are written today are written tomorrow. The tests hold them as
//! constants; a change needs another layout.

use std::fmt::Write;
use std::net::IpAddr;

use sha2::{Digest, Sha256};
use sluicegate_core::address::write_v4;
use sluicegate_core::{Key, KeyLayout, KeyPart, PartValue, edge_guard_kind};

/// Writes keys as a [`KeyLayout`] says.
///
/// The layouts are named in `sluicegate-core`, which both the configuration and this library know;
/// writing them takes SHA-256, which the core does without.
///
/// ```
/// use sluicegate::{Key, KeyLayout, Limit, Quota, StoredNames, Subject};
///
/// let limit = Limit::per_client("per-ip", Quota::per_second(100));
/// let subject = Subject { client_ip: Some("203.0.113.7".parse()?), ..Subject::ANONYMOUS };
/// let key = Key::of_subject(&limit, &subject)?;
/// assert_eq!(KeyLayout::Readable.stored("shop", &key), "shop:per-ip:203.0.113.7");
/// assert_eq!(KeyLayout::Compact.stored("shop", &key).len(), 14);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait StoredNames {
    /// The name of `key` in a single Redis.
    fn stored(self, prefix: &str, key: &Key<'_>) -> String;

    /// The name of `key` in a Redis Cluster, with a hash tag that keeps all limits of one owner on
    /// one slot: `<prefix>:{tag}:<limit>:<part>:…`, or `sg{tag}` and 12 characters.
    ///
    /// The tag is a digest, so that no caller chooses a slot by the text it sends. The owner is the
    /// first key part that is not `global`; a limit without one is an owner of its own. The two
    /// older layouts reproduce names exactly and carry no tag: there, the limits of one caller live
    /// on different slots.
    fn stored_with_tag(self, prefix: &str, key: &Key<'_>) -> String;

    /// The text of the key that has this name in the store; `is_tagged` for names of
    /// [`StoredNames::stored_with_tag`]. The search for counters reads keys back from their names.
    ///
    /// A name that was too long gives its head and a digest. `None` when the name was written by
    /// another program, or under a layout whose names do not tell their keys.
    fn text_of<'a>(self, prefix: &str, is_tagged: bool, stored: &'a str) -> Option<&'a str>;
}

impl StoredNames for KeyLayout {
    fn stored(self, prefix: &str, key: &Key<'_>) -> String {
        let whole = match self {
            Self::Readable => readable(prefix, key),
            Self::Compact => format!("sg{}", digest_of_key(prefix, key)),
            // EdgeQuota had no such counters, and under its names they would meet those of limits.
            Self::EdgeQuota if key.limit().is_ad_hoc() => readable(prefix, key),
            Self::EdgeQuota => edge_quota(key),
            Self::EdgeGuard => edge_guard(prefix, key),
        };
        at_most_length_max(whole)
    }

    fn stored_with_tag(self, prefix: &str, key: &Key<'_>) -> String {
        let whole = match self {
            Self::Readable => format!("{prefix}:{{{}}}:{key}", tag_of_owner(prefix, key)),
            Self::Compact => format!(
                "sg{{{}}}{}",
                tag_of_owner(prefix, key),
                digest_of_key(prefix, key)
            ),
            Self::EdgeQuota | Self::EdgeGuard => return self.stored(prefix, key),
        };
        at_most_length_max(whole)
    }

    fn text_of<'a>(self, prefix: &str, is_tagged: bool, stored: &'a str) -> Option<&'a str> {
        if self != Self::Readable {
            return None;
        }
        let rest = stored.strip_prefix(prefix)?.strip_prefix(':')?;
        if !is_tagged {
            return Some(rest);
        }
        let (tag, text) = rest.strip_prefix('{')?.split_once("}:")?;
        (tag.len() == TAG_LETTERS).then_some(text)
    }
}

/// The name `{prefix}:{key}`. Every decision in Redis asks for it, so the most frequent key, one
/// IPv4 address, is written digit by digit instead of through `fmt`.
fn readable(prefix: &str, key: &Key<'_>) -> String {
    /// Bytes set aside for the key parts: an IPv6 address in brackets fits.
    const PARTS: usize = 40;
    let name = &key.limit().name;
    let mut whole = String::with_capacity(prefix.len() + name.len() + PARTS);
    whole.push_str(prefix);
    whole.push(':');
    whole.push_str(name);
    if let Some(IpAddr::V4(v4)) = key.only_address() {
        whole.push(':');
        write_v4(v4, |byte| whole.push(byte.into()));
        return whole;
    }
    for part in key.parts() {
        let _ = write!(whole, ":{part}");
    }
    whole
}

const TAG_LETTERS: usize = 3;

/// 18 bits that are the same for all limits of one owner. A cluster has 2^14 slots, so sixteen tags
/// share each of them: enough to reach every slot evenly.
fn tag_of_owner(prefix: &str, key: &Key<'_>) -> String {
    let owner = key
        .limit()
        .key
        .iter()
        .zip(key.parts())
        .find(|(_, value)| *value != PartValue::Global);
    let (kind, value) = match owner {
        // A key that came with the request does not tell its owner: it is an owner of its own.
        _ if key.limit().is_ad_hoc() => ("ad hoc".to_owned(), key.to_string()),
        // An address in place of a missing part belongs to the same caller as the address itself.
        Some((_, PartValue::AddressInstead(address))) => (
            KeyPart::ClientIp.to_string(),
            PartValue::Address(address).to_string(),
        ),
        Some((kind, value)) if value != PartValue::Shared => (kind.to_string(), value.to_string()),
        _ => ("limit".to_owned(), key.limit().name.clone()),
    };
    letters(
        &digest("sluicegate tag 1", [prefix, &kind, &value]),
        TAG_LETTERS,
    )
}

/// 72 bits: among a billion keys, two share a name once in ten thousand stores.
fn digest_of_key(prefix: &str, key: &Key<'_>) -> String {
    const KEY_LETTERS: usize = 12;
    letters(
        &digest("sluicegate key 1", [prefix, &key.to_string()]),
        KEY_LETTERS,
    )
}

/// SHA-256 over texts with their lengths, so that moving a letter from one text to the next changes
/// it. `purpose` keeps digests of one kind apart from all others.
fn digest<const N: usize>(purpose: &str, texts: [&str; N]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for text in [purpose].into_iter().chain(texts) {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    }
    hash.finalize().into()
}

/// The first bits of a digest in letters of base64url, six bits each.
fn letters(digest: &[u8; 32], count: usize) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let sextet = |index: usize| {
        let (byte, shift) = (index * 6 / 8, index * 6 % 8);
        let pair = u16::from_be_bytes([digest[byte], digest[byte + 1]]);
        usize::from(pair >> (10 - shift)) & 63
    };
    (0..count)
        .map(|index| char::from(ALPHABET[sextet(index)]))
        .collect()
}

/// The name under [`KeyLayout::EdgeQuota`], which had one limit and did not write its name.
///
/// Tenants are `t:<tenant>`, so a key of several parts must not begin with a part `t`: its letter is
/// written as an escape, which no part has otherwise.
fn edge_quota(key: &Key<'_>) -> String {
    /// Stands before a tenant.
    const TENANT: &str = "t";
    let limit = key.limit();
    let is_mark = |value: PartValue<'_>| match value {
        PartValue::Text(text) => text == TENANT.as_bytes(),
        PartValue::Path(text) => text.eq_ignore_ascii_case(TENANT),
        _ => false,
    };
    let parts = match key.parts().next() {
        Some(PartValue::Tenant(tenant)) => {
            let words = tenant.split(':').map(str::as_bytes);
            let words = words.map(|word| PartValue::Text(word).to_string());
            format!("{TENANT}:{}", words.collect::<Vec<_>>().join(":"))
        }
        _ if limit.is_global() => limit.name.clone(),
        Some(first) if is_mark(first) && limit.key.len() > 1 => {
            format!("%74{}", &bare_parts(key)[TENANT.len()..])
        }
        _ => bare_parts(key),
    };
    format!("rl:edgequota:{parts}")
}

/// The name under [`KeyLayout::EdgeGuard`], which wrote the name of no limit, but of three kinds.
fn edge_guard(prefix: &str, key: &Key<'_>) -> String {
    match edge_guard_kind(key.limit()) {
        Some(kind) => format!("{prefix}:{kind}:{}", bare_parts(key)),
        None => format!("{prefix}:{key}"),
    }
}

/// The parts without the limit's name; IPv6 addresses without brackets, as the older programs wrote
/// them.
fn bare_parts(key: &Key<'_>) -> String {
    let parts: Vec<String> = key
        .parts()
        .map(|part| match part {
            PartValue::Address(IpAddr::V6(v6)) => v6.to_string(),
            other => other.to_string(),
        })
        .collect();
    parts.join(":")
}

/// A name of at most [`KeyLayout::LENGTH_MAX`] bytes for this one.
fn at_most_length_max(whole: String) -> String {
    if whole.len() <= KeyLayout::LENGTH_MAX {
        whole
    } else {
        shortened(&whole)
    }
}

/// Stands before the digest of a shortened name. Escaping never leaves it in a key, so no short
/// name looks like a shortened one.
const MARK: &str = "#";

/// The head of a long name and 128 bits of its digest: even a caller who tries cannot find two keys
/// that meet.
fn shortened(whole: &str) -> String {
    const DIGEST_BYTES: usize = 16;
    let head = KeyLayout::LENGTH_MAX - MARK.len() - 2 * DIGEST_BYTES;
    let mut short = whole[..whole.floor_char_boundary(head)].to_owned();
    short.push_str(MARK);
    for byte in &Sha256::digest(whole)[..DIGEST_BYTES] {
        let _ = write!(short, "{byte:02x}");
    }
    short
}

#[cfg(test)]
#[cfg(feature = "redis")]
mod cluster_tests;

#[cfg(test)]
mod tests;
