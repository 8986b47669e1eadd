//! Random credentials and files: nothing panics, and nobody is taken for somebody.

use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::{HeaderMap, HeaderValue};
use proptest::prelude::*;
use serde_json::json;
use sluicegate_gate::auth::{AuthFailure, Authenticator, Identity};

use super::api_keys::sha256;
use super::credential_files::{CredentialFiles, NOON, ask_at, ask_with_token, known, refused};
use super::signer::{Signer, ann, base64};

static AUTHENTICATOR: LazyLock<Authenticator> = LazyLock::new(|| {
    let keys = format!("- {{ id: bob, sha256: {} }}", sha256("bob's key"));
    let signers = Signer::one_of_each();
    CredentialFiles::new()
        .with_key_file(keys)
        .with_jwks(&signers.each_ref().map(|signer| &signer.jwk))
        .load()
});

fn header_bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(
        prop_oneof![Just(b'\t'), b' '..=b'~', 0x80..=0xff_u8],
        0..200,
    )
}

fn is_known(key: &[u8], token: &[u8], now: SystemTime) -> bool {
    let mut headers = HeaderMap::new();
    headers.insert("x-api-key", HeaderValue::from_bytes(key).unwrap());
    headers.insert("authorization", HeaderValue::from_bytes(token).unwrap());
    matches!(ask_at(&AUTHENTICATOR, &headers, now), Identity::Known(_))
}

proptest! {
    #[test]
    fn random_bytes_are_nobody(key in header_bytes(), token in header_bytes(), seconds in any::<u32>()) {
        prop_assert!(!is_known(&key, &token, UNIX_EPOCH + Duration::from_secs(seconds.into())));
        prop_assert!(!is_known(&key, &token, UNIX_EPOCH - Duration::from_secs(seconds.into())));
    }

    #[test]
    fn random_parts_of_a_token_are_nobody(
        algorithm in prop::sample::select(vec!["HS256", "RS256", "ES256", "EdDSA", "HS512", "PS256", "none"]),
        id in prop::sample::select(vec!["hs", "rs", "es", "ed", "x"]),
        claims in prop::collection::vec(any::<u8>(), 0..100),
        signature in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let head = json!({"alg": algorithm, "kid": id}).to_string();
        let token = format!("{}.{}.{}", base64(head.as_bytes()), base64(&claims), base64(&signature));
        prop_assert!(!is_known(b"x", token.as_bytes(), UNIX_EPOCH));
    }

    #[test]
    fn a_good_signature_over_any_claims_never_panics(claims in any_json(), seconds in any::<u32>()) {
        static SIGNER: LazyLock<(Signer, Authenticator)> = LazyLock::new(|| {
            let signer = Signer::hs256("k", &[7; 32]);
            let authenticator = CredentialFiles::new().with_jwks(&[&signer.jwk]).load();
            (signer, authenticator)
        });
        let token = SIGNER.0.token(&claims);
        let headers = super::credential_files::headers(&[("authorization", &token)]);
        let identity = ask_at(&SIGNER.1, &headers, UNIX_EPOCH + Duration::from_secs(seconds.into()));
        let is_refused = matches!(identity, Identity::Refused(_));
        let is_good = claims["sub"].as_str().is_some_and(|sub| !sub.is_empty())
            && claims["exp"].as_f64().is_some_and(|exp| exp > f64::from(seconds));
        prop_assert!(is_refused || is_good, "{}", claims);
    }

    #[test]
    fn any_text_as_a_key_file_is_refused_or_read(text in "\\PC{0,300}") {
        let _ = Authenticator::load(&CredentialFiles::new().with_key_file(text).principals);
    }

    #[test]
    fn any_bytes_as_files_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Authenticator::load(&CredentialFiles::new().with_key_file(&bytes).principals);
        let _ = Authenticator::load(&CredentialFiles::new().with_jwks_text(&bytes).principals);
    }

    #[test]
    fn anything_of_the_form_of_a_key_file_is_refused_or_read(entries in prop::collection::vec(any_json(), 0..4)) {
        // JSON is YAML.
        let list = serde_json::Value::Array(entries);
        let _ = Authenticator::load(&CredentialFiles::new().with_key_file(list.to_string()).principals);
        let _ = Authenticator::load(&CredentialFiles::new().with_key_file(json!({"keys": list}).to_string()).principals);
        let _ = Authenticator::load(&CredentialFiles::new().with_jwks_text(json!({"keys": list}).to_string()).principals);
    }
}

/// Objects with our own names in them, and anything below.
fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(|value| json!(value)),
        any::<i64>().prop_map(|value| json!(value)),
        any::<f64>().prop_map(|value| json!(value)),
        "\\PC{0,8}".prop_map(|value| json!(value)),
        "[0-9a-f]{64}".prop_map(|value| json!(value)),
        prop::sample::select(vec![
            "RSA", "EC", "OKP", "oct", "P-256", "Ed25519", "sig", "AQAB"
        ])
        .prop_map(|value| json!(value)),
    ];
    let names = prop::sample::select(vec![
        "id", "sha256", "claims", "sub", "exp", "nbf", "iss", "aud", "kty", "crv", "kid", "n", "e",
        "x", "y", "k", "use", "alg",
    ]);
    leaf.prop_recursive(3, 24, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|list| json!(list)),
            prop::collection::hash_map(names.clone(), inner, 0..6).prop_map(|fields| json!(fields)),
        ]
    })
}

#[test]
fn nesting_of_any_depth_is_refused() {
    let signer = Signer::hs256("k", &[7; 32]);
    let authenticator = CredentialFiles::new().with_jwks(&[&signer.jwk]).load();
    let nested = |depth: usize| {
        format!(
            "{{\"sub\":\"ann\",\"exp\":{},\"x\":{}1{}}}",
            NOON + 1,
            "[".repeat(depth),
            "]".repeat(depth)
        )
    };
    let head = json!({"alg": "HS256", "kid": "k"});
    let ask_with =
        |depth: usize| ask_with_token(&authenticator, &signer.token_with(&head, nested(depth)));
    assert_eq!(known(ask_with(100)).id, "ann");
    for depth in [200, 2_900, 100_000] {
        assert_eq!(refused(ask_with(depth)), AuthFailure::Malformed, "{depth}");
    }
    let deep_head = format!("{}1{}", "[".repeat(2_900), "]".repeat(2_900));
    let token = format!(
        "{}.{}.AAAA",
        base64(deep_head.as_bytes()),
        base64(ann().to_string().as_bytes())
    );
    assert_eq!(
        refused(ask_with_token(&authenticator, &token)),
        AuthFailure::Malformed
    );
}

#[test]
fn files_nested_100_000_deep_are_refused() {
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let deep_object = "{\"a\":".repeat(100_000);
    for text in [&deep, &deep_object] {
        assert_eq!(
            CredentialFiles::new().with_key_file(text).mistakes().len(),
            1
        );
        assert_eq!(
            CredentialFiles::new().with_jwks_text(text).mistakes().len(),
            1
        );
    }
    assert_eq!(
        CredentialFiles::new()
            .with_key_file(format!("- {{id: a, x: {deep}}}"))
            .mistakes()
            .len(),
        1
    );
    assert_eq!(
        CredentialFiles::new()
            .with_jwks_text(format!("{{\"keys\": {deep}}}"))
            .mistakes()
            .len(),
        1
    );
}

#[test]
fn aliases_that_multiply_are_refused() {
    let mut text = String::from("- &a0 { id: a }\n");
    for level in 1..30 {
        let before = level - 1;
        text.push_str(&format!(
            "- &a{level} [*a{before}, *a{before}, *a{before}, *a{before}]\n"
        ));
    }
    assert!(
        !CredentialFiles::new()
            .with_key_file(text)
            .mistakes()
            .is_empty()
    );
}
