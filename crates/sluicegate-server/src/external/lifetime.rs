//! How long an answer holds.

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::{CACHE_CONTROL, DATE, EXPIRES};
use sluicegate_core::Nanos;

use super::answer::Answer;

/// How long an answer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lifetime {
    /// Nobody asks again before this is over; `None` asks at once.
    pub(super) fresh: Option<Nanos>,
    /// Whether it is kept for when no newer one can be had.
    pub(super) keeps_stale: bool,
}

impl Lifetime {
    const NOT_CACHED: Self = Self {
        fresh: None,
        keeps_stale: true,
    };
    const NOT_KEPT: Self = Self {
        fresh: None,
        keeps_stale: false,
    };

    /// Not so short that every request asks, and not so long that a change is never seen.
    fn of(span: Nanos) -> Self {
        Self {
            fresh: Some(span.clamp(Nanos::SECOND, Nanos::DAY)),
            keeps_stale: true,
        }
    }

    /// In this order: `Cache-Control`, `Expires`, the body, the default. Answers of gRPC have no headers.
    pub(super) fn find(
        headers: Option<&HeaderMap>,
        answer: &Answer,
        default: Nanos,
        now: SystemTime,
    ) -> Self {
        if let Some(told) = headers.and_then(|headers| by_headers(headers, now)) {
            return told;
        }
        match (
            answer.no_store,
            answer
                .max_age
                .and_then(|seconds| u64::try_from(seconds).ok()),
        ) {
            (true, _) => Self::NOT_KEPT,
            (false, Some(seconds)) if seconds > 0 => Self::of(seconds_of(seconds)),
            _ => Self::of(default),
        }
    }
}

fn by_headers(headers: &HeaderMap, now: SystemTime) -> Option<Lifetime> {
    let mut max_age = None;
    let mut is_cached = true;
    let lines = headers
        .get_all(CACHE_CONTROL)
        .iter()
        .filter_map(|line| line.to_str().ok());
    for directive in lines.flat_map(|line| line.split(',')) {
        let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
        match name.trim().to_ascii_lowercase().as_str() {
            "no-store" => return Some(Lifetime::NOT_KEPT),
            "no-cache" => is_cached = false,
            // What is no number is over already; of two, the shorter holds.
            "max-age" => max_age = Some(max_age.unwrap_or(u64::MAX).min(seconds_in(value))),
            _ => {}
        }
    }
    match max_age {
        _ if !is_cached => Some(Lifetime::NOT_CACHED),
        Some(0) => Some(Lifetime::NOT_CACHED),
        Some(seconds) => Some(Lifetime::of(seconds_of(seconds))),
        None => by_expires(headers, now),
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
fn by_expires(headers: &HeaderMap, now: SystemTime) -> Option<Lifetime> {
    let date = |text: &http::HeaderValue| parse_date(text.to_str().ok()?);
    let expires = headers.get(EXPIRES)?;
    let now = headers.get(DATE).and_then(date).unwrap_or(now);
    let span = date(expires).and_then(|expires| expires.duration_since(now).ok());
    match span.filter(|span| !span.is_zero()) {
        Some(span) => Some(Lifetime::of(Nanos::from(span))),
        None => Some(Lifetime::NOT_CACHED),
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

    fn answer(max_age: Option<i64>, no_store: bool) -> Answer {
        Answer {
            max_age,
            no_store,
            ..Answer::default()
        }
    }

    fn found(lines: &[(&'static str, &str)], answer: &Answer) -> Lifetime {
        let pair = |(name, value): &(&'static str, &str)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_str(value).unwrap(),
            )
        };
        let headers: HeaderMap = lines.iter().map(pair).collect();
        Lifetime::find(
            Some(&headers),
            answer,
            DEFAULT,
            SystemTime::UNIX_EPOCH + NOW,
        )
    }

    /// T-61, E8
    #[test]
    fn the_table_of_lifetimes() {
        const DAY: u64 = 86_400;
        let seconds = |seconds| Lifetime::of(Nanos::from_secs(seconds));
        let (plain, none, kept) = (
            answer(None, false),
            Lifetime::NOT_CACHED,
            Lifetime::NOT_KEPT,
        );
        let cc = "cache-control";
        let date = ("date", "Sun, 06 Nov 1994 08:00:00 GMT");
        type Row<'a> = (&'a [(&'static str, &'a str)], &'a Answer, Lifetime);
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
            (&[(cc, "max-age=0")], &answer(Some(30), false), none),
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
            (&[(cc, "private")], &answer(Some(30), false), seconds(30)),
            (
                &[("expires", "Sun, 06 Nov 1994 08:50:37 GMT")],
                &plain,
                seconds(60),
            ),
            (
                &[("expires", "Sun, 06 Nov 1994 08:49:47 GMT")],
                &answer(Some(30), true),
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
            (&[], &answer(None, true), kept),
            (&[], &answer(Some(30), true), kept),
            (&[(cc, "max-age=30")], &answer(None, true), seconds(30)),
            (&[], &answer(Some(30), false), seconds(30)),
            (&[], &answer(Some(0), false), seconds(60)),
            (&[], &answer(Some(-5), false), seconds(60)),
            (&[], &answer(Some(i64::MAX), false), seconds(DAY)),
        ];
        for (headers, answer, expected) in rows {
            assert_eq!(
                found(headers, answer),
                *expected,
                "{headers:?} {:?} {}",
                answer.max_age,
                answer.no_store
            );
        }
    }

    /// E8
    #[test]
    fn answers_of_grpc_have_only_their_body() {
        let found = |answer: &Answer| Lifetime::find(None, answer, DEFAULT, SystemTime::UNIX_EPOCH);
        assert_eq!(found(&answer(None, true)), Lifetime::NOT_KEPT);
        assert_eq!(
            found(&answer(Some(5), false)).fresh,
            Some(Nanos::from_secs(5))
        );
        assert_eq!(found(&answer(Some(0), false)).fresh, Some(DEFAULT));
    }

    #[test]
    fn a_default_beyond_the_bounds_is_clamped() {
        let found = |default| {
            Lifetime::find(None, &Answer::default(), default, SystemTime::UNIX_EPOCH).fresh
        };
        assert_eq!(found(Nanos::new(1)), Some(Nanos::SECOND));
        assert_eq!(found(Nanos::MAX), Some(Nanos::DAY));
    }
}
