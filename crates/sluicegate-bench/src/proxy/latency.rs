//! The time to an answer at a fixed rate of requests, with waiting counted from the moment a request was due.

use std::time::Duration;

use super::client::ClientPool;
use super::connector::Connector;
use super::contestants::ProxyContestant;
use super::launch;
use super::loads::LOADS;
use super::measure::RunConditions;
use super::open_loop::RequestPace;
use super::programs::ProxyProgram;
use super::requests::BenchRequest;
use crate::median::median;
use crate::tally::AnswerTally;

/// The section, as `--only` knows it.
pub const LATENCY: &str = "latency at a rate";
/// Requests per second: about a seventh, a third and more than half of what this load reaches on two cores.
pub const RATES: [u32; 3] = [5_000, 10_000, 20_000];
/// Enough that the client is not what a request waits for.
pub const CONNECTIONS: usize = 128;

/// One rate.
pub struct LatencyRow {
    pub per_second: u32,
    pub cells: Vec<LatencyCell>,
}

/// One contestant at one rate.
pub struct LatencyCell {
    pub contestant: ProxyContestant,
    pub samples: Vec<LatencySample>,
}

/// One turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencySample {
    pub p50: Duration,
    pub p99: Duration,
    pub p999: Duration,
    /// Answers other than the expected one.
    pub wrong_share: f64,
}

impl LatencyCell {
    pub const fn new(contestant: ProxyContestant) -> Self {
        Self {
            contestant,
            samples: Vec::new(),
        }
    }

    pub fn median_ms(&self, figure: fn(&LatencySample) -> Duration) -> f64 {
        let milliseconds = |sample| figure(sample).as_secs_f64() * 1e3;
        median(self.samples.iter().map(milliseconds)).unwrap_or(f64::NAN)
    }

    pub fn wrong_share(&self) -> f64 {
        let shares = self.samples.iter().map(|sample| sample.wrong_share);
        shares.fold(0.0, f64::max)
    }
}

impl LatencySample {
    fn of(tally: &AnswerTally) -> Self {
        let wrong = tally.done() - tally.allowed;
        Self {
            p50: tally.latencies.per_mille(500),
            p99: tally.latencies.per_mille(990),
            p999: tally.latencies.per_mille(999),
            wrong_share: wrong as f64 / tally.done().max(1) as f64,
        }
    }
}

/// True for those whose users would choose between us and them by it.
pub fn takes_part(contestant: ProxyContestant) -> bool {
    contestant != ProxyContestant::Envoy
}

/// Lets a contestant take a turn: as under the first load, but at a fixed rate.
pub fn sample(
    conditions: &RunConditions<'_>,
    program: &ProxyProgram,
    per_second: u32,
) -> Result<LatencySample, String> {
    let running = launch::start(program, &conditions.purpose(&LOADS[0]))?;
    let connector = Connector::plain(running.address());
    let mut pool = ClientPool::open(connector, CONNECTIONS)?;
    let pace = |duration| RequestPace {
        per_second,
        duration,
    };
    pool.ask_at_rate(BenchRequest::Small, pace(WARM_UP))?;
    // Twice as long as elsewhere: one request in a thousand must still be many.
    let tally = pool.ask_at_rate(BenchRequest::Small, pace(conditions.duration * 2))?;
    Ok(LatencySample::of(&tally))
}

const WARM_UP: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_medians_of_the_rounds_and_the_worst_share() {
        let sample = |ms, wrong_share| LatencySample {
            p50: Duration::from_millis(ms),
            p99: Duration::from_millis(ms * 10),
            p999: Duration::from_millis(ms * 100),
            wrong_share,
        };
        let cell = LatencyCell {
            contestant: ProxyContestant::Nginx,
            samples: vec![sample(1, 0.0), sample(9, 0.02), sample(2, 0.0)],
        };
        assert!((cell.median_ms(|sample| sample.p50) - 2.0).abs() < 1e-9);
        assert!((cell.median_ms(|sample| sample.p999) - 200.0).abs() < 1e-9);
        assert!((cell.wrong_share() - 0.02).abs() < 1e-9);
    }

    #[test]
    fn a_rejected_request_is_a_wrong_answer_here() {
        let tally = AnswerTally {
            allowed: 97,
            rejected: 2,
            other: 1,
            ..AnswerTally::default()
        };
        assert!((LatencySample::of(&tally).wrong_share - 0.03).abs() < 1e-9);
    }
}
