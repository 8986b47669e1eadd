//! Key sets as a server sends them: every key is used, skipped or refused, and no message repeats
//! one.

use serde_json::Value;
use sluicegate_config::JwtAlgorithm;
use sluicegate_gate::fuzz_internals::parse_key_set;

/// The input is the body of a response.
pub fn run(data: &[u8]) {
    let parsed = parse_key_set(data, &ALGORITHMS);
    assert_eq!(parsed, parse_key_set(data, &ALGORITHMS));
    let document: Option<Value> = serde_json::from_slice(data).ok();
    let keys = document
        .as_ref()
        .and_then(|set| set.get("keys")?.as_array());
    match (parsed, keys) {
        (Ok((usable, skipped)), Some(keys)) => {
            assert!(usable > 0);
            assert_eq!(usable + skipped, keys.len());
        }
        (Ok(_), None) => panic!("keys without a list of keys"),
        (Err(message), keys) => {
            assert!(
                !message.is_empty() && !message.chars().any(char::is_control),
                "{message:?}"
            );
            let texts = keys.into_iter().flatten().flat_map(long_texts);
            texts.for_each(|text| assert!(!message.contains(text), "{message:?}"));
        }
    }
}

const ALGORITHMS: [JwtAlgorithm; 5] = [
    JwtAlgorithm::HS256,
    JwtAlgorithm::RS256,
    JwtAlgorithm::PS512,
    JwtAlgorithm::ES256,
    JwtAlgorithm::EdDSA,
];

/// The parts of a key that could be secrets.
fn long_texts(key: &Value) -> impl Iterator<Item = &str> {
    let parts = ["k", "n", "x", "y", "d", "p", "q"];
    let texts = parts.into_iter().filter_map(|part| key.get(part)?.as_str());
    texts.filter(|text| text.len() > 16)
}
