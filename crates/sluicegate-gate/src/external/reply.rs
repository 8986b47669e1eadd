//! A reply of the service: as it is written, and the one place where it is checked.
//!
//! JSON, protocol buffers and values in Redis all become a [`ServiceReply`] first, which has the
//! fields of the protocol and no meaning yet. [`ServiceReply::check`] turns it into limits or says
//! what is wrong. The service is trusted to set limits, but not to be free of mistakes: everything
//! in a reply is bounded here, and nothing in it can make this process panic.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sluicegate_core::{FailurePolicy, FailureStatus, Nanos, Quota, parse_duration};

use super::backend::{BackendHttp, BackendPolicy, BackendRefusal};
use super::limits::ExternalLimits;

/// The fields of a reply as the service sends them; a field that is absent has its default.
///
/// Serialized, it is the value in Redis, so its field names are part of that format.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ServiceReply {
    /// Units per period; 0 is unlimited.
    pub(super) average: i64,
    /// Units at once; 0 means as many as `average`.
    pub(super) burst: i64,
    /// A duration such as `1m30s`; empty is one second.
    pub(super) period: String,
    /// The counter to charge instead of the caller's own; empty is none.
    pub(super) tenant_key: String,
    /// The number of the policy in the protocol; 0 is unspecified.
    pub(super) failure_policy: i32,
    /// A status from 400 to 599; 0 is unspecified.
    pub(super) failure_code: i32,
    /// The server for the caller's requests; empty is the configured one.
    pub(super) backend_url: String,
    /// The number of the protocol version; 0 is unspecified.
    pub(super) backend_protocol: i32,
    /// A duration; empty is the configured timeout.
    pub(super) request_timeout: String,
    /// The lifetime in seconds. Used once, by `lifetime.rs`, and not stored in Redis, where the
    /// lifetime stands beside the reply.
    #[serde(skip)]
    pub(super) max_age: Option<i64>,
    /// True when the reply must not be stored at all.
    #[serde(skip)]
    pub(super) no_store: bool,
}

/// The limits in a reply, and the parts of it that are ignored because they are invalid.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CheckedReply {
    pub(super) limits: ExternalLimits,
    /// True when `tenant_key` cannot name a counter; the caller keeps its own.
    pub(super) has_invalid_tenant: bool,
    /// Why `backend_url` is not used, if it was refused.
    pub(super) backend_refusal: Option<BackendRefusal>,
}

/// How the format writes a zero, which decides whether a reply without `average` is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ZeroFields {
    /// Plain JSON: a missing `average` is a mistake, perhaps the JSON of an error.
    Written,
    /// JSON of protocol buffers, which leaves zeros out: a missing `average` is unlimited.
    Omitted,
}

impl ServiceReply {
    /// Reads JSON, or says what is wrong with it. Unknown fields are ignored, so that the service
    /// can add some.
    pub(super) fn from_json(text: &[u8], zeroes: ZeroFields) -> Result<Self, &'static str> {
        // The parser refuses more than 128 levels of nesting.
        let value: Value = serde_json::from_slice(text).map_err(|_| "it is not valid JSON")?;
        let Value::Object(fields) = &value else {
            return Err("it is not a JSON object");
        };
        if has_controls(&value) {
            return Err("it contains control characters");
        }
        let fields = JsonFields(fields);
        if zeroes == ZeroFields::Written && !fields.has("average") {
            return Err("average is missing");
        }
        Ok(Self {
            average: fields
                .whole("average", "average is not a whole number")?
                .unwrap_or_default(),
            burst: fields
                .whole("burst", "burst is not a whole number")?
                .unwrap_or_default(),
            period: fields.text("period", "period is not a string")?,
            tenant_key: fields.text("tenant_key", "tenant_key is not a string")?,
            failure_policy: fields
                .word("failure_policy", failure_policy_number)?
                .ok_or("failure_policy is unknown")?,
            failure_code: fields.small("failure_code", "failure_code is not a number")?,
            backend_url: fields.text("backend_url", "backend_url is not a string")?,
            backend_protocol: fields
                .word("backend_protocol", protocol_number)?
                .ok_or("backend_protocol is unknown")?,
            request_timeout: fields.text("request_timeout", "request_timeout is not a string")?,
            max_age: fields.whole(
                "cache_max_age_seconds",
                "cache_max_age_seconds is not a whole number",
            )?,
            no_store: fields
                .switch("cache_no_store", "cache_no_store is neither true nor false")?,
        })
    }

    /// The limits that the reply sets, or what is wrong with it.
    ///
    /// Wrong numbers make the whole reply unusable, because no quota follows from them. A bad
    /// tenant or backend is only left out: the quota still holds, and the caller is charged and
    /// served as without the service.
    pub(super) fn check(&self, backends: &BackendPolicy) -> Result<CheckedReply, &'static str> {
        let texts = [
            &self.period,
            &self.tenant_key,
            &self.backend_url,
            &self.request_timeout,
        ];
        if texts.iter().any(|text| text.chars().any(char::is_control)) {
            return Err("it contains control characters");
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

    /// The quota; `None` is unlimited. A wrong period is refused even then, to show the mistake
    /// early.
    fn quota(&self) -> Result<Option<Quota>, &'static str> {
        let average = u64::try_from(self.average).map_err(|_| "average is negative")?;
        let burst = u64::try_from(self.burst).map_err(|_| "burst is negative")?;
        let period = match self.period.as_str() {
            "" => Nanos::SECOND,
            text => parse_duration(text).map_err(|_| "period is not a duration")?,
        };
        if average == 0 {
            return Ok(None);
        }
        let burst = if burst == 0 { average } else { burst };
        Quota::new(average, period, burst)
            .map(Some)
            .map_err(|_| "the quota is out of range")
    }

    /// The status of refusals while the store is away.
    fn failure_status(&self) -> Result<Option<FailureStatus>, &'static str> {
        if self.failure_code == 0 {
            return Ok(None);
        }
        let status = u16::try_from(self.failure_code)
            .ok()
            .and_then(|code| FailureStatus::new(code).ok());
        status
            .map(Some)
            .ok_or("failure_code is not a status from 400 to 599")
    }

    /// The failure policy by its number; `closed` refuses with `status`, or with the default one.
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

    /// The timeout of the caller's requests. Bounded, so that a typing error neither fails every
    /// request nor holds connections for days.
    fn timeout(&self) -> Result<Option<Nanos>, &'static str> {
        const RANGE: std::ops::RangeInclusive<Nanos> = Nanos::MILLISECOND..=Nanos::HOUR;
        match self.request_timeout.as_str() {
            "" => Ok(None),
            text => match parse_duration(text) {
                Ok(span) if RANGE.contains(&span) => Ok(Some(span)),
                _ => Err("request_timeout is not a duration from 1ms to 1h"),
            },
        }
    }
}

/// The fields of a JSON object. Each may be in `snake_case` or in `camelCase`, the two spellings
/// that protocol buffers have in JSON.
struct JsonFields<'a>(&'a Map<String, Value>);

impl<'a> JsonFields<'a> {
    /// `null` counts as absent.
    fn get(&self, name: &str) -> Option<&'a Value> {
        let found = self.0.get(name).or_else(|| self.0.get(&camel(name)));
        found.filter(|value| !value.is_null())
    }

    fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// A number, or its digits in a string: JSON of protocol buffers writes 64-bit numbers so.
    fn whole(&self, name: &str, wrong: &'static str) -> Result<Option<i64>, &'static str> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Number(number)) => number.as_i64().map(Some).ok_or(wrong),
            Some(Value::String(text)) => text.parse().map(Some).map_err(|_| wrong),
            Some(_) => Err(wrong),
        }
    }

    /// A whole number that fits 32 bits; 0 when it is absent.
    fn small(&self, name: &str, wrong: &'static str) -> Result<i32, &'static str> {
        i32::try_from(self.whole(name, wrong)?.unwrap_or_default()).map_err(|_| wrong)
    }

    /// A string; empty when it is absent.
    fn text(&self, name: &str, wrong: &'static str) -> Result<String, &'static str> {
        match self.get(name) {
            None => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(_) => Err(wrong),
        }
    }

    /// A boolean; false when it is absent.
    fn switch(&self, name: &str, wrong: &'static str) -> Result<bool, &'static str> {
        match self.get(name) {
            None => Ok(false),
            Some(Value::Bool(on)) => Ok(*on),
            Some(_) => Err(wrong),
        }
    }

    /// An enum value, by name or by number. `None` when the name is unknown; unknown numbers are
    /// found by [`ServiceReply::check`], which also sees those of protocol buffers.
    fn word(
        &self,
        name: &str,
        number: fn(&str) -> Option<i32>,
    ) -> Result<Option<i32>, &'static str> {
        match self.get(name) {
            None => Ok(Some(0)),
            Some(Value::String(text)) => Ok(number(text)),
            Some(_) => self
                .small(name, "an enum value is neither a string nor a number")
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

/// The number of a failure policy, by its name in our configuration or in the protocol.
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

/// The number of an HTTP version, by its short name or its name in the protocol.
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

/// The HTTP version for a backend. HTTP/3 is not supported, so such a backend is negotiated with
/// like any other.
fn backend_http(number: i32) -> Result<BackendHttp, &'static str> {
    match number {
        0 | 3 => Ok(BackendHttp::Auto),
        1 => Ok(BackendHttp::Http1),
        2 => Ok(BackendHttp::Http2),
        _ => Err("backend_protocol is unknown"),
    }
}

/// Returns true for 1 to 256 letters, digits and `._:-`: characters that are safe in a key of
/// Redis, in a log and in a URL.
fn is_tenant_key(key: &str) -> bool {
    const LENGTH_MAX: usize = 256;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    (1..=LENGTH_MAX).contains(&key.len()) && key.bytes().all(is_plain)
}

/// Returns true when any string or field name contains a control character. Checked in the whole
/// document, so that no text of a reply can forge a line of a log.
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
