//! How long a reply may be reused.
//!
//! The service decides, in the way that HTTP caches are used to (RFC 9111): the first of
//! `Cache-Control`, `Expires`, the fields of the body and the configured default that says
//! something counts. The result is always between a second and a day, or "not at all": shorter
//! would make every request a call, longer would make a change of plan invisible.
//!
//! Two questions are kept apart. `no-cache` and `max-age=0` mean "ask each time", and still allow
//! the reply to be used when the service is away. Only `no-store` forbids to keep it at all.

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::{DATE, EXPIRES};
use sluicegate_core::Nanos;

use super::reply::ServiceReply;
use crate::http_client::CacheControl;

/// How long a reply may be reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CacheLifetime {
    /// The time for which the reply answers requests; `None` when each request has to call.
    pub(super) fresh: Option<Nanos>,
    /// True when the reply may be kept for the time when no newer one can be had.
    pub(super) keeps_stale: bool,
}

impl CacheLifetime {
    /// Every request calls, but the reply may stand in when the service is away.
    const NO_CACHE: Self = Self {
        fresh: None,
        keeps_stale: true,
    };
    /// The reply is used for the requests that wait for it and forgotten.
    const NO_STORE: Self = Self {
        fresh: None,
        keeps_stale: false,
    };

    /// A lifetime of `span`, but at least a second and at most a day.
    fn clamped(span: Nanos) -> Self {
        Self {
            fresh: Some(span.clamp(Nanos::SECOND, Nanos::DAY)),
            keeps_stale: true,
        }
    }

    /// The lifetime of a reply: by its headers, else by its body, else `default`. gRPC replies have
    /// no headers. In the body, a `max_age` of 0 is "not set", as protocol buffers cannot tell.
    pub(super) fn from_reply(
        headers: Option<&HeaderMap>,
        reply: &ServiceReply,
        default: Nanos,
        now: SystemTime,
    ) -> Self {
        if let Some(lifetime) = headers.and_then(|headers| from_headers(headers, now)) {
            return lifetime;
        }
        let max_age = reply
            .max_age
            .and_then(|seconds| u64::try_from(seconds).ok())
            .filter(|seconds| *seconds > 0);
        match (reply.no_store, max_age) {
            (true, _) => Self::NO_STORE,
            (false, Some(seconds)) => Self::clamped(seconds_capped(seconds)),
            (false, None) => Self::clamped(default),
        }
    }
}

/// The lifetime that `Cache-Control` or `Expires` sets; `None` when neither says anything.
fn from_headers(headers: &HeaderMap, now: SystemTime) -> Option<CacheLifetime> {
    let control = CacheControl::of(headers);
    match control.max_age {
        _ if control.no_store => Some(CacheLifetime::NO_STORE),
        _ if control.no_cache => Some(CacheLifetime::NO_CACHE),
        Some(0) => Some(CacheLifetime::NO_CACHE),
        Some(seconds) => Some(CacheLifetime::clamped(seconds_capped(seconds))),
        None => from_expires(headers, now),
    }
}

/// The time from the service's own `Date` to its `Expires`, so that its clock need not agree with
/// ours; without a `Date`, from now. An invalid date counts as expired already.
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

/// A date in any of the three forms of HTTP (RFC 9110, section 5.6.7):
/// `Sun, 06 Nov 1994 08:49:37 GMT`, `Sunday, 06-Nov-94 08:49:37 GMT`, `Sun Nov  6 08:49:37 1994`.
///
/// The name of the day says nothing that the date does not. Like other HTTP clients, this ignores
/// it, also where it is the wrong one.
fn parse_date(text: &str) -> Option<SystemTime> {
    let words: Vec<&str> = match text.split_once(',') {
        Some((_, date)) => date.split_whitespace().collect(),
        None => text.split_whitespace().collect(),
    };
    let date = match words[..] {
        // The name of the day without a comma, and the month before the day.
        [name, month, day, time, year] if name.starts_with(char::is_alphabetic) => {
            format!("{day} {month} {year} {time} GMT")
        }
        [date, time, zone] => {
            let mut parts = date.splitn(3, '-');
            let (day, month, year) = (parts.next()?, parts.next()?, parts.next()?);
            format!("{day} {month} {} {time} {zone}", full_year(year))
        }
        _ => words.join(" "),
    };
    let zoned = jiff::fmt::rfc2822::parse(&date).ok()?;
    let seconds = u64::try_from(zoned.timestamp().as_second()).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

/// A year of two digits in full: 70 to 99 are of the last century, as in cookies.
fn full_year(year: &str) -> String {
    match year.len() {
        2 if year >= "70" => format!("19{year}"),
        2 => format!("20{year}"),
        _ => year.to_owned(),
    }
}

/// Capped at a day before the conversion, which could overflow.
fn seconds_capped(seconds: u64) -> Nanos {
    Nanos::from_secs(seconds.min(Nanos::DAY.get() / Nanos::SECOND.get()))
}

#[cfg(test)]
mod tests;
