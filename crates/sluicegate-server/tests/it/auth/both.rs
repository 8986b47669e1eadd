//! API keys and tokens side by side, and what the configuration makes of them.

use std::sync::Arc;

use sluicegate_config::OnInvalid;
use sluicegate_gate::auth::{AuthFailure, Authenticator, Identity, Unauthorized};
use sluicegate_gate::telemetry::Metrics;
use sluicegate_gate::telemetry::metrics::Label;

use super::api_keys::sha256;
use super::credential_files::{CredentialFiles, ask, ask_with_token, known, refused};
use super::signer::{Signer, ann};

/// Bob has a key, Ann has a token.
fn files(signer: &Signer) -> CredentialFiles {
    let keys = format!("- {{ id: bob, sha256: {} }}", sha256("bob's key"));
    CredentialFiles::new()
        .with_key_file(keys)
        .with_jwks(&[&signer.jwk])
}

fn refusal(authenticator: &Authenticator, lines: &[(&str, &str)]) -> Unauthorized {
    match ask(authenticator, lines) {
        Identity::Refused(refusal) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn nothing_configured_is_anonymous_whatever_is_shown() {
    let authenticator = CredentialFiles::new().load();
    assert!(!authenticator.is_configured());
    assert!(authenticator.files().is_empty() && authenticator.credential_headers().is_empty());
    let lines = [
        ("x-api-key", "a"),
        ("x-api-key", "b"),
        ("authorization", "Bearer x"),
    ];
    assert!(matches!(ask(&authenticator, &lines), Identity::Anonymous));
}

#[test]
fn files_and_headers_are_told() {
    let files = files(&Signer::ed25519("ed"));
    let authenticator = files.load();
    assert!(authenticator.is_configured());
    let names: Vec<_> = authenticator
        .files()
        .iter()
        .map(|file| file.file_name().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["keys.yaml", "jwks.json"]);
    assert_eq!(
        authenticator.credential_headers(),
        ["x-api-key", "authorization"]
    );
}

#[test]
fn the_key_names_the_caller_and_the_token_must_be_valid_too() {
    let signer = Signer::ed25519("ed");
    let authenticator = files(&signer).load();
    let token = signer.bearer(&ann());
    let asked = |key: &str, token: &str| {
        ask(
            &authenticator,
            &[("x-api-key", key), ("authorization", token)],
        )
    };
    assert_eq!(known(asked("bob's key", &token)).id, "bob");
    assert_eq!(
        refused(asked("bob's key", "Bearer x")),
        AuthFailure::Malformed
    );
    assert_eq!(refused(asked("no key", &token)), AuthFailure::UnknownKey);
    assert_eq!(refused(asked("", &token)), AuthFailure::Malformed);
    assert_eq!(
        refused(asked("no key", "Bearer x")),
        AuthFailure::UnknownKey
    );
    assert_eq!(known(ask_with_token(&authenticator, &token)).id, "ann");
    assert_eq!(
        refused(ask(&authenticator, &[("authorization", "Bearer x")])),
        AuthFailure::Malformed
    );
}

#[test]
fn both_may_come_in_the_same_header() {
    let signer = Signer::ed25519("ed");
    let mut files = files(&signer);
    files.principals.api_keys.as_mut().unwrap().header = "authorization".into();
    let authenticator = files.load();
    assert_eq!(authenticator.credential_headers(), ["authorization"]);
    assert_eq!(
        known(ask(&authenticator, &[("authorization", "bob's key")])).id,
        "bob"
    );
    assert_eq!(
        known(ask_with_token(&authenticator, &signer.bearer(&ann()))).id,
        "ann"
    );
}

#[test]
fn a_required_credential_that_is_missing_is_refused() {
    let mut files = files(&Signer::ed25519("ed"));
    files.principals.required = true;
    let authenticator = files.load();
    assert_eq!(refused(ask(&authenticator, &[])), AuthFailure::Missing);
    assert_eq!(
        refused(ask(&authenticator, &[("x-api-key", "no key")])),
        AuthFailure::UnknownKey
    );
    assert_eq!(
        known(ask(&authenticator, &[("x-api-key", "bob's key")])).id,
        "bob"
    );
}

#[test]
fn a_required_credential_without_a_way_to_show_one_is_a_mistake() {
    let mut files = CredentialFiles::new();
    files.principals.required = true;
    assert_eq!(
        files.mistakes(),
        [
            "principals.required: needs api_keys or jwt beside it, otherwise every request is refused"
        ]
    );
}

#[test]
fn a_wrong_credential_may_pass_as_none() {
    let mut files = files(&Signer::ed25519("ed"));
    files.principals.on_invalid = OnInvalid::Anonymous;
    let wrong = [("x-api-key", "no key")];
    let authenticator = files.load();
    assert!(matches!(ask(&authenticator, &wrong), Identity::Anonymous));
    files.principals.required = true;
    assert_eq!(refused(ask(&files.load(), &wrong)), AuthFailure::Missing);
}

#[test]
fn mistakes_of_both_files_are_named_at_once() {
    let files = CredentialFiles::new().with_key_file("- {}").with_jwks(&[]);
    assert_eq!(files.mistakes().len(), 3);
}

#[test]
fn challenges_name_what_is_taken_and_texts_say_no_more_than_needed() {
    let signer = Signer::ed25519("ed");
    let mut files = files(&signer);
    files.principals.required = true;
    let authenticator = files.load();
    let missing = refusal(&authenticator, &[]);
    assert_eq!(missing.challenge(), "Bearer, ApiKey header=\"x-api-key\"");
    assert_eq!(missing.to_string(), "a credential is required");
    let wrong = refusal(&authenticator, &[("x-api-key", "no key")]);
    assert_eq!(
        wrong.challenge(),
        "Bearer error=\"invalid_token\", ApiKey header=\"x-api-key\""
    );
    assert_eq!(wrong.to_string(), "the credential is not valid");
    files.principals.jwt = None;
    assert_eq!(
        refusal(&files.load(), &[]).challenge(),
        "ApiKey header=\"x-api-key\""
    );
}

#[test]
fn reasons_have_stable_words() {
    let words: Vec<&str> = AuthFailure::ALL
        .iter()
        .map(|reason| reason.as_str())
        .collect();
    let expected = [
        "missing",
        "unknown_key",
        "malformed",
        "bad_signature",
        "expired",
        "not_yet",
        "issuer",
        "audience",
        "algorithm",
        "key_id",
        "repeated",
        "scheme",
        "typ",
        "keys_unavailable",
    ];
    assert_eq!(words, expected);
    assert_eq!(AuthFailure::KeyId.to_string(), "key_id");
}

#[test]
fn whatever_is_not_accepted_is_counted_by_its_reason() {
    let metrics = Metrics::new();
    let mut files = files(&Signer::ed25519("ed"));
    let lines: [&[(&str, &str)]; 4] = [
        &[],
        &[("x-api-key", "bob's key")],
        &[("x-api-key", "no key")],
        &[("authorization", "Bearer x")],
    ];
    for (is_required, on_invalid) in [
        (false, OnInvalid::Reject),
        (false, OnInvalid::Anonymous),
        (true, OnInvalid::Anonymous),
    ] {
        files.principals.required = is_required;
        files.principals.on_invalid = on_invalid;
        let authenticator = files.load().counted_in(Arc::clone(&metrics));
        lines
            .iter()
            .for_each(|lines| drop(ask(&authenticator, lines)));
    }
    let text = metrics.encode();
    for reason in AuthFailure::ALL {
        let count = match reason {
            AuthFailure::UnknownKey | AuthFailure::Malformed => 3,
            // Only where one is required.
            AuthFailure::Missing => 1,
            _ => 0,
        };
        let line = format!("sluicegate_auth_refused_total{{reason=\"{reason}\"}} {count}\n");
        assert!(text.contains(&line), "{line} in {text}");
    }
}
