//! Decisions by limit.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use sluicegate_core::{AdHoc, Charge, Outcome, Policy};

use super::labels::{Label, LimitAnswer};

/// The series of every limit that was ever in a policy, up to a bound. Clones share them.
#[derive(Clone)]
pub(super) struct LimitSeries(Arc<Series>);

struct Series {
    family: Family<[(&'static str, Cow<'static, str>); 2], Counter>,
    known: Mutex<HashMap<Box<str>, ByOutcome>>,
}

type ByOutcome = [Counter; LimitAnswer::ALL.len()];

/// Limits with series of their own.
const LIMITS_MAX: usize = 10_000;
/// The name for the others; no limit can have it.
const OTHER: &str = "(other)";

impl LimitSeries {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let family = Family::default();
        registry.register(
            "sluicegate_limit_decisions",
            "Charges by limit and answer",
            family.clone(),
        );
        Self(Arc::new(Series {
            family,
            known: Mutex::default(),
        }))
    }

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

    fn counters(&self, limit: &str) -> ByOutcome {
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

impl Series {
    fn make(&self, limit: &str) -> ByOutcome {
        std::array::from_fn(|place| {
            let outcome = LimitAnswer::ALL[place];
            let labels = [
                ("limit", limit.to_owned().into()),
                (LimitAnswer::NAME, outcome.as_str().into()),
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

/// The counters of one policy's limits.
#[derive(Debug)]
pub struct LimitCounts {
    by_index: Box<[(Box<str>, ByOutcome)]>,
    /// Of quotas that come with the request: no series before there is one.
    ad_hoc: [OnceLock<ByOutcome>; AdHoc::ALL.len()],
    series: LimitSeries,
}

/// What a limit has said so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitTotals {
    /// Charges that were taken.
    pub allowed: u64,
    /// Charges that were not, so that the request was refused.
    pub denied: u64,
    /// Charges that were not, of a limit that only watches.
    pub shadow_denied: u64,
}

impl LimitCounts {
    /// What each limit of the policy has said so far, in order.
    pub fn totals(&self) -> impl Iterator<Item = LimitTotals> {
        let count = |counters: &ByOutcome, answer: LimitAnswer| counters[answer.index()].get();
        self.by_index.iter().map(move |(_, counters)| LimitTotals {
            allowed: count(counters, LimitAnswer::Allowed),
            denied: count(counters, LimitAnswer::Denied),
            shadow_denied: count(counters, LimitAnswer::ShadowDenied),
        })
    }

    /// Counts the outcome of one charge. A charge of an older or newer policy is counted as well,
    /// only less quickly.
    pub fn count(&self, charge: &Charge<'_>, outcome: &Outcome) {
        let limit = charge.key.limit();
        let answer = match (outcome.is_allowed(), charge.enforced) {
            (true, _) => LimitAnswer::Allowed,
            (false, true) => LimitAnswer::Denied,
            (false, false) => LimitAnswer::ShadowDenied,
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
        series.counts_for(&policy(&["a", "b"])).by_index[0].1[LimitAnswer::Denied.index()].inc();
        series.counts_for(&policy(&["b"]));
        series.counts_for(&policy(&["b", "a"])).by_index[1].1[LimitAnswer::Denied.index()].inc();
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
        let expected = (LIMITS_MAX + 1) * LimitAnswer::ALL.len();
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
