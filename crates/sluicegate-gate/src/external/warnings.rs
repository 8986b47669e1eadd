//! Warnings that would repeat with every request, limited to one line a minute each.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use super::optional_field::OptionalField;

/// One limiter for each kind of warning, so that a frequent one does not hide the others.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    /// Calls without a usable reply.
    pub(super) calls: OncePerMinute,
    /// Values in Redis that are not ours.
    pub(super) foreign_values: OncePerMinute,
    /// Fields of replies that are ignored, in the order of [`OptionalField::ALL`].
    pub(super) fields: [OncePerMinute; OptionalField::ALL.len()],
}

/// The time of the last line.
#[derive(Debug, Default)]
pub(super) struct OncePerMinute(Mutex<Option<Instant>>);

impl OncePerMinute {
    /// Returns true when a line may be written, and then not again for a minute.
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
