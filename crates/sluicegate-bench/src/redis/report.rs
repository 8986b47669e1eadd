//! The report of `bench redis`: its figures beside the targets.

use super::loads::CALLERS;
use super::measure::KEYS;
use super::results::{RedisCell, RedisMemoryUse, RedisResults, RedisRow, RedisSample};
use super::targets::{RedisTarget, TARGETS, bytes_max};
use crate::report::{Report, WrongAnswers, one_digit, or_dash};
use crate::table::TextTable;

impl Report {
    /// The report on a run of `bench redis`.
    pub fn on_redis(results: &RedisResults) -> Self {
        let mut report = Self::new(wrong_answers(results));
        report.add_targets(results);
        report.add_decisions(results);
        report.add_bytes(results);
        report
    }

    fn add_targets(&mut self, results: &RedisResults) {
        let callers = CALLERS[CALLERS.len() - 1];
        let mut table = TextTable::new(
            4,
            &[
                "load",
                "cost per decision",
                "peer",
                "verdict",
                "times ours",
                "at least",
            ],
        );
        for RedisTarget {
            load,
            cost,
            peer,
            times_min,
        } in &TARGETS
        {
            let row = results
                .rows
                .iter()
                .find(|row| row.load == *load && row.callers == callers);
            let Some(times) = row.and_then(|row| row.times_ours(*peer, cost.of())) else {
                continue;
            };
            let what = format!("{}, {} of {}", load.name(), cost.name(), peer.name());
            let verdict = self.verdict_on(times >= *times_min, || {
                format!(
                    "{what}: {} times ours, at least {times_min}",
                    times_of(times)
                )
            });
            let words = [load.name(), cost.name(), peer.name(), &verdict].map(str::to_string);
            table.push(
                words
                    .into_iter()
                    .chain([times_of(times), times_min.to_string()])
                    .collect(),
            );
        }
        let explanation = format!(
            "With {callers} callers: for each round the processor time per decision of the peer over ours, and of these \
             the median. Less than a millisecond in a turn counts as one."
        );
        self.add("Cost beside the peers", explanation, table);
    }

    fn add_decisions(&mut self, results: &RedisResults) {
        let headings = [
            "load",
            "callers",
            "contestant",
            "decisions/s",
            "client µs",
            "Redis µs",
            "script calls per decision",
        ];
        let mut table = TextTable::new(3, &headings);
        for row in &results.rows {
            row.cells
                .iter()
                .for_each(|cell| table.push(fields(row, cell)));
        }
        let explanation = "Medians of the rounds. Processor time per decision: of the contestant's whole process, and of \
                           Redis, whose idling is in it.";
        self.add("Decisions", explanation, table);
    }

    fn add_bytes(&mut self, results: &RedisResults) {
        let mut table = TextTable::new(2, &["contestant", "verdict", "bytes per key", "at most"]);
        for RedisMemoryUse {
            contestant,
            bytes_per_key,
        } in &results.memory
        {
            let max = bytes_max(*contestant);
            let verdict = max.map(|max| {
                let title = || {
                    format!(
                        "{}: {bytes_per_key:.1} bytes per key, at most {max}",
                        contestant.name()
                    )
                };
                self.verdict(*bytes_per_key, max, title)
            });
            let max = max.map(|max| max.to_string());
            table.push(vec![
                contestant.name().to_string(),
                or_dash(verdict),
                one_digit(*bytes_per_key),
                or_dash(max),
            ]);
        }
        let explanation =
            format!("`used_memory` of Redis with {KEYS} live keys, over their number.");
        self.add("Bytes per key in Redis", explanation, table);
    }
}

fn fields(row: &RedisRow, cell: &RedisCell) -> Vec<String> {
    let numbers = [
        format!("{:.0}", cell.median(RedisSample::decisions_per_second)),
        small(cell.median(RedisSample::client_us)),
        small(cell.median(RedisSample::redis_us)),
        small(cell.median(RedisSample::calls_per_decision)),
    ];
    let words = [
        row.load.name().to_string(),
        row.callers.to_string(),
        cell.contestant.name().to_string(),
    ];
    words.into_iter().chain(numbers).collect()
}

/// Two digits after the point, or more where the first of them come later.
fn small(number: f64) -> String {
    match number {
        number if number >= 0.1 || number == 0.0 => format!("{number:.2}"),
        number if number >= 0.000_1 => format!("{number:.4}"),
        number => format!("{number:.0e}"),
    }
}

fn times_of(times: f64) -> String {
    if times < 10.0 {
        format!("{times:.2}")
    } else {
        format!("{times:.0}")
    }
}

fn wrong_answers(results: &RedisResults) -> Vec<WrongAnswers> {
    let cells = results
        .rows
        .iter()
        .flat_map(|row| row.cells.iter().map(move |cell| (row, cell)));
    let wrong = cells.filter(|(_, cell)| cell.wrong_share() > 0.0);
    wrong
        .map(|(row, cell)| {
            WrongAnswers::new(cell.contestant.name(), &row.title(), cell.wrong_share())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::redis::contestants::RedisContestant;
    use crate::redis::loads::RedisLoad;
    use crate::redis::turn::TurnFigures;

    fn cell(contestant: RedisContestant, client_us: u64, redis_us: f64, wrong: u64) -> RedisCell {
        let (wall, cpu) = (
            Duration::from_secs(1),
            Duration::from_micros(client_us * 1_000),
        );
        let figures = TurnFigures {
            decisions: 1_000,
            wall,
            cpu,
            wrong,
        };
        RedisCell {
            contestant,
            samples: vec![RedisSample {
                figures,
                redis_cpu_seconds: redis_us / 1e3,
                calls: 1_000,
            }],
        }
    }

    fn report(ours: RedisCell) -> Report {
        let theirs = [
            cell(RedisContestant::Gcra, 4, 6.0, 0),
            cell(RedisContestant::HashBucket, 5, 10.0, 0),
        ];
        let row = RedisRow {
            load: RedisLoad::Cold,
            callers: 512,
            cells: [ours].into_iter().chain(theirs).collect(),
        };
        Report::on_redis(&RedisResults {
            rows: vec![row],
            memory: Vec::new(),
        })
    }

    #[test]
    fn a_target_is_judged_by_the_ratio_to_its_peer() {
        let text = report(cell(RedisContestant::Sluicegate, 1, 4.0, 0)).to_text();
        assert!(text.ends_with("targets: all 3 met\n"), "{text}");
        let text = report(cell(RedisContestant::Sluicegate, 4, 5.5, 0)).to_text();
        let miss =
            "MISS cold keys, Redis CPU of redis-rs + GCRA script: 1.09 times ours, at least 1.2";
        assert!(text.contains(miss), "{text}");
        assert!(text.contains("targets: 1 of 3 met"), "{text}");
    }

    #[test]
    fn wrong_answers_fail_the_run() {
        assert_eq!(
            report(cell(RedisContestant::Sluicegate, 1, 4.0, 0)).failure(),
            None
        );
        assert!(
            report(cell(RedisContestant::Sluicegate, 1, 4.0, 500))
                .failure()
                .is_some()
        );
    }

    #[test]
    fn bytes_are_judged_by_layout() {
        let memory = [
            (RedisContestant::Sluicegate, 130.0),
            (RedisContestant::SluicegateCompact, 130.0),
            (RedisContestant::HashBucket, 200.0),
        ];
        let memory = memory
            .map(|(contestant, bytes_per_key)| RedisMemoryUse {
                contestant,
                bytes_per_key,
            })
            .into();
        let text = Report::on_redis(&RedisResults {
            rows: Vec::new(),
            memory,
        })
        .to_text();
        let miss = "targets: 1 of 2 met\nMISS sluicegate, compact keys: 130.0 bytes per key, at most 115\n";
        assert!(text.ends_with(miss), "{text}");
    }
}
