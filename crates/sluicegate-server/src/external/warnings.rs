//! Warnings that are worth a line a minute, however often there is reason for them.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

#[derive(Debug, Default)]
pub(super) struct Warnings {
    pub(super) calls: OncePerMinute,
    pub(super) poison: OncePerMinute,
    pub(super) tenants: OncePerMinute,
    pub(super) backends: OncePerMinute,
}

/// When a line was last written.
#[derive(Debug, Default)]
pub(super) struct OncePerMinute(Mutex<Option<Instant>>);

impl OncePerMinute {
    /// Whether it is time for a line; if so, the next is a minute away.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        const MINUTE: Duration = Duration::from_secs(60);
        let mut last = self.0.lock().expect("no holder of this lock panics");
        let is_due = last.is_none_or(|last| last + MINUTE <= now);
        if is_due {
            *last = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_due_once_a_minute() {
        let (limiter, start) = (OncePerMinute::default(), Instant::now());
        let due = |seconds| limiter.is_due(start + Duration::from_secs(seconds));
        assert_eq!(
            [due(0), due(1), due(59), due(60), due(61)],
            [true, false, false, true, false]
        );
    }
}
