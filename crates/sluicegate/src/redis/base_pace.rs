//! The base pace of each limit: the pace at which values without a mark were written.
//!
//! The idea: a value in Redis is the bare state, in as few bytes as possible, and says at which pace
//! it was written only where that is not the base pace of its limit. All replicas have to agree on
//! the base, whatever configuration each of them has, or they would misread each other's values. So
//! it is not taken from a configuration: the first process that ever uses a limit claims it for the
//! pace that it uses, in a key of its own, and all others read it there. A roll-out, a roll-back and
//! a restart leave it as it is.
//!
//! A Redis that lost its data has lost the base with the counters. Processes that remember it claim
//! it again within [`CHECK_INTERVAL`], so that those that start later find the same.

use std::collections::HashMap;
use std::sync::RwLock;
use std::time::Duration;

use foldhash::quality::RandomState;
use sluicegate_core::Pace;
use tokio::time::Instant;

/// How often the base pace of a limit in use is checked and its time to live renewed.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// The base paces that this process knows. Each decision reads one, so it is a read lock that nobody
/// holds for long.
#[derive(Debug, Default)]
pub(super) struct BasePaces {
    by_limit: RwLock<HashMap<Box<str>, KnownBase, RandomState>>,
}

#[derive(Clone, Copy, Debug)]
struct KnownBase {
    pace: Pace,
    check_at: Instant,
}

/// The base pace of a limit as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BaseLookup {
    /// It has to be read from Redis first.
    Unknown,
    /// It is this one.
    Known(Pace),
    /// It is this one, and the caller has to check it. Others are not told for a while.
    CheckDue(Pace),
}

impl BasePaces {
    pub(super) fn lookup(&self, limit: &str, now: Instant) -> BaseLookup {
        let known = {
            let by_limit = self.by_limit.read();
            let by_limit = by_limit.unwrap_or_else(|poisoned| poisoned.into_inner());
            by_limit.get(limit).copied()
        };
        match known {
            None => BaseLookup::Unknown,
            Some(known) if now < known.check_at => BaseLookup::Known(known.pace),
            Some(known) => self.due(limit, known, now),
        }
    }

    /// Leaves the check to the first caller that asks for it.
    #[cold]
    fn due(&self, limit: &str, seen: KnownBase, now: Instant) -> BaseLookup {
        let mut by_limit = self
            .by_limit
            .write()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        match by_limit.get_mut(limit) {
            Some(known) if now >= known.check_at => {
                known.check_at = now + CHECK_INTERVAL;
                BaseLookup::CheckDue(known.pace)
            }
            Some(known) => BaseLookup::Known(known.pace),
            None => BaseLookup::Known(seen.pace),
        }
    }

    /// Remembers the base pace that Redis has.
    pub(super) fn learn(&self, limit: &str, pace: Pace, now: Instant) {
        let check_at = now + CHECK_INTERVAL;
        self.by_limit
            .write()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .insert(limit.into(), KnownBase { pace, check_at });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_caller_checks_a_base_pace_every_ten_seconds() {
        let bases = BasePaces::default();
        let start = Instant::now();
        let pace = Pace::TokenBucket { interval: 7 };
        assert_eq!(bases.lookup("a", start), BaseLookup::Unknown);
        bases.learn("a", pace, start);
        assert_eq!(bases.lookup("b", start), BaseLookup::Unknown);
        let just_before = start + CHECK_INTERVAL - Duration::from_millis(1);
        assert_eq!(bases.lookup("a", just_before), BaseLookup::Known(pace));
        let due = start + CHECK_INTERVAL;
        assert_eq!(bases.lookup("a", due), BaseLookup::CheckDue(pace));
        assert_eq!(bases.lookup("a", due), BaseLookup::Known(pace), "once");
        let again = due + CHECK_INTERVAL;
        assert_eq!(bases.lookup("a", again), BaseLookup::CheckDue(pace));
    }
}
