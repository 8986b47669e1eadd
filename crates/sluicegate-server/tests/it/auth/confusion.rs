//! Tokens that try to choose how they are verified.

use serde_json::{Value, json};
use sluicegate_gate::auth::{AuthFailure, Authenticator};

use super::credential_files::{CredentialFiles, ask, ask_with_token, known, refused};
use super::signer::{Signer, ann, base64, from_base64};

fn reason(authenticator: &Authenticator, token: &str) -> AuthFailure {
    refused(ask(authenticator, &[("authorization", token)]))
}

/// An attacker's knowledge of a key: its public parts, in every spelling that a server might use as a secret.
fn public_bytes(jwk: &Value) -> Vec<Vec<u8>> {
    let decode = |field: &str| from_base64(jwk[field].as_str().unwrap_or_default());
    let point = [&[4][..], &decode("x"), &decode("y")].concat();
    let spellings = [
        decode("n"),
        decode("x"),
        point,
        jwk.to_string().into_bytes(),
        jwk["n"].to_string().into_bytes(),
    ];
    spellings
        .into_iter()
        .filter(|spelling| spelling.len() >= 32)
        .collect()
}

#[test]
fn a_public_key_is_no_secret_to_sign_with() {
    for owner in [Signer::rs256("k"), Signer::es256("k"), Signer::ed25519("k")] {
        let authenticator = CredentialFiles::new().with_jwks(&[&owner.jwk]).load();
        assert_eq!(
            known(ask_with_token(&authenticator, &owner.token(&ann()))).id,
            "ann"
        );
        for public in public_bytes(&owner.jwk) {
            let forger = Signer::hs256("k", &public);
            assert_eq!(
                reason(&authenticator, &forger.token(&ann())),
                AuthFailure::Algorithm
            );
            let without_id = forger.token_with(&json!({"alg": "HS256"}), ann().to_string());
            assert_eq!(reason(&authenticator, &without_id), AuthFailure::KeyId);
        }
    }
}

#[test]
fn none_is_no_algorithm_in_any_spelling() {
    let signer = Signer::hs256("k", &[7; 32]);
    let authenticator = CredentialFiles::new().with_jwks(&[&signer.jwk]).load();
    for name in [
        "none", "None", "NONE", "nOnE", "", "hs256", "HS256 ", "ES256K", "RSA-OAEP",
    ] {
        let signed = signer.token_with(&json!({"alg": name, "kid": "k"}), ann().to_string());
        let unsigned = format!("{}.", signed.rsplit_once('.').unwrap().0);
        assert_eq!(
            reason(&authenticator, &signed),
            AuthFailure::Algorithm,
            "{name}"
        );
        assert_eq!(
            reason(&authenticator, &unsigned),
            AuthFailure::Algorithm,
            "{name}"
        );
    }
}

#[test]
fn an_algorithm_must_fit_the_key_it_names() {
    let signers = Signer::one_of_each();
    let authenticator = CredentialFiles::new()
        .with_jwks(&signers.each_ref().map(|signer| &signer.jwk))
        .load();
    for signer in &signers {
        for other in &signers {
            let crossed = json!({"alg": signer.algorithm, "kid": other.jwk["kid"]});
            let identity = ask_with_token(
                &authenticator,
                &signer.token_with(&crossed, ann().to_string()),
            );
            if signer.algorithm == other.algorithm {
                assert_eq!(known(identity).id, "ann");
            } else {
                assert_eq!(
                    refused(identity),
                    AuthFailure::Algorithm,
                    "{} {}",
                    signer.algorithm,
                    other.algorithm
                );
            }
        }
    }
}

#[test]
fn a_key_made_for_one_algorithm_is_not_used_for_its_neighbours() {
    let mut signer = Signer::rs256("k");
    signer.jwk["alg"] = json!("RS384");
    let authenticator = CredentialFiles::new().with_jwks(&[&signer.jwk]).load();
    assert_eq!(
        reason(&authenticator, &signer.token(&ann())),
        AuthFailure::Algorithm
    );
    signer.jwk["alg"] = json!("RS256");
    let authenticator = CredentialFiles::new().with_jwks(&[&signer.jwk]).load();
    assert_eq!(
        known(ask_with_token(&authenticator, &signer.token(&ann()))).id,
        "ann"
    );
}

#[test]
fn a_key_inside_a_token_is_not_used() {
    let (owner, forger) = (Signer::ed25519("k"), Signer::ed25519("k"));
    let authenticator = CredentialFiles::new().with_jwks(&[&owner.jwk]).load();
    let head = json!({"alg": "EdDSA", "kid": "k", "jwk": forger.jwk, "jku": "http://127.0.0.1:1/keys", "x5u": "http://127.0.0.1:1/"});
    assert_eq!(
        reason(&authenticator, &forger.token_with(&head, ann().to_string())),
        AuthFailure::BadSignature
    );
}

#[test]
fn an_unknown_id_finds_no_key_even_if_there_is_only_one() {
    let signer = Signer::ed25519("k");
    let authenticator = CredentialFiles::new().with_jwks(&[&signer.jwk]).load();
    for id in ["other", "", "K", "../k"] {
        let token = signer.token_with(&json!({"alg": "EdDSA", "kid": id}), ann().to_string());
        assert_eq!(reason(&authenticator, &token), AuthFailure::KeyId, "{id}");
    }
}

#[test]
fn without_an_id_the_only_fitting_key_is_used_and_none_of_several() {
    let (one, two, other) = (
        Signer::ed25519("one"),
        Signer::ed25519("two"),
        Signer::es256("other"),
    );
    let without_id =
        |signer: &Signer| signer.token_with(&json!({"alg": signer.algorithm}), ann().to_string());
    let clear = CredentialFiles::new()
        .with_jwks(&[&one.jwk, &other.jwk])
        .load();
    for signer in [&one, &other] {
        assert_eq!(known(ask_with_token(&clear, &without_id(signer))).id, "ann");
    }
    assert_eq!(reason(&clear, &without_id(&two)), AuthFailure::BadSignature);
    let unclear = CredentialFiles::new()
        .with_jwks(&[&one.jwk, &two.jwk])
        .load();
    assert_eq!(reason(&unclear, &without_id(&one)), AuthFailure::KeyId);
}

#[test]
fn a_signature_of_another_key_with_the_same_id_is_noticed() {
    let (owner, forger) = (Signer::hs256("k", &[7; 32]), Signer::hs256("k", &[8; 32]));
    let authenticator = CredentialFiles::new().with_jwks(&[&owner.jwk]).load();
    assert_eq!(
        reason(&authenticator, &forger.token(&ann())),
        AuthFailure::BadSignature
    );
    let token = owner.token(&ann());
    let (message, _) = token.rsplit_once('.').unwrap();
    assert_eq!(
        reason(&authenticator, &format!("{message}.{}", base64(&[0; 32]))),
        AuthFailure::BadSignature
    );
}
