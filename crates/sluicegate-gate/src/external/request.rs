//! The request to the service: owned, so that it can outlive the client's request, and without the
//! headers that the service must not see.

use std::collections::BTreeMap;

use serde::Serialize;
use sluicegate_config::HeaderFilter;
use sluicegate_core::{Key, PartValue};

use super::LimitsLookup;

/// The body of a call; its JSON is what the service receives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct LimitsRequest {
    /// Sent in [`LIMIT_HEADER`] and not in the body, whose format other gateways share.
    #[serde(skip)]
    pub(super) limit: String,
    /// The caller, as the limit's key parts name it.
    pub(super) key: String,
    /// By name as it came; sorted, so that the same request gives the same body.
    pub(super) headers: BTreeMap<String, String>,
    pub(super) method: String,
    pub(super) path: String,
    /// The values that `key` is made of, as they came.
    pub(super) key_parts: Vec<String>,
}

/// The HTTP header, and the gRPC metadata, that names the limit: one service may serve several.
pub(super) const LIMIT_HEADER: &str = "x-sluicegate-limit";

impl LimitsRequest {
    /// Copies what the service may see. Credentials are removed unless the configuration lists
    /// them, and several values of one header are joined, as RFC 9110 allows, under the name of the
    /// first.
    pub(super) fn of(lookup: &LimitsLookup<'_>, filter: &HeaderFilter) -> Self {
        let mut headers: BTreeMap<String, String> = BTreeMap::new();
        let spellings = lookup.headers.spelling.by_name();
        for (name, value) in lookup.headers.lines {
            // JSON cannot carry bytes that are not UTF-8.
            let Ok(value) = std::str::from_utf8(value.as_bytes()) else {
                continue;
            };
            if !filter.tells(name.as_str()) {
                continue;
            }
            let spelled = spellings.get(name.as_str()).map(String::as_str);
            headers
                .entry(spelled.unwrap_or(name.as_str()).to_owned())
                .and_modify(|joined| {
                    joined.push_str(", ");
                    joined.push_str(value);
                })
                .or_insert_with(|| value.to_owned());
        }
        Self {
            limit: lookup.limit().to_owned(),
            key: lookup.key.to_owned(),
            headers,
            method: lookup.method.to_owned(),
            path: lookup.path.to_owned(),
            key_parts: key_parts(&lookup.counter),
        }
    }
}

/// The value of each part of a key, in the order of the limit's `key`; empty where the request
/// lacks a part and another counter is charged instead. JSON cannot carry bytes that are not UTF-8,
/// so U+FFFD stands for those.
fn key_parts(counter: &Key<'_>) -> Vec<String> {
    let values = counter.parts().map(|value| match value {
        PartValue::Address(address) => Some(address.to_string()),
        PartValue::Global => Some(String::new()),
        other => other
            .text()
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
    });
    values.collect::<Option<_>>().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderName, HeaderValue};
    use sluicegate_core::{KeyPart, Limit, OnMissingKey, Policy, Quota, Stage, Subject};

    use super::super::{HeaderSpelling, SpelledHeaders};
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

    /// The request about a caller with these key parts, whose headers were spelled like this.
    fn request(
        counter: Key<'_>,
        lines: &HeaderMap,
        spelling: HeaderSpelling<'_>,
        filter: &HeaderFilter,
    ) -> LimitsRequest {
        let lookup = LimitsLookup {
            counter,
            key: &counter.caller(),
            method: "GET",
            path: "/",
            headers: SpelledHeaders { lines, spelling },
        };
        LimitsRequest::of(&lookup, filter)
    }

    /// The headers that are sent, as `name=value`.
    fn sent_spelled(
        list: &[(&'static str, &[u8])],
        spelling: HeaderSpelling<'_>,
        filter: &HeaderFilter,
    ) -> Vec<String> {
        let limit = Limit::new("l", Quota::per_second(1));
        let counter = Key::of_parts(&limit, &["192.0.2.7"]).unwrap();
        let sent = request(counter, &headers(list), spelling, filter).headers;
        sent.into_iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect()
    }

    fn sent(list: &[(&'static str, &[u8])], filter: &HeaderFilter) -> Vec<String> {
        sent_spelled(list, HeaderSpelling::LowerCase, filter)
    }

    #[test]
    fn names_are_sent_as_they_came_and_filtered_whatever_their_case() {
        let lines: [(&'static str, &[u8]); 5] = [
            ("x-plan", b"gold"),
            ("x-tenant-id", b"1"),
            ("x-tenant-id", b"2"),
            ("x-api-key", b"hunter2"),
            ("x-late", b"l"),
        ];
        let names = ["x-PLAN", "X-Tenant-ID", "x-tenant-id", "X-API-Key"].map(str::to_owned);
        let spelling = HeaderSpelling::Names(&names);
        assert_eq!(
            sent_spelled(&lines, spelling, &HeaderFilter::default()),
            ["X-Tenant-ID=1, 2", "x-PLAN=gold", "x-late=l"]
        );
        let only = HeaderFilter::Only(vec!["x-api-key".to_owned()]);
        assert_eq!(sent_spelled(&lines, spelling, &only), ["X-API-Key=hunter2"]);
    }

    #[test]
    fn a_key_is_its_parts_escaped_between_colons_and_the_parts_go_with_it_as_they_came() {
        let limit = |parts: &[&str]| {
            let parts = parts.iter().map(|part| part.parse::<KeyPart>().unwrap());
            Limit::new("l", Quota::per_second(1)).key(parts)
        };
        /// Parts of a limit, their values, the key, and the parts that are sent.
        type KeyCase = (
            &'static [&'static str],
            &'static [&'static str],
            &'static str,
            &'static [&'static str],
        );
        let cases: [KeyCase; 8] = [
            (&["header:X-T"], &["acme"], "acme", &["acme"]),
            (
                &["header:X-T", "method"],
                &["acme", "GET"],
                "acme:GET",
                &["acme", "GET"],
            ),
            (
                &["header:X-T", "method"],
                &["a:b", "GET"],
                "a%3Ab:GET",
                &["a:b", "GET"],
            ),
            (
                &["header:X-T"],
                &["50% off!"],
                "50%25%20off%21",
                &["50% off!"],
            ),
            (&["principal"], &["zoë"], "zo%C3%AB", &["zoë"]),
            (&["client_ip"], &["192.0.2.7"], "192.0.2.7", &["192.0.2.7"]),
            (
                &["client_ip"],
                &["2001:db8::7"],
                "[2001:db8::]",
                &["2001:db8::"],
            ),
            (&["global"], &[""], "!all", &[""]),
        ];
        for (key, values, text, parts) in cases {
            let limit = limit(key);
            let counter = Key::of_parts(&limit, values).unwrap();
            let lines = HeaderMap::new();
            let sent = request(
                counter,
                &lines,
                HeaderSpelling::LowerCase,
                &HeaderFilter::default(),
            );
            assert_eq!(
                (sent.key.as_str(), &sent.key_parts[..]),
                (text, &own(parts)[..])
            );
        }
    }

    #[test]
    fn a_caller_who_lacks_a_part_has_a_key_of_its_own_and_no_parts() {
        let limit = Limit::new("l", Quota::per_second(1))
            .key([KeyPart::header("x-t"), KeyPart::Method])
            .on_missing_key(OnMissingKey::ClientIp);
        let subject = Subject {
            client_ip: Some("192.0.2.7".parse().unwrap()),
            ..Subject::ANONYMOUS
        };
        let policy = Policy::new([limit]).unwrap();
        let charges = policy.charges_at(Stage::Whole, &subject, 1).unwrap();
        let sent = request(
            charges[0].key,
            &HeaderMap::new(),
            HeaderSpelling::LowerCase,
            &HeaderFilter::default(),
        );
        assert_eq!(sent.key, "!client:192.0.2.7");
        assert!(sent.key_parts.is_empty());
    }

    fn own(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
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
