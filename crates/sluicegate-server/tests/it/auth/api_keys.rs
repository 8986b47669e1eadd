//! API keys in a header.

use sha2::{Digest, Sha256};
use sluicegate_core::Principal;
use sluicegate_gate::auth::{AuthFailure, Identity};

use super::credential_files::{CredentialFiles, ask, headers, known, noon, refused};

pub fn sha256(key: &str) -> String {
    Sha256::digest(key)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn files() -> CredentialFiles {
    let (ann, bob) = (sha256("ann's key"), sha256("bob's key"));
    CredentialFiles::new().with_key_file(format!(
        "- {{ id: ann, sha256: {ann}, claims: {{ plan: gold }} }}\n- {{ id: bob, sha256: {bob} }}\n"
    ))
}

#[test]
fn a_known_key_names_its_owner_with_claims() {
    let authenticator = files().load();
    let ann = known(ask(&authenticator, &[("x-api-key", "ann's key")]));
    assert_eq!(*ann, Principal::new("ann").claim("plan", "gold"));
    assert_eq!(
        known(ask(&authenticator, &[("x-api-key", "bob's key")])).id,
        "bob"
    );
}

#[test]
fn without_the_header_a_caller_is_anonymous() {
    assert!(matches!(
        ask(&files().load(), &[("x-other", "ann's key")]),
        Identity::Anonymous
    ));
}

#[test]
fn other_keys_are_unknown() {
    let authenticator = files().load();
    for key in [
        "ann's kez",
        "ann's  key",
        "ANN'S KEY",
        "ann",
        &sha256("ann's key"),
        "x",
    ] {
        assert_eq!(
            refused(ask(&authenticator, &[("x-api-key", key)])),
            AuthFailure::UnknownKey,
            "{key}"
        );
    }
}

#[test]
fn what_cannot_be_a_key_is_refused_unread() {
    let authenticator = files().load();
    let refused_for = |key: &str| refused(ask(&authenticator, &[("x-api-key", key)]));
    assert_eq!(refused_for(&"a".repeat(4096)), AuthFailure::UnknownKey);
    for key in ["", &"a".repeat(4097), "sch\u{f6}n", "a\tb"] {
        assert_eq!(refused_for(key), AuthFailure::Malformed, "{}", key.len());
    }
    let twice = [("x-api-key", "ann's key"), ("x-api-key", "ann's key")];
    assert_eq!(refused(ask(&authenticator, &twice)), AuthFailure::Repeated);
}

#[test]
fn the_long_key_itself_would_be_known() {
    // So that the size, and not the key, is what is refused above.
    for (length, is_known) in [(4096, true), (4097, false)] {
        let key = "a".repeat(length);
        let files = CredentialFiles::new()
            .with_key_file(format!("- {{ id: ann, sha256: {} }}", sha256(&key)));
        let identity = ask(&files.load(), &[("x-api-key", &key)]);
        assert_eq!(matches!(identity, Identity::Known(_)), is_known, "{length}");
    }
    let odd = CredentialFiles::new()
        .with_key_file(format!("- {{ id: ann, sha256: {} }}", sha256("sch\u{f6}n")));
    assert_eq!(
        refused(ask(&odd.load(), &[("x-api-key", "sch\u{f6}n")])),
        AuthFailure::Malformed
    );
}

#[test]
fn every_mistake_of_a_file_is_named_and_no_secret_is() {
    let digest = sha256("ann's key");
    let files = CredentialFiles::new().with_key_file(format!(
        "- id: ann\n  sha256: {digest}\n  key: s3cret-one\n- id: bob\n  sha256: s3cret-two\n- id: ann\n  sha256: {digest}\n"
    ));
    let mistakes = files.mistakes();
    let expected = [
        "keys.yaml:3:8: keys[0]: unknown field, expected id, sha256 or claims",
        "keys.yaml:5:11: keys[1].sha256: expected the SHA-256 of the key as 64 hexadecimal digits",
        "keys.yaml:6:7: keys[2].id: used by keys[0] already, expected a different one",
        "keys.yaml:7:11: keys[2].sha256: used by keys[0] already, expected a different one",
    ];
    assert_eq!(mistakes, expected);
}

#[test]
fn no_form_of_a_wrong_file_brings_its_secrets_out() {
    let texts = [
        "s3cret",
        "- s3cret",
        "s3cret: ann",
        "- { s3cret: ann }",
        "- { id: ann, sha256: [s3cret] }",
        "- { id: [s3cret] }",
        "- { s3cret: 1, s3cret: 2 }",
        "- { id: ann, sha256: s3cret",
        "- id: ann\n sha256: s3cret",
        "- &s3cret { id: *s3cret }",
        "- { id: !!int s3cret }",
        "keys: s3cret",
        "keys: [s3cret]",
        "- { id: ann, claims: s3cret }",
        "- { id: ann, claims: [s3cret] }",
        "- *s3cret",
        "\"s3cret",
    ];
    for text in texts {
        let mistakes = CredentialFiles::new().with_key_file(text).mistakes();
        assert!(!mistakes.is_empty());
        assert!(
            !format!("{mistakes:?}").contains("s3cret"),
            "{text}: {mistakes:?}"
        );
    }
}

#[test]
fn a_missing_file_and_a_bad_header_name_are_both_named() {
    let mut files = files();
    let settings = files.principals.api_keys.as_mut().unwrap();
    settings.header = "not a header".into();
    settings.file.set_file_name("absent.yaml");
    let mistakes = files.mistakes();
    assert_eq!(
        mistakes[0],
        "principals.api_keys.header: expected the name of a header"
    );
    assert!(
        mistakes[1].starts_with("absent.yaml: cannot be read: "),
        "{mistakes:?}"
    );
}

#[test]
fn debug_output_holds_no_key_and_no_digest() {
    let authenticator = files().load();
    let printed = format!(
        "{authenticator:?} {:?}",
        authenticator.identity(&headers(&[("x-api-key", "s3cret")]), noon())
    );
    assert!(
        printed.starts_with("Authenticator { api_keys: Some(2), token_keys: None"),
        "{printed}"
    );
    assert!(!printed.contains("s3cret") && !printed.contains(&sha256("ann's key")[..8]));
}

#[test]
fn fifty_thousand_keys_are_read_and_found() {
    let line = |index: usize| {
        format!(
            "- {{ id: caller-{index}, sha256: {} }}\n",
            sha256(&index.to_string())
        )
    };
    let authenticator = CredentialFiles::new()
        .with_key_file((0..50_000).map(line).collect::<String>())
        .load();
    for index in [0, 1, 25_000, 49_999] {
        let key = index.to_string();
        assert_eq!(
            known(ask(&authenticator, &[("x-api-key", &key)])).id,
            format!("caller-{index}")
        );
    }
    assert_eq!(
        refused(ask(&authenticator, &[("x-api-key", "50000")])),
        AuthFailure::UnknownKey
    );
}
