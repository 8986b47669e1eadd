//! How long an answer holds.

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::{CACHE_CONTROL, DATE, EXPIRES};
use sluicegate_core::Nanos;

use super::reply::ServiceReply;

/// How long an answer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CacheLifetime {
    /// Nobody asks again before this is over; `None` asks at once.
    pub(super) fresh: Option<Nanos>,
    /// Whether it is kept for when no newer one can be had.
    pub(super) keeps_stale: bool,
}

impl CacheLifetime {
    const NO_CACHE: Self = Self {
        fresh: None,
        keeps_stale: true,
    };
    const NO_STORE: Self = Self {
        fresh: None,
        keeps_stale: false,
    };

    /// Not so short that every request asks, and not so long that a change is never seen.
    fn clamped(span: Nanos) -> Self {
        Self {
            fresh: Some(span.clamp(Nanos::SECOND, Nanos::DAY)),
            keeps_stale: true,
        }
    }

    /// In this order: `RedisCache-Control`, `Expires`, the body, the default. Answers of gRPC have no headers.
    pub(super) fn from_reply(
        headers: Option<&HeaderMap>,
        reply: &ServiceReply,
        default: Nanos,
        now: SystemTime,
    ) -> Self {
        if let Some(lifetime) = headers.and_then(|headers| from_headers(headers, now)) {
            return lifetime;
        }
        match (
            reply.no_store,
            reply
                .max_age
                .and_then(|seconds| u64::try_from(seconds).ok()),
        ) {
            (true, _) => Self::NO_STORE,
            (false, Some(seconds)) if seconds > 0 => Self::clamped(seconds_of(seconds)),
            _ => Self::clamped(default),
        }
    }
}

fn from_headers(headers: &HeaderMap, now: SystemTime) -> Option<CacheLifetime> {
    let mut max_age = None;
    let mut is_cached = true;
    let lines = headers
        .get_all(CACHE_CONTROL)
        .iter()
        .filter_map(|line| line.to_str().ok());
    for directive in lines.flat_map(|line| line.split(',')) {
        let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
        match name.trim().to_ascii_lowercase().as_str() {
            "no-store" => return Some(CacheLifetime::NO_STORE),
            "no-cache" => is_cached = false,
            // What is no number is over already; of two, the shorter holds.
            "max-age" => max_age = Some(max_age.unwrap_or(u64::MAX).min(seconds_in(value))),
            _ => {}
        }
    }
    match max_age {
        _ if !is_cached => Some(CacheLifetime::NO_CACHE),
        Some(0) => Some(CacheLifetime::NO_CACHE),
        Some(seconds) => Some(CacheLifetime::clamped(seconds_of(seconds))),
        None => from_expires(headers, now),
    }
}

/// Digits, perhaps in quotes. More than fit are as many as fit.
fn seconds_in(value: &str) -> u64 {
    let digits = value.trim().trim_matches('"');
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_number {
        digits.parse().unwrap_or(u64::MAX)
    } else {
        0
    }
}

/// From the service's own `Date`, if it has one, so that clocks need not agree. What is no date is over already.
fn from_expires(headers: &HeaderMap, now: SystemTime) -> Option<CacheLifetime> {
    let date = |text: &http::HeaderValue| parse_date(text.to_str().ok()?);
    let expires = headers.get(EXPIRES)?;
    let now = headers.get(DATE).and_then(date).unwrap_or(now);
    let span = date(expires).and_then(|expires| expires.duration_since(now).ok());
    match span.filter(|span| !span.is_zero()) {
        Some(span) => Some(CacheLifetime::clamped(Nanos::from(span))),
        None => Some(CacheLifetime::NO_CACHE),
    }
}

fn parse_date(text: &str) -> Option<SystemTime> {
    let zoned = jiff::fmt::rfc2822::parse(text).ok()?;
    let seconds = u64::try_from(zoned.timestamp().as_second()).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

fn seconds_of(seconds: u64) -> Nanos {
    Nanos::from_secs(seconds.min(Nanos::DAY.get() / Nanos::SECOND.get()))
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    const DEFAULT: Nanos = Nanos::from_secs(60);
    /// Sun, 06 Nov 1994 08:49:37 GMT
    const NOW: Duration = Duration::from_secs(784_111_777);

    fn reply(max_age: Option<i64>, no_store: bool) -> ServiceReply {
        ServiceReply {
            max_age,
            no_store,
            ..ServiceReply::default()
        }
    }

    fn found(lines: &[(&'static str, &str)], reply: &ServiceReply) -> CacheLifetime {
        let pair = |(name, value): &(&'static str, &str)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_str(value).unwrap(),
            )
        };
        let headers: HeaderMap = lines.iter().map(pair).collect();
        CacheLifetime::from_reply(Some(&headers), reply, DEFAULT, SystemTime::UNIX_EPOCH + NOW)
    }

    /// T-61, E8
    #[test]
    fn the_table_of_lifetimes() {
        const DAY: u64 = 86_400;
        let seconds = |seconds| CacheLifetime::clamped(Nanos::from_secs(seconds));
        let (plain, none, kept) = (
            reply(None, false),
            CacheLifetime::NO_CACHE,
            CacheLifetime::NO_STORE,
        );
        let cc = "cache-control";
        let date = ("date", "Sun, 06 Nov 1994 08:00:00 GMT");
        type Row<'a> = (
            &'a [(&'static str, &'a str)],
            &'a ServiceReply,
            CacheLifetime,
        );
        let rows: &[Row<'_>] = &[
            (&[], &plain, seconds(60)),
            (&[(cc, "max-age=30")], &plain, seconds(30)),
            (&[(cc, "Max-Age = \"30\"")], &plain, seconds(30)),
            (
                &[(cc, "public, max-age=30, must-revalidate")],
                &plain,
                seconds(30),
            ),
            (
                &[(cc, "max-age=30"), (cc, "max-age=20")],
                &plain,
                seconds(20),
            ),
            (&[(cc, "max-age=0")], &plain, none),
            (&[(cc, "max-age=0")], &reply(Some(30), false), none),
            (&[(cc, "max-age=-1")], &plain, none),
            (&[(cc, "max-age=x")], &plain, none),
            (&[(cc, "max-age")], &plain, none),
            (
                &[(cc, "max-age=99999999999999999999")],
                &plain,
                seconds(DAY),
            ),
            (&[(cc, "max-age=86401")], &plain, seconds(DAY)),
            (&[(cc, "no-cache")], &plain, none),
            (&[(cc, "no-cache, max-age=30")], &plain, none),
            (&[(cc, "max-age=30, no-cache")], &plain, none),
            (&[(cc, "no-store")], &plain, kept),
            (&[(cc, "max-age=30, No-Store")], &plain, kept),
            (&[(cc, "max-age=30"), (cc, "no-store")], &plain, kept),
            (&[(cc, "private")], &plain, seconds(60)),
            (&[(cc, "private")], &reply(Some(30), false), seconds(30)),
            (
                &[("expires", "Sun, 06 Nov 1994 08:50:37 GMT")],
                &plain,
                seconds(60),
            ),
            (
                &[("expires", "Sun, 06 Nov 1994 08:49:47 GMT")],
                &reply(Some(30), true),
                seconds(10),
            ),
            (
                &[("expires", "Sun, 06 Nov 1994 08:49:37 GMT")],
                &plain,
                none,
            ),
            (
                &[("expires", "Sun, 06 Nov 1994 08:00:10 GMT"), date],
                &plain,
                seconds(10),
            ),
            (
                &[("expires", "Sat, 06 Nov 2094 08:49:37 GMT")],
                &plain,
                seconds(DAY),
            ),
            (&[("expires", "0")], &plain, none),
            (&[("expires", "never")], &plain, none),
            (&[(cc, "max-age=30"), ("expires", "0")], &plain, seconds(30)),
            (&[], &reply(None, true), kept),
            (&[], &reply(Some(30), true), kept),
            (&[(cc, "max-age=30")], &reply(None, true), seconds(30)),
            (&[], &reply(Some(30), false), seconds(30)),
            (&[], &reply(Some(0), false), seconds(60)),
            (&[], &reply(Some(-5), false), seconds(60)),
            (&[], &reply(Some(i64::MAX), false), seconds(DAY)),
        ];
        for (headers, reply, expected) in rows {
            assert_eq!(
                found(headers, reply),
                *expected,
                "{headers:?} {:?} {}",
                reply.max_age,
                reply.no_store
            );
        }
    }

    /// E8
    #[test]
    fn answers_of_grpc_have_only_their_body() {
        let found = |reply: &ServiceReply| {
            CacheLifetime::from_reply(None, reply, DEFAULT, SystemTime::UNIX_EPOCH)
        };
        assert_eq!(found(&reply(None, true)), CacheLifetime::NO_STORE);
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
}
