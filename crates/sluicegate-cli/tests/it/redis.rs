//! Counters in Redis: one limit for all processes, and what happens without it.

use sluicegate_testkit::{RedisServer, eventually};

use super::running::Sluicegate;

fn config(server: &RedisServer, policy: &str) -> String {
    format!(
        "
proxy: {{ listen: '127.0.0.1:0' }}
admin: {{ listen: '127.0.0.1:0' }}
store:
  kind: redis
  on_failure: {{ policy: {policy} }}
  deadline: 1s
  redis: {{ endpoints: ['{}'] }}
limits:
  - {{ name: per-client, key: [client_ip], rate: 1/h, burst: 5 }}
",
        server.address()
    )
}

#[test]
fn two_processes_enforce_one_limit() {
    let server = RedisServer::start();
    let (one, other) = (
        Sluicegate::start(&config(&server, "closed")),
        Sluicegate::start(&config(&server, "closed")),
    );
    let answers: Vec<u16> = (0..10)
        .map(|turn| {
            if turn % 2 == 0 { &one } else { &other }
                .get("/", &[])
                .status()
        })
        .collect();
    assert_eq!(
        answers.iter().filter(|status| **status == 200).count(),
        5,
        "{answers:?}"
    );
    assert_eq!(
        answers.iter().filter(|status| **status == 429).count(),
        5,
        "{answers:?}"
    );
}

#[test]
fn without_redis_the_policy_holds_and_log_and_metrics_say_so() {
    for (policy, expected) in [("closed", 503), ("open", 200), ("local", 200)] {
        let server = RedisServer::start();
        let sluicegate = Sluicegate::start(&config(&server, policy));
        assert_eq!(sluicegate.get("/", &[]).status(), 200);
        drop(server);
        eventually("the store is away", || {
            sluicegate.get("/", &[]).status() == expected && is_away(&sluicegate)
        });
        let refused_some_time = (0..10).any(|_| sluicegate.get("/", &[]).status() == 429);
        assert_eq!(refused_some_time, policy == "local", "{policy}");
        assert!(
            sluicegate
                .logged
                .lock()
                .unwrap()
                .iter()
                .any(|line| line.contains("WARN") || line.contains("ERROR"))
        );
    }
}

fn is_away(sluicegate: &Sluicegate) -> bool {
    let metrics = sluicegate.admin_get("/metrics");
    metrics
        .body()
        .lines()
        .any(|line| line.starts_with("sluicegate_store_up") && line.ends_with(" 0"))
}
