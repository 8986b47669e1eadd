//! Signed tokens: which are accepted, and why the others are not.

use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_config::JwtAlgorithm;
use sluicegate_core::{Nanos, Principal};
use sluicegate_gate::auth::{AuthFailure, Authenticator, Identity};

use super::credential_files::{
    CredentialFiles, NOON, ask, ask_at, ask_with_token, headers, known, noon, refused,
};
use super::signer::{Signer, ann, base64, from_base64};

/// A signer, and who trusts it.
fn pair() -> (Signer, Authenticator) {
    let signer = Signer::ed25519("ed");
    let authenticator = CredentialFiles::new().with_jwks(&[&signer.jwk]).load();
    (signer, authenticator)
}

fn with(mut claims: Value, name: &str, value: impl Into<Value>) -> Value {
    claims[name] = value.into();
    claims
}

fn reason(authenticator: &Authenticator, value: &str) -> AuthFailure {
    refused(ask(authenticator, &[("authorization", value)]))
}

#[test]
fn tokens_of_every_kind_of_key_name_their_subject() {
    let signers = Signer::one_of_each();
    let authenticator = CredentialFiles::new()
        .with_jwks(&signers.each_ref().map(|signer| &signer.jwk))
        .load();
    for signer in &signers {
        let claims = json!({"sub": "ann", "exp": NOON + 1, "plan": "gold", "roles": ["a", "b"], "address": {"city": "x"}});
        let principal = known(ask_with_token(&authenticator, &signer.bearer(&claims)));
        let expected = Principal::new("ann")
            .claim("sub", "ann")
            .claim("exp", (NOON + 1).to_string())
            .claim("plan", "gold")
            .claim("roles", "a,b");
        assert_eq!(*principal, expected, "{}", signer.algorithm);
    }
}

#[test]
fn tokens_signed_by_another_program_are_read_in_all_twelve_algorithms() {
    let authenticator = CredentialFiles::new()
        .with_jwks_text(include_str!("foreign_jwks.json"))
        .load();
    let mut count = 0;
    for line in include_str!("foreign_tokens.txt").lines() {
        let (algorithm, token) = line.split_once(' ').unwrap();
        let principal = known(ask(&authenticator, &[("authorization", token)]));
        assert_eq!(
            (principal.id.as_str(), principal.claims["alg"].as_str()),
            ("ann", algorithm)
        );
        let other_last_byte = if token.ends_with('A') { "Q" } else { "A" };
        let forged = format!("{}{other_last_byte}", &token[..token.len() - 1]);
        assert!(
            matches!(
                reason(&authenticator, &forged),
                AuthFailure::BadSignature | AuthFailure::Malformed
            ),
            "{algorithm}"
        );
        count += 1;
    }
    assert_eq!(count, 12);
}

#[test]
fn the_word_bearer_is_optional_and_in_any_case() {
    let (signer, authenticator) = pair();
    let token = signer.token(&ann());
    for prefix in ["", "Bearer ", "bearer ", "BEARER ", "bEaReR   "] {
        let value = format!("{prefix}{token}");
        assert_eq!(
            known(ask_with_token(&authenticator, &value)).id,
            "ann",
            "{prefix}"
        );
    }
}

#[test]
fn other_schemes_are_refused() {
    let (signer, authenticator) = pair();
    for line in [
        "Basic YW5uOmE=",
        "Token a.b.c",
        "JWT a.b.c",
        "DPoP a.b.c",
        "Negotiate a",
        "Digest username=a",
        "ApiKey a",
        "AWS4-HMAC-SHA256 Credential=a",
        "Bearer2 a.b.c",
        "NTLM a",
        "Hawk id=a",
    ] {
        match ask(&authenticator, &[("authorization", line)]) {
            Identity::Refused(refusal) => {
                assert_eq!(refusal.reason, AuthFailure::Scheme, "{line}");
                // No token was shown, so nothing is wrong with one.
                assert_eq!(refusal.challenge(), "Bearer");
            }
            other => panic!("{line}: {other:?}"),
        }
    }
    // Schemes that are not followed by a space are no schemes.
    for line in ["Basic", "Bearer\ta.b.c", "Bearer,a.b.c", "Basic\u{a0}YW5u"] {
        let malformed = ask(&authenticator, &[("authorization", line)]);
        assert_eq!(refused(malformed), AuthFailure::Malformed, "{line}");
    }
    assert!(matches!(ask(&authenticator, &[]), Identity::Anonymous));
    let elsewhere = CredentialFiles::new()
        .with_jwks(&[&signer.jwk])
        .with_jwt(|jwt| jwt.header = "x-token".into())
        .load();
    assert_eq!(
        refused(ask(&elsewhere, &[("x-token", "Basic YW5uOmE=")])),
        AuthFailure::Malformed
    );
    assert_eq!(
        known(ask(&elsewhere, &[("x-token", &signer.token(&ann()))])).id,
        "ann"
    );
}

#[test]
fn a_changed_body_head_or_signature_is_noticed() {
    let signers = Signer::one_of_each();
    let authenticator = CredentialFiles::new()
        .with_jwks(&signers.each_ref().map(|signer| &signer.jwk))
        .load();
    for signer in &signers {
        let token = signer.token(&ann());
        let (message, signature) = token.rsplit_once('.').unwrap();
        let (header, _) = message.split_once('.').unwrap();
        let bobs = base64(with(ann(), "sub", "bob").to_string().as_bytes());
        assert_eq!(
            reason(&authenticator, &format!("{header}.{bobs}.{signature}")),
            AuthFailure::BadSignature
        );
        assert_eq!(
            reason(&authenticator, &format!("{message}.")),
            AuthFailure::BadSignature
        );
        let bytes = from_base64(signature);
        for shortened in [&bytes[1..], &bytes[..bytes.len() - 1]] {
            let token = format!("{message}.{}", base64(shortened));
            assert_eq!(
                reason(&authenticator, &token),
                AuthFailure::BadSignature,
                "{}",
                signer.algorithm
            );
        }
        let other_head =
            json!({"alg": signer.algorithm, "kid": signer.jwk["kid"], "typ": "x"}).to_string();
        let rest = token.split_once('.').unwrap().1;
        assert_eq!(
            reason(
                &authenticator,
                &format!("{}.{rest}", base64(other_head.as_bytes()))
            ),
            AuthFailure::BadSignature
        );
    }
}

#[test]
fn a_token_expired_by_a_second_passes_only_with_leeway() {
    let (signer, strict) = pair();
    let lenient = CredentialFiles::new()
        .with_jwks(&[&signer.jwk])
        .with_jwt(|jwt| jwt.leeway = Nanos::from_secs(2))
        .load();
    let expired = signer.bearer(&with(ann(), "exp", NOON - 1));
    assert_eq!(reason(&strict, &expired), AuthFailure::Expired);
    assert_eq!(known(ask_with_token(&lenient, &expired)).id, "ann");
    assert_eq!(
        reason(&lenient, &signer.bearer(&with(ann(), "exp", NOON - 2))),
        AuthFailure::Expired
    );
    let early = signer.bearer(&with(ann(), "nbf", NOON + 1));
    assert_eq!(reason(&strict, &early), AuthFailure::NotYet);
    assert_eq!(known(ask_with_token(&lenient, &early)).id, "ann");
    assert_eq!(
        reason(&lenient, &signer.bearer(&with(ann(), "nbf", NOON + 3))),
        AuthFailure::NotYet
    );
}

#[test]
fn a_token_that_was_good_is_refused_once_it_expires() {
    let (signer, authenticator) = pair();
    let headers = headers(&[(
        "authorization",
        &signer.bearer(&with(ann(), "exp", NOON + 1)),
    )]);
    let at = |after: Duration| ask_at(&authenticator, &headers, noon() + after);
    assert_eq!(known(at(Duration::from_millis(999))).id, "ann");
    assert_eq!(refused(at(Duration::from_secs(1))), AuthFailure::Expired);
}

#[test]
fn a_token_must_expire_and_name_a_subject() {
    let (signer, authenticator) = pair();
    for claims in [
        json!({"sub": "ann"}),
        json!({"sub": "ann", "exp": null}),
        json!({"sub": "ann", "exp": "2000000000"}),
        json!({"sub": "ann", "exp": NOON + 1, "nbf": "1"}),
        json!({"exp": NOON + 1}),
        json!({"sub": "", "exp": NOON + 1}),
        json!({"sub": "a\nb", "exp": NOON + 1}),
        json!({"sub": "a".repeat(257), "exp": NOON + 1}),
        json!({"sub": 7, "exp": NOON + 1}),
        json!(["ann"]),
        json!("ann"),
        json!(null),
    ] {
        assert_eq!(
            reason(&authenticator, &signer.bearer(&claims)),
            AuthFailure::Malformed,
            "{claims}"
        );
    }
    let longest = with(ann(), "sub", "a".repeat(256));
    assert_eq!(
        known(ask_with_token(&authenticator, &signer.bearer(&longest)))
            .id
            .len(),
        256
    );
}

#[test]
fn the_issuer_must_be_the_configured_one() {
    let signer = Signer::ed25519("ed");
    let authenticator = CredentialFiles::new()
        .with_jwks(&[&signer.jwk])
        .with_jwt(|jwt| jwt.issuer = Some("us".into()))
        .load();
    let with_issuer = |issuer: Value| signer.bearer(&with(ann(), "iss", issuer));
    assert_eq!(
        known(ask_with_token(&authenticator, &with_issuer(json!("us")))).id,
        "ann"
    );
    for wrong in [
        json!("them"),
        json!("us "),
        json!(["us"]),
        json!(null),
        json!(1),
    ] {
        assert_eq!(
            reason(&authenticator, &with_issuer(wrong.clone())),
            AuthFailure::Issuer,
            "{wrong}"
        );
    }
    assert_eq!(
        reason(&authenticator, &signer.bearer(&ann())),
        AuthFailure::Issuer
    );
}

#[test]
fn the_audience_must_hold_the_configured_one() {
    let signer = Signer::ed25519("ed");
    let authenticator = CredentialFiles::new()
        .with_jwks(&[&signer.jwk])
        .with_jwt(|jwt| jwt.audience = Some("us".into()))
        .load();
    let with_audience = |audience: Value| signer.bearer(&with(ann(), "aud", audience));
    for right in [json!("us"), json!(["them", "us"])] {
        assert_eq!(
            known(ask_with_token(&authenticator, &with_audience(right))).id,
            "ann"
        );
    }
    for wrong in [
        json!("them"),
        json!(["them"]),
        json!([]),
        json!([["us"]]),
        json!({"us": 1}),
        json!(null),
    ] {
        assert_eq!(
            reason(&authenticator, &with_audience(wrong.clone())),
            AuthFailure::Audience,
            "{wrong}"
        );
    }
    assert_eq!(
        reason(&authenticator, &signer.bearer(&ann())),
        AuthFailure::Audience
    );
}

#[test]
fn what_is_no_token_is_malformed() {
    let (signer, authenticator) = pair();
    let token = signer.token(&ann());
    let critical = signer.token_with(
        &json!({"alg": "EdDSA", "kid": "ed", "crit": ["b64"], "b64": false}),
        ann().to_string(),
    );
    let odd_id = signer.token_with(&json!({"alg": "EdDSA", "kid": 7}), ann().to_string());
    let no_algorithm = signer.token_with(&json!({"kid": "ed"}), ann().to_string());
    let no_json = signer.token_with(&json!({"alg": "EdDSA", "kid": "ed"}), "no json");
    let padded = format!("{token}=");
    let four_parts = format!("{token}.x");
    for value in [
        "",
        "Bearer",
        "x",
        "a.b",
        "..",
        "a.b.c",
        "Bearer  ",
        &critical,
        &odd_id,
        &no_algorithm,
        &no_json,
        &padded,
        &four_parts,
        "sch\u{f6}n",
    ] {
        assert_eq!(
            reason(&authenticator, value),
            AuthFailure::Malformed,
            "{value}"
        );
    }
    let twice = [
        ("authorization", token.as_str()),
        ("authorization", token.as_str()),
    ];
    assert_eq!(refused(ask(&authenticator, &twice)), AuthFailure::Repeated);
}

#[test]
fn a_token_over_8_kib_is_refused_although_it_is_good() {
    let (signer, authenticator) = pair();
    let with_padding = |length: usize| signer.token(&with(ann(), "padding", "x".repeat(length)));
    let overhead = with_padding(0).len();
    let fits = with_padding((8192 - overhead) * 3 / 4 - 2);
    let too_long = with_padding((8192 - overhead) * 3 / 4 + 3);
    assert!(
        fits.len() <= 8192 && too_long.len() > 8192,
        "{} {}",
        fits.len(),
        too_long.len()
    );
    assert_eq!(known(ask_with_token(&authenticator, &fits)).id, "ann");
    assert_eq!(reason(&authenticator, &too_long), AuthFailure::Malformed);
}

#[test]
fn only_configured_algorithms_are_accepted() {
    let signers = Signer::one_of_each();
    let authenticator = CredentialFiles::new()
        .with_jwks(&signers.each_ref().map(|signer| &signer.jwk))
        .with_jwt(|jwt| jwt.algorithms = vec![JwtAlgorithm::ES256])
        .load();
    for signer in &signers {
        let identity = ask_with_token(&authenticator, &signer.bearer(&ann()));
        match signer.algorithm {
            "ES256" => assert_eq!(known(identity).id, "ann"),
            _ => assert_eq!(refused(identity), AuthFailure::Algorithm),
        }
    }
}

#[test]
fn the_type_of_a_token_is_checked_where_one_is_configured() {
    let signer = Signer::ed25519("ed");
    let files = CredentialFiles::new().with_jwks(&[&signer.jwk]);
    let lenient = files.load();
    let types = vec!["at+jwt".into(), "jwt".into()];
    let strict = files.with_jwt(|jwt| jwt.types = types).load();
    let token = |typ: Option<Value>| {
        let mut header = json!({"alg": "EdDSA", "kid": "ed"});
        if let Some(typ) = typ {
            header["typ"] = typ;
        }
        signer.token_with(&header, ann().to_string())
    };
    for good in [
        "at+jwt",
        "AT+JWT",
        "application/at+jwt",
        "Application/JWT",
        "JWT",
        "jwt",
    ] {
        let token = token(Some(good.into()));
        assert_eq!(known(ask_with_token(&strict, &token)).id, "ann", "{good}");
    }
    let bad = [
        "",
        "id+jwt",
        "application/",
        "text/jwt",
        "x/application/jwt",
        "jwt ",
        "applicatio\u{fc}/",
    ];
    let bad = bad.map(|typ| Some(Value::from(typ)));
    for bad in bad
        .into_iter()
        .chain([None, Some(json!(5)), Some(json!(["JWT"]))])
    {
        let token = token(bad.clone());
        assert_eq!(
            refused(ask_with_token(&strict, &token)),
            AuthFailure::Type,
            "{bad:?}"
        );
        assert_eq!(known(ask_with_token(&lenient, &token)).id, "ann", "{bad:?}");
    }
}
