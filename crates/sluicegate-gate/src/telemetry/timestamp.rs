//! Times as text, for the access log and the admin API.

use std::cell::RefCell;
use std::time::{SystemTime, UNIX_EPOCH};

/// A time such as `2026-11-16T04:10:20.123Z` (RFC 3339, in UTC). A time outside the calendar is
/// written as the beginning of 1970.
pub fn rfc3339(at: SystemTime) -> String {
    let mut text = Vec::with_capacity(24);
    push_rfc3339(&mut text, at);
    String::from_utf8(text).expect("digits and signs are UTF-8")
}

/// Appends the same to a line. The date is computed once a second per thread and reused, because it
/// would otherwise be a good part of the cost of a line.
pub(super) fn push_rfc3339(line: &mut Vec<u8>, at: SystemTime) {
    let since_1970 = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    LATEST.with_borrow_mut(|latest| {
        if latest.second != Some(since_1970.as_secs()) {
            *latest = CachedSecond::new(since_1970.as_secs());
        }
        line.extend_from_slice(latest.text.as_bytes());
    });
    let millis = since_1970.subsec_millis();
    let digit = |value: u32| b'0' + (value % 10) as u8;
    line.extend_from_slice(&[
        b'.',
        digit(millis / 100),
        digit(millis / 10),
        digit(millis),
        b'Z',
    ]);
}

thread_local! {
    /// The second that this thread wrote last.
    static LATEST: RefCell<CachedSecond> = const {
        RefCell::new(CachedSecond {
            second: None,
            text: String::new(),
        })
    };
}

/// A second since 1970, and its text without the fraction.
struct CachedSecond {
    second: Option<u64>,
    text: String,
}

impl CachedSecond {
    fn new(second: u64) -> Self {
        let instant = i64::try_from(second)
            .ok()
            .and_then(|second| jiff::Timestamp::from_second(second).ok());
        let text = instant.unwrap_or(jiff::Timestamp::UNIX_EPOCH).to_string();
        Self {
            second: Some(second),
            text: text.trim_end_matches('Z').to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn instants_are_written_to_the_millisecond() {
        let at = |millis| rfc3339(UNIX_EPOCH + Duration::from_millis(millis));
        assert_eq!(at(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(1_794_802_220_007), "2026-11-16T04:10:20.007Z");
        assert_eq!(at(1_794_802_220_999), "2026-11-16T04:10:20.999Z");
        assert_eq!(at(951_782_400_120), "2000-02-29T00:00:00.120Z");
    }

    #[test]
    fn instants_of_no_calendar_are_no_panic() {
        assert_eq!(
            rfc3339(UNIX_EPOCH - Duration::from_secs(1)),
            "1970-01-01T00:00:00.000Z"
        );
        let far = UNIX_EPOCH
            .checked_add(Duration::from_secs(1 << 60))
            .unwrap();
        assert_eq!(rfc3339(far), "1970-01-01T00:00:00.000Z");
    }
}
