//! The request to the service: owned, so that it can outlive the client's request, and without the
//! headers that the service must not see.

use std::collections::BTreeMap;

use serde::Serialize;
use sluicegate_config::HeaderFilter;

use super::LimitsLookup;

/// The body of a call; its JSON is what the service receives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct LimitsRequest {
    /// Sent in [`LIMIT_HEADER`] and not in the body, whose format other gateways share.
    #[serde(skip)]
    pub(super) limit: String,
    /// The caller, as the limit's key parts name it.
    pub(super) key: String,
    /// By lower-case name; sorted, so that the same request gives the same body.
    pub(super) headers: BTreeMap<String, String>,
    pub(super) method: String,
    pub(super) path: String,
}

/// The HTTP header, and the gRPC metadata, that names the limit: one service may serve several.
pub(super) const LIMIT_HEADER: &str = "x-sluicegate-limit";

impl LimitsRequest {
    /// Copies what the service may see. Credentials are removed unless the configuration lists
    /// them, and several values of one header are joined as RFC 9110 allows.
    pub(super) fn of(lookup: &LimitsLookup<'_>, filter: &HeaderFilter) -> Self {
        let mut headers: BTreeMap<String, String> = BTreeMap::new();
        for (name, value) in lookup.headers {
            // JSON cannot carry bytes that are not UTF-8.
            let Ok(value) = std::str::from_utf8(value.as_bytes()) else {
                continue;
            };
            if !filter.tells(name.as_str()) {
                continue;
            }
            headers
                .entry(name.as_str().to_owned())
                .and_modify(|joined| {
                    joined.push_str(", ");
                    joined.push_str(value);
                })
                .or_insert_with(|| value.to_owned());
        }
        Self {
            limit: lookup.limit.to_owned(),
            key: lookup.key.to_owned(),
            headers,
            method: lookup.method.to_owned(),
            path: lookup.path.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderName, HeaderValue};

    use super::*;

    fn headers(list: &[(&'static str, &[u8])]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &[u8])| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_bytes(value).unwrap(),
            )
        };
        list.iter().map(pair).collect()
    }

    fn sent(list: &[(&'static str, &[u8])], filter: &HeaderFilter) -> Vec<String> {
        let headers = headers(list);
        let lookup = LimitsLookup {
            limit: "l",
            key: "k",
            method: "GET",
            path: "/",
            headers: &headers,
        };
        LimitsRequest::of(&lookup, filter)
            .headers
            .into_iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect()
    }

    #[test]
    fn credentials_are_not_told_unless_the_allow_list_names_them() {
        let request: Vec<(&'static str, &[u8])> = HeaderFilter::SECRET
            .iter()
            .map(|name| (*name, &b"hunter2"[..]))
            .chain([("x-plan", &b"gold"[..])])
            .collect();
        assert_eq!(sent(&request, &HeaderFilter::default()), ["x-plan=gold"]);
        let only = HeaderFilter::Only(vec!["authorization".to_owned()]);
        assert_eq!(sent(&request, &only), ["authorization=hunter2"]);
    }

    #[test]
    fn lines_of_one_name_are_joined_and_what_is_no_text_is_left_out() {
        let request: [(&'static str, &[u8]); 4] = [
            ("a", b"1"),
            ("b", b"\xff"),
            ("a", b"2"),
            ("c", "ä".as_bytes()),
        ];
        assert_eq!(sent(&request, &HeaderFilter::default()), ["a=1, 2", "c=ä"]);
    }
}
