//! One circuit breaker: closed, open, or probing.

use std::time::Duration;

use tokio::time::Instant;

use super::IDLE;

/// When a breaker opens, and for how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct BreakerRule {
    /// This many in a row open it.
    pub(super) errors: u32,
    pub(super) open_for: Duration,
}

/// One breaker.
#[derive(Debug)]
pub(super) struct Breaker {
    state: BreakerState,
    /// The last time that it was asked or reported to.
    pub(super) last_used: Instant,
}

#[derive(Debug)]
enum BreakerState {
    /// Calls pass.
    Closed {
        /// Failures since the last success.
        errors: u32,
    },
    /// No calls pass until then; the next one afterwards is the probe.
    Open { until: Instant },
    /// The probe is under way. If it is not reported until then, another one may try.
    Probing { until: Instant },
}

/// How a breaker let a call through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PermitKind {
    /// It was closed.
    Normal,
    /// It was open, and this call finds out whether it may close.
    Probe,
}

/// The result of a call for one of its two breakers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BreakerResult {
    Success,
    Failure,
    /// Says nothing: counts neither way.
    Inconclusive,
}

impl Breaker {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            state: BreakerState::Closed { errors: 0 },
            last_used: now,
        }
    }

    pub(super) fn open_until(&self, now: Instant) -> Option<Instant> {
        match self.state {
            BreakerState::Open { until } | BreakerState::Probing { until } if now < until => {
                Some(until)
            }
            BreakerState::Closed { .. }
            | BreakerState::Open { .. }
            | BreakerState::Probing { .. } => None,
        }
    }

    pub(super) fn admit(&mut self, rule: BreakerRule, now: Instant) -> Result<PermitKind, Instant> {
        self.last_used = now;
        match self.open_until(now) {
            Some(until) => Err(until),
            None if matches!(self.state, BreakerState::Closed { .. }) => Ok(PermitKind::Normal),
            None => {
                self.state = BreakerState::Probing {
                    until: now + rule.open_for,
                };
                Ok(PermitKind::Probe)
            }
        }
    }

    /// Returns true when this result opened the breaker. Results of calls that began before it
    /// opened change nothing.
    pub(super) fn report(
        &mut self,
        permit: PermitKind,
        result: BreakerResult,
        rule: BreakerRule,
        now: Instant,
    ) -> bool {
        self.last_used = now;
        let open = BreakerState::Open {
            until: now + rule.open_for,
        };
        match (&mut self.state, permit, result) {
            (BreakerState::Closed { errors }, _, BreakerResult::Success) => *errors = 0,
            (BreakerState::Closed { errors }, _, BreakerResult::Failure) => {
                *errors += 1;
                if *errors >= rule.errors {
                    self.state = open;
                    return true;
                }
            }
            (BreakerState::Probing { .. }, PermitKind::Probe, BreakerResult::Success) => {
                self.state = BreakerState::Closed { errors: 0 };
            }
            (BreakerState::Probing { .. }, PermitKind::Probe, BreakerResult::Failure) => {
                self.state = open;
                return true;
            }
            // The probe found out nothing, so the next call may be one at once.
            (BreakerState::Probing { .. }, PermitKind::Probe, BreakerResult::Inconclusive) => {
                self.state = BreakerState::Open { until: now };
            }
            (
                BreakerState::Closed { .. }
                | BreakerState::Open { .. }
                | BreakerState::Probing { .. },
                _,
                _,
            ) => {}
        }
        false
    }

    pub(super) fn is_idle(&self, now: Instant) -> bool {
        self.last_used + IDLE <= now
    }
}
