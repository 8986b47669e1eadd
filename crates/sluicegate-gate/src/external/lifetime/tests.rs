//! Lifetimes by header, by body and by default.

use http::{HeaderName, HeaderValue};

use super::*;

const DEFAULT: Nanos = Nanos::from_secs(60);
const DAY: u64 = 86_400;
/// Sun, 06 Nov 1994 08:49:37 GMT
const NOW: Duration = Duration::from_secs(784_111_777);

/// Header lines, the reply, and the lifetime that follows.
type Row<'a> = (
    &'a [(&'static str, &'a str)],
    &'a ServiceReply,
    CacheLifetime,
);

const CC: &str = "cache-control";
const NO_CACHE: CacheLifetime = CacheLifetime::NO_CACHE;
const NO_STORE: CacheLifetime = CacheLifetime::NO_STORE;

fn reply(max_age: Option<i64>, no_store: bool) -> ServiceReply {
    ServiceReply {
        max_age,
        no_store,
        ..ServiceReply::default()
    }
}

fn seconds(seconds: u64) -> CacheLifetime {
    CacheLifetime::clamped(Nanos::from_secs(seconds))
}

#[track_caller]
fn check(rows: &[Row<'_>]) {
    for (lines, reply, expected) in rows {
        let pair = |(name, value): &(&'static str, &str)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_str(value).unwrap(),
            )
        };
        let headers: HeaderMap = lines.iter().map(pair).collect();
        let now = SystemTime::UNIX_EPOCH + NOW;
        let found = CacheLifetime::from_reply(Some(&headers), reply, DEFAULT, now);
        let (max_age, no_store) = (reply.max_age, reply.no_store);
        assert_eq!(found, *expected, "{lines:?} {max_age:?} {no_store}");
    }
}

#[test]
fn max_age_sets_the_lifetime_up_to_a_day() {
    let empty = &reply(None, false);
    check(&[
        (&[(CC, "max-age=30")], empty, seconds(30)),
        (&[(CC, "Max-Age = \"30\"")], empty, seconds(30)),
        (
            &[(CC, "public, max-age=30, must-revalidate")],
            empty,
            seconds(30),
        ),
        (
            &[(CC, "max-age=30"), (CC, "max-age=20")],
            empty,
            seconds(20),
        ),
        (&[(CC, "max-age=0")], empty, NO_CACHE),
        (&[(CC, "max-age=0")], &reply(Some(30), false), NO_CACHE),
        (&[(CC, "max-age=-1")], empty, NO_CACHE),
        (&[(CC, "max-age=x")], empty, NO_CACHE),
        (&[(CC, "max-age")], empty, NO_CACHE),
        (&[(CC, "max-age=99999999999999999999")], empty, seconds(DAY)),
        (&[(CC, "max-age=86401")], empty, seconds(DAY)),
        (&[(CC, "max-age=30")], &reply(None, true), seconds(30)),
    ]);
}

#[test]
fn no_cache_and_no_store_win_over_max_age() {
    let empty = &reply(None, false);
    check(&[
        (&[(CC, "no-cache")], empty, NO_CACHE),
        (&[(CC, "no-cache, max-age=30")], empty, NO_CACHE),
        (&[(CC, "max-age=30, no-cache")], empty, NO_CACHE),
        (&[(CC, "no-store")], empty, NO_STORE),
        (&[(CC, "max-age=30, No-Store")], empty, NO_STORE),
        (&[(CC, "max-age=30"), (CC, "no-store")], empty, NO_STORE),
        (&[(CC, "private")], empty, seconds(60)),
        (&[(CC, "private")], &reply(Some(30), false), seconds(30)),
    ]);
}

#[test]
fn expires_counts_from_the_date_of_the_reply() {
    let empty = &reply(None, false);
    let date = ("date", "Sun, 06 Nov 1994 08:00:00 GMT");
    let expires = |time: &'static str| [("expires", time)];
    check(&[
        (
            &expires("Sun, 06 Nov 1994 08:50:37 GMT"),
            empty,
            seconds(60),
        ),
        (
            &expires("Sun, 06 Nov 1994 08:49:47 GMT"),
            &reply(Some(30), true),
            seconds(10),
        ),
        (&expires("Sun, 06 Nov 1994 08:49:37 GMT"), empty, NO_CACHE),
        (
            &[("expires", "Sun, 06 Nov 1994 08:00:10 GMT"), date],
            empty,
            seconds(10),
        ),
        (
            &expires("Sat, 06 Nov 2094 08:49:37 GMT"),
            empty,
            seconds(DAY),
        ),
        (&expires("0"), empty, NO_CACHE),
        (&expires("never"), empty, NO_CACHE),
        (&[(CC, "max-age=30"), ("expires", "0")], empty, seconds(30)),
    ]);
}

#[test]
fn expires_is_read_as_http_clients_read_it() {
    let empty = &reply(None, false);
    for in_a_minute in [
        "Sun, 06 Nov 1994 08:50:37 GMT",
        "Tue, 06 Nov 1994 08:50:37 GMT",
        "Someday, 06 Nov 1994 08:50:37 GMT",
        "06 Nov 1994 08:50:37 GMT",
        "Sunday, 06-Nov-94 08:50:37 GMT",
        "Tuesday, 06-Nov-94 08:50:37 GMT",
        "Sun Nov  6 08:50:37 1994",
        "Tue Nov 06 08:50:37 1994",
    ] {
        check(&[(&[("expires", in_a_minute)], empty, seconds(60))]);
    }
    for nonsense in [
        "Sun, 32 Nov 1994 08:50:37 GMT",
        "Sun, 06 Foo 1994 08:50:37 GMT",
        "Sun, 06 Nov 1994 25:50:37 GMT",
        "Sunday, 06-Nov GMT",
        "Sunday, - - GMT",
        ",",
        "a b c d e",
    ] {
        check(&[(&[("expires", nonsense)], empty, NO_CACHE)]);
    }
}

#[test]
fn without_headers_the_body_counts_and_then_the_default() {
    check(&[
        (&[], &reply(None, false), seconds(60)),
        (&[], &reply(None, true), NO_STORE),
        (&[], &reply(Some(30), true), NO_STORE),
        (&[], &reply(Some(30), false), seconds(30)),
        (&[], &reply(Some(0), false), seconds(60)),
        (&[], &reply(Some(-5), false), seconds(60)),
        (&[], &reply(Some(i64::MAX), false), seconds(DAY)),
    ]);
}

#[test]
fn answers_of_grpc_have_only_their_body() {
    let found = |reply: &ServiceReply| {
        CacheLifetime::from_reply(None, reply, DEFAULT, SystemTime::UNIX_EPOCH)
    };
    assert_eq!(found(&reply(None, true)), NO_STORE);
    assert_eq!(
        found(&reply(Some(5), false)).fresh,
        Some(Nanos::from_secs(5))
    );
    assert_eq!(found(&reply(Some(0), false)).fresh, Some(DEFAULT));
}

#[test]
fn a_default_beyond_the_bounds_is_clamped() {
    let found = |default| {
        CacheLifetime::from_reply(
            None,
            &ServiceReply::default(),
            default,
            SystemTime::UNIX_EPOCH,
        )
        .fresh
    };
    assert_eq!(found(Nanos::new(1)), Some(Nanos::SECOND));
    assert_eq!(found(Nanos::MAX), Some(Nanos::DAY));
}
