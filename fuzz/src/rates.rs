//! Rates, durations and paces as text, against a second reader with whole numbers only.

use sluicegate_core::{Nanos, Pace, parse_duration, parse_rate};

/// The input is a text of a configuration.
pub fn run(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    let duration = parse_duration(text);
    let expected = reference_duration(text.trim());
    match &duration {
        Ok(span) => {
            assert_eq!(Some(span.get()), expected);
            check_spellings(*span);
        }
        Err(error) => {
            assert_eq!(expected, None);
            let told = error.to_string();
            assert!(told.starts_with("expected "));
        }
    }
    match (parse_rate(text), reference_rate(text)) {
        (Ok((count, period)), expected) => {
            assert!(count > 0 && period > Nanos::ZERO);
            let nanos = period.get();
            assert_eq!(Some((count, nanos)), expected);
            let again = format!("{count}/{nanos}ns");
            assert_eq!(parse_rate(&again), Ok((count, period)));
        }
        (Err(_), expected) => assert_eq!(expected, None),
    }
    if let Ok(pace) = text.parse::<Pace>() {
        let shown = pace.to_string();
        assert_eq!(shown.parse(), Ok(pace));
        assert!(
            shown.len() <= text.len(),
            "only zeros in front are left out"
        );
    }
}

/// Nanoseconds of a unit.
fn unit_of(word: &str) -> Option<u128> {
    let nanos = match word {
        "ns" => 1,
        "us" => 1_000,
        "µs" => 1_000,
        "ms" | "millisecond" | "milliseconds" => 1_000_000,
        "s" | "sec" | "second" | "seconds" => 1_000_000_000,
        "m" | "min" | "minute" | "minutes" => 60_000_000_000,
        "h" | "hr" | "hour" | "hours" => 3_600_000_000_000,
        "d" | "day" | "days" => 86_400_000_000_000,
        "w" | "week" | "weeks" => 604_800_000_000_000,
        "y" | "year" | "years" => 31_536_000_000_000_000,
        _ => return None,
    };
    Some(nanos)
}

/// True for one digit or more.
fn is_digits(text: &str) -> bool {
    let has_other = text.contains(|letter: char| !letter.is_ascii_digit());
    !text.is_empty() && !has_other
}

fn is_of_number(letter: char) -> bool {
    letter.is_ascii_digit() || letter == '.'
}

/// Numbers and units by turns, the units from the largest to the smallest.
fn reference_duration(text: &str) -> Option<u64> {
    let (mut total, mut last) = (0_u128, u128::MAX);
    let mut rest = text;
    while !rest.is_empty() || last == u128::MAX {
        let (number, after) = split_where(rest, |letter| !is_of_number(letter));
        let after = after.trim_start();
        let is_end = |letter: char| is_of_number(letter) || letter.is_whitespace();
        let (word, after) = split_where(after, is_end);
        let unit = unit_of(word)?;
        if unit >= last {
            return None;
        }
        let part = times(number, unit)?;
        total = total.checked_add(part)?;
        (last, rest) = (unit, after.trim_start());
    }
    u64::try_from(total).ok()
}

/// The text before the first letter of this kind, and the rest.
fn split_where(text: &str, is_end: impl Fn(char) -> bool) -> (&str, &str) {
    let end = text.find(is_end);
    text.split_at(end.unwrap_or(text.len()))
}

/// A decimal number times a unit, if that is whole: each digit for itself.
fn times(number: &str, unit: u128) -> Option<u128> {
    let point = number.split_once('.');
    let (whole, fraction) = point.unwrap_or((number, "0"));
    if !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    let fraction = fraction.trim_end_matches('0');
    let scale = 10_u128.checked_pow(fraction.len() as u32)?;
    let parts = digits_times(fraction, unit)?;
    if !parts.is_multiple_of(scale) {
        return None;
    }
    let whole = digits_times(whole, unit)?;
    whole.checked_add(parts / scale)
}

fn digits_times(digits: &str, unit: u128) -> Option<u128> {
    let mut product = 0_u128;
    for digit in digits.bytes() {
        let part = u128::from(digit - b'0') * unit;
        product = product.checked_mul(10)?.checked_add(part)?;
    }
    Some(product)
}

fn reference_rate(text: &str) -> Option<(u64, u64)> {
    let at_slash = text.split_once('/');
    let (count, period) = at_slash.or(text.split_once(" per "))?;
    let count = count.trim();
    if !is_digits(count) {
        return None;
    }
    let count: u64 = count.parse().ok()?;
    let period = period.trim();
    let nanos = match unit_of(period) {
        Some(unit) => u64::try_from(unit).ok()?,
        None => reference_duration(period)?,
    };
    (count > 0 && nanos > 0).then_some((count, nanos))
}

/// A span in other words is the same span.
fn check_spellings(span: Nanos) {
    let nanos = span.get();
    assert_eq!(parse_duration(&format!("{nanos}ns")), Ok(span));
    let (seconds, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    assert_eq!(parse_duration(&format!("{seconds}.{rest:09}s")), Ok(span));
    let hours = seconds / 3_600;
    let minutes = seconds / 60 % 60;
    let seconds = seconds % 60;
    let text = format!("{hours} hours {minutes}m {seconds}.{rest:09}s");
    assert_eq!(parse_duration(&text), Ok(span));
}
