//! Requests in JSON, as `/v1/check` and its neighbours and `explain` take them.
//!
//! Reading is strict: every field is known and of its type, and an error names the field.

mod counter_form;

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::net::IpAddr;

use http::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Uri};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;
use sluicegate::http::{HeaderLines, host_of, one_spelling, split_target};
use sluicegate_core::{Nanos, Principal, Subject, address};
use sluicegate_gate::external::{HeaderSpelling, SpelledHeaders};

pub(crate) use self::counter_form::plain_counter_check;

/// A mistake in the body of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QuestionError {
    /// The field, with its path; `None` when the body as a whole is wrong.
    pub(crate) field: Option<String>,
    pub(crate) detail: Cow<'static, str>,
}

impl QuestionError {
    pub(crate) fn of_field(field: impl Into<String>, detail: impl Into<Cow<'static, str>>) -> Self {
        Self {
            field: Some(shortened(field.into().into()).into_owned()),
            detail: shortened(detail.into()),
        }
    }
}

/// The beginning of a text that may repeat what a caller sent: nobody reads more.
pub(crate) fn shortened(text: Cow<'static, str>) -> Cow<'static, str> {
    const LENGTH_MAX: usize = 300;
    if text.len() <= LENGTH_MAX {
        return text;
    }
    format!("{}…", &text[..text.floor_char_boundary(LENGTH_MAX)]).into()
}

impl fmt::Display for QuestionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.field {
            Some(field) => write!(f, "{field}: {}", self.detail),
            None => f.write_str(&self.detail),
        }
    }
}

/// A check or a peek.
pub(crate) struct CheckRequest {
    pub(crate) about: CheckTarget,
    pub(crate) cost: u64,
}

/// The subject of a check: a request, or a counter by its name.
pub(crate) enum CheckTarget {
    Request(Box<RequestDescription>),
    Counter(CounterName),
}

/// A counter by the name of its limit and its key.
pub(crate) struct CounterName {
    pub(crate) limit: String,
    pub(crate) key: Vec<String>,
}

/// A request as a caller describes it.
pub(crate) struct RequestDescription {
    pub(crate) client_ip: Option<IpAddr>,
    pub(crate) method: Method,
    pub(crate) host: Option<String>,
    pub(crate) path: String,
    pub(crate) query: Option<String>,
    pub(crate) sni: Option<String>,
    pub(crate) headers: HeaderMap,
    /// The names of the headers as they came.
    header_names: Vec<String>,
    pub(crate) principal: Option<Principal>,
    pub(crate) descriptors: Vec<(String, String)>,
}

impl RequestDescription {
    /// Its entries, as a subject borrows them.
    pub(crate) fn descriptors(&self) -> Vec<(&str, &str)> {
        self.descriptors
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect()
    }

    /// The headers, as the limits service is told about them.
    pub(crate) fn spelled_headers(&self) -> SpelledHeaders<'_> {
        SpelledHeaders {
            lines: &self.headers,
            spelling: HeaderSpelling::Names(&self.header_names),
        }
    }

    /// The subject that limits are matched against.
    pub(crate) fn subject<'a>(
        &'a self,
        descriptors: &'a [(&'a str, &'a str)],
        headers: &'a HeaderLines<'a>,
    ) -> Subject<'a> {
        Subject {
            client_ip: self.client_ip,
            method: self.method.as_str(),
            host: self.host.as_deref(),
            path: &self.path,
            query: self.query.as_deref(),
            headers,
            sni: self.sni.as_deref(),
            principal: self.principal.as_ref(),
            domain: None,
            descriptors,
        }
    }
}

/// Reads a check that is about a request, and its cost; an error names the place.
pub(crate) fn read_description(body: &[u8]) -> Result<(Box<RequestDescription>, u64), String> {
    let CheckRequest { about, cost } = check(body).map_err(|error| error.to_string())?;
    match about {
        CheckTarget::Request(described) => Ok((described, cost)),
        CheckTarget::Counter(_) => {
            Err("limit: say a subject; a counter is inspected by its name".to_owned())
        }
    }
}

/// True when the body says that it is JSON. A page of another site cannot send that type without a
/// preflight request, which is never granted.
pub(crate) fn is_json_body(headers: &HeaderMap) -> bool {
    let content_type = headers
        .get(CONTENT_TYPE)
        .map_or(&b""[..], HeaderValue::as_bytes);
    let media_type = content_type.split(|byte| *byte == b';').next();
    let media_type = media_type.unwrap_or_default().trim_ascii();
    media_type.eq_ignore_ascii_case(b"application/json")
}

/// Units to give back.
pub(crate) struct RefundRequest {
    pub(crate) counter: CounterName,
    pub(crate) cost: u64,
    pub(crate) age: Nanos,
}

/// Reads a check or a peek.
pub(crate) fn check(body: &[u8]) -> Result<CheckRequest, QuestionError> {
    let CheckRequestJson {
        subject,
        limit,
        key,
        cost,
    } = read(body)?;
    let about = match (subject, limit, key) {
        (Some(JsonObject(subject)), None, None) => {
            CheckTarget::Request(Box::new(described(subject)?))
        }
        (None, limit, key) if limit.is_some() || key.is_some() => {
            CheckTarget::Counter(counter(limit, key)?)
        }
        (None, _, _) => {
            return Err(QuestionError::of_field(
                "subject",
                "is missing: say a subject, or a limit and its key",
            ));
        }
        (Some(_), Some(_), _) => {
            return Err(QuestionError::of_field(
                "limit",
                "a subject and a limit do not go together",
            ));
        }
        (Some(_), None, Some(_)) => {
            return Err(QuestionError::of_field(
                "key",
                "a subject and a key do not go together",
            ));
        }
    };
    Ok(CheckRequest {
        about,
        cost: u64::from(cost.unwrap_or(1)),
    })
}

/// Reads a batch: each check as it stands there, to be read on its own.
pub(crate) fn batch(body: &[u8]) -> Result<Vec<&RawValue>, QuestionError> {
    const CHECKS_MAX: usize = 1_000;
    let BatchRequestJson { checks } = read(body)?;
    match checks {
        None => Err(QuestionError::of_field(
            "checks",
            "is missing: say a list of checks",
        )),
        Some(checks) if checks.len() > CHECKS_MAX => Err(QuestionError::of_field(
            "checks",
            format!("at most {CHECKS_MAX} checks (got {})", checks.len()),
        )),
        Some(checks) => Ok(checks),
    }
}

/// Reads a refund.
pub(crate) fn refund(body: &[u8]) -> Result<RefundRequest, QuestionError> {
    let RefundRequestJson {
        limit,
        key,
        cost,
        age_us,
    } = read(body)?;
    let age = Nanos::new(age_us.unwrap_or(0).saturating_mul(1_000));
    Ok(RefundRequest {
        counter: counter(limit, key)?,
        cost: u64::from(cost.unwrap_or(1)),
        age,
    })
}

/// Reads a reset.
pub(crate) fn reset(body: &[u8]) -> Result<CounterName, QuestionError> {
    let ResetRequestJson { limit, key } = read(body)?;
    counter(limit, key)
}

fn counter(limit: Option<String>, key: Option<Vec<String>>) -> Result<CounterName, QuestionError> {
    let limit = limit
        .ok_or_else(|| QuestionError::of_field("limit", "is missing: say the limit's name"))?;
    let key = key.ok_or_else(|| {
        QuestionError::of_field("key", "is missing: say a list with each part of the key")
    })?;
    Ok(CounterName { limit, key })
}

fn described(json: SubjectJson) -> Result<RequestDescription, QuestionError> {
    let wrong =
        |field: &str, what: &'static str| QuestionError::of_field(format!("subject.{field}"), what);
    let client_ip = json
        .client_ip
        .map(|text| address::parse(&text).ok_or(wrong("client_ip", "is no IP address")));
    let method = json.method.as_deref().unwrap_or("GET");
    let method =
        Method::from_bytes(method.as_bytes()).map_err(|_| wrong("method", "is no method"))?;
    let host = json
        .host
        .map(|text| host(text).ok_or(wrong("host", "is no host")));
    let sni = json
        .sni
        .map(|text| self::host(text).ok_or(wrong("sni", "is no host")));
    let (path, query) = split_target(json.path.as_deref().unwrap_or("/"));
    let query = match (query, json.query) {
        (Some(_), Some(_)) => return Err(wrong("query", "the path has a query already")),
        (None, Some(given)) if given.starts_with('?') => {
            return Err(wrong("query", "begins after the question mark"));
        }
        (in_path, given) => given.or_else(|| in_path.map(str::to_owned)),
    };
    let path = one_spelling(path).map(Cow::into_owned);
    let path =
        path.map_err(|ambiguous| QuestionError::of_field("subject.path", ambiguous.to_string()))?;
    let (headers, header_names) = headers_of(json.headers)?;
    if json
        .principal
        .as_ref()
        .is_some_and(|principal| principal.0.id.is_empty())
    {
        return Err(wrong("principal", "must not be empty"));
    }
    Ok(RequestDescription {
        client_ip: client_ip.transpose()?,
        method,
        host: host.transpose()?,
        path,
        query,
        sni: sni.transpose()?,
        headers,
        header_names,
        principal: json.principal.map(|principal| principal.0),
        descriptors: json.descriptors.map(|pairs| pairs.0).unwrap_or_default(),
    })
}

/// The headers of a description, and their names as they came.
fn headers_of(pairs: Option<JsonPairs>) -> Result<(HeaderMap, Vec<String>), QuestionError> {
    let pairs = pairs.map(|headers| headers.0).unwrap_or_default();
    let mut headers = HeaderMap::with_capacity(pairs.len());
    let mut names = Vec::with_capacity(pairs.len());
    for (written, value) in pairs {
        let wrong = |what: &'static str| {
            QuestionError::of_field(format!("subject.headers.{written}"), what)
        };
        let name = HeaderName::try_from(&written).map_err(|_| wrong("is no name of a header"))?;
        let value = HeaderValue::try_from(value).map_err(|_| wrong("is no value of a header"))?;
        if headers.insert(name, value).is_some() {
            return Err(wrong("stands there twice"));
        }
        names.push(written);
    }
    Ok((headers, names))
}

/// A host in its one spelling.
fn host(text: String) -> Option<String> {
    let line = HeaderMap::from_iter([(HOST, HeaderValue::try_from(text).ok()?)]);
    host_of(&Uri::default(), &line).map(Cow::into_owned)
}

/// Everything in a body, or the place of its first mistake.
fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, QuestionError> {
    let no_json = |error: &serde_json::Error| QuestionError {
        field: None,
        detail: shortened(format!("the body is no JSON of this kind: {error}").into()),
    };
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let JsonObject(value) =
        serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
            let path = error.path().to_string();
            match error.inner().classify() {
                Category::Data if path != "." => {
                    QuestionError::of_field(path, error.inner().to_string())
                }
                _ => no_json(error.inner()),
            }
        })?;
    deserializer.end().map_err(|error| no_json(&error))?;
    Ok(value)
}

/// A value that is written with its names; a list of the same values in their order is refused.
struct JsonObject<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for JsonObject<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ObjectVisitor(PhantomData))
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = JsonObject<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<JsonObject<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(entries)).map(JsonObject)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckRequestJson {
    subject: Option<JsonObject<SubjectJson>>,
    limit: Option<String>,
    key: Option<Vec<String>>,
    cost: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchRequestJson<'a> {
    #[serde(borrow)]
    checks: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RefundRequestJson {
    limit: Option<String>,
    key: Option<Vec<String>>,
    cost: Option<u32>,
    age_us: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResetRequestJson {
    limit: Option<String>,
    key: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SubjectJson {
    client_ip: Option<String>,
    method: Option<String>,
    host: Option<String>,
    path: Option<String>,
    query: Option<String>,
    sni: Option<String>,
    headers: Option<JsonPairs>,
    principal: Option<PrincipalJson>,
    descriptors: Option<JsonPairs>,
}

/// Names and values; no name twice.
struct JsonPairs(Vec<(String, String)>);

impl JsonPairs {
    const MOST: usize = 200;
}

impl<'de> Deserialize<'de> for JsonPairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PairsVisitor)
    }
}

struct PairsVisitor;

impl<'de> Visitor<'de> for PairsVisitor {
    type Value = JsonPairs;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("names and their values")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<JsonPairs, A::Error> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        while let Some((name, value)) = entries.next_entry::<String, String>()? {
            if pairs.iter().any(|(known, _)| *known == name) {
                return Err(de::Error::custom(format_args!(
                    "{name:?} stands there twice"
                )));
            }
            if pairs.len() == JsonPairs::MOST {
                return Err(de::Error::custom(format_args!(
                    "more than {} names",
                    JsonPairs::MOST
                )));
            }
            pairs.push((name, value));
        }
        Ok(JsonPairs(pairs))
    }
}

/// `"ann"`, or `{"id": "ann", "claims": {"plan": "gold"}}`.
struct PrincipalJson(Principal);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PrincipalFields {
    id: String,
    claims: Option<JsonPairs>,
}

impl<'de> Deserialize<'de> for PrincipalJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PrincipalVisitor)
    }
}

struct PrincipalVisitor;

impl<'de> Visitor<'de> for PrincipalVisitor {
    type Value = PrincipalJson;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an id, or an object with an id and claims")
    }

    fn visit_str<E: de::Error>(self, id: &str) -> Result<PrincipalJson, E> {
        Ok(PrincipalJson(Principal::new(id)))
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<PrincipalJson, A::Error> {
        let fields = PrincipalFields::deserialize(MapAccessDeserializer::new(entries))?;
        let claims = fields
            .claims
            .map(|claims| claims.0.into_iter().collect())
            .unwrap_or_default();
        Ok(PrincipalJson(Principal {
            id: fields.id,
            claims,
        }))
    }
}

#[cfg(test)]
mod tests;
