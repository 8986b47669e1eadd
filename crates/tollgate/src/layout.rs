//! How keys are written in a store that other programs look into.

use std::fmt::Write;
use std::net::IpAddr;

use sha2::{Digest, Sha256};
use tollgate_core::{Key, KeyPart, PartValue};

/// The form of stored keys. Whatever the form, distinct keys stay distinct, hold printable ASCII only, and have at most
/// [`KeyLayout::LENGTH_MAX`] bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyLayout {
    /// `<prefix>:<limit>:<part>:…`
    #[default]
    Readable,
    /// `rl:edgequota:<part>:…`, whatever the prefix. Limits with equal key parts share a counter, as they did there.
    EdgeQuota,
    /// `<prefix>:ip:<address>`, `<prefix>:route:<path>:<address>`, `<prefix>:key:<principal>`; readable for the rest.
    EdgeGuard,
}

impl KeyLayout {
    /// Longer keys end in a digest instead of their tail.
    pub const LENGTH_MAX: usize = 128;

    /// The name of `key` in the store.
    pub fn stored(self, prefix: &str, key: &Key<'_>) -> String {
        let whole = match self {
            Self::Readable => format!("{prefix}:{key}"),
            Self::EdgeQuota => format!("rl:edgequota:{}", bare_parts(key)),
            Self::EdgeGuard => edge_guard(prefix, key),
        };
        if whole.len() <= Self::LENGTH_MAX { whole } else { shortened(&whole) }
    }
}

fn edge_guard(prefix: &str, key: &Key<'_>) -> String {
    let limit = key.limit();
    match (limit.key.as_slice(), &limit.replaces) {
        ([KeyPart::ClientIp], None) => format!("{prefix}:ip:{}", bare_parts(key)),
        ([KeyPart::ClientIp], Some(_)) => {
            let route = limit.matching.path.as_ref().map_or_else(|| limit.name.clone(), ToString::to_string);
            format!("{prefix}:route:{route}:{}", bare_parts(key))
        }
        ([KeyPart::Principal], _) => format!("{prefix}:key:{}", bare_parts(key)),
        _ => format!("{prefix}:{key}"),
    }
}

/// The parts without the limit's name; IPv6 addresses without brackets, as the older programs wrote them.
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

/// The head of a long key and 128 bits of its digest: nobody finds two keys that meet.
fn shortened(whole: &str) -> String {
    const DIGEST_BYTES: usize = 16;
    // One sign that escaping never leaves in a key, so no short key looks like a shortened one.
    const MARK: &str = "#";
    let head = KeyLayout::LENGTH_MAX - MARK.len() - 2 * DIGEST_BYTES;
    let mut short = whole[..whole.floor_char_boundary(head)].to_owned();
    short.push_str(MARK);
    for byte in &Sha256::digest(whole)[..DIGEST_BYTES] {
        let _ = write!(short, "{byte:02x}");
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use tollgate_core::{Limit, Match, Principal, Quota, Subject};

    fn quota() -> Quota {
        Quota::from(Quota::per_second(1))
    }

    fn caller(address: &str) -> Subject<'static> {
        Subject { client_ip: Some(address.parse().unwrap()), ..Subject::ANONYMOUS }
    }

    #[test]
    fn older_layouts_are_written_as_their_programs_wrote_them() {
        let per_ip = Limit::per_client("per-ip", quota());
        let route = Limit::per_client("api", quota()).matching(Match::path("/api/login").unwrap()).replaces("per-ip");
        let principal = Limit::new("plan", quota()).key([KeyPart::Principal]);
        let (v4, v6) = (caller("203.0.113.7"), caller("2001:db8::1"));
        let ann = Principal::new("ann");
        let known = Subject { principal: Some(&ann), ..v4 };
        let stored = |layout: KeyLayout, limit: &Limit, subject: &Subject<'_>| {
            layout.stored("eg", &Key::of_subject(limit, subject).unwrap())
        };
        assert_eq!(stored(KeyLayout::EdgeGuard, &per_ip, &v4), "eg:ip:203.0.113.7");
        assert_eq!(stored(KeyLayout::EdgeGuard, &per_ip, &v6), "eg:ip:2001:db8::");
        assert_eq!(stored(KeyLayout::EdgeGuard, &route, &v4), "eg:route:/api/login:203.0.113.7");
        assert_eq!(stored(KeyLayout::EdgeGuard, &principal, &known), "eg:key:ann");
        assert_eq!(stored(KeyLayout::EdgeQuota, &per_ip, &v4), "rl:edgequota:203.0.113.7");
        assert_eq!(stored(KeyLayout::Readable, &per_ip, &v6), "eg:per-ip:[2001:db8::]");
    }

    #[test]
    fn any_bytes_give_a_short_plain_key_of_their_own() {
        let limit = Limit::new("tenant", quota()).key([KeyPart::Descriptor("t".into()), KeyPart::Host]);
        let odd = (0..=127_u8).map(char::from).map(String::from);
        let long = [120, 200, 4_000].map(|length| "x".repeat(length));
        let tails = ["a", "b"].map(|tail| "x".repeat(500) + tail);
        let texts: Vec<String> =
            odd.chain(long).chain(tails).chain(["{a}", "é", "a:b", "a%3Ab"].map(String::from)).collect();
        let mut seen = HashSet::new();
        for first in &texts {
            for second in ["", "h", "h:1"] {
                let descriptors = [("t", first.as_str())];
                let subject = Subject { descriptors: &descriptors, host: Some(second), ..Subject::ANONYMOUS };
                let stored = KeyLayout::Readable.stored("tollgate", &Key::of_subject(&limit, &subject).unwrap());
                assert!(stored.len() <= KeyLayout::LENGTH_MAX, "{stored}");
                assert!(stored.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'{' && byte != b'}'), "{stored}");
                assert!(seen.insert(stored), "{first:?} and {second:?} share a key");
            }
        }
    }

    #[test]
    fn callers_cannot_aim_at_a_cluster_slot() {
        // Keys that would all carry one hash tag if braces were let through.
        let limit = Limit::new("tenant", quota()).key([KeyPart::Descriptor("t".into())]);
        let mut slots = HashSet::new();
        for number in 0..2_000 {
            let tenant = format!("{{aim}}{number}");
            let descriptors = [("t", tenant.as_str())];
            let subject = Subject { descriptors: &descriptors, ..Subject::ANONYMOUS };
            let stored = KeyLayout::Readable.stored("tollgate", &Key::of_subject(&limit, &subject).unwrap());
            slots.insert(cluster_slot(&stored));
        }
        assert!(slots.len() > 1_800, "2,000 keys fell into {} slots", slots.len());
    }

    /// A Redis Cluster's slot of a key: CRC16 of the text between the first braces, or of the whole key.
    fn cluster_slot(key: &str) -> u16 {
        let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
        let hashed = tag.filter(|tag| !tag.is_empty()).unwrap_or(key);
        hashed.bytes().fold(0_u16, |crc, byte| {
            (0..8)
                .fold(crc ^ u16::from(byte) << 8, |crc, _| if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 })
        }) % 16_384
    }
}
