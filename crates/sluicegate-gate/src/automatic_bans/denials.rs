//! Counters of denials: one for each caller and limit, in fixed memory.
//!
//! The table is an array of rows with room for sixteen callers each; a caller's row follows from a
//! seeded hash of its name and the limit's. In a full row the caller with the fewest denials makes
//! room, so that in a flood of callers those who are denied most are kept. A row has a lock of its
//! own, held for a look at sixteen entries.
//!
//! A counter is a window of runs: denials that came shortly after each other are one run, which
//! counts from its first denial on. So a run may leave the window a little early and never late:
//! nobody is banned for fewer denials than the rule says, and a caller with that many in 15/16 of
//! the time always is. A rule of at most sixteen denials needs no runs and is exact.

use std::hash::BuildHasher;
use std::sync::Mutex;

use foldhash::quality::RandomState;
use sluicegate_core::{BanRule, Nanos, Timestamp};

use super::DenialEffect;
use crate::overrides::BanTarget;

/// Denials of callers, each by one limit.
pub(super) struct DenialCounters {
    seed: RandomState,
    rows: Box<[Mutex<Vec<CallerDenials>>]>,
}

/// The hash of a caller and a limit. Two callers of the same hash are counted together: of ten
/// thousand callers, two have it in one of a hundred billion processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallerHash(u64);

/// The denials of one caller by one limit.
#[derive(Debug)]
struct CallerDenials {
    caller: CallerHash,
    /// Oldest first.
    runs: Vec<DenialRun>,
    /// Denials before this instant are not counted: a ban was asked for, and takes a moment.
    quiet_until: Timestamp,
    /// From this instant on the entry says nothing.
    expires: Timestamp,
}

/// Denials that came shortly after each other.
#[derive(Clone, Copy, Debug)]
struct DenialRun {
    first: Timestamp,
    denials: u64,
}

const ROWS: usize = 1_024;
const CALLERS_PER_ROW: usize = 16;
/// Runs in the time of a rule.
const RUNS: u64 = 16;
/// Time for a ban to be in force on this replica, or less for a shorter one; denials in between ask
/// for no second one.
const QUIET: Nanos = Nanos::SECOND;

impl DenialCounters {
    pub(super) fn new() -> Self {
        Self {
            seed: RandomState::default(),
            rows: (0..ROWS).map(|_| Mutex::default()).collect(),
        }
    }

    /// The counter of a caller by a limit.
    pub(super) fn caller(&self, limit: &str, target: &BanTarget) -> CallerHash {
        CallerHash(self.seed.hash_one((limit, target)))
    }

    /// Adds a denial. When the rule is met, `request` asks for the ban, and tells whether it could.
    pub(super) fn add(
        &self,
        caller: CallerHash,
        rule: &BanRule,
        now: Timestamp,
        request: impl FnOnce() -> bool,
    ) -> DenialEffect {
        let row = &self.rows[caller.0 as usize % ROWS];
        let mut row = row.lock().expect("no holder of this lock panics");
        let counter = find_or_insert(&mut row, caller, now);
        if now < counter.quiet_until {
            return DenialEffect::Counted;
        }
        counter.expires = now.after(rule.within);
        if counter.count(rule, now) < rule.after {
            return DenialEffect::Counted;
        }
        if !request() {
            return DenialEffect::QueueFull;
        }
        counter.runs = Vec::new();
        counter.quiet_until = now.after(QUIET.min(rule.lasts));
        counter.expires = counter.quiet_until;
        DenialEffect::Requested
    }

    /// Callers that are counted now.
    #[cfg(test)]
    pub(super) fn callers(&self) -> usize {
        let length = |row: &Mutex<Vec<CallerDenials>>| row.lock().unwrap().len();
        self.rows.iter().map(length).sum()
    }
}

/// The entry of a caller. In a full row, an expired one makes room, else the one with the fewest
/// denials, and of these the one that was denied last the longest ago.
fn find_or_insert(
    row: &mut Vec<CallerDenials>,
    caller: CallerHash,
    now: Timestamp,
) -> &mut CallerDenials {
    let found = row.iter().position(|entry| entry.caller == caller);
    let place = found.unwrap_or_else(|| {
        if row.len() >= CALLERS_PER_ROW {
            let least = (0..row.len()).min_by_key(|place| row[*place].worth(now));
            row.swap_remove(least.expect("a full row has entries"));
        }
        row.push(CallerDenials {
            caller,
            runs: Vec::new(),
            quiet_until: Timestamp::default(),
            expires: now,
        });
        row.len() - 1
    });
    &mut row[place]
}

impl CallerDenials {
    /// Adds a denial and returns how many there are in the time of the rule.
    fn count(&mut self, rule: &BanRule, now: Timestamp) -> u64 {
        let is_recent = |run: &DenialRun| now.since(run.first) < rule.within;
        self.runs.retain(is_recent);
        let run_lasts = Nanos::new(rule.within.get() / RUNS);
        match self.runs.last_mut() {
            Some(run) if rule.after > RUNS && now.since(run.first) < run_lasts => run.denials += 1,
            _ => self.runs.push(DenialRun {
                first: now,
                denials: 1,
            }),
        }
        // More are there only while the queue is full, and after a change of the rule.
        if self.runs.len() > RUNS as usize + 1 {
            self.runs.remove(0);
        }
        self.runs.iter().map(|run| run.denials).sum()
    }

    /// The order in which entries make room.
    fn worth(&self, now: Timestamp) -> impl Ord + use<> {
        let denials: u64 = self.runs.iter().map(|run| run.denials).sum();
        (now < self.expires, denials, self.expires)
    }
}
