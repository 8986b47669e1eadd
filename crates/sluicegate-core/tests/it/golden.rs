//! The worked rows: every column of every row, against the algorithms.

use std::collections::HashMap;

use sluicegate_core::algorithm::sliding_window::Windows;
use sluicegate_core::algorithm::token_bucket::{self, Lease, Share};
use sluicegate_core::algorithm::{self, State, Step};
use sluicegate_core::{Nanos, Outcome, Quota, Timestamp, TokenBucket};

const ROWS: &str = include_str!("golden.txt");

#[test]
fn every_worked_row_gives_its_digits() {
    let rows: Vec<Row> = ROWS.lines().filter_map(Row::parse).collect();
    assert_eq!(rows.len(), 57, "rows that could be read");
    let wrong: Vec<String> = rows.iter().filter_map(Row::difference).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// One row of the table, by column.
struct Row {
    number: u32,
    algorithm: RowAlgorithm,
    quota: Quota,
    share: Option<Share>,
    before: Option<State>,
    now: Timestamp,
    action: Action,
    /// Result, remaining, retry_after, reset_after and state after, as written.
    expected: [&'static str; 5],
}

/// The first column; it sets the unit of time and the shape of the state.
#[derive(Clone, Copy, PartialEq)]
enum RowAlgorithm {
    TokenBucket,
    Lease,
    Drip,
    SlidingWindow,
}

enum Action {
    Spend(u64),
    Refund { cost: u64, age: u64 },
}

impl Row {
    /// `None` for comments and the head of the table.
    fn parse(line: &'static str) -> Option<Self> {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let &[
            _,
            number,
            algorithm,
            parameters,
            before,
            now,
            action,
            result,
            remaining,
            retry,
            reset,
            after,
            _,
            _,
        ] = columns.as_slice()
        else {
            return None;
        };
        let number = number.parse().ok()?;
        let algorithm = match algorithm {
            "tb" => RowAlgorithm::TokenBucket,
            "lease" => RowAlgorithm::Lease,
            "ld" => RowAlgorithm::Drip,
            "swc" => RowAlgorithm::SlidingWindow,
            other => panic!("row {number}: no algorithm is called {other}"),
        };
        let named: HashMap<&str, &str> = parameters
            .split_whitespace()
            .map(|word| word.split_once('=').unwrap_or((word, "")))
            .collect();
        Some(Self {
            number,
            algorithm,
            quota: quota(algorithm, &named),
            share: named.get("phi").map(|phi| share(phi)),
            before: algorithm.state(before),
            now: algorithm.instant(now),
            action: Action::parse(action),
            expected: [result, remaining, retry, reset, after],
        })
    }

    /// The difference from the expectation, if there is one.
    fn difference(&self) -> Option<String> {
        let got = self.run();
        let expected = self.expected.map(str::to_owned);
        (got != expected)
            .then(|| format!("row {}: expected {expected:?}, got {got:?}", self.number))
    }

    fn run(&self) -> [String; 5] {
        let Self {
            quota, before, now, ..
        } = *self;
        match (self.share, &self.action) {
            (Some(share), Action::Spend(want)) => self.lease(share, *want),
            (_, Action::Spend(cost)) => {
                let step = algorithm::decide(before, quota, *cost, now);
                let result = if step.outcome.is_allowed() {
                    "allow"
                } else {
                    "deny"
                };
                self.written(result.to_owned(), step)
            }
            (_, Action::Refund { cost, age }) => {
                let step = algorithm::refund(before, quota, *cost, Nanos::new(*age), now);
                self.written("allow".to_owned(), step)
            }
        }
    }

    fn lease(&self, share: Share, want: u64) -> [String; 5] {
        let Quota::TokenBucket(bucket) = self.quota else {
            panic!("row {}: not a token bucket", self.number)
        };
        let full_at = self.before.map(|state| match state {
            State::Instant(instant) => instant,
            State::Windows(_) => panic!("row {}: not an instant", self.number),
        });
        let Lease { granted, step } =
            token_bucket::lease(full_at, bucket, want, 0, share, self.now);
        self.columns(
            format!("grant {granted}"),
            step.outcome,
            step.next.apply(full_at).map(State::Instant),
        )
    }

    fn written(&self, result: String, step: Step) -> [String; 5] {
        self.columns(result, step.outcome, step.next.apply(self.before))
    }

    fn columns(&self, result: String, outcome: Outcome, after: Option<State>) -> [String; 5] {
        let span = |span: Nanos| (span.get() / self.algorithm.unit()).to_string();
        [
            result,
            outcome.remaining().to_string(),
            outcome.retry_after().map_or("NEVER".to_owned(), span),
            span(outcome.reset_after()),
            self.algorithm.written(after),
        ]
    }
}

impl RowAlgorithm {
    /// Nanoseconds in the row's unit of time.
    fn unit(self) -> u64 {
        match self {
            Self::TokenBucket | Self::Lease => 1,
            Self::Drip | Self::SlidingWindow => 1_000_000,
        }
    }

    fn instant(self, text: &str) -> Timestamp {
        Timestamp::from_nanos(number(text) * self.unit())
    }

    fn state(self, text: &str) -> Option<State> {
        if text == "-" {
            return None;
        }
        let numbers: Vec<u64> = text.split(':').map(number).collect();
        Some(match (self, numbers.as_slice()) {
            (Self::TokenBucket | Self::Lease, [full_at]) => {
                State::Instant(Timestamp::from_nanos(*full_at))
            }
            (Self::Drip, [end, slack]) => {
                State::Instant(Timestamp::from_nanos(end * 1_000_000 + slack))
            }
            (Self::SlidingWindow, &[index, previous, current]) => State::Windows(Windows {
                index,
                previous,
                current,
            }),
            _ => panic!("{text}: not a state of this algorithm"),
        })
    }

    fn written(self, state: Option<State>) -> String {
        match (self, state) {
            (_, None) => "-".to_owned(),
            (Self::Drip, Some(State::Instant(packed))) => {
                format!(
                    "{}:{}",
                    packed.as_nanos() / 1_000_000,
                    packed.as_nanos() % 1_000_000
                )
            }
            (_, Some(State::Instant(full_at))) => full_at.as_nanos().to_string(),
            (
                _,
                Some(State::Windows(Windows {
                    index,
                    previous,
                    current,
                })),
            ) => format!("{index}:{previous}:{current}"),
        }
    }
}

impl Action {
    /// `7`, `refund 4` or `refund 5 aged 50000000`.
    fn parse(text: &str) -> Self {
        match text.split_whitespace().collect::<Vec<_>>().as_slice() {
            ["refund", cost] => Self::Refund {
                cost: number(cost),
                age: 0,
            },
            ["refund", cost, "aged", age] => Self::Refund {
                cost: number(cost),
                age: number(age),
            },
            [cost] => Self::Spend(number(cost)),
            _ => panic!("{text}: not an action"),
        }
    }
}

fn quota(algorithm: RowAlgorithm, named: &HashMap<&str, &str>) -> Quota {
    let get = |name: &str| {
        number(
            named
                .get(name)
                .unwrap_or_else(|| panic!("no parameter {name}")),
        )
    };
    match algorithm {
        RowAlgorithm::TokenBucket | RowAlgorithm::Lease => {
            TokenBucket::with_interval(Nanos::new(get("T")), get("B"))
                .unwrap()
                .into()
        }
        RowAlgorithm::Drip if named.contains_key("aligned") => {
            assert_eq!(get("k"), get("S"), "a fixed window drips all at once");
            Quota::fixed_window(get("S"), Nanos::from_millis(get("D"))).unwrap()
        }
        RowAlgorithm::Drip => {
            Quota::leaky_bucket(get("S"), Nanos::from_millis(get("D")), get("k")).unwrap()
        }
        RowAlgorithm::SlidingWindow => {
            Quota::sliding_window(get("L"), Nanos::from_millis(get("W"))).unwrap()
        }
    }
}

fn share(phi: &str) -> Share {
    let (num, den) = phi.split_once('/').expect("a share is num/den");
    Share {
        num: num.parse().unwrap(),
        den: den.parse().unwrap(),
    }
}

fn number(text: &str) -> u64 {
    text.parse()
        .unwrap_or_else(|_| panic!("{text}: not a number"))
}
