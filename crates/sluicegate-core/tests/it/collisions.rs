//! Different tuples of any bytes never share a counter.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};
use sluicegate_core::{
    HeaderValue, Headers, Key, KeyPart, Limit, OnMissingKey, Policy, Quota, Subject,
};

/// Everything that a hasher is fed, so that equal input is seen and not only equal hashes.
#[derive(Default)]
struct Recorder(Vec<u8>);

impl Hasher for Recorder {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}

fn hash_input(key: &Key<'_>) -> Vec<u8> {
    let mut recorder = Recorder::default();
    key.hash(&mut recorder);
    recorder.0
}

/// 128 bits are enough to tell a million inputs apart.
fn digest(bytes: &[u8]) -> u128 {
    let half = |seed: u64| {
        bytes.iter().fold(seed, |hash, byte| {
            (hash ^ u64::from(*byte))
                .wrapping_mul(0x0000_0100_0000_01b3)
                .rotate_left(23)
        })
    };
    u128::from(half(0xcbf2_9ce4_8422_2325)) << 64 | u128::from(half(0x9e37_79b9_7f4a_7c15))
}

/// Limits with one, two and three parts, whose names are prefixes of one another.
fn limits() -> [Limit; 4] {
    let quota = Quota::per_second(1);
    let part = |name: &str| KeyPart::Descriptor(name.to_owned());
    [
        Limit::new("a", quota).key([part("x")]),
        Limit::new("a.a", quota).key([part("x"), part("y")]),
        Limit::new("a.a-a", quota).key([part("x"), part("y"), part("z")]),
        Limit::new("aa", quota).key([part("x"), part("y"), part("z")]),
    ]
}

/// A short text of separators and what escapes are made of; short, so that much is nearly equal.
fn nasty_text(rng: &mut TestRng) -> String {
    const LETTERS: [char; 16] = [
        ':', '/', '{', '}', '%', '!', '[', '1', 'a', '2', '0', '\0', '\n', '\u{e9}', ' ', ',',
    ];
    let word = rng.next_u64();
    let length = word % 5;
    (0..length)
        .map(|place| LETTERS[(word >> (8 + 4 * place) & 15) as usize])
        .collect()
}

#[test]
fn a_million_nasty_tuples_never_share_a_counter() {
    let limits = limits();
    let mut rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut by_text: HashMap<u128, u128> = HashMap::new();
    let mut by_hash: HashMap<u128, u128> = HashMap::new();
    for _ in 0..1_000_000 {
        let place = (rng.next_u32() % 4) as usize;
        let limit = &limits[place];
        let parts: Vec<String> = limit.key.iter().map(|_| nasty_text(&mut rng)).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let key = Key::of_parts(limit, &parts).unwrap();
        // The tuple itself, unambiguous by construction: Rust's own quoting.
        let tuple = digest(format!("{place}{parts:?}").as_bytes());
        let text = digest(key.to_string().as_bytes());
        let hash = digest(&hash_input(&key));
        assert_eq!(
            *by_text.entry(text).or_insert(tuple),
            tuple,
            "{key} also stands for other parts than {parts:?}"
        );
        assert_eq!(
            *by_hash.entry(hash).or_insert(tuple),
            tuple,
            "{parts:?} hash like other parts"
        );
    }
    assert!(
        by_text.len() > 500_000,
        "only {} different tuples",
        by_text.len()
    );
    assert_eq!(by_text.len(), by_hash.len());
}

/// Equal tuples do share one: the key does not depend on where the parts come from.
#[test]
fn a_subject_and_its_parts_as_text_have_one_key() {
    let limit = Limit::new("limit", Quota::per_second(1)).key([
        KeyPart::ClientIp,
        KeyPart::header("x-id"),
        KeyPart::Path,
        KeyPart::Query("user".into()),
        KeyPart::Cookie("sid".into()),
        KeyPart::Sni,
        KeyPart::Global,
    ]);
    let subject = Subject {
        client_ip: Some("2001:db8::7".parse().unwrap()),
        path: "/a/b/",
        query: Some("a=1&user=a%2Bb+c%C3%A9%3A"),
        headers: &[("x-id", "{7}"), ("cookie", "a=b; sid=\"x:y\"")],
        sni: Some("a.example"),
        ..Subject::ANONYMOUS
    };
    let of_subject = Key::of_subject(&limit, &subject).unwrap();
    let parts = [
        "[2001:DB8::9]:443",
        "{7}",
        "/a/b",
        "a+b c\u{e9}:",
        "x:y",
        "a.example",
        "",
    ];
    let of_parts = Key::of_parts(&limit, &parts).unwrap();
    assert_eq!(
        of_subject.to_string(),
        "limit:[2001:db8::]:%7B7%7D:/a/b:a+b%20c%C3%A9%3A:x%3Ay:a.example:!all"
    );
    assert_eq!(of_subject.to_string(), of_parts.to_string());
    assert_eq!(hash_input(&of_subject), hash_input(&of_parts));
    assert!(of_subject.parts().eq(of_parts.parts()));
    let text = of_subject.to_string();
    assert_eq!(Key::parts_in(&limit, &text).unwrap()[3], "a+b c\u{e9}:");
}

/// A header of these bytes. HTTP libraries refuse most of them, so they come from a type of our
/// own.
struct Raw([u8; 1]);

impl Headers for Raw {
    fn get(&self, _name: &str) -> HeaderValue<'_> {
        HeaderValue::One(&self.0)
    }

    fn each_line<'a>(&'a self, _name: &str, see: &mut dyn FnMut(&'a [u8])) {
        see(&self.0);
    }
}

#[test]
fn every_byte_is_refused_or_written_plainly_and_apart_from_all_others() {
    let by_descriptor =
        Limit::new("limit", Quota::per_second(1)).key([KeyPart::Descriptor("x".into())]);
    let mut seen = HashMap::new();
    for letter in (0..=0x7f_u8).map(char::from).chain([
        '\u{80}',
        '\u{e9}',
        '\u{7ff}',
        '\u{ffff}',
        '\u{10ffff}',
    ]) {
        for text in [
            letter.to_string(),
            format!("a{letter}"),
            format!("{letter}a"),
            format!("{letter}{letter}"),
        ] {
            let parts = [text.as_str()];
            let key = Key::of_parts(&by_descriptor, &parts).unwrap();
            let written = key.to_string();
            let plain = |byte: u8| byte.is_ascii_graphic() && !b"{}\"'\\".contains(&byte);
            assert!(written.bytes().all(plain), "{written:?}");
            assert_eq!(
                written.matches(':').count(),
                1,
                "{written:?}: only our own separator"
            );
            if let Some(other) = seen.insert(written.clone(), text.clone()) {
                assert_eq!(other, text, "both are written {written}");
            }
        }
    }
    let by_header = Limit::new("limit", Quota::per_second(1)).key([KeyPart::header("x")]);
    let accepted = (0..=0xff_u8).filter(|byte| {
        let headers = Raw([*byte]);
        let subject = Subject {
            headers: &headers,
            ..Subject::ANONYMOUS
        };
        Key::of_subject(&by_header, &subject).is_ok()
    });
    assert!(
        accepted.eq((b'!'..=b'~').filter(|byte| *byte != b',')),
        "printable ASCII without blanks and commas"
    );
}

/// The stand-ins for a missing key hash apart from every real key, too.
#[test]
fn stand_ins_for_a_missing_key_hash_apart_from_real_keys() {
    let limit = Limit::new("limit", Quota::per_second(1)).key([KeyPart::header("x")]);
    let by = |rule| Policy::new([limit.clone().on_missing_key(rule)]).unwrap();
    let (by_client, shared) = (by(OnMissingKey::ClientIp), by(OnMissingKey::Shared));
    let client_ip = Some("203.0.113.7".parse().unwrap());
    let input = |policy: &Policy, headers: &dyn Headers| {
        let subject = Subject {
            client_ip,
            headers,
            ..Subject::ANONYMOUS
        };
        hash_input(&policy.charges_for(&subject, 1).unwrap()[0].key)
    };
    let nobody: [(&str, &str); 0] = [];
    let real = input(&by_client, &[("x", "203.0.113.7")]);
    let instead = input(&by_client, &nobody);
    let together = input(&shared, &nobody);
    let by_address = Limit::per_client("limit", Quota::per_second(1));
    let address = hash_input(&Key::of_parts(&by_address, &["203.0.113.7"]).unwrap());
    let all = [real, instead, together, address];
    for (place, one) in all.iter().enumerate() {
        assert!(!all[..place].contains(one), "{place}");
    }
}
