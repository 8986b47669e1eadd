//! Files with verifying keys.

use serde_json::{Value, json};
use sluicegate_config::JwtAlgorithm;

use super::credential_files::{CredentialFiles, ask_with_token, known};
use super::signer::{Signer, ann, base64};

fn changed(mut jwk: Value, field: &str, value: Value) -> Value {
    jwk[field] = value;
    jwk
}

#[test]
fn keys_that_we_have_no_use_for_are_skipped_and_counted() {
    let signer = Signer::ed25519("ed");
    let p256 = Signer::es256("p256").jwk;
    let set = [
        &signer.jwk,
        &json!({"kty": "future", "kid": "a", "secret": [1, 2]}),
        &json!({"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA"}),
        &json!({"kty": "EC", "crv": "P-521", "x": "AA", "y": "AA"}),
        &json!({"kty": "OKP", "crv": "X25519", "x": "AA"}),
        &changed(p256.clone(), "use", json!("enc")),
        &changed(p256.clone(), "alg", json!("ECDH-ES")),
        &changed(p256.clone(), "key_ops", json!(["sign"])),
    ];
    let authenticator = CredentialFiles::new().with_jwks(&set).load();
    assert_eq!(authenticator.skipped_keys(), 7);
    assert_eq!(
        known(ask_with_token(&authenticator, &signer.token(&ann()))).id,
        "ann"
    );
}

#[test]
fn keys_for_signatures_are_used() {
    let signer = Signer::ed25519("ed");
    let says_so = changed(
        changed(signer.jwk.clone(), "use", json!("sig")),
        "key_ops",
        json!(["sign", "verify"]),
    );
    let authenticator = CredentialFiles::new().with_jwks(&[&says_so]).load();
    assert_eq!(authenticator.skipped_keys(), 0);
    assert_eq!(
        known(ask_with_token(&authenticator, &signer.token(&ann()))).id,
        "ann"
    );
}

#[test]
fn a_modulus_may_begin_with_zeros() {
    let signer = Signer::rs256("rs");
    let authenticator = CredentialFiles::new()
        .with_jwks(&[&changed(
            signer.jwk.clone(),
            "n",
            json!(with_zeros(&signer.jwk)),
        )])
        .load();
    assert_eq!(
        known(ask_with_token(&authenticator, &signer.token(&ann()))).id,
        "ann"
    );
}

/// The modulus with three zero bytes in front: three bytes are four characters.
fn with_zeros(jwk: &Value) -> String {
    format!("AAAA{}", jwk["n"].as_str().unwrap())
}

#[test]
fn every_mistake_of_a_key_set_is_named_and_no_secret_is() {
    let (rsa, p256, ed) = (
        Signer::rs256("rs").jwk,
        Signer::es256("es").jwk,
        Signer::ed25519("ed").jwk,
    );
    let short = base64(&[255; 128]);
    let set = [
        &json!("s3cret"),
        &json!({"kid": "s3cret"}),
        &json!({"kty": 7}),
        &changed(rsa.clone(), "n", json!(short)),
        &changed(rsa.clone(), "n", json!("s3cret!")),
        &changed(rsa.clone(), "e", json!("AQ")),
        &changed(rsa.clone(), "e", json!("AQAC")),
        &changed(rsa.clone(), "d", json!("s3cret")),
        &changed(p256.clone(), "x", json!("AAAA")),
        &changed(p256.clone(), "crv", json!(null)),
        &changed(p256.clone(), "alg", json!("RS256")),
        &changed(ed.clone(), "x", json!("AAAA")),
        &changed(ed.clone(), "kid", json!(["s3cret"])),
        &changed(ed.clone(), "key_ops", json!("verify")),
        &json!({"kty": "oct", "k": base64(b"s3cret")}),
        &json!({"kty": "oct"}),
        &json!({"kty": "OKP", "x": "AAAA"}),
    ];
    let expected = [
        "jwks.json: keys[0]: expected an object",
        "jwks.json: keys[1].kty: expected the kind of the key",
        "jwks.json: keys[2].kty: expected a text",
        "jwks.json: keys[3].n: expected an odd modulus of 2048 to 8192 bits",
        "jwks.json: keys[4].n: expected base64url without padding",
        "jwks.json: keys[5].e: expected an odd exponent from 3 up to 33 bits",
        "jwks.json: keys[6].e: expected an odd exponent from 3 up to 33 bits",
        "jwks.json: keys[7].d: expected a public key, and this is the private one; keep it where tokens are signed",
        "jwks.json: keys[8].x: expected 32 bytes",
        "jwks.json: keys[9].crv: expected a text",
        "jwks.json: keys[10].alg: expected an algorithm that fits the key",
        "jwks.json: keys[11].x: expected 32 bytes",
        "jwks.json: keys[12].kid: expected a text",
        "jwks.json: keys[13].key_ops: expected a list",
        "jwks.json: keys[14].k: expected a secret of at least 32 bytes",
        "jwks.json: keys[15].k: expected base64url without padding",
        "jwks.json: keys[16].crv: expected the name of a curve",
    ];
    assert_eq!(CredentialFiles::new().with_jwks(&set).mistakes(), expected);
}

#[test]
fn what_is_no_key_set_is_refused_with_its_place() {
    for (text, expected) in [
        ("", "jwks.json:1:0: expected valid JSON"),
        (
            "{\n  \"keys\": [s3cret]\n}",
            "jwks.json:2:12: expected valid JSON",
        ),
        ("[]", "jwks.json: keys: expected a list of keys"),
        (
            "{\"keys\": \"s3cret\"}",
            "jwks.json: keys: expected a list of keys",
        ),
    ] {
        assert_eq!(
            CredentialFiles::new().with_jwks_text(text).mistakes(),
            [expected],
            "{text}"
        );
    }
}

#[test]
fn two_keys_that_a_token_cannot_tell_apart_are_refused() {
    let (one, two) = (Signer::ed25519("same"), Signer::ed25519("same"));
    let expected =
        ["jwks.json: keys[1].kid: used by another key of the same type, expected a different one"];
    assert_eq!(
        CredentialFiles::new()
            .with_jwks(&[&one.jwk, &two.jwk])
            .mistakes(),
        expected
    );
    let of_another_kind = Signer::es256("same");
    let authenticator = CredentialFiles::new()
        .with_jwks(&[&one.jwk, &of_another_kind.jwk])
        .load();
    for signer in [&one, &of_another_kind] {
        assert_eq!(
            known(ask_with_token(&authenticator, &signer.token(&ann()))).id,
            "ann"
        );
    }
}

#[test]
fn a_set_without_a_key_for_the_configured_algorithms_is_refused() {
    let p256 = Signer::es256("es").jwk;
    let only = |algorithm| {
        CredentialFiles::new()
            .with_jwks(&[&p256])
            .with_jwt(|jwt| jwt.algorithms = vec![algorithm])
    };
    only(JwtAlgorithm::ES256).load();
    assert_eq!(
        only(JwtAlgorithm::RS256).mistakes(),
        ["jwks.json: keys: expected at least one key for [RS256]"]
    );
    assert_eq!(CredentialFiles::new().with_jwks(&[]).mistakes().len(), 1);
}

#[test]
fn a_secret_is_at_least_as_long_as_the_hash() {
    for (bytes, algorithm, is_taken) in [
        (32, JwtAlgorithm::HS256, true),
        (47, JwtAlgorithm::HS384, false),
        (48, JwtAlgorithm::HS384, true),
        (63, JwtAlgorithm::HS512, false),
        (64, JwtAlgorithm::HS512, true),
    ] {
        let jwk = json!({"kty": "oct", "k": base64(&vec![7; bytes])});
        let files = CredentialFiles::new()
            .with_jwks(&[&jwk])
            .with_jwt(|jwt| jwt.algorithms = vec![algorithm]);
        assert_eq!(
            sluicegate_gate::auth::Authenticator::load(&files.principals).is_ok(),
            is_taken,
            "{bytes} {algorithm:?}"
        );
    }
}
