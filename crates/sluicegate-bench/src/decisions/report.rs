//! The report of `bench decisions`: its figures beside the targets.

use super::bench::DecisionsResults;
use super::targets::TARGETS;
use crate::report::Report;
use crate::samples::wrong_answers;

impl Report {
    /// The report on a run of `bench decisions`.
    pub fn on_decisions(results: &DecisionsResults) -> Self {
        let mut report = Self::new(wrong_answers(&results.rows));
        report.add_cpu_targets(&results.rows, &TARGETS, "decision");
        report.add_server_rows("Decisions", &results.rows, "decision", "the client shares");
        let missing = results.absent.iter().chain(&results.uncounted);
        missing.for_each(|absent| report.add_absent(absent.clone()));
        report
    }
}
