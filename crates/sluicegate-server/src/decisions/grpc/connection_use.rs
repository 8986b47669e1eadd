//! The use that a connection is put to, which decides how long it may stay.
//!
//! Gateways keep their connections for ever, and may. Whoever shows no token, or asks nothing, holds
//! a place that belongs to them: so a connection stays only after a call that was admitted. Health
//! checks need no token; they keep a connection for as long as they come at a usual interval.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::Duration;

/// The calls of one connection so far.
#[derive(Debug, Default)]
pub(super) struct ConnectionUse {
    has_asked: AtomicBool,
    health_checks: AtomicU32,
}

/// What becomes of a connection whose time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stay {
    /// It stays until its gateway closes it.
    Forever,
    /// It is looked at again after this time.
    For(Duration),
    /// It is told to end.
    No,
}

impl ConnectionUse {
    /// The time until the first call.
    pub(super) const FIRST: Duration = Duration::from_secs(10);
    /// The longest usual interval of health checks, twice.
    const BETWEEN_HEALTH_CHECKS: Duration = Duration::from_secs(120);

    /// Records a call of somebody who may ask.
    pub(super) fn record_call(&self) {
        self.has_asked.store(true, Relaxed);
    }

    /// Records a health check, which anybody may make.
    pub(super) fn record_health_check(&self) {
        self.health_checks.fetch_add(1, Relaxed);
    }

    /// Decides about a connection whose time is over; begins a new time for health checks.
    pub(super) fn next(&self) -> Stay {
        if self.has_asked.load(Relaxed) {
            Stay::Forever
        } else if self.health_checks.swap(0, Relaxed) > 0 {
            Stay::For(Self::BETWEEN_HEALTH_CHECKS)
        } else {
            Stay::No
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_call_of_somebody_who_may_ask_makes_a_connection_permanent() {
        let used = ConnectionUse::default();
        assert_eq!(used.next(), Stay::No);
        for _ in 0..2 {
            used.record_health_check();
            assert_eq!(used.next(), Stay::For(ConnectionUse::BETWEEN_HEALTH_CHECKS));
        }
        assert_eq!(used.next(), Stay::No, "no check came in that time");
        used.record_call();
        assert_eq!(used.next(), Stay::Forever);
    }
}
