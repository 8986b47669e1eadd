//! The worked rows, through the scripts. Rows of the other verb of the token bucket, `lease`, have
//! no script.

use std::collections::HashMap;

use sluicegate_core::algorithm::State;
use sluicegate_core::algorithm::sliding_window::Windows;
use sluicegate_core::{Draw, Nanos, Quota, Timestamp, TokenBucket};

use super::outcome_of;
use super::server::{CommandMonitor, Connection, ScriptServer};
use crate::redis::charge::StoreCharge;
use crate::redis::script::model::{GRACE_MS, life_ms, written};
use crate::redis::script::{ChargeReply, ChargeTime, ScriptTime, read_refund};

const ROWS: &str = include_str!("../../../../../sluicegate-core/tests/it/golden.txt");

#[test]
fn every_worked_row_gives_its_digits_through_redis() {
    let server = ScriptServer::start();
    let mut connection = server.connect();
    let mut monitor = CommandMonitor::start(&server);
    let rows: Vec<WorkedRow> = ROWS.lines().filter_map(WorkedRow::parse).collect();
    assert_eq!(
        rows.len(),
        53,
        "rows that could be read, without the four leases"
    );
    let wrong: Vec<String> = rows
        .iter()
        .filter_map(|row| row.complaint(&mut connection, &mut monitor))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    connection.assert_every_key_expires();
}

struct WorkedRow {
    number: u32,
    /// Nanoseconds in the row's unit of time.
    unit: u64,
    item: StoreCharge,
    before: Option<State>,
    now: Timestamp,
    /// The age of a refund, in the row's unit.
    refund: Option<u64>,
    /// Result, remaining, retry_after, reset_after and state after, as written.
    expected: [String; 5],
}

impl WorkedRow {
    fn parse(line: &str) -> Option<Self> {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let &[
            _,
            number,
            machine,
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
        if machine == "lease" {
            return None;
        }
        let unit = if machine == "tb" { 1 } else { 1_000_000 };
        let (cost, refund) = match action.split_whitespace().collect::<Vec<_>>().as_slice() {
            ["refund", cost] => (cost.parse().unwrap(), Some(0)),
            ["refund", cost, "aged", age] => (cost.parse().unwrap(), Some(age.parse().unwrap())),
            _ => (action.parse().unwrap(), None),
        };
        let after = state(machine, after).map_or(String::new(), written);
        Some(Self {
            number,
            unit,
            item: StoreCharge {
                key: format!("row-{number}"),
                quota: quota(machine, parameters),
                cost,
                hash: 0,
                base: None,
                // The rows have no marks: a repair is only its digits.
                digits_only: true,
                enforced: true,
                draw: Draw::Take,
            },
            before: state(machine, before),
            now: Timestamp::from_nanos(now.parse::<u64>().unwrap() * unit),
            refund,
            expected: [result, remaining, retry, reset, &after].map(str::to_owned),
        })
    }

    fn complaint(
        &self,
        connection: &mut Connection,
        monitor: &mut CommandMonitor,
    ) -> Option<String> {
        let Self { item, now, .. } = self;
        if let Some(before) = self.before {
            connection.call(&["SET", &item.key, &written(before), "PX", "3600000"]);
        }
        let given = ScriptTime::Given(*now);
        let answer = match self.refund {
            Some(age) => {
                let mut reply =
                    connection.refund(item, ChargeTime::Ago(Nanos::new(age * self.unit)), given);
                let refunded = read_refund(&mut reply).unwrap();
                assert_eq!(refunded.now, *now);
                ChargeReply {
                    allowed: true,
                    state: refunded.state,
                    excess_at: refunded.excess_at,
                    is_stored: true,
                }
            }
            None => {
                let answers = connection
                    .decide(&[std::slice::from_ref(item)], given)
                    .unwrap();
                assert_eq!(answers.now, *now);
                answers.requests[0].as_ref().unwrap()[0]
            }
        };
        let outcome = outcome_of(item, &answer, *now);
        let span = |span: Nanos| (span.get() / self.unit).to_string();
        let stored = connection.get(&item.key).unwrap_or_default();
        let got = [
            if outcome.is_allowed() {
                "allow"
            } else {
                "deny"
            }
            .to_owned(),
            outcome.remaining().to_string(),
            outcome.retry_after().map_or("NEVER".to_owned(), span),
            span(outcome.reset_after()),
            stored,
        ];
        for command in monitor
            .commands(connection)
            .iter()
            .filter(|command| command[0] == "SET")
        {
            let state = answer.state.expect("what was stored");
            let px = (life_ms(state, item.quota, *now) + GRACE_MS).to_string();
            assert_eq!(command[3..], ["PX".to_owned(), px], "row {}", self.number);
        }
        (got != self.expected).then(|| {
            format!(
                "row {}: expected {:?}, got {got:?}",
                self.number, self.expected
            )
        })
    }
}

fn state(machine: &str, text: &str) -> Option<State> {
    if text == "-" {
        return None;
    }
    let numbers: Vec<u64> = text
        .split(':')
        .map(|number| number.parse().unwrap())
        .collect();
    Some(match (machine, numbers.as_slice()) {
        ("tb", [full_at]) => State::Instant(Timestamp::from_nanos(*full_at)),
        ("ld", [end, slack]) => State::Instant(Timestamp::from_nanos(end * 1_000_000 + slack)),
        ("swc", &[index, previous, current]) => State::Windows(Windows {
            index,
            previous,
            current,
        }),
        _ => panic!("{text}: not a state of this machine"),
    })
}

fn quota(machine: &str, parameters: &str) -> Quota {
    let named: HashMap<&str, &str> = parameters
        .split_whitespace()
        .map(|word| word.split_once('=').unwrap_or((word, "")))
        .collect();
    let get = |name: &str| named[name].parse::<u64>().unwrap();
    match machine {
        "tb" => TokenBucket::with_interval(Nanos::new(get("T")), get("B"))
            .unwrap()
            .into(),
        "ld" if named.contains_key("aligned") => {
            Quota::fixed_window(get("S"), Nanos::from_millis(get("D"))).unwrap()
        }
        "ld" => Quota::leaky_bucket(get("S"), Nanos::from_millis(get("D")), get("k")).unwrap(),
        _ => Quota::sliding_window(get("L"), Nanos::from_millis(get("W"))).unwrap(),
    }
}
