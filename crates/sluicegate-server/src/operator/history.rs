//! The last five minutes of decisions, waits and failures, second by second, for the dashboard.
//!
//! Counters only grow; a [`StatsSample`] of them every second gives the differences that are kept.

use std::collections::{HashMap, VecDeque};

use serde_json::{Value, json};

/// The counters at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct StatsSample {
    /// Requests and decisions that passed, and those that a limit denied.
    pub(crate) all: (u64, u64),
    /// By limit: its name, how many it allowed, how many it denied or would have in shadow mode.
    pub(crate) limits: Vec<(String, u64, u64)>,
    /// The 99th percentile of the last second's waits for the store; 0 without any.
    pub(crate) p99_us: u64,
    pub(crate) is_degraded: bool,
}

/// Differences of samples, one for each second.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// The counters of each limit at the last sample. Limits that were removed stay here: one may
    /// come back, and its counters go on.
    before: HashMap<String, (u64, u64)>,
    all_before: Option<(u64, u64)>,
    ends_at_ms: u64,
    all: OutcomeSeries,
    limits: Vec<(String, OutcomeSeries)>,
    p99_us: VecDeque<u64>,
    degraded: VecDeque<u8>,
}

/// Decisions of each second, oldest first.
#[derive(Clone, Debug, Default)]
struct OutcomeSeries {
    allowed: VecDeque<u64>,
    denied: VecDeque<u64>,
}

/// Seconds that are kept.
const POINTS: usize = 300;
/// Limits with a history of their own.
const LIMITS: usize = 32;

impl History {
    /// Adds the sample of the second that is over.
    pub(crate) fn add(&mut self, sample: StatsSample, now_ms: u64) {
        let length = self.p99_us.len();
        self.limits
            .retain(|(name, _)| sample.limits.iter().any(|(other, ..)| other == name));
        for (name, allowed, denied) in &sample.limits {
            let past = self.before.insert(name.clone(), (*allowed, *denied));
            // A new limit started at zero, except in the first sample: counters are older than
            // this.
            let past = past.unwrap_or(if self.all_before.is_some() {
                (0, 0)
            } else {
                (*allowed, *denied)
            });
            let (allowed, denied) = (
                allowed.saturating_sub(past.0),
                denied.saturating_sub(past.1),
            );
            let index = match self.limits.iter().position(|(other, _)| other == name) {
                Some(index) => index,
                None if self.limits.len() < LIMITS => {
                    self.limits
                        .push((name.clone(), OutcomeSeries::of_nothing(length)));
                    self.limits.len() - 1
                }
                None => continue,
            };
            self.limits[index].1.push(allowed, denied);
        }
        let past = self.all_before.replace(sample.all).unwrap_or(sample.all);
        self.all.push(
            sample.all.0.saturating_sub(past.0),
            sample.all.1.saturating_sub(past.1),
        );
        push(&mut self.p99_us, sample.p99_us);
        push(&mut self.degraded, u8::from(sample.is_degraded));
        self.ends_at_ms = now_ms;
    }

    pub(crate) fn json(&self) -> Value {
        let limits: Vec<Value> = self
            .limits
            .iter()
            .map(|(name, series)| json!({ "name": name, "allowed": series.allowed, "denied": series.denied }))
            .collect();
        json!({
            "step_ms": 1_000, "ends_at_ms": self.ends_at_ms,
            "allowed": self.all.allowed, "denied": self.all.denied,
            "p99_us": self.p99_us, "degraded": self.degraded, "limits": limits,
        })
    }
}

impl OutcomeSeries {
    fn of_nothing(length: usize) -> Self {
        let nothing: VecDeque<u64> = std::iter::repeat_n(0, length).collect();
        Self {
            allowed: nothing.clone(),
            denied: nothing,
        }
    }

    fn push(&mut self, allowed: u64, denied: u64) {
        push(&mut self.allowed, allowed);
        push(&mut self.denied, denied);
    }
}

fn push<T>(points: &mut VecDeque<T>, point: T) {
    points.push_back(point);
    if points.len() > POINTS {
        points.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(limits: &[(&str, u64, u64)]) -> StatsSample {
        let limits = limits
            .iter()
            .map(|(name, allowed, denied)| ((*name).to_owned(), *allowed, *denied))
            .collect();
        let limits: Vec<(String, u64, u64)> = limits;
        let all = (limits.iter().map(|limit| limit.1).sum(), 9);
        StatsSample {
            all,
            limits,
            p99_us: 7,
            is_degraded: false,
        }
    }

    #[test]
    fn each_second_has_what_was_added_in_it() {
        let mut history = History::default();
        history.add(sample(&[("a", 100, 50)]), 1_000);
        history.add(sample(&[("a", 103, 50)]), 2_000);
        history.add(sample(&[("a", 103, 51), ("b", 4, 0)]), 3_000);
        let json = history.json();
        assert_eq!(
            (&json["allowed"], &json["denied"]),
            (&json!([0, 3, 4]), &json!([0, 0, 0]))
        );
        assert_eq!(json["limits"][0]["denied"], json!([0, 0, 1]));
        assert_eq!(
            json["limits"][1],
            json!({ "name": "b", "allowed": [0, 0, 4], "denied": [0, 0, 0] })
        );
        assert_eq!(
            (&json["ends_at_ms"], &json["p99_us"]),
            (&json!(3_000), &json!([7, 7, 7]))
        );
    }

    #[test]
    fn a_limit_that_has_gone_has_none_and_the_rest_stays_in_step() {
        let mut history = History::default();
        for second in 0..POINTS as u64 + 50 {
            history.add(sample(&[("a", second, 0), ("b", 2 * second, 0)]), second);
        }
        history.add(sample(&[("b", 2 * (POINTS as u64 + 50), 0)]), 999);
        let json = history.json();
        let length = |value: &Value| value.as_array().map_or(0, Vec::len);
        assert_eq!(json["limits"].as_array().map(Vec::len), Some(1));
        assert_eq!(
            (
                length(&json["allowed"]),
                length(&json["limits"][0]["allowed"])
            ),
            (POINTS, POINTS)
        );
        assert_eq!(json["limits"][0]["allowed"][POINTS - 1], 2);
    }

    #[test]
    fn there_is_an_end_to_how_many_limits_have_a_history() {
        let mut history = History::default();
        let many: Vec<(String, u64, u64)> = (0..100)
            .map(|number| (format!("limit-{number}"), 1, 0))
            .collect();
        history.add(
            StatsSample {
                limits: many.clone(),
                ..StatsSample::default()
            },
            0,
        );
        history.add(
            StatsSample {
                limits: many,
                all: (100, 0),
                ..StatsSample::default()
            },
            0,
        );
        let json = history.json();
        assert_eq!(json["limits"].as_array().map(Vec::len), Some(LIMITS));
        assert_eq!(
            json["allowed"],
            json!([0, 100]),
            "all of them count together"
        );
    }
}
