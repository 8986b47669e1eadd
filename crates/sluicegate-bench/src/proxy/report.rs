//! The report of `bench proxy`: its figures beside the targets.

use super::contestants::ProxyContestant;
use super::loads::IDLE_CONNECTIONS;
use super::results::{ExternalQuotaRound, IdleSample, ProxyResults};
use super::targets::{IDLE_RATIO_MAX, OUTSIDE_EXTRA_US_MAX, TARGETS};
use crate::median::median;
use crate::report::{Report, one_digit, or_dash};
use crate::samples::{ServerContestant, ServerSample, wrong_answers};
use crate::table::TextTable;

impl Report {
    /// The report on a run of `bench proxy`.
    pub fn on_proxy(results: &ProxyResults) -> Self {
        let mut report = Self::new(wrong_answers(&results.rows));
        report.add_cpu_targets(&results.rows, &TARGETS, "request");
        let sharing = "the client and the backend share";
        report.add_server_rows("Requests", &results.rows, "request", sharing);
        report.add_idle(results);
        report.add_outside(results);
        results
            .absent
            .iter()
            .for_each(|absent| report.add_absent(absent.clone()));
        report
    }

    fn add_outside(&mut self, results: &ProxyResults) {
        let Some(extra) = median(results.external.iter().map(ExternalQuotaRound::extra_us)) else {
            return;
        };
        let of = |sample: fn(&ExternalQuotaRound) -> &ServerSample| {
            median(results.external.iter().map(|round| sample(round).cpu_us())).unwrap_or(f64::NAN)
        };
        let (own, told) = (of(|round| &round.own), of(|round| &round.told));
        let verdict = self.verdict(extra, OUTSIDE_EXTRA_US_MAX, || {
            format!(
                "quota from outside: {extra:.2} µs more per request, at most {OUTSIDE_EXTRA_US_MAX}"
            )
        });
        let mut table = TextTable::new(
            1,
            &[
                "verdict",
                "own quota, µs",
                "from outside, µs",
                "more, µs",
                "at most",
            ],
        );
        let numbers = [own, told, extra, OUTSIDE_EXTRA_US_MAX].map(|number| format!("{number:.2}"));
        table.push([verdict].into_iter().chain(numbers).collect());
        let explanation = "Processor time per request of `allowed, 64 connections`, with the limit's own numbers and with those of a limits \
                           service, which are in memory. For each round the difference, and of these the median.";
        self.add("A quota from outside", explanation, table);
    }

    fn add_idle(&mut self, results: &ProxyResults) {
        let mut table = TextTable::new(
            2,
            &[
                "contestant",
                "verdict",
                "fresh MiB",
                "idle MiB",
                "KiB per connection",
            ],
        );
        for cell in &results.idle {
            let ratio = results
                .idle_ratio_to(ProxyContestant::Nginx)
                .filter(|_| cell.contestant == ProxyContestant::Sluicegate);
            let verdict = ratio.map(|ratio| {
                let title = || format!("memory with idle connections: {ratio:.2} of nginx, at most {IDLE_RATIO_MAX}");
                self.verdict(ratio, IDLE_RATIO_MAX, title)
            });
            let [fresh, idle] =
                [IdleSample::fresh_mib, IdleSample::idle_mib].map(|figure| cell.median(figure));
            let per_connection = (idle - fresh) * 1_024.0 / IDLE_CONNECTIONS as f64;
            let numbers = [fresh, idle, per_connection].map(one_digit);
            table.push(
                [cell.contestant.name().to_string(), or_dash(verdict)]
                    .into_iter()
                    .chain(numbers)
                    .collect(),
            );
        }
        let explanation = format!(
            "Resident memory before the first request, and with {IDLE_CONNECTIONS} connections that were answered once and \
             are kept. Pages that several processes share are counted once. The target for ours is at most \
             {IDLE_RATIO_MAX} times nginx."
        );
        self.add("Memory with idle connections", explanation, table);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::loads::LOADS;
    use super::super::results::IdleCell;
    use super::*;
    use crate::samples::{ServerCell, ServerRow};

    fn cell(contestant: ProxyContestant, cpu_us: u64, wrong: u64) -> ServerCell<ProxyContestant> {
        let (wall, cpu) = (
            Duration::from_secs(1),
            Duration::from_micros(cpu_us * 10_000),
        );
        let (p50, p99) = (Duration::from_micros(500), Duration::from_millis(2));
        let sample = ServerSample {
            requests: 10_000,
            wall,
            cpu,
            p50,
            p99,
            memory_bytes: 1 << 20,
            wrong,
            reconnects: 0,
        };
        ServerCell {
            contestant,
            samples: vec![sample],
        }
    }

    fn report(ours: ServerCell<ProxyContestant>) -> Report {
        let peers = [
            cell(ProxyContestant::Nginx, 20, 0),
            cell(ProxyContestant::Haproxy, 18, 0),
            cell(ProxyContestant::Envoy, 50, 0),
        ];
        let row = ServerRow {
            name: LOADS[0].name,
            cells: [ours].into_iter().chain(peers).collect(),
        };
        Report::on_proxy(&ProxyResults {
            rows: vec![row],
            ..ProxyResults::default()
        })
    }

    #[test]
    fn a_target_is_judged_by_the_ratio_to_its_peer() {
        let text = report(cell(ProxyContestant::Sluicegate, 17, 0)).to_text();
        assert!(text.ends_with("targets: all 3 met\n"), "{text}");
        let text = report(cell(ProxyContestant::Sluicegate, 20, 0)).to_text();
        let miss = "targets: 2 of 3 met\nMISS allowed, 64 connections, CPU per request: 1.111 of HAProxy, at most 1\n";
        assert!(text.ends_with(miss), "{text}");
        assert_eq!(
            report(cell(ProxyContestant::Sluicegate, 20, 0)).failure(),
            None,
            "a miss is a figure, not a failure"
        );
    }

    #[test]
    fn wrong_answers_fail_the_run() {
        assert_eq!(
            report(cell(ProxyContestant::Sluicegate, 10, 0)).failure(),
            None
        );
        assert!(
            report(cell(ProxyContestant::Sluicegate, 10, 500))
                .failure()
                .is_some()
        );
    }

    #[test]
    fn memory_is_judged_by_that_of_nginx() {
        let idle = |contestant, mib: u64| IdleCell {
            contestant,
            samples: vec![IdleSample {
                fresh_bytes: 1 << 20,
                idle_bytes: mib << 20,
            }],
        };
        let results = ProxyResults {
            idle: vec![
                idle(ProxyContestant::Sluicegate, 30),
                idle(ProxyContestant::Nginx, 10),
            ],
            ..ProxyResults::default()
        };
        let text = Report::on_proxy(&results).to_text();
        let miss =
            "targets: 0 of 1 met\nMISS memory with idle connections: 3.00 of nginx, at most 2\n";
        assert!(text.ends_with(miss), "{text}");
    }

    #[test]
    fn whoever_is_absent_is_named() {
        let results = ProxyResults {
            absent: vec!["Envoy: envoy not found".to_string()],
            ..ProxyResults::default()
        };
        let text = Report::on_proxy(&results).to_text();
        assert_eq!(
            text,
            "targets: none was measured\nnot measured: Envoy: envoy not found\n"
        );
    }
}
