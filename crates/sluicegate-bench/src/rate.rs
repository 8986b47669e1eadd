//! The rate that a load is measured under, and the answer that the load is made for.

use std::time::Duration;

use sluicegate::{Nanos, Quota};

/// `count` units every `period`, at most `burst` at once: the same numbers for every contestant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    pub count: u32,
    pub period: Duration,
    pub burst: u32,
}

impl Rate {
    /// The time one unit takes to come back.
    pub fn interval(&self) -> Duration {
        self.period / self.count
    }

    /// The same numbers as a quota of Sluicegate.
    pub fn quota(self) -> Quota {
        let quota = Quota::new(
            u64::from(self.count),
            Nanos::from(self.period),
            u64::from(self.burst),
        );
        quota.expect("the rates of the loads are within bounds")
    }

    pub const fn per_second(count: u32, burst: u32) -> Self {
        Self {
            count,
            period: Duration::from_secs(1),
            burst,
        }
    }
}

/// The answer that a load is made for: every request passes, or every request is denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedAnswer {
    Allowed,
    Denied,
}

impl ExpectedAnswer {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
        }
    }
}
