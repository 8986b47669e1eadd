//! Keys that sign tokens. All of them are made for these tests and worth nothing.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256,
    RsaKeyPair, RsaPublicKeyComponents,
};
use ring::{hmac, rand};
use serde_json::{Value, json};

use super::credential_files::NOON;

pub struct Signer {
    pub algorithm: &'static str,
    pub jwk: Value,
    sign: Sign,
}

type Sign = Box<dyn Fn(&[u8]) -> Vec<u8> + Send + Sync>;

impl Signer {
    pub fn hs256(id: &str, secret: &[u8]) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
        Self {
            algorithm: "HS256",
            jwk: json!({"kty": "oct", "kid": id, "k": base64(secret)}),
            sign: Box::new(move |message| hmac::sign(&key, message).as_ref().to_vec()),
        }
    }

    /// Always the same key: the crate that signs cannot make one.
    pub fn rs256(id: &str) -> Self {
        let key = RsaKeyPair::from_der(&rsa_der()).unwrap();
        let public: RsaPublicKeyComponents<Vec<u8>> = key.public().into();
        Self {
            algorithm: "RS256",
            jwk: json!({"kty": "RSA", "kid": id, "n": base64(&public.n), "e": base64(&public.e)}),
            sign: Box::new(move |message| {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(
                    &RSA_PKCS1_SHA256,
                    &SystemRandom::new(),
                    message,
                    &mut signature,
                )
                .unwrap();
                signature
            }),
        }
    }

    pub fn es256(id: &str) -> Self {
        let random = SystemRandom::new();
        let pkcs8 =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let key =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &random)
                .unwrap();
        let (x, y) = key.public_key().as_ref()[1..].split_at(32);
        Self {
            algorithm: "ES256",
            jwk: json!({"kty": "EC", "crv": "P-256", "kid": id, "x": base64(x), "y": base64(y)}),
            sign: Box::new(move |message| key.sign(&random, message).unwrap().as_ref().to_vec()),
        }
    }

    pub fn ed25519(id: &str) -> Self {
        let seed: [u8; 32] = rand::generate(&SystemRandom::new()).unwrap().expose();
        let key = Ed25519KeyPair::from_seed_unchecked(&seed).unwrap();
        Self {
            algorithm: "EdDSA",
            jwk: json!({"kty": "OKP", "crv": "Ed25519", "kid": id, "x": base64(key.public_key().as_ref())}),
            sign: Box::new(move |message| key.sign(message).as_ref().to_vec()),
        }
    }

    /// One of each kind.
    pub fn one_of_each() -> [Self; 4] {
        [
            Self::hs256("hs", &[7; 32]),
            Self::rs256("rs"),
            Self::es256("es"),
            Self::ed25519("ed"),
        ]
    }

    /// A token that names this key.
    pub fn token(&self, claims: &Value) -> String {
        self.token_with(
            &json!({"alg": self.algorithm, "kid": self.jwk["kid"]}),
            claims.to_string(),
        )
    }

    /// A good token with anything at all in its head and body.
    pub fn token_with(&self, header: &Value, claims: impl AsRef<[u8]>) -> String {
        let message = format!(
            "{}.{}",
            base64(header.to_string().as_bytes()),
            base64(claims.as_ref())
        );
        let signature = (self.sign)(message.as_bytes());
        format!("{message}.{}", base64(&signature))
    }

    /// The header value for such a token.
    pub fn bearer(&self, claims: &Value) -> String {
        format!("Bearer {}", self.token(claims))
    }
}

/// Ann's claims, good for an hour.
pub fn ann() -> Value {
    json!({"sub": "ann", "exp": NOON + 3600})
}

pub fn base64(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

pub fn from_base64(text: &str) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(text).unwrap()
}

fn rsa_der() -> Vec<u8> {
    let text: String = include_str!("rsa_2048.pkcs1.txt")
        .split_whitespace()
        .collect();
    STANDARD.decode(text).unwrap()
}
