//! Rates and durations as people write them: `100/s`, `5/30s`, `3 per minute`, `1.5s`, `1h30m`.
//!
//! Units are explicit and results are exact: `60` could be seconds or minutes, `1.5/s` would be
//! half a unit, and `1.5ns` half a nanosecond, so all three are refused with a hint.

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
/// assert_eq!(parse_rate("10/1m30s"), Ok((10, Nanos::from_secs(90))));
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
    let span = match (parse_unit(period), parse_span(period)) {
        (Some(unit), _) => unit,
        (None, Ok(span)) => span,
        (None, Err(SpanError::Malformed)) => {
            return Err(refused(
                "a unit of time (ms, s, m, h, d) or a duration after the slash",
            ));
        }
        (None, Err(error)) => return Err(refused(error.expected())),
    };
    if span == Nanos::ZERO {
        return Err(refused("a period longer than zero"));
    }
    Ok((count, span))
}

/// Reads a duration: numbers with units, the largest unit first, such as `50ms`, `1.5s`, `1h30m`.
///
/// The result is exact. A fraction that is not a whole number of nanoseconds is refused.
///
/// ```
/// use sluicegate_core::{parse_duration, Nanos};
///
/// assert_eq!(parse_duration("30s"), Ok(Nanos::from_secs(30)));
/// assert_eq!(parse_duration("1.5s"), Ok(Nanos::from_millis(1_500)));
/// assert_eq!(parse_duration("1m30s"), Ok(Nanos::from_secs(90)));
/// assert!(parse_duration("30").is_err());
/// assert!(parse_duration("1.5ns").is_err());
/// ```
pub fn parse_duration(text: &str) -> Result<Nanos, ParseRateError> {
    parse_span(text.trim()).map_err(|error| ParseRateError {
        got: text.to_owned(),
        expected: error.expected(),
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

/// A reason to refuse the text of a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SpanError {
    /// Anything but numbers with units.
    Malformed,
    /// Units that repeat or grow, as in `30s1m`: one of them is probably a typing error.
    Unordered,
    /// A fraction of a nanosecond.
    NotWhole,
    /// More nanoseconds than 64 bits hold.
    TooLong,
}

impl SpanError {
    /// The words that follow `expected`.
    const fn expected(self) -> &'static str {
        match self {
            Self::Malformed => {
                "a number and a unit (ns, us, ms, s, m, h, d), such as 30s, 1.5s or 1m30s"
            }
            Self::Unordered => "each unit once, the largest first, as in 1h30m",
            Self::NotWhole => "a whole number of nanoseconds",
            Self::TooLong => "at most 584 years",
        }
    }
}

/// One or more numbers, each with its unit; blanks may stand before units and numbers.
fn parse_span(text: &str) -> Result<Nanos, SpanError> {
    let mut total = Nanos::ZERO;
    let mut unit_before = Nanos::MAX;
    let mut rest = text;
    loop {
        let (part, unit, behind) = parse_part(rest)?;
        if unit >= unit_before {
            return Err(SpanError::Unordered);
        }
        let sum = total.get().checked_add(part.get());
        total = Nanos::new(sum.ok_or(SpanError::TooLong)?);
        if behind.is_empty() {
            return Ok(total);
        }
        unit_before = unit;
        rest = behind;
    }
}

/// The number and unit that a text begins with: the span, the length of the unit, and the text
/// behind them.
fn parse_part(text: &str) -> Result<(Nanos, Nanos, &str), SpanError> {
    let is_number = |letter: char| letter.is_ascii_digit() || letter == '.';
    let (number, rest) = text.split_at(
        text.find(|letter: char| !is_number(letter))
            .unwrap_or(text.len()),
    );
    let rest = rest.trim_start();
    let unit_end = rest
        .find(|letter: char| is_number(letter) || letter.is_whitespace())
        .unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(unit_end);
    let unit = parse_unit(unit).ok_or(SpanError::Malformed)?;
    Ok((parse_number(number, unit)?, unit, rest.trim_start()))
}

/// `number` times `unit`, exactly; the number may have a fraction.
fn parse_number(number: &str, unit: Nanos) -> Result<Nanos, SpanError> {
    /// Every fraction of a unit that is whole nanoseconds has fewer digits; the product with the
    /// longest unit fits 128 bits.
    const FRACTION_DIGITS_MAX: usize = 18;
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if !is_digits(whole) || !is_digits(fraction) {
        return Err(SpanError::Malformed);
    }
    // The text is digits only, so it can only be too large.
    let whole: u64 = whole.parse().map_err(|_| SpanError::TooLong)?;
    let whole = whole.checked_mul(unit.get()).ok_or(SpanError::TooLong)?;
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() {
        return Ok(Nanos::new(whole));
    }
    if fraction.len() > FRACTION_DIGITS_MAX {
        return Err(SpanError::NotWhole);
    }
    let numerator: u128 = fraction.parse().map_err(|_| SpanError::Malformed)?;
    let product = numerator * u128::from(unit.get());
    let denominator = 10_u128.pow(fraction.len() as u32);
    if !product.is_multiple_of(denominator) {
        return Err(SpanError::NotWhole);
    }
    let part = u64::try_from(product / denominator).map_err(|_| SpanError::TooLong)?;
    whole
        .checked_add(part)
        .map(Nanos::new)
        .ok_or(SpanError::TooLong)
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
            ("10/1m30s", 10, Nanos::from_secs(90)),
            ("10/1.5s", 10, Nanos::from_millis(1_500)),
            ("3 per 1 hour 30 minutes", 3, Nanos::from_secs(5_400)),
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
            "1/1.5",
            "1/30s1m",
            "1/0.5ns",
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
            "1m30",
            "1m-30s",
            "1m+30s",
            "1e3s",
            "1,5s",
            ".5s",
            "1.s",
            "1..5s",
            "1.5.5s",
            "1.5",
            "584y1w1y",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn fractions_and_several_units_are_exact() {
        for (text, nanos) in [
            ("1.5s", 1_500_000_000),
            ("0.25h", 900_000_000_000),
            ("1m30s", 90_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("1h0m0.5s", 3_600_500_000_000),
            ("1h 30 min", 5_400_000_000_000),
            ("2d12h", 216_000_000_000_000),
            ("1.000000001s", 1_000_000_001),
            ("0.001us", 1),
            ("1.50000000000000000000000000s", 1_500_000_000),
            ("1.5ms10ns", 1_500_010),
            // The longest fraction of the longest unit.
            ("0.0000000000000625y", 1_971),
            ("18446744073.709551615s", u64::MAX),
        ] {
            assert_eq!(parse_duration(text), Ok(Nanos::new(nanos)), "{text}");
        }
    }

    #[test]
    fn every_reason_to_refuse_a_duration_is_told() {
        for (text, expected) in [
            ("1.5ns", "a whole number of nanoseconds"),
            ("0.3333333333s", "a whole number of nanoseconds"),
            (
                "0.0000000000000000000000000001y",
                "a whole number of nanoseconds",
            ),
            ("30s1m", "each unit once, the largest first, as in 1h30m"),
            ("1m1m", "each unit once, the largest first, as in 1h30m"),
            ("18446744073.709551616s", "at most 584 years"),
            ("99999999999999999999s", "at most 584 years"),
            (
                "1M",
                "a number and a unit (ns, us, ms, s, m, h, d), such as 30s, 1.5s or 1m30s",
            ),
        ] {
            let refused = parse_duration(text).unwrap_err().to_string();
            assert_eq!(refused, format!("expected {expected} (got {text:?})"));
        }
    }
}
