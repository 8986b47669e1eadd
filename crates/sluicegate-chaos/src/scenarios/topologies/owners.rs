//! Several limits of one request on a cluster: of one owner in one call, of several owners in parts.

use std::net::IpAddr;
use std::time::Duration;

use sluicegate::{
    KeyLayout, KeyPart, Limit, Limiter, MonotonicClock, Policy, Principal, Quota, RedisOptions,
    RedisStore, Subject,
};
use sluicegate_testkit::RedisCluster;
use tokio::task::JoinSet;

use super::*;

/// Exactly as many requests pass as the tightest limit allows, and every other limit is charged for exactly
/// those. Also with keys that carry no tag of their owner.
pub async fn exact_counts(length: Length) -> Report {
    let mut report = Report::new("limits of several owners");
    let nodes = started(RedisCluster::start).await;
    for layout in [KeyLayout::Readable, KeyLayout::EdgeGuard] {
        let mut about = Report::new(format!("{layout:?}"));
        for round in 0..length.pick(2, 20) {
            drain(&nodes, layout, round, &mut about).await;
        }
        report.include(about);
    }
    leaves_nothing(nodes.nodes(), &mut report);
    report
}

const PER_ADDRESS: u64 = 60;
const PER_ADDRESS_ELSEWHERE: u64 = 80;
const PER_PRINCIPAL: u64 = 25;
const PRINCIPALS: [&str; 3] = ["ann", "bob", "cyd"];

/// Many tasks try at once; then one tries alone until nothing passes any more.
async fn drain(nodes: &Arc<RedisCluster>, layout: KeyLayout, round: u32, report: &mut Report) {
    let limiter = limiter(nodes, layout, round);
    let mut tasks = JoinSet::new();
    for task in 0..16 {
        let limiter = limiter.clone();
        tasks.spawn(async move {
            let mut admitted = [0_u64; PRINCIPALS.len()];
            for turn in 0..20 {
                let who = (task + turn) % PRINCIPALS.len();
                admitted[who] += u64::from(passes(&limiter, PRINCIPALS[who]).await);
            }
            admitted
        });
    }
    let mut admitted = [0_u64; PRINCIPALS.len()];
    while let Some(counts) = tasks.join_next().await {
        let counts = counts.expect("callers do not panic");
        admitted
            .iter_mut()
            .zip(counts)
            .for_each(|(sum, count)| *sum += count);
    }
    let while_crowded: u64 = admitted.iter().sum();
    // Units that were given back are there again, at the latest when their age has passed.
    tokio::time::sleep(Duration::from_millis(100)).await; // bounded wait: the age of a give-back
    for (who, name) in PRINCIPALS.iter().enumerate() {
        while passes(&limiter, name).await {
            admitted[who] += 1;
        }
    }
    let total: u64 = admitted.iter().sum();
    report.fact(format!(
        "{while_crowded} passed in the crowd, {total} in all: {admitted:?}"
    ));
    report.promise(
        total == PER_ADDRESS,
        format!("exactly {PER_ADDRESS} pass, no more and no fewer ({total})"),
    );
    report.promise(
        admitted.iter().all(|count| *count <= PER_PRINCIPAL),
        "no principal gets more than its own",
    );
    judge_left(&limiter, &admitted, report).await;
}

/// Every limit was charged for what passed and for nothing else.
async fn judge_left(limiter: &Limiter<RedisStore>, admitted: &[u64], report: &mut Report) {
    let total: u64 = admitted.iter().sum();
    for (who, name) in PRINCIPALS.iter().enumerate() {
        let principal = Principal::new(*name);
        let verdict = limiter.peek(&subject(&principal)).await;
        let Some(decision) = verdict.decision() else {
            report.promise(false, format!("a look is answered ({verdict:?})"));
            continue;
        };
        for (limit, charged) in decision.outcomes() {
            let (size, spent) = match limit.name.as_str() {
                "per-address" => (PER_ADDRESS, total),
                "per-address-elsewhere" => (PER_ADDRESS_ELSEWHERE, total),
                _ => (PER_PRINCIPAL, admitted[who]),
            };
            let left = charged.outcome.remaining();
            report.promise(
                left == size - spent,
                format!("{}: {left} of {size} left after {spent}", limit.name),
            );
        }
    }
}

async fn passes(limiter: &Limiter<RedisStore>, principal: &str) -> bool {
    let principal = Principal::new(principal);
    limiter.check(&subject(&principal), 1).await.is_forwarded()
}

fn subject(principal: &Principal) -> Subject<'_> {
    let address = IpAddr::from([203, 0, 113, 7]);
    Subject {
        client_ip: Some(address),
        principal: Some(principal),
        ..Subject::ANONYMOUS
    }
}

/// Two limits by address, which have one owner, and one by principal. They refill within hours only.
fn limiter(nodes: &RedisCluster, layout: KeyLayout, round: u32) -> Limiter<RedisStore> {
    let quota = |size: u64| Quota::new(1, sluicegate::Nanos::HOUR, size).expect("a quota");
    let limits = [
        Limit::new("per-address", quota(PER_ADDRESS)).key([KeyPart::ClientIp]),
        Limit::new("per-address-elsewhere", quota(PER_ADDRESS_ELSEWHERE))
            .key([KeyPart::ClientIp, KeyPart::Method]),
        Limit::new("per-principal", quota(PER_PRINCIPAL)).key([KeyPart::Principal]),
    ];
    let mut options = RedisOptions::cluster(nodes.nodes().iter().map(endpoint));
    options.key_prefix = format!("{PREFIX}-owners-{round}");
    options.key_layout = layout;
    options.deadline = PATIENT;
    let store = RedisStore::new(options).expect("options that are as they should be");
    Limiter::new(
        Policy::new(limits).expect("limits that are as they should be"),
        store,
        MonotonicClock::new(),
    )
}
