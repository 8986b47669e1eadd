//! Rates, durations and paces as text, against a second reader with whole numbers only.

use sluicegate_core::{Nanos, Pace, parse_duration, parse_rate};

/// The input is a text of a configuration.
pub fn run(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    let duration = parse_duration(text);
    let expected = reference_duration(text.trim());
    assert_eq!(duration.as_ref().ok().map(|span| span.get()), expected);
    if let Ok(span) = duration {
        check_spellings(span);
    }
    if let Err(error) = &duration {
        assert!(error.to_string().starts_with("expected "));
    }
    match (parse_rate(text), reference_rate(text)) {
        (Ok((count, period)), expected) => {
            assert!(count > 0 && period > Nanos::ZERO);
            assert_eq!(Some((count, period.get())), expected);
            let again = format!("{count}/{}ns", period.get());
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

const UNITS: [(&[&str], u128); 9] = [
    (&["ns"], 1),
    (&["us", "µs"], 1_000),
    (&["ms", "millisecond", "milliseconds"], 1_000_000),
    (&["s", "sec", "second", "seconds"], 1_000_000_000),
    (&["m", "min", "minute", "minutes"], 60_000_000_000),
    (&["h", "hr", "hour", "hours"], 3_600_000_000_000),
    (&["d", "day", "days"], 86_400_000_000_000),
    (&["w", "week", "weeks"], 604_800_000_000_000),
    (&["y", "year", "years"], 31_536_000_000_000_000),
];

fn unit_of(word: &str) -> Option<u128> {
    let found = UNITS.iter().find(|(words, _)| words.contains(&word));
    found.map(|(_, nanos)| *nanos)
}

/// Numbers and units by turns, the units from the largest to the smallest.
fn reference_duration(text: &str) -> Option<u64> {
    let (mut total, mut last) = (0_u128, u128::MAX);
    let mut rest = text;
    while !rest.is_empty() || last == u128::MAX {
        let number_end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
        let (number, after) = rest.split_at(number_end?);
        let after = after.trim_start();
        let is_end =
            |letter: char| letter.is_ascii_digit() || letter == '.' || letter.is_whitespace();
        let (word, after) = after.split_at(after.find(is_end).unwrap_or(after.len()));
        let unit = unit_of(word)?;
        if unit >= last {
            return None;
        }
        total = total.checked_add(times(number, unit)?)?;
        (last, rest) = (unit, after.trim_start());
    }
    u64::try_from(total).ok()
}

/// A decimal number times a unit, if that is whole: each digit for itself.
fn times(number: &str, unit: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    let mut product = 0_u128;
    for digit in whole.bytes() {
        product = product
            .checked_mul(10)?
            .checked_add(u128::from(digit - b'0') * unit)?;
    }
    let (mut parts, mut scale) = (0_u128, 1_u128);
    for digit in fraction.trim_end_matches('0').bytes() {
        scale = scale.checked_mul(10)?;
        parts = parts
            .checked_mul(10)?
            .checked_add(u128::from(digit - b'0') * unit)?;
    }
    if !parts.is_multiple_of(scale) {
        return None;
    }
    product.checked_add(parts / scale)
}

fn reference_rate(text: &str) -> Option<(u64, u64)> {
    let (count, period) = match text.find('/') {
        Some(slash) => (&text[..slash], &text[slash + 1..]),
        None => text.split_once(" per ")?,
    };
    let count = count.trim();
    if count.is_empty() || !count.bytes().all(|byte| byte.is_ascii_digit()) {
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
    let (hours, seconds) = (seconds / 3_600, seconds % 3_600);
    let (minutes, seconds) = (seconds / 60, seconds % 60);
    let text = format!("{hours} hours {minutes}m {seconds}.{rest:09}s");
    assert_eq!(parse_duration(&text), Ok(span));
}
