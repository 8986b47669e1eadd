//! A reply of the service: as it is written, and the one place where it is checked.
//!
//! JSON, protocol buffers and values in Redis all become a [`ServiceReply`] first, which has the
//! fields of the protocol and no meaning yet. [`ServiceReply::check`] turns it into limits or says
//! what is wrong. The service is trusted to set limits, but not to be free of mistakes: everything
//! in a reply is bounded here, and nothing in it can make this process panic.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sluicegate_core::{FailurePolicy, FailureStatus, Nanos, Quota, parse_duration};

use super::backend::{BackendHttp, BackendPolicy};
use super::limits::{ExternalLimits, TenantPolicy};
use super::optional_field::{IgnoredField, OptionalField};

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
    /// Optional fields that could not be read; they have their default.
    #[serde(skip)]
    pub(super) unreadable: Vec<IgnoredField>,
}

/// The limits in a reply, and the parts of it that are ignored because they are invalid.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CheckedReply {
    pub(super) limits: ExternalLimits,
    /// Each field once.
    pub(super) ignored: Vec<IgnoredField>,
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
        let whole = |name: &str, wrong: &'static str| {
            let number = fields.whole(name).ok_or(wrong)?;
            Ok::<i64, &'static str>(number.unwrap_or_default())
        };
        let mut reply = Self {
            average: whole("average", "average is not a whole number")?,
            burst: whole("burst", "burst is not a whole number")?,
            period: fields.text("period").ok_or("period is not a string")?,
            ..Self::default()
        };
        reply.read_optional(&fields);
        Ok(reply)
    }

    /// Reads the fields that are left out alone when they are wrong.
    fn read_optional(&mut self, fields: &JsonFields<'_>) {
        let mut unreadable = Vec::new();
        let mut note = |field, why| unreadable.push(IgnoredField { field, why });
        let mut text = |field: OptionalField| {
            fields.text(field.name()).unwrap_or_else(|| {
                note(field, "not a string");
                String::new()
            })
        };
        self.tenant_key = text(OptionalField::TenantKey);
        self.backend_url = text(OptionalField::BackendUrl);
        self.request_timeout = text(OptionalField::RequestTimeout);
        let mut word = |field: OptionalField, number| {
            fields.word(field.name(), number).unwrap_or_else(|| {
                note(field, "unknown value");
                0
            })
        };
        self.failure_policy = word(OptionalField::FailurePolicy, failure_policy_number);
        self.backend_protocol = word(OptionalField::BackendProtocol, protocol_number);
        self.failure_code = fields.small("failure_code").unwrap_or_else(|| {
            note(OptionalField::FailureCode, "not a number");
            0
        });
        self.max_age = fields
            .whole(OptionalField::CacheMaxAge.name())
            .unwrap_or_else(|| {
                note(OptionalField::CacheMaxAge, "not a whole number");
                None
            });
        self.no_store = fields
            .switch(OptionalField::CacheNoStore.name())
            .unwrap_or_else(|| {
                note(OptionalField::CacheNoStore, "neither true nor false");
                false
            });
        self.unreadable = unreadable;
    }

    /// The limits that the reply sets, or what is wrong with it.
    ///
    /// A wrong `average`, `burst` or `period` makes the whole reply unusable, because no quota
    /// follows from it. Any other field that is wrong is left out alone: the quota still holds, and
    /// in that one point the caller is treated as without the service.
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
        let quota = self.quota()?;
        let mut ignored = self.unreadable.clone();
        let mut note = |field, why| ignored.push(IgnoredField { field, why });
        if self.max_age.is_some_and(i64::is_negative) {
            note(OptionalField::CacheMaxAge, "negative");
        }
        let tenant = self.tenant().unwrap_or_else(|why| {
            note(OptionalField::TenantKey, why);
            None
        });
        let failure_status = self.failure_status().unwrap_or_else(|why| {
            note(OptionalField::FailureCode, why);
            None
        });
        let on_failure = self.on_failure().unwrap_or_else(|why| {
            note(OptionalField::FailurePolicy, why);
            None
        });
        let http = backend_http(self.backend_protocol).unwrap_or_else(|why| {
            note(OptionalField::BackendProtocol, why);
            BackendHttp::Auto
        });
        let request_timeout = self.timeout().unwrap_or_else(|why| {
            note(OptionalField::RequestTimeout, why);
            None
        });
        let backend = match self.backend_url.as_str() {
            "" => None,
            url => match backends.parse(url) {
                Ok(backend) => Some(super::Backend { http, ..backend }),
                Err(refusal) => {
                    note(OptionalField::BackendUrl, refusal.as_str());
                    None
                }
            },
        };
        let limits = ExternalLimits {
            quota,
            tenant,
            on_failure,
            failure_status,
            backend,
            request_timeout,
            is_stale: false,
        };
        Ok(CheckedReply { limits, ignored })
    }

    /// The counter to charge; `None` is the caller's own.
    fn tenant(&self) -> Result<Option<String>, &'static str> {
        match self.tenant_key.as_str() {
            "" => Ok(None),
            key if is_tenant_key(key) => Ok(Some(key.to_owned())),
            _ => Err("not 1 to 256 letters, digits, '.', '_', ':' and '-'"),
        }
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
        status.map(Some).ok_or("not a status from 400 to 599")
    }

    /// The failure policy by its number.
    fn on_failure(&self) -> Result<Option<TenantPolicy>, &'static str> {
        match self.failure_policy {
            0 => Ok(None),
            1 => Ok(Some(TenantPolicy::Open)),
            2 => Ok(Some(TenantPolicy::Closed)),
            3 => Ok(Some(TenantPolicy::Local)),
            _ => Err("unknown value"),
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
                _ => Err("not a duration from 1ms to 1h"),
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
    /// `Some(None)` when it is absent, `None` when it is no whole number.
    fn whole(&self, name: &str) -> Option<Option<i64>> {
        match self.get(name) {
            None => Some(None),
            Some(Value::Number(number)) => number.as_i64().map(Some),
            Some(Value::String(text)) => text.parse().ok().map(Some),
            Some(_) => None,
        }
    }

    /// A whole number that fits 32 bits; 0 when it is absent, `None` when it is none.
    fn small(&self, name: &str) -> Option<i32> {
        i32::try_from(self.whole(name)?.unwrap_or_default()).ok()
    }

    /// A string; empty when it is absent, `None` when it is none.
    fn text(&self, name: &str) -> Option<String> {
        match self.get(name) {
            None => Some(String::new()),
            Some(Value::String(text)) => Some(text.clone()),
            Some(_) => None,
        }
    }

    /// A boolean; false when it is absent, `None` when it is none.
    fn switch(&self, name: &str) -> Option<bool> {
        match self.get(name) {
            None => Some(false),
            Some(Value::Bool(on)) => Some(*on),
            Some(_) => None,
        }
    }

    /// An enum value, by name or by number. `None` when the name is unknown; unknown numbers are
    /// found by [`ServiceReply::check`], which also sees those of protocol buffers.
    fn word(&self, name: &str, number: fn(&str) -> Option<i32>) -> Option<i32> {
        match self.get(name) {
            None => Some(0),
            Some(Value::String(text)) => number(text),
            Some(_) => self.small(name),
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
        _ => Err("unknown value"),
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
