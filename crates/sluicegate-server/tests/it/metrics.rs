//! The number of series follows from the configuration alone.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests may unwrap like the tests themselves"
)]

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use sluicegate::{
    Engine, FailurePolicy, Limit, LocalStore, MonotonicClock, Policy, Quota, Subject,
};
use sluicegate_config::LogFormat;
use sluicegate_gate::telemetry::metrics::{
    ConnectionRefusal, Label, LimitCounts, ReloadResult, RequestOutcome, UpstreamFailure,
};
use sluicegate_gate::telemetry::{AccessLog, AccessLogEntry, Metrics};

fn series(metrics: &Metrics) -> Vec<String> {
    let text = metrics.encode();
    let mut series: Vec<String> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.rsplit_once(' ').unwrap().0.to_owned())
        .collect();
    series.sort();
    series
}

fn limits() -> [Limit; 2] {
    let quota = Quota::per_second(1).burst(2);
    [
        Limit::per_client("per-ip", quota),
        Limit {
            mode: sluicegate::Mode::Shadow,
            ..Limit::per_client("watching", Quota::per_second(1).burst(1))
        },
    ]
}

fn engine() -> Engine {
    Engine::new(
        LocalStore::default(),
        MonotonicClock::new(),
        FailurePolicy::default(),
    )
}

/// Charges a subject under a policy and counts each outcome.
async fn charge(engine: &Engine, policy: &Policy, subject: &Subject<'_>, counts: &LimitCounts) {
    let charges = policy.charges_for(subject, 1).unwrap();
    let settlement = engine.decide(&charges).await;
    for (index, charge) in charges.iter().enumerate() {
        counts.count(charge, settlement.outcome(index).unwrap());
    }
}

#[tokio::test]
async fn each_limit_counts_what_it_said() {
    let metrics = Metrics::new();
    let (engine, policy) = (engine(), Policy::new(limits()).unwrap());
    let counts = metrics.limits(&policy);
    let subject = Subject {
        client_ip: Some(Ipv4Addr::new(203, 0, 113, 7).into()),
        ..Subject::ANONYMOUS
    };
    for _ in 0..5 {
        charge(&engine, &policy, &subject, &counts).await;
    }
    let text = metrics.encode();
    let value = |limit: &str, outcome: &str| -> u64 {
        let series =
            format!("sluicegate_limit_decisions_total{{limit=\"{limit}\",outcome=\"{outcome}\"}} ");
        text.lines()
            .find_map(|line| line.strip_prefix(series.as_str()))
            .unwrap()
            .parse()
            .unwrap()
    };
    assert_eq!(
        (value("per-ip", "allowed"), value("per-ip", "denied")),
        (2, 3),
        "{text}"
    );
    assert_eq!(value("per-ip", "shadow_denied"), 0);
    assert_eq!(
        (
            value("watching", "denied"),
            value("watching", "shadow_denied") > 0
        ),
        (0, true),
        "{text}"
    );
    assert_eq!(
        value("watching", "allowed") + value("watching", "shadow_denied"),
        5,
        "{text}"
    );
}

#[tokio::test]
async fn a_decision_by_another_policy_is_counted_under_its_own_limit() {
    let metrics = Metrics::new();
    let old = metrics
        .limits(&Policy::new([Limit::per_client("old", Quota::per_second(1).burst(1))]).unwrap());
    let subject = Subject {
        client_ip: Some(Ipv4Addr::LOCALHOST.into()),
        ..Subject::ANONYMOUS
    };
    let policy = Policy::new(limits()).unwrap();
    charge(&engine(), &policy, &subject, &old).await;
    let text = metrics.encode();
    assert!(
        text.contains("sluicegate_limit_decisions_total{limit=\"per-ip\",outcome=\"allowed\"} 1\n"),
        "{text}"
    );
    assert!(
        text.contains("sluicegate_limit_decisions_total{limit=\"old\",outcome=\"allowed\"} 0\n"),
        "{text}"
    );
}

/// Everything that a caller chooses goes through everything that counts.
#[tokio::test]
async fn a_million_methods_paths_hosts_and_callers_add_no_series() {
    let metrics = Metrics::new();
    let per_ip = Limit::per_client("per-ip", Quota::per_second(1).burst(2));
    let (engine, policy) = (engine(), Policy::new([per_ip]).unwrap());
    let counts = metrics.limits(&policy);
    let log = AccessLog::start_to(io::sink(), LogFormat::Text, Arc::clone(&metrics)).unwrap();
    let before = series(&metrics);
    for place in 0..1_000_000_u32 {
        let (method, path, host) = (
            format!("M{place}"),
            format!("/{place}"),
            format!("{place}.example"),
        );
        let client_ip = Some(Ipv4Addr::from(place).into());
        let subject = Subject {
            client_ip,
            method: &method,
            host: Some(host.as_str()),
            path: &path,
            ..Subject::ANONYMOUS
        };
        charge(&engine, &policy, &subject, &counts).await;
        let outcome = RequestOutcome::ALL[place as usize % RequestOutcome::ALL.len()];
        metrics.request(outcome, Duration::from_micros(place.into()), None);
        metrics.upstream_failed(UpstreamFailure::ALL[place as usize % UpstreamFailure::ALL.len()]);
        metrics.connection_refused(
            ConnectionRefusal::ALL[place as usize % ConnectionRefusal::ALL.len()],
        );
        metrics.reloaded(ReloadResult::ALL[place as usize % ReloadResult::ALL.len()]);
        log.write(&AccessLogEntry {
            request_id: &path,
            trace_id: None,
            client_ip,
            peer: "127.0.0.1:1".parse().unwrap(),
            method: &method,
            host: Some(&host),
            path: &path,
            status: 200,
            verdict: outcome.as_str(),
            limit: None,
            principal: Some(&host),
            upstream: None,
            took: Duration::ZERO,
            bytes_out: 0,
        });
    }
    log.close();
    assert_eq!(series(&metrics), before);
}
