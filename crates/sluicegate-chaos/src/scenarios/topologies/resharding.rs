//! Slots move between masters under load.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sluicegate::{
    FailurePolicy, Key, KeyLayout, KeyPart, Limit, Limiter, MonotonicClock, Policy, Quota,
    RedisOptions, RedisStore, StoredNames,
};
use sluicegate_testkit::{Admission, Bound, RedisCluster};
use tokio::task::JoinSet;

use super::*;

const CALLERS: usize = 12;
const RATE: u64 = 50;
const BURSTS: [u64; 2] = [20, 30];

/// Two limits of each caller, on slots that move back and forth: the bound holds, and nobody notices.
pub async fn slots_move(length: Length) -> Report {
    let mut report = Report::new("slots move back and forth");
    let nodes = started(RedisCluster::start).await;
    let limiter = limiter(&nodes);
    let stop = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for task in 0..CALLERS * 2 {
        let (limiter, stop) = (limiter.clone(), Arc::clone(&stop));
        tasks.spawn(async move { call(&limiter, task % CALLERS, &stop).await });
    }
    let slots: Vec<u16> = (0..CALLERS).map(|caller| slot(&nodes, caller)).collect();
    let rounds = length.pick(3, 40);
    apart(&nodes, move |nodes| {
        for round in 0..rounds {
            for slot in &slots {
                nodes.move_slots(
                    *slot..=*slot,
                    (nodes.master_of_slot(*slot) + 1 + round % 2) % 3,
                );
            }
        }
    })
    .await;
    stop.store(true, Ordering::Relaxed);
    let mut calls = CallCounts::default();
    while let Some(more) = tasks.join_next().await {
        calls.include(more.expect("callers do not panic"));
    }
    report.fact(format!(
        "{} asked, {} admitted",
        calls.asked,
        calls.admitted.len()
    ));
    report.promise(
        calls.failed.is_empty(),
        format!("nobody notices ({:?})", calls.failed.first()),
    );
    report.promise(
        calls.admitted.len() > CALLERS * BURSTS[0] as usize,
        "the load was heavy enough",
    );
    let bound = Bound::new(RATE, Duration::from_secs(1), BURSTS[0]).check(&calls.admitted);
    report.promise(bound.holds(), format!("admitted within the bound: {bound}"));
    let met = apart(&nodes, redirections).await;
    for (kind, count) in met {
        let needed = kind != "TRYAGAIN";
        report.promise(
            count > 0 || !needed,
            format!("{kind} was met {count} times"),
        );
    }
    leaves_nothing(nodes.nodes(), &mut report);
    report
}

#[derive(Default)]
struct CallCounts {
    asked: usize,
    admitted: Vec<Admission>,
    failed: Vec<String>,
}

impl CallCounts {
    fn include(&mut self, other: Self) {
        self.asked += other.asked;
        self.admitted.extend(other.admitted);
        self.failed.extend(other.failed);
    }
}

async fn call(limiter: &Limiter<RedisStore>, caller: usize, stop: &AtomicBool) -> CallCounts {
    let mut calls = CallCounts::default();
    let name = format!("caller-{caller}");
    let principal = sluicegate::Principal::new(name.as_str());
    let subject = sluicegate::Subject {
        principal: Some(&principal),
        ..sluicegate::Subject::ANONYMOUS
    };
    while !stop.load(Ordering::Relaxed) {
        let sent = now();
        let verdict = limiter.check(&subject, 1).await;
        calls.asked += 1;
        match &verdict {
            sluicegate::Verdict::Forward(_) => {
                calls.admitted.push(Admission {
                    sent,
                    received: now(),
                    key: caller as u64,
                    cost: 1,
                });
            }
            sluicegate::Verdict::Reject(_) => {}
            failed => calls.failed.push(format!("{failed:?}")),
        }
        tokio::time::sleep(Duration::from_millis(2)).await; // bounded wait: the pace of the load
    }
    calls
}

/// How often the nodes sent somebody elsewhere, by their own count.
fn redirections(nodes: &RedisCluster) -> Vec<(&'static str, u64)> {
    let count = |kind: &str| {
        let of_node = |node: &sluicegate_testkit::RedisServer| {
            let stats = node.info("errorstats");
            let text = stats
                .get(&format!("errorstat_{kind}"))
                .cloned()
                .unwrap_or_default();
            text.trim_start_matches("count=")
                .parse::<u64>()
                .unwrap_or(0)
        };
        nodes.nodes().iter().map(of_node).sum()
    };
    ["MOVED", "ASK", "TRYAGAIN"]
        .map(|kind| (kind, count(kind)))
        .to_vec()
}

fn limits() -> [Limit; 2] {
    let quota = |burst: u64| Quota::new(RATE, Nanos::SECOND, burst).expect("a quota");
    ["tight", "wide"].map(|name| {
        let burst = if name == "tight" {
            BURSTS[0]
        } else {
            BURSTS[1]
        };
        Limit::new(name, quota(burst)).key([KeyPart::Principal])
    })
}

fn limiter(nodes: &RedisCluster) -> Limiter<RedisStore> {
    let mut options = RedisOptions::cluster(nodes.nodes().iter().map(endpoint));
    options.key_prefix = format!("{PREFIX}-moving");
    options.deadline = PATIENT;
    let store = RedisStore::new(options).expect("options that are as they should be");
    let policy = Policy::new(limits()).expect("limits that are as they should be");
    Limiter::with_failure_policy(
        policy,
        store,
        MonotonicClock::new(),
        FailurePolicy::default(),
    )
}

/// The slot of both counters of a caller.
fn slot(nodes: &RedisCluster, caller: usize) -> u16 {
    let [limit, _] = limits();
    let name = format!("caller-{caller}");
    let parts = [name.as_str()];
    let key = Key::of_parts(&limit, &parts).expect("one part");
    nodes.slot_of_key(&KeyLayout::Readable.stored_with_tag(&format!("{PREFIX}-moving"), &key))
}
