//! The date of an answer, written once a second.

use std::cell::Cell;
use std::time::{SystemTime, UNIX_EPOCH};

/// `Mon, 16 Nov 2026 04:10:20 GMT`.
pub(super) type Text = [u8; 29];

thread_local! {
    static LATEST: Cell<(i64, Text)> = const { Cell::new((i64::MIN, [b' '; 29])) };
}

/// The date now.
pub(super) fn now() -> Text {
    let since_1970 = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    at(i64::try_from(since_1970.as_secs()).unwrap_or_default())
}

fn at(second: i64) -> Text {
    let (latest, text) = LATEST.get();
    if latest == second {
        return text;
    }
    let text = written(second);
    LATEST.set((second, text));
    text
}

fn written(second: i64) -> Text {
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
