//! The report of `bench local`: its figures beside the targets.

use super::contestants::LocalContestant;
use super::keys::KeyKind;
use super::loads::{LOADS, MILLION, TEN_MILLION};
use super::matching::{LIMITS, MatchingTime};
use super::results::{
    BYTES_PER_KEY_MAX, GROWTH_MAX, LocalCell, LocalMemoryUse, LocalResults, LocalSample,
    MATCHING_NS_MAX, RATIO_MAX, TWO_LIMITS_ALLOCATIONS_MAX, TWO_LIMITS_INSTRUCTIONS_MAX,
};
use crate::rate::ExpectedAnswer;
use crate::report::{Report, WrongAnswers, one_digit, or_dash, three_digits};
use crate::table::TextTable;

impl Report {
    /// The report on a run of `bench local`.
    pub fn on_local(results: &LocalResults) -> Self {
        let mut report = Self::new(wrong_answers(results));
        report.add_costs(results);
        report.add_growth(results);
        report.add_memory(results);
        report.add_instructions(results);
        report.add_two_limits(results);
        report.add_matching(results);
        report
    }

    fn add_costs(&mut self, results: &LocalResults) {
        let mut headings = vec![
            "load",
            "key",
            "answer",
            "threads",
            "verdict",
            "ratio",
            "wall ratio",
        ];
        headings.extend(LocalContestant::ALL.map(LocalContestant::name));
        let mut table = TextTable::new(5, &headings);
        for row in &results.rows {
            let ratio = row.ratio_to_governor(LocalSample::cpu);
            let verdict = ratio.map(|ratio| {
                let title = || {
                    format!(
                        "{}: {ratio:.3} of governor, at most {RATIO_MAX:.3}",
                        row.title()
                    )
                };
                self.verdict(ratio, RATIO_MAX, title)
            });
            let mut fields = vec![
                row.load.to_string(),
                row.key.name().to_string(),
                row.answer.name().to_string(),
            ];
            fields.extend([row.threads.to_string(), or_dash(verdict)]);
            fields.extend(
                [LocalSample::cpu, LocalSample::wall]
                    .map(|cost| or_dash(row.ratio_to_governor(cost).map(three_digits))),
            );
            fields.extend(
                LocalContestant::ALL.map(|contestant| or_dash(row.cell(contestant).map(cost))),
            );
            table.push(fields);
        }
        let explanation = format!(
            "Processor time of the deciding thread in ns, wall time in brackets; medians of the rounds. The ratio is ours \
             to governor's with the same key; the target is at most {RATIO_MAX:.3}."
        );
        self.add("Cost per decision", explanation, table);
    }

    fn add_growth(&mut self, results: &LocalResults) {
        let mut table = TextTable::new(
            3,
            &[
                "contestant",
                "key",
                "verdict",
                "10,000 keys",
                "10 M keys",
                "growth",
            ],
        );
        for key in KeyKind::ALL {
            for contestant in LocalContestant::ALL {
                let cost = |id: &str| {
                    let mut rows = results.rows.iter();
                    let is_meant = |load: &str| {
                        LOADS
                            .iter()
                            .any(|other| other.id == id && other.name == load)
                    };
                    let row = rows.find(|row| {
                        is_meant(row.load)
                            && row.key == key
                            && row.answer == ExpectedAnswer::Allowed
                            && row.threads == 1
                    });
                    row?.cell(contestant).map(LocalCell::cpu_ns)
                };
                let (Some(few), Some(many)) = (cost("10k"), cost("10m")) else {
                    continue;
                };
                let growth = many / few;
                let title = || {
                    format!(
                        "growth to 10 M keys, {}: {growth:.1}, at most {GROWTH_MAX}",
                        key.name()
                    )
                };
                let verdict = (contestant == LocalContestant::Sluicegate)
                    .then(|| self.verdict(growth, GROWTH_MAX, title));
                let mut fields = vec![
                    contestant.name().to_string(),
                    key.name().to_string(),
                    or_dash(verdict),
                ];
                fields.extend([one_digit(few), one_digit(many), one_digit(growth)]);
                table.push(fields);
            }
        }
        let explanation = format!(
            "Processor time in ns, one thread, allowed. The target for ours is at most {GROWTH_MAX} times."
        );
        self.add("Growth with the number of keys", explanation, table);
    }

    fn add_memory(&mut self, results: &LocalResults) {
        let mut table = TextTable::new(
            3,
            &[
                "contestant",
                "key",
                "verdict",
                "1 M",
                "10 M",
                "1 M resident",
                "10 M resident",
            ],
        );
        let few = results.memory.iter().filter(|used| used.keys == MILLION);
        for used in few {
            let same = |other: &&LocalMemoryUse| {
                (other.contestant, other.key, other.keys)
                    == (used.contestant, used.key, TEN_MILLION)
            };
            let many = results.memory.iter().find(same);
            let most = many
                .map_or(0.0, LocalMemoryUse::allocated_per_key)
                .max(used.allocated_per_key());
            let title = || {
                format!(
                    "bytes per key, {}: {most:.1}, at most {BYTES_PER_KEY_MAX}",
                    used.key.name()
                )
            };
            let verdict = (used.contestant == LocalContestant::Sluicegate)
                .then(|| self.verdict(most, BYTES_PER_KEY_MAX, title));
            let mut fields = vec![
                used.contestant.name().to_string(),
                used.key.name().to_string(),
                or_dash(verdict),
            ];
            for bytes in [
                LocalMemoryUse::allocated_per_key,
                LocalMemoryUse::resident_per_key,
            ] {
                fields.extend([
                    one_digit(bytes(used)),
                    or_dash(many.map(|many| one_digit(bytes(many)))),
                ]);
            }
            table.push(fields);
        }
        let explanation = format!(
            "Bytes asked of the allocator and not given back, and the growth of the process, over the number of keys. The \
             target for ours is at most {BYTES_PER_KEY_MAX} allocated; pingora-limits has one size, whatever the number of keys."
        );
        self.add("Bytes per key", explanation, table);
    }

    fn add_instructions(&mut self, results: &LocalResults) {
        let mut table = TextTable::new(
            3,
            &[
                "load",
                "contestant",
                "key",
                "instructions",
                "ratio to governor",
            ],
        );
        for counted in &results.instructions {
            let mut all = results.instructions.iter();
            let governor = all.find(|other| {
                (other.contestant, other.key, other.load)
                    == (LocalContestant::Governor, counted.key, counted.load)
            });
            let ratio =
                governor.map(|governor| three_digits(counted.per_decision / governor.per_decision));
            let mut fields = vec![
                counted.load.to_string(),
                counted.contestant.name().to_string(),
            ];
            fields.extend([
                counted.key.name().to_string(),
                format!("{:.0}", counted.per_decision),
                or_dash(ratio),
            ]);
            table.push(fields);
        }
        if let Some(reason) = &results.not_counted {
            table.push(vec![
                format!("not counted: {reason}"),
                or_dash(None),
                or_dash(None),
                or_dash(None),
                or_dash(None),
            ]);
        }
        let explanation = "Counted by callgrind, allowed, one thread. Reading the time stamp counter (sluicegate, governor) counts as one \
                           instruction, and what the kernel does for the clocks of the others is not seen.";
        self.add("Instructions per decision", explanation, table);
    }

    fn add_two_limits(&mut self, results: &LocalResults) {
        let Some(cost) = results.two_limits else {
            return;
        };
        let mut table = TextTable::new(2, &["figure", "verdict", "per check", "at most"]);
        let figures = [
            (
                "instructions",
                cost.instructions,
                TWO_LIMITS_INSTRUCTIONS_MAX,
            ),
            (
                "allocations",
                Some(cost.allocations),
                TWO_LIMITS_ALLOCATIONS_MAX,
            ),
        ];
        for (figure, value, max) in figures {
            let verdict = value.map(|value| {
                let title =
                    || format!("Limiter::check, two limits: {value:.1} {figure}, at most {max:.0}");
                self.verdict(value, max, title)
            });
            table.push(vec![
                figure.to_string(),
                or_dash(verdict),
                or_dash(value.map(one_digit)),
                format!("{max:.0}"),
            ]);
        }
        let explanation = "`Limiter::check` for a request that meets two limits, one of the address and one of the path: matching, keys, \
                           charges, decision and outcome. Instructions are counted by callgrind.";
        self.add("A request that meets two limits", explanation, table);
    }

    fn add_matching(&mut self, results: &LocalResults) {
        let mut table = TextTable::new(2, &["limits told apart by", "verdict", "ns"]);
        for MatchingTime { told_apart_by, ns } in &results.matching {
            let title =
                || format!("matching by {told_apart_by}: {ns:.0} ns, at most {MATCHING_NS_MAX:.0}");
            let verdict = self.verdict(*ns, MATCHING_NS_MAX, title);
            table.push(vec![
                (*told_apart_by).to_string(),
                verdict,
                format!("{ns:.0}"),
            ]);
        }
        let explanation = format!(
            "From a request to its charges among {LIMITS} limits, the request's text in the cache. The target is at most \
             {MATCHING_NS_MAX:.0} ns."
        );
        self.add("Finding a request's limits", explanation, table);
    }
}

fn wrong_answers(results: &LocalResults) -> Vec<WrongAnswers> {
    let cells = results
        .rows
        .iter()
        .flat_map(|row| row.cells.iter().map(move |cell| (row, cell)));
    let wrong = cells.filter(|(_, cell)| cell.contestant.is_exact() && cell.wrong_share() > 0.0);
    wrong
        .map(|(row, cell)| {
            WrongAnswers::new(cell.contestant.name(), &row.title(), cell.wrong_share())
        })
        .collect()
}

fn cost(cell: &LocalCell) -> String {
    format!("{:.1} ({:.1})", cell.cpu_ns(), cell.wall_ns())
}

#[cfg(test)]
mod tests {
    use super::super::results::LocalRow;
    use super::super::two_limits::TwoLimitsCost;
    use super::*;

    fn row(ours: f64, governor: f64, wrong_share: f64) -> LocalRow {
        let cell = |contestant, cpu_ns| LocalCell {
            contestant,
            samples: vec![LocalSample {
                cpu_ns,
                wall_ns: cpu_ns,
                wrong_share,
            }],
        };
        let cells = vec![
            cell(LocalContestant::Sluicegate, ours),
            cell(LocalContestant::Governor, governor),
        ];
        LocalRow {
            load: "1 hot key",
            key: KeyKind::U64,
            answer: ExpectedAnswer::Allowed,
            threads: 2,
            cells,
        }
    }

    fn report(rows: Vec<LocalRow>) -> Report {
        Report::on_local(&LocalResults {
            rows,
            ..LocalResults::default()
        })
    }

    #[test]
    fn a_row_within_its_target_is_ok() {
        let text = report(vec![row(10.0, 40.0, 0.0)]).to_text();
        assert!(text.contains("  ok "), "{text}");
        assert!(text.ends_with("targets: all 1 met\n"), "{text}");
    }

    #[test]
    fn a_row_beyond_its_target_says_so_and_is_listed() {
        let report = report(vec![row(10.0, 40.0, 0.0), row(20.0, 40.0, 0.0)]);
        let miss = "MISS 1 hot key, u64, allowed, 2 threads: 0.500 of governor, at most 0.333";
        assert!(
            report
                .to_text()
                .ends_with(&format!("targets: 1 of 2 met\n{miss}\n"))
        );
        assert!(report.to_markdown().contains(&format!("- {miss}\n")));
        assert_eq!(report.failure(), None, "a miss is a figure, not a failure");
    }

    #[test]
    fn the_path_with_two_limits_is_judged_by_instructions_and_allocations() {
        let report = |instructions, allocations| {
            let two_limits = Some(TwoLimitsCost {
                instructions,
                allocations,
            });
            Report::on_local(&LocalResults {
                two_limits,
                ..LocalResults::default()
            })
            .to_text()
        };
        assert!(report(Some(440.0), 0.0).ends_with("targets: all 2 met\n"));
        let miss = "targets: 0 of 2 met\nMISS Limiter::check, two limits: 500.0 instructions, at most 450\n\
                    MISS Limiter::check, two limits: 1.0 allocations, at most 0\n";
        assert!(report(Some(500.0), 1.0).ends_with(miss));
        let uncounted = report(None, 0.0);
        assert!(uncounted.ends_with("targets: all 1 met\n"), "{uncounted}");
    }

    #[test]
    fn memory_is_judged_by_the_larger_number_of_bytes() {
        let used = |keys, allocated_per_key| LocalMemoryUse {
            contestant: LocalContestant::Sluicegate,
            key: KeyKind::IpAddr,
            keys,
            allocated_bytes: allocated_per_key * f64::from(keys),
            resident_bytes: 0.0,
        };
        let memory = vec![used(MILLION, 22.0), used(TEN_MILLION, 25.0)];
        let report = Report::on_local(&LocalResults {
            memory,
            ..LocalResults::default()
        });
        assert!(
            report
                .to_text()
                .ends_with("MISS bytes per key, IpAddr: 25.0, at most 24\n")
        );
    }

    #[test]
    fn many_wrong_answers_fail_the_run_and_few_are_listed() {
        assert_eq!(report(vec![row(1.0, 9.0, 0.001)]).failure(), None);
        assert!(
            report(vec![row(1.0, 9.0, 0.001)])
                .to_text()
                .contains("wrong answers: sluicegate")
        );
        assert!(report(vec![row(1.0, 9.0, 0.5)]).failure().is_some());
    }
}
