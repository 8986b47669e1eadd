//! The report of a run: tables, with a verdict wherever there is a target.

use crate::table::TextTable;

/// The findings of a run, ready to be printed or put into a page.
pub struct Report {
    sections: Vec<ReportSection>,
    misses: Vec<String>,
    checked: usize,
    /// Answers other than the expected one.
    wrong: Vec<WrongAnswers>,
    /// Contestants and loads that could not be measured, and why.
    absent: Vec<String>,
}

struct ReportSection {
    title: &'static str,
    explanation: String,
    table: TextTable,
}

/// Answers of one contestant under one load that were not what the load is made for.
pub struct WrongAnswers {
    share: f64,
    what: String,
}

impl WrongAnswers {
    /// This share of a round of one contestant.
    pub fn new(contestant: &str, load: &str, share: f64) -> Self {
        Self {
            share,
            what: format!("{contestant}, {load}: {:.4} % of a round", share * 100.0),
        }
    }
}

/// Beyond this share a row does not measure what it says.
const WRONG_SHARE_MAX: f64 = 0.01;

impl Report {
    /// Nothing yet, except answers other than the expected one.
    pub fn new(wrong: Vec<WrongAnswers>) -> Self {
        Self {
            sections: Vec::new(),
            misses: Vec::new(),
            checked: 0,
            wrong,
            absent: Vec::new(),
        }
    }

    pub fn to_text(&self) -> String {
        let section = |section: &ReportSection| {
            format!(
                "{}\n{}\n\n{}\n",
                section.title,
                section.explanation,
                section.table.to_text()
            )
        };
        self.sections.iter().map(section).collect::<String>() + &self.summary()
    }

    pub fn to_markdown(&self) -> String {
        let section = |section: &ReportSection| {
            format!(
                "### {}\n\n{}\n\n{}\n",
                section.title,
                section.explanation,
                section.table.to_markdown()
            )
        };
        let lines: String = self
            .summary()
            .lines()
            .map(|line| format!("- {line}\n"))
            .collect();
        format!("### Against the targets\n\n{lines}\n")
            + &self.sections.iter().map(section).collect::<String>()
    }

    /// The reason why the run is worthless as a measurement, if there is one.
    pub fn failure(&self) -> Option<String> {
        let bad = self
            .wrong
            .iter()
            .find(|wrong| wrong.share > WRONG_SHARE_MAX)?;
        Some(format!(
            "{}: the row does not measure what it says",
            bad.what
        ))
    }

    fn summary(&self) -> String {
        let mut lines = vec![match self.misses.len() {
            _ if self.checked == 0 => "targets: none was measured".to_string(),
            0 => format!("targets: all {} met", self.checked),
            missed => format!("targets: {} of {} met", self.checked - missed, self.checked),
        }];
        lines.extend(self.misses.iter().map(|miss| format!("MISS {miss}")));
        lines.extend(
            self.wrong
                .iter()
                .map(|wrong| format!("wrong answers: {}", wrong.what)),
        );
        lines.extend(
            self.absent
                .iter()
                .map(|absent| format!("not measured: {absent}")),
        );
        lines.join("\n") + "\n"
    }

    /// The verdict on a value that should be at most `max`; a miss is remembered under `title`.
    pub fn verdict(&mut self, value: f64, max: f64, title: impl FnOnce() -> String) -> String {
        self.verdict_on(value <= max, title)
    }

    /// The verdict on whether a target is met; a miss is remembered under `title`.
    pub fn verdict_on(&mut self, is_met: bool, title: impl FnOnce() -> String) -> String {
        self.checked += 1;
        if is_met {
            return "ok".to_string();
        }
        self.misses.push(title());
        "MISS".to_string()
    }

    /// Adds to the summary what could not be measured, and why.
    pub fn add_absent(&mut self, what: String) {
        self.absent.push(what);
    }

    /// Adds a section, unless it has no rows.
    pub fn add(&mut self, title: &'static str, explanation: impl Into<String>, table: TextTable) {
        if !table.is_empty() {
            self.sections.push(ReportSection {
                title,
                explanation: explanation.into(),
                table,
            });
        }
    }
}

pub fn one_digit(number: f64) -> String {
    format!("{number:.1}")
}

pub fn three_digits(number: f64) -> String {
    format!("{number:.3}")
}

pub fn or_dash(field: Option<String>) -> String {
    field.unwrap_or_else(|| "–".to_string())
}
