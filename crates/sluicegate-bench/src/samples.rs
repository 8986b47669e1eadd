//! Figures of servers: one sample for each turn, cells and rows of them, and comparisons.

use std::time::Duration;

use crate::event_counts::EventCounts;
use crate::median::{median, median_ratio};
use crate::plot::{Bar, BarGroup};
use crate::process_tree::CpuTime;
use crate::report::WrongAnswers;

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
    /// Instructions per request by callgrind, where the processor's counter cannot be read.
    pub simulated_instructions: Option<f64>,
}

/// One turn.
#[derive(Clone, Copy, Debug)]
pub struct ServerSample {
    pub requests: u64,
    pub wall: Duration,
    /// Processor time of all processes of the contestant.
    pub cpu: CpuTime,
    pub p50: Duration,
    pub p99: Duration,
    /// At the end of the turn.
    pub memory_bytes: u64,
    /// Answers other than the expected one.
    pub wrong: u64,
    /// Connections that the contestant closed, so that the client had to open others.
    pub reconnects: u64,
    /// Of a shorter stretch after the measured one, so that counting does not disturb it.
    pub counted: CountsPerRequest,
}

/// Events for each request; `None` where the machine does not count them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CountsPerRequest {
    pub system_calls: Option<f64>,
    /// In user mode.
    pub instructions: Option<f64>,
}

impl CountsPerRequest {
    pub fn new(counts: EventCounts, requests: u64) -> Self {
        let per_request = |count: u64| count as f64 / requests.max(1) as f64;
        Self {
            system_calls: counts.system_calls.map(per_request),
            instructions: counts.instructions.map(per_request),
        }
    }
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
        self.us_per_request(self.cpu.total())
    }

    pub fn user_us(&self) -> f64 {
        self.us_per_request(self.cpu.user)
    }

    pub fn system_us(&self) -> f64 {
        self.us_per_request(self.cpu.system)
    }

    fn us_per_request(&self, time: Duration) -> f64 {
        time.as_secs_f64() * 1e6 / self.requests.max(1) as f64
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
            simulated_instructions: None,
        }
    }

    /// Keeps a count by callgrind. One that failed leaves a dash and is told; the times are worth having without it.
    pub fn set_instructions(
        &mut self,
        counted: Result<f64, String>,
        load: &str,
        name: &str,
    ) -> Option<String> {
        match counted {
            Ok(count) => {
                self.simulated_instructions = Some(count);
                None
            }
            Err(why) => Some(format!("instructions, {load}, {name}: {why}")),
        }
    }

    /// Instructions per request in user mode, from the better of the two sources.
    pub fn instructions(&self) -> Option<f64> {
        self.counted(|counts| counts.instructions)
            .or(self.simulated_instructions)
    }

    /// The median over the rounds in which it was counted.
    pub fn counted(&self, figure: fn(&CountsPerRequest) -> Option<f64>) -> Option<f64> {
        median(
            self.samples
                .iter()
                .filter_map(|sample| figure(&sample.counted)),
        )
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
        let wall = Duration::from_secs(2);
        let cpu = CpuTime {
            user: Duration::from_millis(cpu_ms / 4),
            system: Duration::from_millis(cpu_ms - cpu_ms / 4),
        };
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
            counted: CountsPerRequest::default(),
        }
    }

    #[test]
    fn figures_are_per_request() {
        let sample = sample(1_000);
        assert!((sample.cpu_us() - 20.0).abs() < 1e-9);
        assert!((sample.user_us() - 5.0).abs() < 1e-9);
        assert!((sample.system_us() - 15.0).abs() < 1e-9);
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
            simulated_instructions: None,
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

    #[test]
    fn events_are_per_request_and_unknown_where_they_are_not_counted() {
        let counts = EventCounts {
            system_calls: Some(9_000),
            instructions: None,
        };
        let counted = CountsPerRequest::new(counts, 2_000);
        assert_eq!(counted.system_calls, Some(4.5));
        assert_eq!(counted.instructions, None);
        let mut cell = ServerCell::new(TestContestant::We);
        assert_eq!(cell.counted(|counts| counts.system_calls), None);
        cell.samples = [Some(4.5), None, Some(5.5)]
            .map(|system_calls| ServerSample {
                counted: CountsPerRequest {
                    system_calls,
                    instructions: None,
                },
                ..sample(1)
            })
            .into();
        assert_eq!(cell.counted(|counts| counts.system_calls), Some(5.0));
        assert_eq!(cell.instructions(), None);
        let failed = cell.set_instructions(Err("no end".to_string()), "load", "x");
        assert_eq!(failed.as_deref(), Some("instructions, load, x: no end"));
        assert_eq!(cell.instructions(), None);
        assert_eq!(cell.set_instructions(Ok(9_000.0), "load", "x"), None);
        assert_eq!(cell.instructions(), Some(9_000.0));
    }
}
