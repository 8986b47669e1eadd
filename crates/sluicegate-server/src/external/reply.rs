//! An answer as the service writes it, and what becomes of it: checked once, here, wherever it comes from.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sluicegate_core::{FailurePolicy, FailureStatus, Nanos, Quota, parse_duration};

use super::backend::{BackendHttp, BackendPolicy, BackendRefusal};
use super::limits::ExternalLimits;

/// The numbers and words of an answer, with what is not there left at its default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ServiceReply {
    pub(super) average: i64,
    pub(super) burst: i64,
    pub(super) period: String,
    pub(super) tenant_key: String,
    /// As numbered in the protocol; 0 is none.
    pub(super) failure_policy: i32,
    pub(super) failure_code: i32,
    pub(super) backend_url: String,
    /// As numbered in the protocol; 0 is none.
    pub(super) backend_protocol: i32,
    pub(super) request_timeout: String,
    /// How long it holds; not part of what is kept.
    #[serde(skip)]
    pub(super) max_age: Option<i64>,
    #[serde(skip)]
    pub(super) no_store: bool,
}

/// An answer that was understood, and what of it was left out.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CheckedReply {
    pub(super) limits: ExternalLimits,
    pub(super) has_invalid_tenant: bool,
    pub(super) backend_refusal: Option<BackendRefusal>,
}

/// Whether an answer without `average` is one: in the JSON of protocol buffers, a zero is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ZeroFields {
    Written,
    Omitted,
}

impl ServiceReply {
    /// Reads JSON; the error says what is wrong.
    pub(super) fn from_json(text: &[u8], zeroes: ZeroFields) -> Result<Self, &'static str> {
        // Nested more than 128 deep, it is refused here.
        let value: Value = serde_json::from_slice(text).map_err(|_| "it is no JSON")?;
        let Value::Object(fields) = &value else {
            return Err("it is no object");
        };
        if has_controls(&value) {
            return Err("it holds control characters");
        }
        let fields = JsonFields(fields);
        if zeroes == ZeroFields::Written && !fields.has("average") {
            return Err("average is missing");
        }
        Ok(Self {
            average: fields
                .whole("average", "average is no whole number")?
                .unwrap_or_default(),
            burst: fields
                .whole("burst", "burst is no whole number")?
                .unwrap_or_default(),
            period: fields.text("period", "period is no text")?,
            tenant_key: fields.text("tenant_key", "tenant_key is no text")?,
            failure_policy: fields
                .word("failure_policy", failure_policy_number)?
                .ok_or("failure_policy is unknown")?,
            failure_code: fields.small("failure_code", "failure_code is no number of a status")?,
            backend_url: fields.text("backend_url", "backend_url is no text")?,
            backend_protocol: fields
                .word("backend_protocol", protocol_number)?
                .ok_or("backend_protocol is unknown")?,
            request_timeout: fields.text("request_timeout", "request_timeout is no text")?,
            max_age: fields.whole(
                "cache_max_age_seconds",
                "cache_max_age_seconds is no whole number",
            )?,
            no_store: fields
                .switch("cache_no_store", "cache_no_store is neither true nor false")?,
        })
    }

    /// What it means; the error says what is wrong.
    pub(super) fn check(&self, backends: &BackendPolicy) -> Result<CheckedReply, &'static str> {
        let texts = [
            &self.period,
            &self.tenant_key,
            &self.backend_url,
            &self.request_timeout,
        ];
        if texts.iter().any(|text| text.chars().any(char::is_control)) {
            return Err("it holds control characters");
        }
        if self.max_age.is_some_and(i64::is_negative) {
            return Err("cache_max_age_seconds is negative");
        }
        let tenant = Some(&self.tenant_key)
            .filter(|key| is_tenant_key(key))
            .cloned();
        let (backend, backend_refusal) = match self.backend_url.as_str() {
            "" => (None, None),
            url => match backends.parse(url) {
                Ok(backend) => (Some(backend), None),
                Err(refused) => (None, Some(refused)),
            },
        };
        let http = backend_http(self.backend_protocol)?;
        let failure_status = self.failure_status()?;
        let limits = ExternalLimits {
            quota: self.quota()?,
            on_failure: self.on_failure(failure_status)?,
            failure_status,
            backend: backend.map(|backend| super::Backend { http, ..backend }),
            request_timeout: self.timeout()?,
            is_stale: false,
            tenant,
        };
        let has_invalid_tenant = limits.tenant.is_none() && !self.tenant_key.is_empty();
        Ok(CheckedReply {
            limits,
            has_invalid_tenant,
            backend_refusal,
        })
    }

    /// `average: 0` is unlimited. Without a burst, as many at once as in a period; without a period, a second.
    fn quota(&self) -> Result<Option<Quota>, &'static str> {
        let average = u64::try_from(self.average).map_err(|_| "average is negative")?;
        let burst = u64::try_from(self.burst).map_err(|_| "burst is negative")?;
        let period = match self.period.as_str() {
            "" => Nanos::SECOND,
            text => duration(text).ok_or("period is no duration")?,
        };
        if average == 0 {
            return Ok(None);
        }
        let burst = if burst == 0 { average } else { burst };
        Quota::new(average, period, burst)
            .map(Some)
            .map_err(|_| "its quota cannot be kept")
    }

    fn failure_status(&self) -> Result<Option<FailureStatus>, &'static str> {
        if self.failure_code == 0 {
            return Ok(None);
        }
        let status = u16::try_from(self.failure_code)
            .ok()
            .and_then(|code| FailureStatus::new(code).ok());
        status
            .map(Some)
            .ok_or("failure_code is no status from 400 to 599")
    }

    fn on_failure(
        &self,
        status: Option<FailureStatus>,
    ) -> Result<Option<FailurePolicy>, &'static str> {
        match self.failure_policy {
            0 => Ok(None),
            1 => Ok(Some(FailurePolicy::Open)),
            2 => Ok(Some(FailurePolicy::Closed(status.unwrap_or_default()))),
            3 => Ok(Some(FailurePolicy::Local)),
            _ => Err("failure_policy is unknown"),
        }
    }

    fn timeout(&self) -> Result<Option<Nanos>, &'static str> {
        const RANGE: std::ops::RangeInclusive<Nanos> = Nanos::MILLISECOND..=Nanos::HOUR;
        match self.request_timeout.as_str() {
            "" => Ok(None),
            text => match duration(text) {
                Some(span) if RANGE.contains(&span) => Ok(Some(span)),
                _ => Err("request_timeout is no duration of 1ms to 1h"),
            },
        }
    }
}

/// The fields of an object, by either of the two spellings that protocol buffers have in JSON.
struct JsonFields<'a>(&'a Map<String, Value>);

impl<'a> JsonFields<'a> {
    fn get(&self, name: &str) -> Option<&'a Value> {
        let found = self.0.get(name).or_else(|| self.0.get(&camel(name)));
        found.filter(|value| !value.is_null())
    }

    fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// A number, or its digits as text.
    fn whole(&self, name: &str, wrong: &'static str) -> Result<Option<i64>, &'static str> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Number(number)) => number.as_i64().map(Some).ok_or(wrong),
            Some(Value::String(text)) => text.parse().map(Some).map_err(|_| wrong),
            Some(_) => Err(wrong),
        }
    }

    fn small(&self, name: &str, wrong: &'static str) -> Result<i32, &'static str> {
        i32::try_from(self.whole(name, wrong)?.unwrap_or_default()).map_err(|_| wrong)
    }

    fn text(&self, name: &str, wrong: &'static str) -> Result<String, &'static str> {
        match self.get(name) {
            None => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(_) => Err(wrong),
        }
    }

    fn switch(&self, name: &str, wrong: &'static str) -> Result<bool, &'static str> {
        match self.get(name) {
            None => Ok(false),
            Some(Value::Bool(on)) => Ok(*on),
            Some(_) => Err(wrong),
        }
    }

    /// A word or its number; `None` when the word is unknown. Unknown numbers are found out later.
    fn word(
        &self,
        name: &str,
        number: fn(&str) -> Option<i32>,
    ) -> Result<Option<i32>, &'static str> {
        match self.get(name) {
            None => Ok(Some(0)),
            Some(Value::String(text)) => Ok(number(text)),
            Some(_) => self
                .small(name, "a choice is neither a word nor a number")
                .map(Some),
        }
    }
}

/// `cacheMaxAgeSeconds` for `cache_max_age_seconds`.
fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |whole, word| {
        whole + &word[..1].to_ascii_uppercase() + &word[1..]
    })
}

fn failure_policy_number(word: &str) -> Option<i32> {
    let word = word.strip_prefix("FAILURE_POLICY_").unwrap_or(word);
    if word.is_empty() || word.eq_ignore_ascii_case("unspecified") {
        return Some(0);
    }
    match word.parse().ok()? {
        FailurePolicy::Open => Some(1),
        FailurePolicy::Closed(_) => Some(2),
        FailurePolicy::Local => Some(3),
    }
}

fn protocol_number(word: &str) -> Option<i32> {
    let word = word.strip_prefix("BACKEND_PROTOCOL_").unwrap_or(word);
    match word.to_ascii_lowercase().as_str() {
        "" | "unspecified" => Some(0),
        "h1" => Some(1),
        "h2" => Some(2),
        "h3" => Some(3),
        _ => None,
    }
}

/// HTTP/3 is not spoken here: such a server is spoken to in what it speaks besides.
fn backend_http(number: i32) -> Result<BackendHttp, &'static str> {
    match number {
        0 | 3 => Ok(BackendHttp::Auto),
        1 => Ok(BackendHttp::Http1),
        2 => Ok(BackendHttp::Http2),
        _ => Err("backend_protocol is unknown"),
    }
}

fn is_tenant_key(key: &str) -> bool {
    const LENGTH_MAX: usize = 256;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    (1..=LENGTH_MAX).contains(&key.len()) && key.bytes().all(is_plain)
}

/// `30s`, and `1m30s` as Go writes it.
fn duration(text: &str) -> Option<Nanos> {
    const PARTS_MAX: usize = 6;
    if let Ok(span) = parse_duration(text) {
        return Some(span);
    }
    let mut nanos: u64 = 0;
    let mut rest = text;
    for _ in 0..PARTS_MAX {
        let unit = rest.find(|letter: char| !letter.is_ascii_digit())?;
        let end = rest[unit..]
            .find(|letter: char| letter.is_ascii_digit())
            .map_or(rest.len(), |at| unit + at);
        nanos = nanos.checked_add(parse_duration(&rest[..end]).ok()?.get())?;
        rest = &rest[end..];
        if rest.is_empty() {
            return Some(Nanos::new(nanos));
        }
    }
    None
}

fn has_controls(value: &Value) -> bool {
    let in_text = |text: &str| text.chars().any(char::is_control);
    match value {
        Value::String(text) => in_text(text),
        Value::Array(items) => items.iter().any(has_controls),
        Value::Object(fields) => fields
            .iter()
            .any(|(name, value)| in_text(name) || has_controls(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests;
