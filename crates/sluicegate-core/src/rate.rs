//! Rates and durations as people write them: `100/s`, `5/30s`, `3 per minute`, `1500ms`.
//!
//! Numbers are whole and units are explicit: `1.5/s` would have to be rounded and `60` could be
//! seconds or minutes, so both are refused with a hint.

use std::error::Error;
use std::fmt;

use crate::time::Nanos;

/// Reads a rate: units, then `/` or ` per `, then a unit of time or a duration.
///
/// ```
/// use sluicegate_core::{parse_rate, Nanos};
///
/// assert_eq!(parse_rate("100/s"), Ok((100, Nanos::SECOND)));
/// assert_eq!(parse_rate("5/30s"), Ok((5, Nanos::from_secs(30))));
/// assert_eq!(parse_rate("3 per minute"), Ok((3, Nanos::MINUTE)));
/// assert!(parse_rate("0/s").is_err());
/// ```
pub fn parse_rate(text: &str) -> Result<(u64, Nanos), ParseRateError> {
    let refused = |expected| ParseRateError {
        got: text.to_owned(),
        expected,
    };
    let (count, period) = text
        .split_once('/')
        .or_else(|| text.split_once(" per "))
        .ok_or_else(|| refused("N/(ms|s|m|h|d), such as 100/s or 5/30s"))?;
    let count = parse_count(count.trim())
        .ok_or_else(|| refused("a whole number of units before the slash"))?;
    if count == 0 {
        return Err(refused(
            "at least 1 unit; a limit that is meant to be off is written average: 0",
        ));
    }
    let period = period.trim();
    let span = parse_unit(period).or_else(|| parse_span(period));
    let span = span
        .ok_or_else(|| refused("a unit of time (ms, s, m, h, d) or a duration after the slash"))?;
    if span == Nanos::ZERO {
        return Err(refused("a period longer than zero"));
    }
    Ok((count, span))
}

/// Reads a duration: a whole number and a unit, such as `50ms`, `30s`, `5m`, `1h`, `1d`.
///
/// ```
/// use sluicegate_core::{parse_duration, Nanos};
///
/// assert_eq!(parse_duration("30s"), Ok(Nanos::from_secs(30)));
/// assert!(parse_duration("30").is_err());
/// ```
pub fn parse_duration(text: &str) -> Result<Nanos, ParseRateError> {
    parse_span(text.trim()).ok_or_else(|| ParseRateError {
        got: text.to_owned(),
        expected: "a whole number and a unit (ns, us, ms, s, m, h, d)",
    })
}

/// A rate or duration that could not be read. Its text says what was expected and what was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseRateError {
    /// The text as it was given.
    got: String,
    /// A few words that follow `expected`.
    expected: &'static str,
}

impl fmt::Display for ParseRateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {} (got {:?})", self.expected, self.got)
    }
}

impl Error for ParseRateError {}

/// A number and a unit, perhaps with blanks between them; `None` beyond 584 years.
fn parse_span(text: &str) -> Option<Nanos> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit())?;
    let (count, unit) = text.split_at(digits);
    let nanos = parse_count(count)?.checked_mul(parse_unit(unit.trim_start())?.get())?;
    Some(Nanos::new(nanos))
}

/// A whole number of digits only: no sign, no exponent, no underscore.
fn parse_count(text: &str) -> Option<u64> {
    let digits_only = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits_only { text.parse().ok() } else { None }
}

/// The length of a unit. `M` is refused: it could be a minute or a month.
fn parse_unit(unit: &str) -> Option<Nanos> {
    match unit {
        "ns" => Some(Nanos::new(1)),
        "us" | "µs" => Some(Nanos::new(1_000)),
        "ms" | "millisecond" | "milliseconds" => Some(Nanos::MILLISECOND),
        "s" | "sec" | "second" | "seconds" => Some(Nanos::SECOND),
        "m" | "min" | "minute" | "minutes" => Some(Nanos::MINUTE),
        "h" | "hr" | "hour" | "hours" => Some(Nanos::HOUR),
        "d" | "day" | "days" => Some(Nanos::DAY),
        "w" | "week" | "weeks" => Some(Nanos::from_secs(7 * 86_400)),
        "y" | "year" | "years" => Some(Nanos::from_secs(365 * 86_400)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_rate_is_read() {
        for (text, count, period) in [
            ("1/ms", 1, Nanos::MILLISECOND),
            ("10/m", 10, Nanos::MINUTE),
            ("10/h", 10, Nanos::HOUR),
            ("10/d", 10, Nanos::DAY),
            ("10 / 30s", 10, Nanos::from_secs(30)),
            ("10/second", 10, Nanos::SECOND),
            ("10 per 5 minutes", 10, Nanos::from_secs(300)),
            ("1/year", 1, Nanos::from_secs(31_536_000)),
        ] {
            assert_eq!(parse_rate(text), Ok((count, period)), "{text}");
        }
    }

    #[test]
    fn what_is_no_rate_is_refused_with_what_was_expected() {
        for text in [
            "",
            "/",
            "10",
            "10/",
            "/s",
            "-1/s",
            "+1/s",
            "1.5/s",
            "1e3/s",
            "1_0/s",
            "0/s",
            "1/0s",
            "1/M",
            "NaN/s",
            "inf/s",
            "99999999999999999999/s",
            "1/s/s",
        ] {
            let refused = parse_rate(text).unwrap_err().to_string();
            assert!(
                refused.starts_with("expected ") && refused.ends_with(&format!("(got {text:?})")),
                "{refused}"
            );
        }
    }

    #[test]
    fn durations_need_a_unit_and_may_not_overflow() {
        assert_eq!(parse_duration("50ms"), Ok(Nanos::from_millis(50)));
        assert_eq!(parse_duration("0s"), Ok(Nanos::ZERO));
        for text in [
            "",
            "5",
            "ms",
            "5 fortnights",
            "18446744073709551615d",
            "1M",
            "-5s",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
