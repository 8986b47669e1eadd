//! The `Date` of responses. Each thread formats it once a second and copies it in between.

use std::cell::Cell;
use std::time::{SystemTime, UNIX_EPOCH};

/// A date as HTTP writes it: `Mon, 16 Nov 2026 04:10:20 GMT`.
pub(crate) type DateText = [u8; 29];

thread_local! {
    /// The second that was formatted last, and its text.
    static LATEST: Cell<(i64, DateText)> = const { Cell::new((i64::MIN, [b' '; 29])) };
}

/// The current date.
pub(crate) fn now() -> DateText {
    let since_1970 = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    at(i64::try_from(since_1970.as_secs()).unwrap_or_default())
}

/// The date of a second since 1970, formatted only if it is another than the last.
fn at(second: i64) -> DateText {
    let (latest, text) = LATEST.get();
    if latest == second {
        return text;
    }
    let text = format_date(second);
    LATEST.set((second, text));
    text
}

/// Formats a date; one that no calendar has becomes the first of 1970.
fn format_date(second: i64) -> DateText {
    let instant = jiff::Timestamp::from_second(second)
        .unwrap_or_default()
        .to_zoned(jiff::tz::TimeZone::UTC);
    let text = instant.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    text.as_bytes()
        .try_into()
        .unwrap_or(*b"Thu, 01 Jan 1970 00:00:00 GMT")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_as_http_has_them() {
        for (second, text) in [
            (784_111_777, b"Sun, 06 Nov 1994 08:49:37 GMT"),
            (1_794_802_220, b"Mon, 16 Nov 2026 04:10:20 GMT"),
            (951_782_400, b"Tue, 29 Feb 2000 00:00:00 GMT"),
            (i64::MAX, b"Thu, 01 Jan 1970 00:00:00 GMT"),
        ] {
            assert_eq!(at(second), *text);
            assert_eq!(at(second), *text, "and again");
        }
    }
}
