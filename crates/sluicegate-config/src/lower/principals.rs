//! `principals`: how callers say who they are.

use sluicegate_core::Nanos;

use crate::item::Item;
use crate::typed::{ApiKeys, Jwt, JwtAlgorithm, OnInvalid, Principals};

const ALGORITHMS: [(&str, JwtAlgorithm); 12] = [
    ("RS256", JwtAlgorithm::RS256),
    ("RS384", JwtAlgorithm::RS384),
    ("RS512", JwtAlgorithm::RS512),
    ("PS256", JwtAlgorithm::PS256),
    ("PS384", JwtAlgorithm::PS384),
    ("PS512", JwtAlgorithm::PS512),
    ("ES256", JwtAlgorithm::ES256),
    ("ES384", JwtAlgorithm::ES384),
    ("EdDSA", JwtAlgorithm::EdDSA),
    ("HS256", JwtAlgorithm::HS256),
    ("HS384", JwtAlgorithm::HS384),
    ("HS512", JwtAlgorithm::HS512),
];

/// A secret that verifies can also sign, so the HS family is only there for those who ask.
const ALGORITHMS_BY_DEFAULT: [JwtAlgorithm; 3] = [
    JwtAlgorithm::RS256,
    JwtAlgorithm::ES256,
    JwtAlgorithm::EdDSA,
];

pub(super) fn principals(item: Option<&Item<'_>>) -> Principals {
    let read = item.and_then(|item| {
        item.section(|section| {
            let principals = Principals {
                api_keys: section.sub("api_keys").and_then(|item| api_keys(&item)),
                jwt: section.sub("jwt").and_then(|item| jwt(&item)),
                required: section.read("required", false, Item::switch),
                on_invalid: section.read("on_invalid", OnInvalid::default(), |item| {
                    item.word(&[
                        ("reject", OnInvalid::Reject),
                        ("anonymous", OnInvalid::Anonymous),
                    ])
                }),
            };
            if principals.required && section.among(&["api_keys", "jwt"]).is_empty() {
                section.refuse("required", "needs api_keys or jwt, or nobody could pass");
            }
            principals
        })
    });
    read.unwrap_or_default()
}

fn api_keys(item: &Item<'_>) -> Option<ApiKeys> {
    item.section(|section| {
        let header = section.read("header", "x-api-key".to_owned(), Item::header_name);
        let file = section
            .need("file", "the list of keys")
            .and_then(|item| item.file())
            .unwrap_or_default();
        ApiKeys { header, file }
    })
}

fn jwt(item: &Item<'_>) -> Option<Jwt> {
    item.section(|section| {
        let header = section.read("header", "authorization".to_owned(), Item::header_name);
        let jwks_file = section.need("jwks_file", "the keys that tokens are signed with");
        let algorithms = match section.get("algorithms") {
            None => ALGORITHMS_BY_DEFAULT.to_vec(),
            Some(item) => algorithms(&item),
        };
        Jwt {
            header,
            jwks_file: jwks_file.and_then(|item| item.file()).unwrap_or_default(),
            issuer: section.text_or_none("issuer"),
            audience: section.text_or_none("audience"),
            algorithms,
            leeway: section.read("leeway", Nanos::MINUTE, |item| {
                item.duration(Nanos::ZERO..=Nanos::HOUR)
            }),
        }
    })
}

fn algorithms(item: &Item<'_>) -> Vec<JwtAlgorithm> {
    let items = item.one_or_more();
    if items.is_empty() {
        item.note("must name at least one algorithm");
    }
    let mut algorithms: Vec<JwtAlgorithm> = Vec::new();
    for item in &items {
        match item.word(&ALGORITHMS) {
            Some(algorithm) if !algorithms.contains(&algorithm) => algorithms.push(algorithm),
            _ => {}
        }
    }
    algorithms
}
