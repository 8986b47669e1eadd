//! Figures of servers: one sample for each turn, cells and rows of them, and comparisons.

use std::time::Duration;

use crate::median::{median, median_ratio};
use crate::plot::{Bar, BarGroup};
use crate::report::{Report, WrongAnswers, one_digit, three_digits};
use crate::table::TextTable;

/// A server that takes part.
pub trait ServerContestant: Copy + PartialEq {
    /// Which of them is Sluicegate.
    const OURS: Self;

    fn name(self) -> &'static str;
}

/// One load.
pub struct ServerRow<W> {
    /// The name of the load.
    pub name: &'static str,
    pub cells: Vec<ServerCell<W>>,
}

/// One contestant under one load.
pub struct ServerCell<W> {
    pub contestant: W,
    pub samples: Vec<ServerSample>,
}

/// One turn.
#[derive(Clone, Copy, Debug)]
pub struct ServerSample {
    pub requests: u64,
    pub wall: Duration,
    /// Processor time of all processes of the contestant, in user mode and in the kernel.
    pub cpu: Duration,
    pub p50: Duration,
    pub p99: Duration,
    /// At the end of the turn.
    pub memory_bytes: u64,
    /// Answers other than the expected one.
    pub wrong: u64,
    /// Connections that the contestant closed, so that the client had to open others.
    pub reconnects: u64,
}

/// Our processor time per request is to be at most so many times the peer's.
pub struct ServerTarget<W> {
    /// The load's name.
    pub load: &'static str,
    pub peer: W,
    pub ratio_max: f64,
}

impl ServerSample {
    pub fn cpu_us(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.requests.max(1) as f64
    }

    pub fn requests_per_second(&self) -> f64 {
        self.requests as f64 / self.wall.as_secs_f64()
    }

    pub fn p50_ms(&self) -> f64 {
        self.p50.as_secs_f64() * 1e3
    }

    pub fn p99_ms(&self) -> f64 {
        self.p99.as_secs_f64() * 1e3
    }

    pub fn memory_mib(&self) -> f64 {
        mib(self.memory_bytes)
    }

    fn wrong_share(&self) -> f64 {
        self.wrong as f64 / self.requests.max(1) as f64
    }

    pub fn reconnect_share(&self) -> f64 {
        self.reconnects as f64 / self.requests.max(1) as f64
    }
}

impl<W: ServerContestant> ServerCell<W> {
    pub const fn new(contestant: W) -> Self {
        Self {
            contestant,
            samples: Vec::new(),
        }
    }

    pub fn median(&self, figure: fn(&ServerSample) -> f64) -> f64 {
        median(self.samples.iter().map(figure)).unwrap_or(f64::NAN)
    }

    /// The worst round's share of answers other than the expected one.
    fn wrong_share(&self) -> f64 {
        self.samples
            .iter()
            .map(ServerSample::wrong_share)
            .fold(0.0, f64::max)
    }
}

impl<W: ServerContestant> ServerRow<W> {
    pub fn cell(&self, contestant: W) -> Option<&ServerCell<W>> {
        self.cells.iter().find(|cell| cell.contestant == contestant)
    }

    /// Our processor time per request over the peer's.
    pub fn cpu_ratio_to(&self, peer: W) -> Option<f64> {
        let (ours, theirs) = (self.cell(W::OURS)?, self.cell(peer)?);
        median_ratio(&ours.samples, &theirs.samples, ServerSample::cpu_us)
    }
}

impl Report {
    /// Adds the figures of every contestant under every load; `unit` is what is counted, and
    /// `sharing` names those who share the machine's cores with it.
    pub fn add_server_rows<W: ServerContestant>(
        &mut self,
        title: &'static str,
        rows: &[ServerRow<W>],
        unit: &str,
        sharing: &str,
    ) {
        let (cpu, speed) = (format!("CPU µs per {unit}"), format!("{unit}s/s"));
        let headings = [
            "load",
            "contestant",
            &cpu,
            &speed,
            "p50 ms",
            "p99 ms",
            "memory MiB",
        ];
        let mut table = TextTable::new(2, &headings);
        for row in rows {
            row.cells
                .iter()
                .for_each(|cell| table.push(fields(row, cell)));
        }
        let explanation = format!(
            "Medians of the rounds. Processor time is that of all processes of the contestant, in user mode \
             and in the kernel; {unit}s per second and the time to an answer are those of the machine as a \
             whole, whose cores {sharing}."
        );
        self.add(title, &explanation, table);
    }

    /// Adds the targets that were measured; `unit` is what the time is counted per.
    pub fn add_cpu_targets<W: ServerContestant>(
        &mut self,
        rows: &[ServerRow<W>],
        targets: &[ServerTarget<W>],
        unit: &str,
    ) {
        let mut table = TextTable::new(
            3,
            &["load", "peer", "verdict", "ours over theirs", "at most"],
        );
        for ServerTarget {
            load,
            peer,
            ratio_max,
        } in targets
        {
            let row = rows.iter().find(|row| row.name == *load);
            let Some(ratio) = row.and_then(|row| row.cpu_ratio_to(*peer)) else {
                continue;
            };
            let verdict = self.verdict(ratio, *ratio_max, || {
                format!(
                    "{load}, CPU per {unit}: {ratio:.3} of {}, at most {ratio_max}",
                    peer.name()
                )
            });
            let words = [load, peer.name(), &verdict].map(str::to_string);
            table.push(
                words
                    .into_iter()
                    .chain([three_digits(ratio), ratio_max.to_string()])
                    .collect(),
            );
        }
        let explanation = format!(
            "For each round our processor time per {unit} over the peer's, and of these the median."
        );
        self.add("Cost beside the peers", explanation, table);
    }
}

/// The processor time per request of every contestant under one load, for a picture.
pub fn group<W: ServerContestant>(row: &ServerRow<W>, contestants: &[W]) -> BarGroup {
    let bars = contestants
        .iter()
        .enumerate()
        .filter_map(|(series, contestant)| {
            let value = row.cell(*contestant)?.median(ServerSample::cpu_us);
            Some(Bar { series, value })
        });
    BarGroup {
        name: row.name.to_string(),
        bars: bars.collect(),
    }
}

/// Answers that were not the expected ones: too many of them make a row worthless.
pub fn wrong_answers<W: ServerContestant>(rows: &[ServerRow<W>]) -> Vec<WrongAnswers> {
    let cells = rows
        .iter()
        .flat_map(|row| row.cells.iter().map(move |cell| (row, cell)));
    let wrong = cells.filter(|(_, cell)| cell.wrong_share() > 0.0);
    wrong
        .map(|(row, cell)| WrongAnswers::new(cell.contestant.name(), row.name, cell.wrong_share()))
        .collect()
}

pub fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1_u32 << 20)
}

/// The line of one contestant under one load.
fn fields<W: ServerContestant>(row: &ServerRow<W>, cell: &ServerCell<W>) -> Vec<String> {
    let reconnects = cell.median(ServerSample::reconnect_share);
    let closes = if reconnects > 0.01 {
        format!(" (closes {:.0} %)", reconnects * 100.0)
    } else {
        String::new()
    };
    let cpu_us = cell.median(ServerSample::cpu_us);
    let numbers = [
        // Pipelined decisions cost less than a microsecond.
        if cpu_us < 10.0 {
            format!("{cpu_us:.2}")
        } else {
            one_digit(cpu_us)
        },
        format!("{:.0}", cell.median(ServerSample::requests_per_second)),
        format!("{:.2}", cell.median(ServerSample::p50_ms)),
        format!("{:.2}", cell.median(ServerSample::p99_ms)),
        one_digit(cell.median(ServerSample::memory_mib)),
    ];
    let words = [
        row.name.to_string(),
        format!("{}{closes}", cell.contestant.name()),
    ];
    words.into_iter().chain(numbers).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, PartialEq)]
    enum TestContestant {
        We,
        Peer,
        Absent,
    }

    impl ServerContestant for TestContestant {
        const OURS: Self = Self::We;

        fn name(self) -> &'static str {
            "x"
        }
    }

    fn sample(cpu_ms: u64) -> ServerSample {
        let (wall, cpu) = (Duration::from_secs(2), Duration::from_millis(cpu_ms));
        let (p50, p99) = (Duration::from_micros(500), Duration::from_millis(3));
        ServerSample {
            requests: 50_000,
            wall,
            cpu,
            p50,
            p99,
            memory_bytes: 3 << 20,
            wrong: 500,
            reconnects: 0,
        }
    }

    #[test]
    fn figures_are_per_request() {
        let sample = sample(1_000);
        assert!((sample.cpu_us() - 20.0).abs() < 1e-9);
        assert!((sample.requests_per_second() - 25_000.0).abs() < 1e-9);
        assert!((sample.p99_ms() - 3.0).abs() < 1e-9);
        assert!((sample.memory_mib() - 3.0).abs() < 1e-9);
        assert!((sample.wrong_share() - 0.01).abs() < 1e-9);
    }

    #[test]
    fn ratios_compare_turns_of_the_same_round() {
        // A machine that becomes ten times slower in the second round changes no ratio.
        let cell = |contestant, cpu_ms: [u64; 3]| ServerCell {
            contestant,
            samples: cpu_ms.map(sample).into(),
        };
        let cells = vec![
            cell(TestContestant::We, [900, 9_000, 900]),
            cell(TestContestant::Peer, [1_000, 10_000, 1_000]),
        ];
        let row = ServerRow {
            name: "load",
            cells,
        };
        assert!((row.cpu_ratio_to(TestContestant::Peer).unwrap() - 0.9).abs() < 1e-9);
        assert_eq!(row.cpu_ratio_to(TestContestant::Absent), None);
    }
}
