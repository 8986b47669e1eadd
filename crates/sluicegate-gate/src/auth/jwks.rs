//! The keys that verify tokens: a JSON Web Key Set (RFC 7517), from a file or a URL.
//!
//! A set may contain keys that are not for us (for encryption, of a newer type); they are skipped
//! and counted. A key that is for us and broken is a mistake in the file, reported with its place.
//! A key that ring would refuse at the first token is refused here, where an operator reads it.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::RsaPublicKeyComponents;
use serde_json::{Map, Value};
use sluicegate_config::JwtAlgorithm;

use super::bounded_file;
use super::signature::{VerifyingKey, algorithm_by_name};

/// The usable keys of a set.
pub(super) struct KeySet {
    keys: Vec<NamedKey>,
    /// The number of keys of an unknown type, or for another use.
    pub(super) skipped: usize,
}

/// A key of the set, with what the set says about it.
struct NamedKey {
    /// Its `kid`.
    id: Option<String>,
    /// Its `alg`: the only algorithm that it may be used with; `None` is every one that fits.
    algorithm: Option<JwtAlgorithm>,
    key: VerifyingKey,
}

impl KeySet {
    /// Reads the file, or returns every mistake in it. A set without any key for `algorithms` is
    /// one: no token could ever be valid.
    pub(super) fn read(path: &Path, algorithms: &[JwtAlgorithm]) -> Result<Self, Vec<String>> {
        let file = path.display();
        let text = bounded_file::read_text(path, BYTES_MAX).map_err(|mistake| vec![mistake])?;
        let document = serde_json::from_str(&text).map_err(|error| {
            vec![format!(
                "{file}:{}:{}: expected valid JSON",
                error.line(),
                error.column()
            )]
        })?;
        Self::new(&document, algorithms).map_err(|mistakes| {
            mistakes
                .iter()
                .map(|mistake| format!("{file}: {mistake}"))
                .collect()
        })
    }

    /// Reads the response of a server, or says what is wrong with it: the first mistake, and how many
    /// more there are.
    pub(super) fn from_response(body: &[u8], algorithms: &[JwtAlgorithm]) -> Result<Self, String> {
        // The parser refuses more than 128 levels of nesting.
        let document = serde_json::from_slice(body).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            format!("line {line}, column {column}: expected valid JSON")
        })?;
        Self::new(&document, algorithms).map_err(|mistakes| match mistakes.as_slice() {
            [first, more @ ..] if !more.is_empty() => {
                format!("{first}, and {} more mistakes", more.len())
            }
            _ => mistakes.concat(),
        })
    }

    fn new(document: &Value, algorithms: &[JwtAlgorithm]) -> Result<Self, Vec<String>> {
        let Some(entries) = document.get("keys").and_then(Value::as_array) else {
            return Err(vec!["keys: expected a list of keys".to_owned()]);
        };
        let mut set = Self {
            keys: Vec::new(),
            skipped: 0,
        };
        let mut mistakes = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            match parse_key(entry) {
                Ok(Some(key)) if set.is_ambiguous(&key) => {
                    mistakes.push(format!(
                        "keys[{index}].kid: used by another key of the same type, expected a different one"
                    ));
                }
                Ok(Some(key)) => set.keys.push(key),
                Ok(None) => set.skipped += 1,
                Err(mistake) => mistakes.push(format!("keys[{index}]{mistake}")),
            }
        }
        if mistakes.is_empty()
            && !algorithms
                .iter()
                .any(|algorithm| set.usable_for(*algorithm).next().is_some())
        {
            mistakes.push(format!(
                "keys: expected at least one key for {algorithms:?}"
            ));
        }
        if mistakes.is_empty() {
            Ok(set)
        } else {
            Err(mistakes)
        }
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The key for a token: the one with its `kid`, or without a `kid` the only one that fits its
    /// algorithm. Keys are never tried one after the other, which would cost a signature each.
    pub(super) fn choose(
        &self,
        id: Option<&str>,
        algorithm: JwtAlgorithm,
    ) -> Result<&VerifyingKey, KeyChoiceError> {
        let Some(id) = id else {
            let mut usable_for = self.usable_for(algorithm);
            return match (usable_for.next(), usable_for.next()) {
                (Some(only), None) => Ok(&only.key),
                _ => Err(KeyChoiceError::Unclear),
            };
        };
        if let Some(named) = self
            .usable_for(algorithm)
            .find(|key| key.id.as_deref() == Some(id))
        {
            return Ok(&named.key);
        }
        let is_known = self.keys.iter().any(|key| key.id.as_deref() == Some(id));
        Err(if is_known {
            KeyChoiceError::WrongAlgorithm
        } else {
            KeyChoiceError::UnknownId
        })
    }

    /// The keys that may be used with an algorithm.
    fn usable_for(&self, algorithm: JwtAlgorithm) -> impl Iterator<Item = &NamedKey> {
        self.keys.iter().filter(move |key| {
            key.algorithm.is_none_or(|own| own == algorithm) && key.key.fits(algorithm)
        })
    }

    /// Returns true when a token could mean this key or one that is there already: same id, same
    /// type, and not set apart by their algorithms.
    fn is_ambiguous(&self, key: &NamedKey) -> bool {
        let is_of_a_kind = |other: &NamedKey| {
            std::mem::discriminant(&other.key) == std::mem::discriminant(&key.key)
        };
        let is_set_apart = |other: &NamedKey| match (other.algorithm, key.algorithm) {
            (Some(one), Some(two)) => one != two,
            _ => false,
        };
        key.id.is_some()
            && self
                .keys
                .iter()
                .any(|other| other.id == key.id && is_of_a_kind(other) && !is_set_apart(other))
    }
}

/// Why a token has no key in the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyChoiceError {
    /// Its id is unknown.
    UnknownId,
    /// It has no id, and not exactly one key fits.
    Unclear,
    /// The key with this id is for another algorithm.
    WrongAlgorithm,
}

/// The largest file in bytes, many times the size of a real set.
const BYTES_MAX: u64 = 4 << 20;

/// One key of the set; `None` when it is not for us. A mistake begins with its field, and repeats
/// nothing of the key.
fn parse_key(entry: &Value) -> Result<Option<NamedKey>, String> {
    let Some(entry) = entry.as_object() else {
        return Err(": expected an object".to_owned());
    };
    let kind = text(entry, "kty")?.ok_or(".kty: expected the kind of the key")?;
    let id = text(entry, "kid")?.map(str::to_owned);
    let named_algorithm = text(entry, "alg")?;
    let algorithm = named_algorithm.and_then(algorithm_by_name);
    let is_for_something_else = named_algorithm.is_some() && algorithm.is_none();
    if is_for_something_else || !is_for_signatures(entry)? {
        return Ok(None);
    }
    let Some(key) = verifying_key(kind, entry)? else {
        return Ok(None);
    };
    if let Some(algorithm) = algorithm
        && !key.fits(algorithm)
    {
        return Err(".alg: expected an algorithm that fits the key".to_owned());
    }
    Ok(Some(NamedKey { id, algorithm, key }))
}

/// Returns true unless `use` or `key_ops` say that the key is not for verifying.
fn is_for_signatures(entry: &Map<String, Value>) -> Result<bool, String> {
    let is_use = text(entry, "use")?.is_none_or(|usage| usage == "sig");
    let is_operation = match entry.get("key_ops") {
        None => true,
        Some(Value::Array(operations)) => operations.iter().any(|operation| operation == "verify"),
        Some(_) => return Err(".key_ops: expected a list".to_owned()),
    };
    Ok(is_use && is_operation)
}

/// The key itself, by its type (`kty`) and curve (`crv`); `None` for unknown ones. A private key is
/// a mistake, because it has no business on this machine.
fn verifying_key(kind: &str, entry: &Map<String, Value>) -> Result<Option<VerifyingKey>, String> {
    if kind != "oct" && entry.contains_key("d") {
        return Err(
            ".d: expected a public key, and this is the private one; keep it where tokens are signed".to_owned()
        );
    }
    let curve = text(entry, "crv")?;
    let key = match (kind, curve) {
        ("RSA", _) => rsa_key(entry)?,
        ("EC", Some("P-256")) => {
            VerifyingKey::P256(point(fixed::<32>(entry, "x")?, fixed::<32>(entry, "y")?))
        }
        ("EC", Some("P-384")) => {
            VerifyingKey::P384(point(fixed::<48>(entry, "x")?, fixed::<48>(entry, "y")?))
        }
        ("OKP", Some("Ed25519")) => VerifyingKey::Ed25519(fixed::<32>(entry, "x")?),
        ("oct", _) => secret_key(entry)?,
        ("EC" | "OKP", None) => return Err(".crv: expected the name of a curve".to_owned()),
        _ => return Ok(None),
    };
    Ok(Some(key))
}

/// An RSA key. ring takes odd moduli of 2048 to 8192 bits and odd exponents from 3 up to 33 bits,
/// and would refuse every token of another key without a word.
fn rsa_key(entry: &Map<String, Value>) -> Result<VerifyingKey, String> {
    let n = without_leading_zeros(bytes(entry, "n")?);
    let e = without_leading_zeros(bytes(entry, "e")?);
    if !(2048..=8192).contains(&bits(&n)) || is_even(&n) {
        return Err(".n: expected an odd modulus of 2048 to 8192 bits".to_owned());
    }
    if !(2..=33).contains(&bits(&e)) || is_even(&e) {
        return Err(".e: expected an odd exponent from 3 up to 33 bits".to_owned());
    }
    Ok(VerifyingKey::Rsa(RsaPublicKeyComponents { n, e }))
}

/// A shared secret of at least 32 bytes (RFC 7518, section 3.2).
fn secret_key(entry: &Map<String, Value>) -> Result<VerifyingKey, String> {
    const BYTES_MIN: usize = 32;
    let secret = bytes(entry, "k")?;
    if secret.len() < BYTES_MIN {
        return Err(format!(
            ".k: expected a secret of at least {BYTES_MIN} bytes"
        ));
    }
    Ok(VerifyingKey::Secret(secret))
}

/// The coordinates `x` and `y` as an uncompressed point, the form that ring takes.
fn point<const COORDINATE: usize, const POINT: usize>(
    x: [u8; COORDINATE],
    y: [u8; COORDINATE],
) -> [u8; POINT] {
    const UNCOMPRESSED: u8 = 4;
    let mut point = [UNCOMPRESSED; POINT];
    for (to, from) in point[1..].iter_mut().zip(x.into_iter().chain(y)) {
        *to = from;
    }
    point
}

/// A field of exactly `LEN` bytes.
fn fixed<const LEN: usize>(entry: &Map<String, Value>, field: &str) -> Result<[u8; LEN], String> {
    bytes(entry, field)?
        .try_into()
        .map_err(|_| format!(".{field}: expected {LEN} bytes"))
}

/// A field in base64url; absent or empty is a mistake.
fn bytes(entry: &Map<String, Value>, field: &str) -> Result<Vec<u8>, String> {
    let encoded = text(entry, field)?.unwrap_or_default();
    match URL_SAFE_NO_PAD.decode(encoded) {
        Ok(bytes) if !bytes.is_empty() => Ok(bytes),
        _ => Err(format!(".{field}: expected base64url without padding")),
    }
}

/// A field that must be a string if it is there.
fn text<'a>(entry: &'a Map<String, Value>, field: &str) -> Result<Option<&'a str>, String> {
    match entry.get(field) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!(".{field}: expected a text")),
    }
}

fn without_leading_zeros(mut number: Vec<u8>) -> Vec<u8> {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    number.drain(..zeros);
    number
}

/// The length of a number in bits; it has no leading zeros.
fn bits(number: &[u8]) -> usize {
    number
        .first()
        .map_or(0, |first| number.len() * 8 - first.leading_zeros() as usize)
}

fn is_even(number: &[u8]) -> bool {
    number.last().is_none_or(|last| last % 2 == 0)
}
