//! Key sets as a server sends them: every key is used, skipped or refused, and no message repeats
//! one.

use serde_json::Value;
use sluicegate_config::JwtAlgorithm;
use sluicegate_gate::fuzz_internals::parse_key_set;

/// The input is the body of a response.
pub fn run(data: &[u8]) {
    let parsed = parse_key_set(data, &ALGORITHMS);
    assert_eq!(parsed, parse_key_set(data, &ALGORITHMS));
    let document = serde_json::from_slice::<Value>(data);
    let document = document.ok();
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
            assert!(!message.is_empty());
            assert!(!message.contains(char::is_control), "{message:?}");
            for secret in keys.into_iter().flatten().flat_map(secrets_in) {
                assert!(!message.contains(secret), "{message:?}");
            }
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
fn secrets_in(key: &Value) -> Vec<&str> {
    let mut secrets = Vec::new();
    for part in ["k", "n", "x", "y", "d", "p", "q"] {
        let text = key.get(part).and_then(Value::as_str);
        // A text with blanks is no key, and may be a copy of the message.
        let is_key = |text: &&str| text.len() > 16 && !text.contains(' ');
        secrets.extend(text.filter(is_key));
    }
    secrets
}
