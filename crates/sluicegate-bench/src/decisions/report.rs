//! The report of `bench decisions`: its figures beside the targets.

use super::bench::DecisionsResults;
use super::contestants::DecisionsContestant;
use super::targets::TARGETS;
use crate::report::Report;
use crate::samples::{ServerCell, ServerContestant, ServerRow, ServerSample, wrong_answers};
use crate::table::TextTable;

impl Report {
    /// The report on a run of `bench decisions`.
    pub fn on_decisions(results: &DecisionsResults) -> Self {
        let mut report = Self::new(wrong_answers(&results.rows));
        report.add_cpu_targets(&results.rows, &TARGETS, "decision");
        report.add_questions(results);
        results
            .absent
            .iter()
            .for_each(|absent| report.add_absent(absent.clone()));
        report
    }

    fn add_questions(&mut self, results: &DecisionsResults) {
        let headings = [
            "load",
            "contestant",
            "CPU µs per decision",
            "decisions/s",
            "p50 ms",
            "p99 ms",
            "memory MiB",
        ];
        let mut table = TextTable::new(2, &headings);
        for row in &results.rows {
            row.cells
                .iter()
                .for_each(|cell| table.push(fields(row, cell)));
        }
        let explanation = "Medians of the rounds. Processor time is that of all processes of the contestant, in user mode \
                           and in the kernel; decisions per second and the time to an answer are those of the machine as a \
                           whole, whose cores the client shares.";
        self.add("Decisions", explanation, table);
    }
}

fn fields(
    row: &ServerRow<DecisionsContestant>,
    cell: &ServerCell<DecisionsContestant>,
) -> Vec<String> {
    let numbers = [
        format!("{:.2}", cell.median(ServerSample::cpu_us)),
        format!("{:.0}", cell.median(ServerSample::requests_per_second)),
        format!("{:.2}", cell.median(ServerSample::p50_ms)),
        format!("{:.2}", cell.median(ServerSample::p99_ms)),
        format!("{:.1}", cell.median(ServerSample::memory_mib)),
    ];
    [row.name, cell.contestant.name()]
        .map(str::to_string)
        .into_iter()
        .chain(numbers)
        .collect()
}
