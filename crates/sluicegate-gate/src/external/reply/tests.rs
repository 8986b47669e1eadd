//! Replies as services write them, good, odd and hostile.

use sluicegate_config::BackendUrlSettings;

use super::*;

fn policy() -> BackendPolicy {
    BackendPolicy::new(&BackendUrlSettings::default())
}

fn check(text: &str) -> Result<CheckedReply, &'static str> {
    ServiceReply::from_json(text.as_bytes(), ZeroFields::Written)?.check(&policy())
}

#[track_caller]
fn limits(text: &str) -> ExternalLimits {
    check(text)
        .unwrap_or_else(|wrong| panic!("{wrong}: {text}"))
        .limits
}

#[test]
fn a_whole_answer_is_understood() {
    let limits = limits(
        r#"{"average": 1000, "burst": 200, "period": "1m", "tenant_key": "acme-corp", "failure_policy": "failclosed",
            "failure_code": 429, "backend_url": "https://tenant.example:8443", "backend_protocol": "h2",
            "request_timeout": "1m30s", "cache_max_age_seconds": 300, "cache_no_store": false, "comment": "new"}"#,
    );
    assert_eq!(
        limits.quota,
        Some(Quota::new(1_000, Nanos::MINUTE, 200).unwrap())
    );
    assert_eq!(limits.tenant.as_deref(), Some("acme-corp"));
    assert_eq!(limits.on_failure, Some(TenantPolicy::Closed));
    assert_eq!(limits.failure_status, FailureStatus::new(429).ok());
    let backend = limits.backend.unwrap();
    assert_eq!(
        (backend.tls, backend.host.as_str(), backend.port),
        (true, "tenant.example", 8_443)
    );
    assert_eq!(backend.http, BackendHttp::Http2);
    assert_eq!(limits.request_timeout, Some(Nanos::from_secs(90)));
    assert!(!limits.is_stale);
}

#[test]
fn an_average_of_zero_is_unlimited_and_what_is_left_out_has_a_default() {
    assert_eq!(limits(r#"{"average": 0}"#).quota, None);
    assert_eq!(
        limits(r#"{"average": 0, "burst": 5, "period": "1s"}"#).quota,
        None
    );
    assert_eq!(
        limits(r#"{"average": 7}"#).quota,
        Some(Quota::new(7, Nanos::SECOND, 7).unwrap())
    );
    for (period, millis) in [("1.5s", 1_500), ("1m30s", 90_000), ("1h30m", 5_400_000)] {
        let answer = format!(r#"{{"average": 7, "period": "{period}"}}"#);
        let quota = Quota::new(7, Nanos::from_millis(millis), 7).unwrap();
        assert_eq!(limits(&answer).quota, Some(quota), "{period}");
    }
    assert_eq!(
        limits(r#"{"average": 7, "burst": null, "period": "2h"}"#)
            .quota
            .unwrap()
            .limit(),
        7
    );
    assert_eq!(check("{}"), Err("average is missing"));
    assert!(
        ServiceReply::from_json(b"{}", ZeroFields::Omitted)
            .is_ok_and(|reply| reply == ServiceReply::default())
    );
}

#[test]
fn numbers_may_be_text_and_choices_numbers_and_names_in_two_spellings() {
    let plain =
        limits(r#"{"average": 10, "burst": 5, "failure_policy": 3, "backend_protocol": 1}"#);
    for text in [
        r#"{"average": "10", "burst": "5", "failure_policy": "inMemoryFallback"}"#,
        r#"{"average": 10, "burst": "5", "failurePolicy": "FAILURE_POLICY_IN_MEMORY_FALLBACK"}"#,
        r#"{"average": 10, "burst": 5, "failure_policy": "in_memory_fallback", "backendProtocol": "BACKEND_PROTOCOL_H1"}"#,
    ] {
        assert_eq!(limits(text), plain, "{text}");
    }
    for (policy, expected) in [
        ("\"\"", None),
        ("null", None),
        ("0", None),
        ("\"FAILURE_POLICY_UNSPECIFIED\"", None),
        ("1", Some(TenantPolicy::Open)),
        ("\"passthrough\"", Some(TenantPolicy::Open)),
        ("\"FAILURE_POLICY_PASSTHROUGH\"", Some(TenantPolicy::Open)),
        ("2", Some(TenantPolicy::Closed)),
        ("\"FAILURE_POLICY_FAIL_CLOSED\"", Some(TenantPolicy::Closed)),
    ] {
        assert_eq!(
            limits(&format!(r#"{{"average": 1, "failure_policy": {policy}}}"#)).on_failure,
            expected,
            "{policy}"
        );
    }
    assert_eq!(
        limits(r#"{"average": 1, "failure_code": 418}"#)
            .failure_status
            .unwrap()
            .get(),
        418
    );
}

#[track_caller]
fn assert_refused(cases: &[(&str, &'static str)]) {
    for (text, mistake) in cases {
        assert_eq!(check(text), Err(*mistake), "{text}");
    }
}

#[test]
fn replies_that_are_not_a_json_object_with_an_average_are_refused() {
    assert_refused(&[
        ("", "it is not valid JSON"),
        ("no", "it is not valid JSON"),
        ("{\"average\": 1", "it is not valid JSON"),
        ("{\"average\": 1} x", "it is not valid JSON"),
        ("\u{feff}{\"average\": 1}", "it is not valid JSON"),
        ("[]", "it is not a JSON object"),
        ("1", "it is not a JSON object"),
        ("null", "it is not a JSON object"),
        (r#"{"error": "no such tenant"}"#, "average is missing"),
        (r#"{"average": null}"#, "average is missing"),
    ]);
    let deep = format!(
        r#"{{"average": 1, "comment": {}1{}}}"#,
        "[".repeat(10_000),
        "]".repeat(10_000)
    );
    let open = format!(r#"{{"average": 1, "comment": {}"#, "{\"a\":".repeat(10_000));
    assert_refused(&[
        (&deep, "it is not valid JSON"),
        (&open, "it is not valid JSON"),
    ]);
}

#[test]
fn wrong_numbers_in_a_reply_are_refused_by_name() {
    assert_refused(&[
        (r#"{"average": -1}"#, "average is negative"),
        (r#"{"average": 1, "burst": -1}"#, "burst is negative"),
        (r#"{"average": 1.5}"#, "average is not a whole number"),
        (r#"{"average": 1e30}"#, "average is not a whole number"),
        (
            r#"{"average": 9223372036854775808}"#,
            "average is not a whole number",
        ),
        (r#"{"average": "ten"}"#, "average is not a whole number"),
        (r#"{"average": ""}"#, "average is not a whole number"),
        (r#"{"average": true}"#, "average is not a whole number"),
        (r#"{"average": [1]}"#, "average is not a whole number"),
        (
            r#"{"average": {"value": 1}}"#,
            "average is not a whole number",
        ),
        (
            r#"{"average": 9223372036854775807}"#,
            "the quota is out of range",
        ),
    ]);
}

#[test]
fn wrong_durations_in_a_reply_are_refused_by_name() {
    assert_refused(&[
        (
            r#"{"average": 1, "burst": 9223372036854775807, "period": "1y"}"#,
            "the quota is out of range",
        ),
        (r#"{"average": 1, "period": 1}"#, "period is not a string"),
        (
            r#"{"average": 1, "period": "soon"}"#,
            "period is not a duration",
        ),
        (
            r#"{"average": 1, "period": "-1s"}"#,
            "period is not a duration",
        ),
        (
            r#"{"average": 1, "period": "1.5ns"}"#,
            "period is not a duration",
        ),
        (
            r#"{"average": 0, "period": "99999999999999999999s"}"#,
            "period is not a duration",
        ),
        (
            r#"{"average": 1, "period": "0s"}"#,
            "the quota is out of range",
        ),
    ]);
}

#[test]
fn a_wrong_optional_field_is_ignored_alone_and_told() {
    let good = limits(r#"{"average": 7}"#);
    for (field, value, why) in [
        ("failure_policy", r#""sideways""#, "unknown value"),
        ("failure_policy", "4", "unknown value"),
        ("failure_policy", "true", "unknown value"),
        ("failure_code", "200", "not a status from 400 to 599"),
        ("failure_code", "-1", "not a status from 400 to 599"),
        ("failure_code", "99999999999", "not a number"),
        ("failure_code", r#""no""#, "not a number"),
        ("backend_protocol", r#""h9""#, "unknown value"),
        ("backend_protocol", "9", "unknown value"),
        ("backend_url", "1", "not a string"),
        (
            "backend_url",
            r#""ftp://a.example""#,
            "scheme is not allowed",
        ),
        ("tenant_key", r#"["a"]"#, "not a string"),
        (
            "tenant_key",
            r#""a b""#,
            "not 1 to 256 letters, digits, '.', '_', ':' and '-'",
        ),
        (
            "request_timeout",
            r#""2h""#,
            "not a duration from 1ms to 1h",
        ),
        ("request_timeout", "30", "not a string"),
        ("cache_no_store", r#""yes""#, "neither true nor false"),
        ("cache_max_age_seconds", "-1", "negative"),
        ("cache_max_age_seconds", r#""soon""#, "not a whole number"),
    ] {
        let text = format!(r#"{{"average": 7, "{field}": {value}}}"#);
        let found = check(&text).unwrap();
        assert_eq!(found.limits, good, "{text}");
        let ignored: Vec<_> = found
            .ignored
            .iter()
            .map(|ignored| (ignored.field.name(), ignored.why))
            .collect();
        assert_eq!(ignored, [(field, why)], "{text}");
    }
    assert_eq!(check(r#"{"average": 7}"#).unwrap().ignored, []);
}

/// Beside a wrong field, the others of the same reply count.
#[test]
fn a_wrong_field_takes_no_other_with_it() {
    let found = check(
        r#"{"average": 7, "failure_policy": "failClosed", "failure_code": 99, "tenant_key": "acme",
            "backend_url": "https://a.example", "backend_protocol": "h9"}"#,
    )
    .unwrap();
    assert_eq!(found.limits.on_failure, Some(TenantPolicy::Closed));
    assert_eq!(found.limits.failure_status, None);
    assert_eq!(found.limits.tenant.as_deref(), Some("acme"));
    let backend = found.limits.backend.unwrap();
    assert_eq!(
        (backend.host.as_str(), backend.http),
        ("a.example", BackendHttp::Auto)
    );
    assert_eq!(found.ignored.len(), 2);
}

#[test]
fn control_characters_anywhere_in_a_json_reply_are_refused() {
    assert_refused(&[
        (
            r#"{"average": 1, "tenant_key": "a\u0000b"}"#,
            "it contains control characters",
        ),
        (
            r#"{"average": 1, "tenant_key": "a\r\nb"}"#,
            "it contains control characters",
        ),
        (
            r#"{"average": 1, "comment": "\u007f"}"#,
            "it contains control characters",
        ),
        (
            r#"{"average": 1, "comment": ["\u0085"]}"#,
            "it contains control characters",
        ),
        (
            r#"{"average": 1, "\u001b[2J": 1}"#,
            "it contains control characters",
        ),
    ]);
}

/// Protocol buffers carry any text.
#[test]
fn control_characters_are_refused_wherever_the_answer_comes_from() {
    for reply in [
        ServiceReply {
            period: "1s\n".to_owned(),
            ..ServiceReply::default()
        },
        ServiceReply {
            tenant_key: "a\0".to_owned(),
            ..ServiceReply::default()
        },
        ServiceReply {
            backend_url: "http://a.example\r\n".to_owned(),
            ..ServiceReply::default()
        },
        ServiceReply {
            request_timeout: "1s\u{9f}".to_owned(),
            ..ServiceReply::default()
        },
    ] {
        assert_eq!(
            reply.check(&policy()),
            Err("it contains control characters"),
            "{reply:?}"
        );
    }
}

#[test]
fn a_tenant_key_that_is_none_is_ignored_and_told() {
    let longest = "a".repeat(256);
    for key in ["a", "A.b_c:d-9", "stale:x", "t:a", longest.as_str()] {
        let found = check(&format!(r#"{{"average": 1, "tenant_key": "{key}"}}"#)).unwrap();
        assert_eq!(
            (found.limits.tenant.as_deref(), found.ignored.len()),
            (Some(key), 0)
        );
    }
    let too_long = "a".repeat(257);
    for key in ["a b", "a/b", "{a}", "ä", "*", too_long.as_str()] {
        let found = check(&format!(r#"{{"average": 1, "tenant_key": "{key}"}}"#)).unwrap();
        assert_eq!(
            (found.limits.tenant, found.ignored.len()),
            (None, 1),
            "{key}"
        );
    }
    assert_eq!(
        check(r#"{"average": 1, "tenant_key": ""}"#)
            .unwrap()
            .ignored,
        []
    );
}

#[test]
fn a_backend_that_is_refused_is_ignored_and_told() {
    let found = check(r#"{"average": 1, "backend_url": "http://169.254.169.254"}"#).unwrap();
    let refused = IgnoredField {
        field: OptionalField::BackendUrl,
        why: "address is not public",
    };
    assert_eq!((found.limits.backend, found.ignored), (None, vec![refused]));
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
        let _ = ServiceReply::from_json(&bytes, ZeroFields::Omitted).and_then(|reply| reply.check(&policy()));
    }

    #[test]
    fn no_numbers_make_it_panic(
        average in proptest::prelude::any::<i64>(),
        burst in proptest::prelude::any::<i64>(),
        period in "[0-9]{0,20}(ns|us|ms|s|m|h|d|y)?([0-9]{0,5}s)?",
        failure_policy in proptest::prelude::any::<i32>(),
        failure_code in proptest::prelude::any::<i32>(),
        backend_protocol in proptest::prelude::any::<i32>(),
    ) {
        let reply =
            ServiceReply { average, burst, period, failure_policy, failure_code, backend_protocol, ..ServiceReply::default() };
        let _ = reply.check(&policy());
    }
}
