//! The sliding-window counter: two counts per key, the older weighed by how much of its window is
//! still in view.
//!
//! The idea: cut time into windows of the clock and count the units of each. A window that slides
//! covers all of the current one and the tail of the one before; of the units counted there it
//! takes the part that the tail is of its window, as if they had come evenly.
//!
//! The invariant: `previous · (window − elapsed) + current · window ≤ limit · window` after every
//! admission. Everything is multiplied by the window's length, so there is no division and no
//! rounding until an answer is written; the products stay below 2^53, which Lua holds exactly.
//!
//! It is not simpler because an exact window would have to remember every request. Two counts need
//! the assumption of evenness, and the wait of a denied charge has two cases: enough of the
//! previous window leaves the view, or the current window must become the previous one first. A
//! stored window that lies ahead means that the clock went back: it is used as it is, and waits
//! grow by the step, unless the step is too large to be believed.

use crate::algorithm::{MAX_CLOCK_STEP, Next, Step, UNITS_MAX, nanos_to};
use crate::decision::Outcome;
use crate::quota::SlidingWindow;
use crate::time::{Nanos, Timestamp};

/// The counts of one key in two neighbouring windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// The number of the window that `current` counts, from 0 at the epoch.
    pub index: u64,
    /// Units taken in the window before it.
    pub previous: u64,
    /// Units taken in this window.
    pub current: u64,
}

impl Windows {
    /// The instant from which the counts no longer matter, for a window of this length.
    pub fn expires_at(&self, window: SlidingWindow) -> Timestamp {
        // Units of the current window stay in view during the whole next one.
        let windows_left = if self.current > 0 { 2 } else { 1 };
        Timestamp::from_millis(
            self.index
                .saturating_add(windows_left)
                .saturating_mul(window.window_ms),
        )
    }
}

/// Decides one charge against the stored counts.
#[inline(never)]
pub fn decide(
    stored: Option<Windows>,
    window: SlidingWindow,
    cost: u64,
    now: Timestamp,
) -> Step<Windows> {
    let view = View::read(stored, window, now);
    let remaining = view.room.max(0) as u64 / window.window_ms;
    let reset_after = nanos_to(view.reset_ms(window), now);

    if cost > window.limit {
        return Step::same(Outcome::TooLarge {
            remaining,
            reset_after,
        });
    }
    if cost == 0 {
        return Step::same(Outcome::Allowed {
            remaining,
            reset_after,
        });
    }
    // No overflow: cost ≤ limit, and limit · window is below 2^53.
    let room_after = view.room - (cost * window.window_ms) as i64;
    if room_after < 0 {
        let retry_after = nanos_to(view.retry_ms(window, cost), now);
        let next = if view.repaired {
            Next::Set(view.windows)
        } else {
            Next::Same
        };
        return Step {
            next,
            outcome: Outcome::Denied {
                remaining,
                retry_after,
                reset_after,
            },
        };
    }
    let windows = Windows {
        current: view.windows.current + cost,
        ..view.windows
    };
    Step {
        next: Next::Set(windows),
        outcome: Outcome::Allowed {
            remaining: room_after as u64 / window.window_ms,
            reset_after: nanos_to(View { windows, ..view }.reset_ms(window), now),
        },
    }
}

/// Gives back `cost` units drawn `age` ago, out of the window they were drawn in.
pub fn refund(
    stored: Option<Windows>,
    window: SlidingWindow,
    cost: u64,
    age: Nanos,
    now: Timestamp,
) -> Step<Windows> {
    let view = View::read(stored, window, now);
    let drawn_in = now.before(age).as_millis() / window.window_ms;
    let mut windows = view.windows;
    match windows.index.saturating_sub(drawn_in) {
        0 => windows.current = windows.current.saturating_sub(cost),
        1 => windows.previous = windows.previous.saturating_sub(cost),
        _ => {}
    }
    let refunded = View { windows, ..view }.with_room(window);
    Step {
        next: if windows.current == 0 && windows.previous == 0 {
            Next::Clear
        } else {
            Next::Set(windows)
        },
        outcome: Outcome::Allowed {
            remaining: refunded.room.max(0) as u64 / window.window_ms,
            reset_after: nanos_to(refunded.reset_ms(window), now),
        },
    }
}

/// The newer of two counts. Where both saw the same window, the larger count is the better known.
pub fn later(one: Windows, other: Windows) -> Windows {
    let (old, new) = if one.index <= other.index {
        (one, other)
    } else {
        (other, one)
    };
    match new.index - old.index {
        0 => Windows {
            index: new.index,
            previous: new.previous.max(old.previous),
            current: new.current.max(old.current),
        },
        1 => Windows {
            previous: new.previous.max(old.current),
            ..new
        },
        _ => new,
    }
}

/// Units in view of a window of this length: those of the older window in part, rounded up.
pub(super) fn units_owed(stored: Option<Windows>, window_ms: u64, now: Timestamp) -> u64 {
    UnlimitedView::read(stored, window_ms, now).units()
}

/// The time until no more than `units` are in view of a window of this length.
pub(super) fn wait_for(
    stored: Option<Windows>,
    window_ms: u64,
    units: u64,
    now: Timestamp,
) -> Nanos {
    let view = UnlimitedView::read(stored, window_ms, now);
    nanos_to(view.wait_ms(units), now)
}

/// The counts of a window in which `units`, at most its limit, were taken just now.
pub(super) fn owing(units: u64, window: SlidingWindow, now: Timestamp) -> Windows {
    Windows {
        index: now.as_millis() / window.window_ms,
        previous: 0,
        current: units,
    }
}

/// The counts as seen at one instant, where the limit they were counted under is not known.
struct UnlimitedView {
    previous: u64,
    current: u64,
    window_ms: u64,
    /// Milliseconds of the current window that have passed.
    elapsed_ms: u64,
    /// Milliseconds until a stored window that lies ahead begins: the clock went back.
    ahead_ms: u64,
    /// False when the stored window is too far ahead to be true: then everything is owed.
    believed: bool,
}

impl UnlimitedView {
    /// The stored counts, moved on to the window that `now` is in.
    fn read(stored: Option<Windows>, window_ms: u64, now: Timestamp) -> Self {
        let now_ms = now.as_millis();
        let index = now_ms / window_ms;
        let mut view = Self {
            previous: 0,
            current: 0,
            window_ms,
            elapsed_ms: now_ms % window_ms,
            ahead_ms: 0,
            believed: true,
        };
        match stored {
            Some(stored) if stored.index > index => {
                let step_ms_max = MAX_CLOCK_STEP.get() / Nanos::MILLISECOND.get();
                view.ahead_ms = stored.index.saturating_mul(window_ms) - now_ms;
                view.believed = view.ahead_ms <= step_ms_max + window_ms;
                (view.previous, view.current) = (stored.previous, stored.current);
                view.elapsed_ms = 0;
            }
            Some(stored) if stored.index == index => {
                (view.previous, view.current) = (stored.previous, stored.current);
            }
            Some(stored) if stored.index + 1 == index => view.previous = stored.current,
            Some(_) | None => {}
        }
        // No limit of such a window is larger.
        let most = (UNITS_MAX - 1) / window_ms;
        (view.previous, view.current) = (view.previous.min(most), view.current.min(most));
        view
    }

    fn units(&self) -> u64 {
        if !self.believed {
            return UNITS_MAX;
        }
        let left_ms = self.window_ms - self.elapsed_ms;
        let in_view = (self.previous * left_ms).div_ceil(self.window_ms);
        (self.current + in_view).min(UNITS_MAX)
    }

    /// Milliseconds until no more than `units` are in view; the cases of [`View::retry_ms`].
    fn wait_ms(&self, units: u64) -> u64 {
        if self.units() <= units {
            return 0;
        }
        if !self.believed {
            // From then on nothing is in view, whatever the counts.
            return self.ahead_ms.saturating_add(2 * self.window_ms);
        }
        let part_ms = |units: u64, count: u64| {
            (u128::from(units) * u128::from(self.window_ms) / u128::from(count)) as u64
        };
        let left_ms = self.window_ms - self.elapsed_ms;
        let wait_ms = if self.current <= units {
            left_ms - part_ms(units - self.current, self.previous)
        } else {
            left_ms + self.window_ms.saturating_sub(part_ms(units, self.current))
        };
        self.ahead_ms + wait_ms
    }
}

/// The counts as seen at one instant.
#[derive(Clone, Copy)]
struct View {
    windows: Windows,
    /// Milliseconds of the current window that have passed.
    elapsed_ms: u64,
    /// Milliseconds until a stored window that lies ahead begins: the clock went back.
    ahead_ms: u64,
    /// Free units times the window's length; negative when a lowered limit left too much.
    room: i64,
    /// The stored window was too far ahead to be true; the counts are those of a spent limit and
    /// must be written.
    repaired: bool,
}

impl View {
    /// The stored counts, moved on to the window that `now` is in and capped at the limit.
    fn read(stored: Option<Windows>, window: SlidingWindow, now: Timestamp) -> Self {
        let now_ms = now.as_millis();
        let index = now_ms / window.window_ms;
        let mut view = Self {
            windows: Windows {
                index,
                previous: 0,
                current: 0,
            },
            elapsed_ms: now_ms % window.window_ms,
            ahead_ms: 0,
            room: 0,
            repaired: false,
        };
        match stored {
            Some(stored) if stored.index > index => {
                let ahead_ms = stored.index.saturating_mul(window.window_ms) - now_ms;
                if ahead_ms > MAX_CLOCK_STEP.get() / Nanos::MILLISECOND.get() + window.window_ms {
                    // Taken as spent in this window, not in the one before, part of which may be
                    // out of view already.
                    view.windows.current = window.limit;
                    view.repaired = true;
                } else {
                    view.windows = stored;
                    view.elapsed_ms = 0;
                    view.ahead_ms = ahead_ms;
                }
            }
            Some(stored) if stored.index == index => view.windows = stored,
            Some(stored) if stored.index + 1 == index => view.windows.previous = stored.current,
            Some(_) | None => {}
        }
        view.windows.previous = view.windows.previous.min(window.limit);
        view.windows.current = view.windows.current.min(window.limit);
        view.with_room(window)
    }

    /// Computes the room again after the counts have changed.
    fn with_room(self, window: SlidingWindow) -> Self {
        let weighed = self.windows.previous * (window.window_ms - self.elapsed_ms);
        let spent = weighed + self.windows.current * window.window_ms;
        Self {
            room: (window.limit * window.window_ms) as i64 - spent as i64,
            ..self
        }
    }

    /// Milliseconds until no count is in view any more.
    fn reset_ms(&self, window: SlidingWindow) -> u64 {
        let Windows {
            previous, current, ..
        } = self.windows;
        let left_ms = window.window_ms - self.elapsed_ms;
        let in_view_ms = match (current, previous) {
            (1.., _) => window.window_ms + left_ms,
            (0, 1..) => left_ms,
            // Nothing was spent, so there is nothing to wait for, even if the window lies ahead.
            (0, 0) => return 0,
        };
        self.ahead_ms + in_view_ms
    }

    /// The wait of a denied charge: until enough of the older window, or of this one, is out of
    /// view.
    fn retry_ms(&self, window: SlidingWindow, cost: u64) -> u64 {
        let Windows {
            previous, current, ..
        } = self.windows;
        let left_ms = window.window_ms - self.elapsed_ms;
        // The charge was denied, so there is a count to divide by: with room beside the current
        // window the previous one is in the way, otherwise the current one is.
        let wait_ms = if current + cost <= window.limit {
            left_ms - (window.limit - current - cost) * window.window_ms / previous
        } else {
            left_ms
                + window
                    .window_ms
                    .saturating_sub((window.limit - cost) * window.window_ms / current)
        };
        self.ahead_ms + wait_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Quota;

    #[test]
    fn a_refund_of_everything_leaves_nothing_to_wait_for_when_the_clock_went_back() {
        let Quota::SlidingWindow(window) = Quota::sliding_window(5, Nanos::MINUTE).unwrap() else {
            panic!("a window")
        };
        let spent = Windows {
            index: 1,
            previous: 5,
            current: 0,
        };
        let refunded = refund(
            Some(spent),
            window,
            5,
            Nanos::ZERO,
            Timestamp::from_millis(50_000),
        );
        assert_eq!(refunded.next, Next::Clear);
        assert_eq!(
            refunded.outcome,
            Outcome::Allowed {
                remaining: 5,
                reset_after: Nanos::ZERO
            }
        );
    }
}
