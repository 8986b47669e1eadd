//! Many keys and every kind of quota, from several replicas: the bound over every interval.

use std::path::Path;
use std::time::Duration;

use sluicegate_testkit::{Admission, RedisServer};

use super::{check_answers, span};
use crate::replica::{KeyChoice, ReplicaArguments, ReplicaRule};
use crate::replicas::{Replicas, merged};
use crate::{Length, Report};

const RULES: [ReplicaRule; 4] = [
    ReplicaRule::PerSecond {
        count: 5,
        burst: 10,
    },
    ReplicaRule::PerSecond {
        count: 70,
        burst: 3,
    },
    ReplicaRule::Leaky {
        size: 8,
        every_ms: 250,
        drip: 2,
    },
    ReplicaRule::Sliding {
        limit: 12,
        window_ms: 1_000,
    },
];
const KEYS: usize = 40;

/// Three replicas, four limits, forty keys each, some much more popular than others.
pub async fn soak(length: Length, replica: &Path) -> Report {
    let mut report = Report::new("many keys and every kind of quota from three replicas");
    let server = RedisServer::start();
    let orders = ReplicaArguments {
        rules: RULES.to_vec(),
        keys: KeyChoice::Zipf(KEYS),
        pause: Duration::from_millis(4),
        length: Duration::from_secs(length.pick(4, 120)),
        ..ReplicaArguments::new(server.url(), RULES[0])
    };
    let history = merged(Replicas::run(replica, &orders, 3).await);
    check_answers(&mut report, &history);
    report.fact(format!(
        "{:.0} decisions each second",
        history.decisions() as f64 / span(&history).as_secs_f64()
    ));
    let admissions = history.run.admissions();
    for (place, rule) in RULES.into_iter().enumerate() {
        let is_its_own = |admission: &&Admission| admission.key as usize / KEYS == place;
        let its_own: Vec<Admission> = admissions.iter().filter(is_its_own).copied().collect();
        let bound = rule.bound().check(&its_own);
        report.promise(
            bound.holds() && bound.keys().len() == KEYS,
            format!("{rule}, over every interval: {bound}"),
        );
    }
    let for_ever = server.keys_without_ttl("chaos");
    report.promise(
        for_ever.is_empty(),
        format!("keys that would stay for ever: {for_ever:?}"),
    );
    report.fact(history.run.latencies());
    report
}
