//! The report of `bench proxy`: its figures beside the targets.

use super::contestants::ProxyContestant;
use super::latency::CONNECTIONS;
use super::loads::IDLE_CONNECTIONS;
use super::results::{ExternalQuotaRound, IdleSample, ProxyResults};
use super::targets::{IDLE_KIB_MAX, OUTSIDE_EXTRA_US_MAX, TARGETS};
use crate::median::median;
use crate::report::{Report, WrongAnswers, one_digit, or_dash};
use crate::samples::{ServerContestant, ServerSample, wrong_answers};
use crate::table::TextTable;

impl Report {
    /// The report on a run of `bench proxy`.
    pub fn on_proxy(results: &ProxyResults) -> Self {
        let mut wrong = wrong_answers(&results.rows);
        wrong.extend(wrong_answers(&results.shared_store));
        wrong.extend(wrong_at_rates(results));
        let mut report = Self::new(wrong);
        report.add_cpu_targets(&results.rows, &TARGETS, "request");
        let sharing = "the client and the backend share";
        report.add_server_rows("Requests", &results.rows, "request", sharing);
        report.add_latency(results);
        report.add_idle(results);
        let title = "With the counters in Redis";
        report.add_server_rows(title, &results.shared_store, "request", sharing);
        report.add_outside(results);
        let missing = results.absent.iter().chain(&results.uncounted);
        missing.for_each(|absent| report.add_absent(absent.clone()));
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

    fn add_latency(&mut self, results: &ProxyResults) {
        let headings = ["requests/s", "contestant", "p50 ms", "p99 ms", "p99.9 ms"];
        let mut table = TextTable::new(2, &headings);
        for row in &results.latency {
            for cell in &row.cells {
                let words = [
                    row.per_second.to_string(),
                    cell.contestant.name().to_string(),
                ];
                let numbers = [
                    cell.median_ms(|sample| sample.p50),
                    cell.median_ms(|sample| sample.p99),
                    cell.median_ms(|sample| sample.p999),
                ];
                let numbers = numbers.map(|number| format!("{number:.2}"));
                table.push(words.into_iter().chain(numbers).collect());
            }
        }
        let explanation = format!(
            "`allowed`, with requests at a fixed rate over {CONNECTIONS} connections, whatever the answers. The time of a \
             request counts from the moment it was due, so that a pause is felt by all requests that it delays. Medians of \
             the rounds; client and backend share the cores."
        );
        self.add("Latency at fixed rates", explanation, table);
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
            let [fresh, idle, per_connection] = [
                IdleSample::fresh_mib,
                IdleSample::idle_mib,
                IdleSample::kib_per_connection,
            ]
            .map(|figure| cell.median(figure));
            let is_ours = cell.contestant == ProxyContestant::Sluicegate;
            let verdict = is_ours.then(|| {
                let title =
                    || format!("idle connection: {per_connection:.2} KiB, at most {IDLE_KIB_MAX}");
                self.verdict(per_connection, IDLE_KIB_MAX, title)
            });
            let words = [cell.contestant.name().to_string(), or_dash(verdict)];
            let numbers = [
                one_digit(fresh),
                one_digit(idle),
                format!("{per_connection:.2}"),
            ];
            table.push(words.into_iter().chain(numbers).collect());
        }
        let explanation = format!(
            "Resident memory before the first request, and with {IDLE_CONNECTIONS} connections that were answered once and \
             are kept. Pages that several processes share are counted once. The target for ours is at most \
             {IDLE_KIB_MAX} KiB per connection."
        );
        self.add("Memory with idle connections", explanation, table);
    }
}

fn wrong_at_rates(results: &ProxyResults) -> Vec<WrongAnswers> {
    let mut wrong = Vec::new();
    for row in &results.latency {
        for cell in row.cells.iter().filter(|cell| cell.wrong_share() > 0.0) {
            let load = format!("{} requests/s", row.per_second);
            wrong.push(WrongAnswers::new(
                cell.contestant.name(),
                &load,
                cell.wrong_share(),
            ));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::latency::{LatencyCell, LatencyRow, LatencySample};
    use super::super::loads::LOADS;
    use super::super::results::IdleCell;
    use super::*;
    use crate::process_tree::CpuTime;
    use crate::samples::{CountsPerRequest, ServerCell, ServerRow};

    fn cell(contestant: ProxyContestant, cpu_us: u64, wrong: u64) -> ServerCell<ProxyContestant> {
        let wall = Duration::from_secs(1);
        let cpu = CpuTime {
            user: Duration::from_micros(cpu_us * 4_000),
            system: Duration::from_micros(cpu_us * 6_000),
        };
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
            counted: CountsPerRequest {
                system_calls: Some(4.25),
                instructions: None,
            },
        };
        ServerCell {
            contestant,
            samples: vec![sample],
            simulated_instructions: None,
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
        let text = report(cell(ProxyContestant::Sluicegate, 14, 0)).to_text();
        assert!(text.ends_with("targets: all 3 met\n"), "{text}");
        let text = report(cell(ProxyContestant::Sluicegate, 16, 0)).to_text();
        let miss = "targets: 2 of 3 met\nMISS allowed, 64 connections, CPU per request: 0.889 of HAProxy, at most 0.8\n";
        assert!(text.ends_with(miss), "{text}");
        assert_eq!(
            report(cell(ProxyContestant::Sluicegate, 20, 0)).failure(),
            None,
            "a miss is a figure, not a failure"
        );
    }

    #[test]
    fn time_is_told_apart_and_what_is_not_counted_has_a_dash() {
        let text = report(cell(ProxyContestant::Sluicegate, 14, 0)).to_markdown();
        let peer =
            "| allowed, 64 connections | nginx | 20.0 | 8.00 | 12.0 | 0.70 | 4.25 | – | 10000 |";
        assert!(text.contains(peer), "{text}");
        let ours = "| allowed, 64 connections | sluicegate | 14.0 | 5.60 | 8.40 | – | 4.25 | – |";
        assert!(text.contains(ours), "{text}");
    }

    #[test]
    fn latency_is_shown_by_rate_and_wrong_answers_of_it_fail_the_run() {
        let sample = |wrong_share| LatencySample {
            p50: Duration::from_micros(300),
            p99: Duration::from_millis(2),
            p999: Duration::from_millis(7),
            wrong_share,
        };
        let at_rate = |wrong_share| {
            let cells = vec![LatencyCell {
                contestant: ProxyContestant::Nginx,
                samples: vec![sample(wrong_share)],
            }];
            let latency = vec![LatencyRow {
                per_second: 5_000,
                cells,
            }];
            Report::on_proxy(&ProxyResults {
                latency,
                ..ProxyResults::default()
            })
        };
        let text = at_rate(0.0).to_markdown();
        assert!(
            text.contains("| 5000 | nginx | 0.30 | 2.00 | 7.00 |"),
            "{text}"
        );
        assert_eq!(at_rate(0.0).failure(), None);
        assert!(at_rate(0.05).failure().is_some());
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
    fn memory_is_judged_by_the_connection() {
        let idle = |contestant, mib: u64| IdleCell {
            contestant,
            samples: vec![IdleSample {
                fresh_bytes: 1 << 20,
                idle_bytes: mib << 20,
            }],
        };
        let results = |mib| ProxyResults {
            idle: vec![
                idle(ProxyContestant::Sluicegate, mib),
                idle(ProxyContestant::Nginx, 5),
            ],
            ..ProxyResults::default()
        };
        let text = Report::on_proxy(&results(6)).to_text();
        assert!(text.ends_with("targets: all 1 met\n"), "{text}");
        let text = Report::on_proxy(&results(11)).to_text();
        let miss = "targets: 0 of 1 met\nMISS idle connection: 2.05 KiB, at most 1.2\n";
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
