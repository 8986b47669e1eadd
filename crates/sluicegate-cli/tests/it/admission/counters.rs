//! Counters of the program before and after a question, and the lines that it wrote.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sluicegate_testkit::eventually;

use super::doors::FrontDoor;
use crate::running::Sluicegate;

const LIMITS: &str = "sluicegate_limit_decisions_total";
const REQUESTS: &str = "sluicegate_requests_total";
const DECISIONS: &str = "sluicegate_decisions_total";

/// The series of the three families, by name and labels.
#[derive(Clone, Debug)]
pub struct Counters(BTreeMap<String, u64>);

impl Counters {
    pub fn read(sluicegate: &Sluicegate) -> Self {
        let metrics = sluicegate.admin_get("/metrics");
        let series = metrics.body().lines().filter_map(|line| {
            let (name, value) = line.split_once("} ")?;
            let family = name.split('{').next()?;
            let is_one = [LIMITS, REQUESTS, DECISIONS].contains(&family);
            let value = value.split(' ').next()?.parse().ok()?;
            is_one.then(|| (name.to_owned(), value))
        });
        Self(series.collect())
    }

    /// All answers of all doors.
    fn answers(&self) -> u64 {
        let is_answer = |name: &str| name.starts_with(REQUESTS) || name.starts_with(DECISIONS);
        let answers = self.0.iter().filter(|(name, _)| is_answer(name));
        answers.map(|(_, count)| count).sum()
    }

    /// The counters once another answer is counted: a request is counted when its response has ended,
    /// which a client may see first. A question that is never counted gives those of two seconds later.
    pub fn after_an_answer(&self, sluicegate: &Sluicegate) -> Self {
        let deadline = Instant::now() + Duration::from_secs(2);
        loop {
            let now = Self::read(sluicegate);
            if now.answers() > self.answers() || Instant::now() > deadline {
                return now;
            }
        }
    }

    /// The limits that decided since, each with its outcome: `per-client allowed`, or `-`. The limit for
    /// descriptors stands for the one that it repeats.
    pub fn limits_since(&self, before: &Self) -> String {
        let changes = self.changes(before, LIMITS);
        joined(changes.map(|(labels, count)| {
            let limit = label(labels, "limit").trim_end_matches("-by-descriptor");
            times(format!("{limit} {}", label(labels, "outcome")), count)
        }))
    }

    /// The answers that were counted since. The proxy's `forwarded` is everybody's `allowed`.
    pub fn answers_since(&self, before: &Self, door: FrontDoor) -> String {
        let requests = self.changes(before, REQUESTS).map(|(labels, count)| {
            let outcome = label(labels, "outcome").replace("forwarded", "allowed");
            match door.protocol() {
                None => times(outcome, count),
                Some(_) => times(format!("proxy {outcome}"), count),
            }
        });
        let decisions = self.changes(before, DECISIONS).map(|(labels, count)| {
            let (protocol, outcome) = (label(labels, "protocol"), label(labels, "outcome"));
            if door.protocol() == Some(protocol) {
                times(outcome.to_owned(), count)
            } else {
                times(format!("{protocol} {outcome}"), count)
            }
        });
        joined(requests.chain(decisions))
    }

    fn changes<'a>(
        &'a self,
        before: &'a Self,
        family: &'a str,
    ) -> impl Iterator<Item = (&'a str, u64)> {
        self.0.iter().filter_map(move |(name, now)| {
            let labels = name.strip_prefix(family)?.strip_prefix('{')?;
            let change = now - before.0.get(name).unwrap_or(&0);
            (change > 0).then_some((labels, change))
        })
    }
}

fn label<'a>(labels: &'a str, name: &str) -> &'a str {
    let value = labels
        .split(',')
        .find_map(|label| label.strip_prefix(name)?.strip_prefix('='));
    value.unwrap_or_default().trim_matches('"')
}

fn times(what: String, count: u64) -> String {
    if count == 1 {
        what
    } else {
        format!("{what} ×{count}")
    }
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() {
        "-".to_owned()
    } else {
        parts.join(" + ")
    }
}

/// The number of `RATE_LIMIT` lines so far.
pub fn rate_limit_lines(sluicegate: &Sluicegate) -> usize {
    let printed = sluicegate.printed.lock().unwrap();
    let is_one = |line: &&String| line.contains("RATE_LIMIT client_ip=");
    printed.iter().filter(is_one).count()
}

/// Waits until every line about earlier requests is written: lines are written in the order in which
/// they are made, and a request of our own makes the last. It comes from an address of its own, so
/// that no limit denies it.
pub fn wait_for_lines(sluicegate: &Sluicegate, number: usize) {
    let before = Counters::read(sluicegate);
    let path = format!("/barrier-{number}.");
    sluicegate.get(
        &path,
        &[&format!("X-Forwarded-For: 192.0.2.{}", 1 + number)],
    );
    eventually("the line of the last request", || {
        let printed = sluicegate.printed.lock().unwrap();
        printed.iter().any(|line| line.contains(&path))
    });
    eventually("the last request is counted", || {
        Counters::read(sluicegate).answers() > before.answers()
    });
}
