//! Quotas that change: replicas of an old and a new configuration on the same counters.

use std::time::{Duration, Instant};

use sluicegate::{
    KeyLayout, Limit, Limiter, ManualClock, Nanos, Policy, Quota, RedisClock, RedisOptions,
    RedisStore, Store, StoreError, Subject, Timestamp, Verdict,
};
use sluicegate_core::AdHoc;
use sluicegate_testkit::RedisServer;

use super::options;

const START: Timestamp = Timestamp::from_nanos(1_800_000_000_000_000_000);

type Replica = Limiter<RedisStore, ManualClock>;

fn patient_options(server: &RedisServer) -> RedisOptions {
    let mut options = options(server);
    options.clock = RedisClock::Given;
    options.deadline = Nanos::from_secs(30);
    options
}

fn policy(quota: impl Into<Quota>) -> Policy {
    Policy::new([Limit::per_client("per-ip", quota.into())]).unwrap()
}

fn replica(options: &RedisOptions, quota: impl Into<Quota>) -> Replica {
    let store = RedisStore::new(options.clone()).unwrap();
    Limiter::new(policy(quota), store, ManualClock::new(START))
}

fn ann() -> Subject<'static> {
    Subject {
        client_ip: Some("203.0.113.7".parse().unwrap()),
        ..Subject::ANONYMOUS
    }
}

async fn spend(replica: &Replica, cost: u64) -> bool {
    match replica.check(&ann(), cost).await {
        Verdict::Forward(_) => true,
        Verdict::Reject(_) => false,
        other => panic!("no decision: {other:?}"),
    }
}

async fn left(replica: &Replica) -> u64 {
    let verdict = replica.peek(&ann()).await;
    let decision = verdict.decision().unwrap();
    decision.tightest().unwrap().1.outcome.remaining()
}

fn value(server: &RedisServer, options: &RedisOptions, name: &str) -> Option<String> {
    server.command(&["GET", &format!("{}:{name}", options.key_prefix)])
}

#[tokio::test]
async fn replicas_of_an_old_and_a_new_configuration_owe_the_same_units() {
    let server = RedisServer::start();
    let options = patient_options(&server);
    let old = replica(&options, Quota::per_minute(60).burst(100));
    assert!(spend(&old, 60).await);
    let counter = format!("{}:per-ip:203.0.113.7", options.key_prefix);
    let encoding: String = server.command(&["OBJECT", "ENCODING", &counter]);
    assert_eq!(encoding, "int", "nothing changed, and nothing is added");

    let new = replica(&options, Quota::per_minute(6_000).burst(200));
    assert_eq!(left(&new).await, 140, "an upgrade is felt at once");
    assert!(spend(&new, 10).await);
    let marked = value(&server, &options, "per-ip:203.0.113.7").unwrap();
    assert!(marked.ends_with("@t10000000"), "{marked}");
    assert_eq!(left(&old).await, 30);
    assert!(spend(&old, 5).await && spend(&new, 5).await);

    // A process that starts later, with numbers of its own, reads all of it alike.
    let window = Quota::sliding_window(100, Nanos::MINUTE).unwrap();
    assert_eq!(left(&replica(&options, window)).await, 20);
    assert_eq!(
        value(&server, &options, "!pace:per-ip").as_deref(),
        Some("t1000000000"),
        "the pace of the first process that used the limit"
    );
    assert_eq!(
        server.keys_without_ttl(&options.key_prefix),
        Vec::<String>::new()
    );
    new.reset(&ann()).await.unwrap();
    assert_eq!((left(&old).await, left(&new).await), (100, 200));
}

#[tokio::test]
async fn a_reload_is_felt_at_the_next_request_though_the_shadow_denied() {
    let server = RedisServer::start();
    let replica = replica(&patient_options(&server), Quota::per_minute(60));
    assert!(spend(&replica, 60).await);
    assert!(!spend(&replica, 1).await && !spend(&replica, 1).await);
    assert!(replica.store().health().local_denials > 0);
    replica.set_policy(policy(Quota::per_minute(6_000)));
    assert!(spend(&replica, 1).await, "an upgrade");
    replica.set_policy(policy(Quota::per_hour(1).burst(61)));
    assert!(!spend(&replica, 1).await, "61 are owed");
    replica.set_policy(policy(Quota::per_minute(60)));
    assert!(
        !spend(&replica, 1).await,
        "one is forgiven, and all is spent"
    );
    replica.clock().advance(Nanos::SECOND);
    assert!(spend(&replica, 1).await && !spend(&replica, 1).await);
}

/// max(B) + max(r) · t and one forgiveness a minute, for ten minutes.
#[tokio::test]
async fn old_and_new_side_by_side_admit_no_more_than_both_bounds_allow() {
    let server = RedisServer::start();
    let options = patient_options(&server);
    let (slow, fast) = (
        replica(&options, Quota::per_minute(30).burst(50)),
        replica(&options, Quota::per_second(1).burst(10)),
    );
    let mut admitted = 0;
    for second in 0..=600 {
        for replica in [&slow, &fast, &slow] {
            replica.clock().set(START.after(Nanos::from_secs(second)));
            let units = left(replica).await;
            if units > 0 && spend(replica, units).await {
                admitted += units;
            }
            // Mostly a denial, which may convert or forgive.
            admitted += u64::from(spend(replica, 1).await);
        }
    }
    let forgiven = 11 * (50 - 10);
    assert!(admitted <= 50 + 600 + forgiven, "{admitted} of one key");
    assert!(admitted >= 300, "{admitted}: nobody is locked out");
}

#[tokio::test]
async fn a_base_pace_that_redis_lost_is_claimed_again_by_those_who_know_it() {
    let server = RedisServer::start();
    let options = patient_options(&server);
    let old = replica(&options, Quota::per_minute(60));
    assert!(spend(&old, 1).await);
    old.set_policy(policy(Quota::per_minute(6_000)));
    assert!(spend(&old, 1).await);
    let () = server.command(&["FLUSHALL"]);
    // The base pace is checked every ten seconds.
    let deadline = Instant::now() + Duration::from_secs(60);
    while value(&server, &options, "!pace:per-ip").is_none() {
        assert!(Instant::now() < deadline, "it is not claimed again");
        spend(&old, 1).await;
        // bounded wait: until the deadline above
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(
        value(&server, &options, "!pace:per-ip").as_deref(),
        Some("t1000000000"),
        "the base of before, not the pace of now"
    );
}

#[tokio::test]
async fn names_that_other_programs_read_hold_digits_only() {
    let server = RedisServer::start();
    for layout in [KeyLayout::EdgeQuota, KeyLayout::EdgeGuard] {
        let mut options = patient_options(&server);
        options.key_layout = layout;
        let replica = replica(&options, Quota::per_minute(60));
        assert!(spend(&replica, 30).await);
        replica.set_policy(policy(Quota::per_minute(600)));
        assert!(spend(&replica, 1).await);
        replica.set_policy(policy(Quota::per_hour(60).burst(10)));
        assert!(spend(&replica, 8).await);
        let keys: Vec<String> = server.command(&["KEYS", "*"]);
        let [key] = &keys[..] else {
            panic!("one counter and no pace: {keys:?}")
        };
        let value: String = server.command(&["GET", key]);
        assert!(value.bytes().all(|byte| byte.is_ascii_digit()), "{value}");
        // A debt that is far beyond the burst is repaired, and the repair leaves no mark either.
        replica.set_policy(policy(Quota::per_hour(60).burst(1)));
        assert!(!spend(&replica, 1).await);
        let repaired: String = server.command(&["GET", key]);
        assert_ne!(repaired, value);
        assert!(
            repaired.bytes().all(|byte| byte.is_ascii_digit()),
            "{repaired}"
        );
        let () = server.command(&["FLUSHALL"]);
    }
}

#[tokio::test]
async fn compact_names_carry_marks_within_the_permissions_of_their_user() {
    let server = RedisServer::start();
    let rule =
        "ACL SETUSER default reset on nopass ~sg* +eval +evalsha +get +set +time +ping +role";
    let () = server.command(&rule.split(' ').collect::<Vec<_>>());
    let mut options = patient_options(&server);
    options.key_layout = KeyLayout::Compact;
    let replica = replica(&options, Quota::per_minute(60).burst(100));
    assert!(spend(&replica, 60).await);
    replica.set_policy(policy(Quota::per_minute(600).burst(100)));
    assert_eq!(left(&replica).await, 40);
    assert!(spend(&replica, 40).await && !spend(&replica, 1).await);
}

#[tokio::test]
async fn a_quota_that_comes_with_the_request_keeps_a_debt_as_time() {
    let server = RedisServer::start();
    let store = RedisStore::new(patient_options(&server)).unwrap();
    let (policy, clock) = (policy(Quota::per_second(1)), ManualClock::new(START));
    for (quota, remaining) in [
        (Quota::per_minute(60).burst(60), 30),
        (Quota::per_minute(6_000).burst(6_000), 2_970),
    ] {
        let charge = policy.charge_ad_hoc(AdHoc::Throttle, &[b"ann"], quota.into(), 30);
        let outcomes = store.decide(&[charge], &clock).await.unwrap();
        assert_eq!(outcomes[0].remaining(), remaining, "{quota:?}");
    }
    let keys: Vec<String> = server.command(&["KEYS", "*!pace*"]);
    assert_eq!(keys, Vec::<String>::new());
}

#[tokio::test]
async fn a_pace_that_nobody_can_read_is_told_with_its_key() {
    let server = RedisServer::start();
    let options = patient_options(&server);
    let key = format!("{}:!pace:per-ip", options.key_prefix);
    let () = server.command(&["SET", &key, "hello"]);
    let Verdict::Unavailable { error, .. } = replica(&options, Quota::per_second(1))
        .check(&ann(), 1)
        .await
    else {
        panic!("it was decided")
    };
    let StoreError::Unavailable(reason) = error else {
        panic!("{error:?}")
    };
    assert!(
        reason.contains(&key) && reason.contains("hello"),
        "{reason}"
    );
}
