//! `principals`: the credentials that callers may show, API keys and JSON web tokens.
//!
//! The files with keys are not opened here: the server reads them, and again when they change.

use std::path::PathBuf;

use sluicegate_core::Nanos;

use super::external::parse_url;
use crate::field::{Field, Section};
use crate::typed::{
    ApiKeys, CredentialPolicy, JwksSource, JwksUrl, Jwt, JwtAlgorithm, OnInvalid, Principals,
    ServiceAddress,
};

/// The names of RFC 7518 and RFC 8037. `none` is not among them.
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

/// The algorithms without `principals.jwt.algorithms`. A secret that verifies can also sign, so the
/// HS family has to be asked for.
const ALGORITHMS_BY_DEFAULT: [JwtAlgorithm; 3] = [
    JwtAlgorithm::RS256,
    JwtAlgorithm::ES256,
    JwtAlgorithm::EdDSA,
];

/// Nobody needs a credential without the section.
pub(super) fn principals(field: Option<&Field<'_>>) -> Principals {
    let read = field.and_then(|field| {
        field.section(|section| {
            let is_on = section.enabled();
            let principals = Principals {
                api_keys: section
                    .subsection("api_keys")
                    .and_then(|field| api_keys(&field)),
                jwt: section.subsection("jwt").and_then(|field| jwt(&field)),
                required: section.read("required", false, Field::boolean),
                on_invalid: section.read("on_invalid", OnInvalid::default(), |field| {
                    field.word(&[
                        ("reject", OnInvalid::Reject),
                        ("anonymous", OnInvalid::Anonymous),
                    ])
                }),
                credentials: section.read("credentials", CredentialPolicy::default(), |field| {
                    field.word(&[
                        ("verify_all", CredentialPolicy::VerifyAll),
                        ("strip_unverified", CredentialPolicy::StripUnverified),
                    ])
                }),
            };
            // A section that is turned off is as good as none.
            let is_off = |key: &&'static str| section.first_of(&[key]).is_switched_off();
            let has_none = section.present(&["api_keys", "jwt"]).iter().all(is_off);
            if principals.required && has_none && is_on {
                section.refuse(
                    "required",
                    "needs api_keys or jwt: without them every request is rejected",
                );
            }
            is_on.then_some(principals)
        })?
    });
    read.unwrap_or_default()
}

/// `{ enabled, header, file }`; `None` when it is off.
fn api_keys(field: &Field<'_>) -> Option<ApiKeys> {
    field.section(|section| {
        let is_on = section.enabled();
        let header = section.read("header", "x-api-key".to_owned(), Field::header_name);
        let file = section
            .need("file", "the list of keys")
            .and_then(|field| field.file())
            .unwrap_or_default();
        is_on.then_some(ApiKeys { header, file })
    })?
}

/// `{ enabled, header, jwks_file, jwks_url, jwks, issuer, audience, algorithms, leeway, typ }`;
/// `None` when it is off.
fn jwt(field: &Field<'_>) -> Option<Jwt> {
    field.section(|section| {
        let is_on = section.enabled();
        let header = section.read("header", "authorization".to_owned(), Field::header_name);
        let keys = keys(section);
        let algorithms = match section.get("algorithms") {
            None => ALGORITHMS_BY_DEFAULT.to_vec(),
            Some(field) => algorithms(&field),
        };
        let jwt = Jwt {
            header,
            keys,
            issuer: section.text_or_none("issuer"),
            audience: section.text_or_none("audience"),
            algorithms,
            leeway: section.read("leeway", Nanos::MINUTE, |field| {
                field.duration(Nanos::ZERO..=Nanos::HOUR)
            }),
            types: token_types(section),
        };
        is_on.then_some(jwt)
    })?
}

/// Exactly one of `jwks_file` and `jwks_url`.
fn keys(section: &mut Section<'_>) -> JwksSource {
    let url = section.get("jwks_url");
    let options = section.subsection("jwks");
    let Some(url) = url else {
        let what = "the keys that tokens are signed with; or jwks_url, where they can be fetched";
        let file = section.need("jwks_file", what);
        section.refuse("jwks", "needs jwks_url: a file is read when it changes");
        return JwksSource::File(file.and_then(|field| field.file()).unwrap_or_default());
    };
    section.refuse(
        "jwks_file",
        "cannot be combined with jwks_url: the keys come from one place",
    );
    let at = url
        .text()
        .and_then(|text| parse_url(text).map_err(|why| url.note(why)).ok());
    let mut jwks = JwksUrl {
        at: ServiceAddress::default(),
        path: String::new(),
        refresh: Nanos::from_secs(5 * 60),
        timeout: Nanos::from_secs(5),
        max_stale: Nanos::DAY,
    };
    if let Some(options) = options {
        jwks_options(
            &options,
            at.as_ref().is_some_and(|(at, _)| !at.tls),
            &mut jwks,
        );
    }
    // Without an address the configuration is refused.
    if let Some((at, path)) = at {
        let ca_file = jwks.at.ca_file.take();
        (jwks.at, jwks.path) = (ServiceAddress { ca_file, ..at }, path);
    }
    JwksSource::Url(Box::new(jwks))
}

/// `{ ca_file, refresh, timeout, max_stale }`
fn jwks_options(field: &Field<'_>, is_plain: bool, jwks: &mut JwksUrl) {
    const STALE_MAX: Nanos = Nanos::from_secs(30 * 24 * 60 * 60);
    field.section(|section| {
        jwks.at.ca_file = section.optional("ca_file", |field| ca_file(field, is_plain));
        jwks.refresh = section.read("refresh", jwks.refresh, |field| {
            field.duration(Nanos::from_secs(30)..=Nanos::DAY)
        });
        jwks.timeout = section.read("timeout", jwks.timeout, |field| {
            field.duration(Nanos::MILLISECOND..=Nanos::MINUTE)
        });
        jwks.max_stale = section.read("max_stale", jwks.max_stale, |field| {
            field.duration(Nanos::MINUTE..=STALE_MAX)
        });
        if jwks.max_stale.get() / 2 < jwks.refresh.get() {
            section.first_of(&["max_stale", "refresh"]).note(
                "max_stale must be at least twice refresh, so that one failed fetch does no harm",
            );
        }
    });
}

/// Authorities for an https URL; empty text counts as absent.
fn ca_file(field: &Field<'_>, is_plain: bool) -> Option<PathBuf> {
    if field.any_text()?.is_empty() {
        return None;
    }
    if is_plain {
        field.note("needs a jwks_url with https://");
    }
    field.file()
}

/// The accepted `typ`; `application/` in front of it is optional (RFC 7515, section 4.1.9).
fn token_types(section: &mut Section<'_>) -> Vec<String> {
    let is_given = section.has("typ");
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte);
    let types = section.all("typ", |field| {
        let text = field.text()?.to_ascii_lowercase();
        let name = text.strip_prefix("application/").unwrap_or(&text);
        if name.is_empty() || !name.bytes().all(is_token) {
            field.note_with_value("expected a type of tokens, such as at+jwt or JWT");
            return None;
        }
        Some(name.to_owned())
    });
    if is_given && types.is_empty() {
        let place = section.first_of(&["typ"]);
        place.note("must name at least one type; leave it out to accept any");
    }
    types
}

/// Each algorithm once; at least one.
fn algorithms(field: &Field<'_>) -> Vec<JwtAlgorithm> {
    let fields = field.one_or_more();
    if fields.is_empty() {
        field.note("must name at least one algorithm");
    }
    let mut algorithms: Vec<JwtAlgorithm> = Vec::new();
    for field in &fields {
        match field.word(&ALGORITHMS) {
            Some(algorithm) if !algorithms.contains(&algorithm) => algorithms.push(algorithm),
            _ => {}
        }
    }
    algorithms
}
