//! The messages: what Sluicegate asks, and what it understands as an answer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The question about one caller of a limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct LimitsRequest {
    /// The caller: the values of the limit's key, escaped and joined by colons.
    pub key: String,
    /// The headers of the request that made Sluicegate ask, by name as the client wrote it.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The method of that request; empty for a question about a counter.
    #[serde(default)]
    pub method: String,
    /// The path of that request, without the query.
    #[serde(default)]
    pub path: String,
    /// The values that `key` is made of, without escapes; empty where the request lacked one.
    #[serde(default)]
    pub key_parts: Vec<String>,
}

impl LimitsRequest {
    /// The tenant, for limits whose key begins with it.
    pub fn tenant(&self) -> Option<&str> {
        self.key_parts.first().map(String::as_str)
    }
}

/// The quota of a caller, and what else holds for its requests. A field that is `None` is not sent,
/// and Sluicegate's configuration decides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitsResponse {
    /// Units per period; 0 is unlimited.
    pub average: u32,
    /// Units at once; as many as `average` where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    /// A duration such as `1s` or `1m30s`; one second where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<String>,
    /// How long Sluicegate may use this response without asking again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_max_age_seconds: Option<u32>,
    /// True when this response holds for one request only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_no_store: Option<bool>,
    /// The counter to charge instead of the caller's own; several callers may share it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_key: Option<String>,
    /// The treatment of requests while the counters cannot be reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_policy: Option<FailurePolicy>,
    /// The status of a rejection by that policy, 400 to 599.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_code: Option<u16>,
    /// The server for the caller's requests: scheme, host and port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend_url: Option<String>,
    /// The longest wait for that server, a duration from `1ms` to `1h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_timeout: Option<String>,
    /// The version of HTTP towards that server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend_protocol: Option<BackendProtocol>,
}

/// The treatment of requests while the counters cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FailurePolicy {
    /// They pass unchecked.
    PassThrough,
    /// They are rejected.
    FailClosed,
    /// Each replica counts by itself.
    InMemoryFallback,
}

/// A version of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BackendProtocol {
    /// HTTP/1.1.
    H1,
    /// HTTP/2.
    H2,
}

impl LimitsResponse {
    /// So many units each period.
    pub fn per(period: impl Into<String>, average: u32) -> Self {
        Self {
            average,
            period: Some(period.into()),
            ..Self::default()
        }
    }

    /// No limit.
    pub fn unlimited() -> Self {
        Self::default()
    }

    /// So many units at once.
    #[must_use]
    pub fn burst(self, burst: u32) -> Self {
        Self {
            burst: Some(burst),
            ..self
        }
    }

    /// Valid for so many seconds.
    #[must_use]
    pub fn cached_for(self, seconds: u32) -> Self {
        Self {
            cache_max_age_seconds: Some(seconds),
            ..self
        }
    }

    /// Valid for one request.
    #[must_use]
    pub fn not_cached(self) -> Self {
        Self {
            cache_no_store: Some(true),
            ..self
        }
    }

    /// Charged to a counter that callers may share.
    #[must_use]
    pub fn tenant_key(self, tenant: impl Into<String>) -> Self {
        Self {
            tenant_key: Some(tenant.into()),
            ..self
        }
    }

    /// Treated like this while the counters cannot be reached.
    #[must_use]
    pub fn on_failure(self, policy: FailurePolicy, code: Option<u16>) -> Self {
        Self {
            failure_policy: Some(policy),
            failure_code: code,
            ..self
        }
    }

    /// Sent to a server of the caller's own.
    #[must_use]
    pub fn backend(self, url: impl Into<String>, protocol: BackendProtocol) -> Self {
        Self {
            backend_url: Some(url.into()),
            backend_protocol: Some(protocol),
            ..self
        }
    }

    /// Given up when the server has not begun its response after this duration.
    #[must_use]
    pub fn request_timeout(self, timeout: impl Into<String>) -> Self {
        Self {
            request_timeout: Some(timeout.into()),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::router::OPENAPI;

    /// A response with every field, and one with none that may be missing.
    fn responses() -> [LimitsResponse; 2] {
        let full = LimitsResponse::per("1m", 100)
            .burst(20)
            .cached_for(300)
            .not_cached()
            .tenant_key("acme")
            .on_failure(FailurePolicy::FailClosed, Some(429))
            .backend("https://acme.example", BackendProtocol::H2)
            .request_timeout("2s");
        [full, LimitsResponse::unlimited()]
    }

    #[test]
    fn responses_have_every_field_of_the_contract_and_no_other() {
        let document: Value = serde_json::from_str(OPENAPI).unwrap();
        let schema = json!({
            "$ref": "#/components/schemas/LimitsResponse", "components": document["components"],
        });
        let validator = jsonschema::validator_for(&schema).unwrap();
        let [full, unlimited] = responses().map(|response| serde_json::to_value(response).unwrap());
        assert!(validator.is_valid(&full) && validator.is_valid(&unlimited));
        assert_eq!(unlimited, json!({ "average": 0 }));
        let known = &document["components"]["schemas"]["LimitsResponse"]["properties"];
        let mut known: Vec<&String> = known.as_object().unwrap().keys().collect();
        let mut sent: Vec<&String> = full.as_object().unwrap().keys().collect();
        known.sort();
        sent.sort();
        assert_eq!(sent, known);
    }

    #[test]
    fn a_question_has_a_tenant_where_its_key_has_parts() {
        let read = |text: &str| serde_json::from_str::<LimitsRequest>(text).unwrap();
        let asked = read(
            r#"{"key": "a%3Ab:GET", "headers": {"X-Tenant-Id": "a:b"}, "method": "GET",
                "path": "/", "key_parts": ["a:b", "GET"], "later": 1}"#,
        );
        assert_eq!(asked.tenant(), Some("a:b"));
        assert_eq!(read(r#"{"key": "!missing"}"#).tenant(), None);
    }
}
