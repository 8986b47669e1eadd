//! Keys that verify signatures, and the algorithms that each can be used with.
//!
//! A key has one type and accepts only algorithms of that type, so a token cannot choose how its
//! key is read. All comparisons are made by ring, in constant time where a secret is involved.

use ring::hmac;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use sluicegate_config::JwtAlgorithm;

/// A key that verifies signatures, in the form that ring takes.
pub(super) enum VerifyingKey {
    /// Modulus and exponent, big-endian, without leading zeros.
    Rsa(RsaPublicKeyComponents<Vec<u8>>),
    /// An uncompressed point.
    P256([u8; 65]),
    /// An uncompressed point.
    P384([u8; 97]),
    /// A compressed point.
    Ed25519([u8; 32]),
    /// A shared secret for HMAC.
    Secret(Vec<u8>),
}

impl VerifyingKey {
    /// Returns true when the key can be used with this algorithm.
    pub(super) fn fits(&self, algorithm: JwtAlgorithm) -> bool {
        self.method(algorithm).is_some()
    }

    /// Returns true when the signature over the message was made with this key. An algorithm that
    /// does not fit the key verifies nothing.
    pub(super) fn verifies(
        &self,
        algorithm: JwtAlgorithm,
        message: &[u8],
        signature: &[u8],
    ) -> bool {
        let Some(method) = self.method(algorithm) else {
            return false;
        };
        let verified = match method {
            VerifyMethod::Rsa(key, parameters) => key.verify(parameters, message, signature),
            VerifyMethod::Point(key) => key.verify(message, signature),
            VerifyMethod::Secret(secret, hash) => {
                hmac::verify(&hmac::Key::new(hash, secret), message, signature)
            }
        };
        verified.is_ok()
    }

    /// The table of what fits: everything that is not in it is refused.
    fn method(&self, algorithm: JwtAlgorithm) -> Option<VerifyMethod<'_>> {
        use JwtAlgorithm::{
            ES256, ES384, EdDSA, HS256, HS384, HS512, PS256, PS384, PS512, RS256, RS384, RS512,
        };
        let method = match (self, algorithm) {
            (Self::Rsa(key), RS256) => VerifyMethod::Rsa(key, &RSA_PKCS1_2048_8192_SHA256),
            (Self::Rsa(key), RS384) => VerifyMethod::Rsa(key, &RSA_PKCS1_2048_8192_SHA384),
            (Self::Rsa(key), RS512) => VerifyMethod::Rsa(key, &RSA_PKCS1_2048_8192_SHA512),
            (Self::Rsa(key), PS256) => VerifyMethod::Rsa(key, &RSA_PSS_2048_8192_SHA256),
            (Self::Rsa(key), PS384) => VerifyMethod::Rsa(key, &RSA_PSS_2048_8192_SHA384),
            (Self::Rsa(key), PS512) => VerifyMethod::Rsa(key, &RSA_PSS_2048_8192_SHA512),
            (Self::P256(point), ES256) => {
                VerifyMethod::Point(UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point))
            }
            (Self::P384(point), ES384) => {
                VerifyMethod::Point(UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, point))
            }
            (Self::Ed25519(point), EdDSA) => {
                VerifyMethod::Point(UnparsedPublicKey::new(&ED25519, point))
            }
            // RFC 7518, 3.2: a secret is at least as long as the hash.
            (Self::Secret(secret), HS256) if secret.len() >= 32 => {
                VerifyMethod::Secret(secret, hmac::HMAC_SHA256)
            }
            (Self::Secret(secret), HS384) if secret.len() >= 48 => {
                VerifyMethod::Secret(secret, hmac::HMAC_SHA384)
            }
            (Self::Secret(secret), HS512) if secret.len() >= 64 => {
                VerifyMethod::Secret(secret, hmac::HMAC_SHA512)
            }
            _ => return None,
        };
        Some(method)
    }
}

/// A key together with the one algorithm that it is used with.
enum VerifyMethod<'a> {
    Rsa(&'a RsaPublicKeyComponents<Vec<u8>>, &'static RsaParameters),
    Point(UnparsedPublicKey<&'a [u8]>),
    Secret(&'a [u8], hmac::Algorithm),
}

/// The algorithm with this name in `alg`; `None` for all others, `none` among them.
pub(super) fn algorithm_by_name(name: &str) -> Option<JwtAlgorithm> {
    let algorithm = match name {
        "HS256" => JwtAlgorithm::HS256,
        "HS384" => JwtAlgorithm::HS384,
        "HS512" => JwtAlgorithm::HS512,
        "RS256" => JwtAlgorithm::RS256,
        "RS384" => JwtAlgorithm::RS384,
        "RS512" => JwtAlgorithm::RS512,
        "PS256" => JwtAlgorithm::PS256,
        "PS384" => JwtAlgorithm::PS384,
        "PS512" => JwtAlgorithm::PS512,
        "ES256" => JwtAlgorithm::ES256,
        "ES384" => JwtAlgorithm::ES384,
        // RFC 9864 gives the same signatures a name of their own.
        "EdDSA" | "Ed25519" => JwtAlgorithm::EdDSA,
        _ => return None,
    };
    Some(algorithm)
}
