//! Tokens in a header. Nobody is known by a token that was not signed with our key, or that is not
//! valid now.

use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderValue};
use ring::hmac;
use serde_json::Value;
use sluicegate_config::{JwksSource, Jwt, JwtAlgorithm, Principals};
use sluicegate_core::Nanos;
use sluicegate_gate::auth::{Authenticator, Identity};

use crate::input::InputBytes;

/// The first byte chooses: a header value as it is, or a header and claims that are signed here.
pub fn run(data: &[u8]) {
    let mut input = InputBytes::new(data);
    let value = match input.below(3) {
        0 => input.rest().to_vec(),
        1 => signed(HEADER, input.rest()),
        _ => signed(input.line(), input.rest()),
    };
    let Ok(value) = HeaderValue::from_bytes(&value) else {
        return;
    };
    let mut headers = HeaderMap::new();
    headers.insert("authorization", value.clone());
    let now = SystemTime::UNIX_EPOCH + NOW;
    let Identity::Known(principal) = AUTHENTICATOR.identity(&headers, now) else {
        return;
    };
    let [header, claims] = verified_parts(value.as_bytes());
    let header: Value = serde_json::from_slice(&header).expect("the header is JSON");
    assert_eq!(header["alg"], "HS256");
    assert!(header.get("crit").is_none_or(Value::is_null));
    let claims: Value = serde_json::from_slice(&claims).expect("the claims are JSON");
    assert_eq!(claims["sub"], principal.id.as_str());
    assert_eq!(claims["iss"], "issuer");
    let expires = claims["exp"].as_f64().expect("a number");
    let now = NOW.as_secs_f64();
    assert!(now < expires + LEEWAY_SECS, "{claims}");
    if let Some(begins) = claims.get("nbf") {
        let begins = begins.as_f64().expect("a number");
        assert!(now + LEEWAY_SECS >= begins, "{claims}");
    }
    let id = &principal.id;
    assert!(!id.is_empty() && !id.contains(char::is_control));
}

/// Some time in the year 2026.
const NOW: Duration = Duration::from_secs(1_790_000_000);
const HEADER: &[u8] = br#"{"alg":"HS256","kid":"secret"}"#;
const LEEWAY_SECS: f64 = 30.0;
/// The key `secret` in `keys/jwks.json`.
const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

static AUTHENTICATOR: LazyLock<Authenticator> = LazyLock::new(|| {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("keys/jwks.json");
    let principals = Principals {
        jwt: Some(Jwt {
            header: "authorization".to_owned(),
            keys: JwksSource::File(file),
            issuer: Some("issuer".to_owned()),
            audience: None,
            algorithms: vec![
                JwtAlgorithm::HS256,
                JwtAlgorithm::ES256,
                JwtAlgorithm::EdDSA,
            ],
            leeway: Nanos::from_secs(LEEWAY_SECS as u64),
            types: Vec::new(),
        }),
        ..Principals::default()
    };
    Authenticator::load(&principals).unwrap_or_else(|mistakes| panic!("{mistakes:?}"))
});

fn key() -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, SECRET)
}

fn signed(header: &[u8], claims: &[u8]) -> Vec<u8> {
    let header = URL_SAFE_NO_PAD.encode(header);
    let claims = URL_SAFE_NO_PAD.encode(claims);
    let message = format!("{header}.{claims}");
    let signature = hmac::sign(&key(), message.as_bytes());
    let signature = URL_SAFE_NO_PAD.encode(signature);
    format!("Bearer {message}.{signature}").into_bytes()
}

/// Header and claims of a token that was accepted, after its signature was checked here.
fn verified_parts(value: &[u8]) -> [Vec<u8>; 2] {
    let text = str::from_utf8(value).expect("an accepted token is text");
    let mut words = text.rsplit(' ');
    let token = words.next().unwrap_or_default();
    let parts: Vec<&str> = token.split('.').collect();
    let [header, claims, signature] = parts[..] else {
        panic!("a token of {} parts", parts.len());
    };
    let message = format!("{header}.{claims}");
    let signature = decoded(signature);
    let verified = hmac::verify(&key(), message.as_bytes(), &signature);
    verified.expect("signed with our key");
    [decoded(header), decoded(claims)]
}

fn decoded(part: &str) -> Vec<u8> {
    let bytes = URL_SAFE_NO_PAD.decode(part);
    bytes.expect("base64url")
}
