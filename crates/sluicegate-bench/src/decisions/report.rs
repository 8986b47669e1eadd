//! What `bench decisions` reports: its figures beside the targets.

use super::bench::Results;
use super::contestants::Who;
use super::targets::TARGETS;
use crate::report::Report;
use crate::samples::{Cell, Contestant, Row, Sample, wrong_answers};
use crate::table::Table;

impl Report {
    /// The report on a run of `bench decisions`.
    pub fn on_decisions(results: &Results) -> Self {
        let mut report = Self::new(wrong_answers(&results.rows));
        report.add_cpu_targets(&results.rows, &TARGETS, "decision");
        report.add_questions(results);
        results
            .absent
            .iter()
            .for_each(|absent| report.add_absent(absent.clone()));
        report
    }

    fn add_questions(&mut self, results: &Results) {
        let headings = [
            "load",
            "contestant",
            "CPU µs per decision",
            "decisions/s",
            "p50 ms",
            "p99 ms",
            "memory MiB",
        ];
        let mut table = Table::new(2, &headings);
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

fn fields(row: &Row<Who>, cell: &Cell<Who>) -> Vec<String> {
    let numbers = [
        format!("{:.2}", cell.median(Sample::cpu_us)),
        format!("{:.0}", cell.median(Sample::requests_per_second)),
        format!("{:.2}", cell.median(Sample::p50_ms)),
        format!("{:.2}", cell.median(Sample::p99_ms)),
        format!("{:.1}", cell.median(Sample::memory_mib)),
    ];
    [row.name, cell.who.name()]
        .map(str::to_string)
        .into_iter()
        .chain(numbers)
        .collect()
}
