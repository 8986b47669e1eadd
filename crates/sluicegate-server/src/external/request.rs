//! A question on its way to the service: nothing borrowed, and without the headers that it is not told.

use std::collections::BTreeMap;

use serde::Serialize;
use sluicegate_config::HeaderFilter;

use super::LimitsLookup;

/// What the service is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct LimitsRequest {
    /// Told in a header: the service may know several limits.
    #[serde(skip)]
    pub(super) limit: String,
    pub(super) key: String,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) method: String,
    pub(super) path: String,
}

/// The header, and the metadata of gRPC, that names the limit.
pub(super) const LIMIT_HEADER: &str = "x-sluicegate-limit";

impl LimitsRequest {
    pub(super) fn of(lookup: &LimitsLookup<'_>, filter: &HeaderFilter) -> Self {
        let mut headers: BTreeMap<String, String> = BTreeMap::new();
        for (name, value) in lookup.headers {
            // What is no text cannot be told as text.
            let Ok(value) = std::str::from_utf8(value.as_bytes()) else {
                continue;
            };
            if !filter.tells(name.as_str()) {
                continue;
            }
            headers
                .entry(name.as_str().to_owned())
                .and_modify(|resolved| {
                    resolved.push_str(", ");
                    resolved.push_str(value);
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

    fn limits(list: &[(&'static str, &[u8])], filter: &HeaderFilter) -> Vec<String> {
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

    /// E3
    #[test]
    fn credentials_are_not_told_unless_the_allow_list_names_them() {
        let request: Vec<(&'static str, &[u8])> = HeaderFilter::SECRET
            .iter()
            .map(|name| (*name, &b"hunter2"[..]))
            .chain([("x-plan", &b"gold"[..])])
            .collect();
        assert_eq!(limits(&request, &HeaderFilter::default()), ["x-plan=gold"]);
        let only = HeaderFilter::Only(vec!["authorization".to_owned()]);
        assert_eq!(limits(&request, &only), ["authorization=hunter2"]);
    }

    #[test]
    fn lines_of_one_name_are_joined_and_what_is_no_text_is_left_out() {
        let request: [(&'static str, &[u8]); 4] = [
            ("a", b"1"),
            ("b", b"\xff"),
            ("a", b"2"),
            ("c", "ä".as_bytes()),
        ];
        assert_eq!(
            limits(&request, &HeaderFilter::default()),
            ["a=1, 2", "c=ä"]
        );
    }
}
