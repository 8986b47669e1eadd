//! Decisions by limit, with a bounded number of series.
//!
//! Names of limits come from the configuration, so reloads could add series without end. The first
//! 10,000 names of a process get series of their own, and all later ones share `(other)`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use sluicegate_core::{AdHoc, Charge, Outcome, Policy};

use super::labels::{Label, LimitOutcome};
use super::shards::Counter;

/// The series of every limit that was ever in a policy, up to [`LIMITS_MAX`]. Clones share them.
#[derive(Clone)]
pub(super) struct LimitSeries(Arc<SharedSeries>);

/// The state behind all clones.
struct SharedSeries {
    family: Family<[(&'static str, Cow<'static, str>); 2], Counter>,
    /// The limits with series of their own.
    known: Mutex<HashMap<Box<str>, OutcomeCounters>>,
}

/// One counter per [`LimitOutcome`], in its order.
type OutcomeCounters = [Counter; LimitOutcome::ALL.len()];

/// The most limits with series of their own.
const LIMITS_MAX: usize = 10_000;
/// The name that the others share; no limit can have it, because of the parentheses.
const OTHER: &str = "(other)";

impl LimitSeries {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let family = Family::default();
        registry.register(
            "sluicegate_limit_decisions",
            "Charges by limit and outcome",
            family.clone(),
        );
        Self(Arc::new(SharedSeries {
            family,
            known: Mutex::default(),
        }))
    }

    /// The counters of a policy; makes the series that are missing.
    pub(super) fn counts_for(&self, policy: &Policy) -> LimitCounts {
        let counters = policy
            .limits()
            .iter()
            .map(|limit| (limit.name.as_str().into(), self.counters(&limit.name)));
        LimitCounts {
            by_index: counters.collect(),
            ad_hoc: Default::default(),
            series: self.clone(),
        }
    }

    /// The counters of a limit. Takes a lock, so not for the path of most requests.
    fn counters(&self, limit: &str) -> OutcomeCounters {
        let mut known = self.0.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(counters) = known.get(limit) {
            return counters.clone();
        }
        if known.len() >= LIMITS_MAX {
            return self.0.make(OTHER);
        }
        let counters = self.0.make(limit);
        known.insert(limit.into(), counters.clone());
        counters
    }
}

impl SharedSeries {
    fn make(&self, limit: &str) -> OutcomeCounters {
        std::array::from_fn(|place| {
            let outcome = LimitOutcome::ALL[place];
            let labels = [
                ("limit", limit.to_owned().into()),
                (LimitOutcome::NAME, outcome.as_str().into()),
            ];
            self.family.get_or_create_owned(&labels)
        })
    }
}

impl fmt::Debug for LimitSeries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LimitSeries")
    }
}

/// The counters of one policy's limits, kept beside the policy so that counting needs no lookup.
#[derive(Debug)]
pub struct LimitCounts {
    /// Name and counters, by the index of the limit in the policy.
    by_index: Box<[(Box<str>, OutcomeCounters)]>,
    /// The counters of quotas that come with the request, made at the first of them.
    ad_hoc: [OnceLock<OutcomeCounters>; AdHoc::ALL.len()],
    series: LimitSeries,
}

/// The outcomes of a limit's charges so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitTotals {
    /// Charges that were taken.
    pub allowed: u64,
    /// Charges that were not, so that the request was denied.
    pub denied: u64,
    /// Charges that were not, of a limit in shadow mode.
    pub shadow_denied: u64,
}

impl LimitCounts {
    /// The totals of each limit of the policy, in its order.
    pub fn totals(&self) -> impl Iterator<Item = LimitTotals> {
        let count =
            |counters: &OutcomeCounters, outcome: LimitOutcome| counters[outcome.index()].get();
        self.by_index.iter().map(move |(_, counters)| LimitTotals {
            allowed: count(counters, LimitOutcome::Allowed),
            denied: count(counters, LimitOutcome::Denied),
            shadow_denied: count(counters, LimitOutcome::ShadowDenied),
        })
    }

    /// Counts the outcome of one charge. A charge of an older or newer policy is counted as well,
    /// only less quickly.
    pub fn count(&self, charge: &Charge<'_>, outcome: &Outcome) {
        let limit = charge.key.limit();
        let answer = match (outcome.is_allowed(), charge.enforced) {
            (true, _) => LimitOutcome::Allowed,
            (false, true) => LimitOutcome::Denied,
            (false, false) => LimitOutcome::ShadowDenied,
        };
        match self.by_index.get(charge.limit_index) {
            Some((name, counters)) if **name == *limit.name => counters[answer.index()].inc(),
            _ => match limit.ad_hoc() {
                Some(purpose) => {
                    let counters = &self.ad_hoc[purpose as usize];
                    let counters = counters.get_or_init(|| self.series.counters(&limit.name));
                    counters[answer.index()].inc()
                }
                None => self.series.counters(&limit.name)[answer.index()].inc(),
            },
        };
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text;
    use sluicegate_core::{Limit, Quota};

    use super::*;

    fn policy(names: &[&str]) -> Policy {
        Policy::new(
            names
                .iter()
                .map(|name| Limit::per_client(*name, Quota::per_second(1).burst(1))),
        )
        .unwrap()
    }

    fn encoded(registry: &Registry) -> String {
        let mut written = String::new();
        text::encode(&mut written, registry).unwrap();
        written
    }

    #[test]
    fn a_limit_that_is_gone_keeps_its_series_and_counts_go_on_when_it_is_back() {
        let mut registry = Registry::default();
        let series = LimitSeries::new(&mut registry);
        series.counts_for(&policy(&["a", "b"])).by_index[0].1[LimitOutcome::Denied.index()].inc();
        series.counts_for(&policy(&["b"]));
        series.counts_for(&policy(&["b", "a"])).by_index[1].1[LimitOutcome::Denied.index()].inc();
        let written = encoded(&registry);
        assert!(
            written
                .contains("sluicegate_limit_decisions_total{limit=\"a\",outcome=\"denied\"} 2\n"),
            "{written}"
        );
        assert_eq!(
            written.matches("sluicegate_limit_decisions_total{").count(),
            6
        );
    }

    #[test]
    fn beyond_the_bound_limits_share_one_name() {
        let mut registry = Registry::default();
        let series = LimitSeries::new(&mut registry);
        for place in 0..LIMITS_MAX + 50 {
            series.counters(&format!("limit-{place}"))[0].inc();
        }
        let expected = (LIMITS_MAX + 1) * LimitOutcome::ALL.len();
        assert_eq!(
            encoded(&registry)
                .matches("sluicegate_limit_decisions_total{")
                .count(),
            expected
        );
        assert_eq!(series.0.make(OTHER)[0].get(), 50);
        assert!(
            Policy::new([Limit::per_client(OTHER, Quota::per_second(1).burst(1))]).is_err(),
            "no limit has this name"
        );
    }
}
