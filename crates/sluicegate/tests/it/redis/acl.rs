//! The store works as a Redis user with exactly the permissions that `docs/operations.md` names.

use sluicegate::{
    KeyLayout, Limit, Limiter, MonotonicClock, Nanos, Policy, Quota, RedisMode, RedisOptions,
    RedisStore, ResetError, StoreError, Subject, Verdict,
};
use sluicegate_testkit::{RedisCluster, RedisServer, Replication, SentinelGroup};

use super::operations::{credentials, endpoint, limiter, patient, run, run_as};

const DOCS: &str = include_str!("../../../../../docs/operations.md");

/// The rule of a single server, and of a primary and its replicas, with or without sentinels.
const SERVER: &str = "ACL SETUSER sluicegate reset on >change-me ~sluicegate:* +eval +evalsha +get +set +del +time +ping +role";
/// The rules of a single server for the layouts whose counters do not begin with the prefix. Cached
/// replies, overrides and bans do, whatever the layout.
const OTHER_LAYOUTS: [(KeyLayout, &str); 2] = [
    (
        KeyLayout::EdgeQuota,
        "ACL SETUSER sluicegate reset on >change-me ~rl:edgequota:* ~sluicegate:* +eval +evalsha +get +set +del +time +ping +role",
    ),
    (
        KeyLayout::Compact,
        "ACL SETUSER sluicegate reset on >change-me ~sg* ~sluicegate:* +eval +evalsha +get +set +del +time +ping +role",
    ),
];
/// The rule of every node of a cluster.
const CLUSTER: &str = "ACL SETUSER sluicegate reset on >change-me ~sluicegate:* +eval +evalsha +get +set +del +time +ping \
                       +asking +cluster|slots";
/// The rule of every sentinel.
const SENTINEL: &str = "ACL SETUSER sluicegate reset on >change-me &+switch-master &+promoted-slave +sentinel|get-master-addr-by-name \
     +sentinel|master +subscribe";

#[test]
fn the_docs_name_exactly_the_tested_rules() {
    let others = OTHER_LAYOUTS.map(|(_, rule)| rule);
    for rule in [SERVER, CLUSTER, SENTINEL].into_iter().chain(others) {
        assert!(
            DOCS.lines().any(|line| line.trim() == rule),
            "docs/operations.md does not hold this line:\n{rule}"
        );
    }
    assert_eq!(
        DOCS.matches("ACL SETUSER sluicegate reset").count(),
        5,
        "a rule in the docs that nobody tests"
    );
}

fn apply_rule(server: &RedisServer, rule: &str) {
    server.command::<()>(&rule.split(' ').collect::<Vec<_>>());
}

/// The rule without one of its grants, for each command, key pattern and channel in turn.
fn weakened(rule: &str) -> Vec<(String, String)> {
    let words: Vec<&str> = rule.split(' ').collect();
    let grants = words
        .iter()
        .filter(|word| word.starts_with(['+', '~', '&']));
    let without = |grant: &&str| {
        words
            .iter()
            .filter(|word| *word != grant)
            .copied()
            .collect::<Vec<_>>()
            .join(" ")
    };
    grants
        .map(|grant| ((*grant).to_owned(), without(grant)))
        .collect()
}

/// Returns true when the server has refused a command since its log was reset.
fn was_refused(server: &RedisServer) -> bool {
    let log: Vec<redis::Value> = server.command(&["ACL", "LOG"]);
    !log.is_empty()
}

fn as_user(mut options: RedisOptions) -> RedisOptions {
    options.credentials = credentials("sluicegate", "change-me");
    if let RedisMode::Sentinel {
        credentials: to_sentinels,
        ..
    } = &mut options.mode
    {
        *to_sentinels = credentials("sluicegate", "change-me");
    }
    patient(options)
}

/// Runs every operation of the store on servers that do not know its scripts.
async fn everything(options: &RedisOptions, servers: &[&RedisServer]) -> Result<(), StoreError> {
    for server in servers {
        server.flush_scripts();
        server.command::<()>(&["ACL", "LOG", "RESET"]);
    }
    let limiter: Limiter<RedisStore, MonotonicClock> = limiter(options.clone());
    // On a cluster, several callers reach several nodes.
    for _ in 0..4 {
        run(&limiter).await?;
    }
    Ok(())
}

/// Asserts that everything works under the rule, and that the server refuses something when any one
/// grant is missing.
async fn is_enough_and_no_more(rule: &str, options: &RedisOptions, servers: &[&RedisServer]) {
    servers.iter().for_each(|server| apply_rule(server, rule));
    everything(options, servers).await.unwrap();
    assert!(
        !servers.iter().any(|server| was_refused(server)),
        "tried more than the rule allows"
    );
    let mut short = options.clone();
    short.deadline = Nanos::from_millis(500);
    for (grant, rule) in weakened(rule) {
        // Needed only while a slot is moving, which has a test of its own.
        if grant == "+asking" {
            continue;
        }
        servers.iter().for_each(|server| apply_rule(server, &rule));
        let done = everything(&short, servers).await;
        let refused = servers.iter().any(|server| was_refused(server));
        assert!(refused, "{grant} is not needed");
        // A refused PING is still a reply, and a single server need not tell its role.
        assert_eq!(
            done.is_ok(),
            grant == "+ping" || grant == "+role",
            "without {grant}: {done:?}"
        );
    }
    servers.iter().for_each(|server| apply_rule(server, rule));
}

#[tokio::test]
async fn one_server_needs_the_named_commands_and_no_others() {
    let server = RedisServer::start();
    let options = as_user(RedisOptions::standalone(endpoint(&server)));
    is_enough_and_no_more(SERVER, &options, &[&server]).await;
    let foreign = server
        .keys("")
        .into_iter()
        .filter(|key| !key.starts_with(b"sluicegate:"))
        .count();
    assert_eq!(foreign, 0);
}

/// A counter and a value beside the counters, as a program with overrides and cached replies has
/// them.
async fn counter_and_value(options: &RedisOptions) -> Result<(), StoreError> {
    let limit = Limit::per_client("per-ip", Quota::per_hour(60).burst(2));
    let limiter = Limiter::new(
        Policy::new([limit]).unwrap(),
        RedisStore::new(options.clone()).unwrap(),
        MonotonicClock::new(),
    );
    let caller = Subject {
        client_ip: Some("203.0.113.9".parse().unwrap()),
        ..Subject::ANONYMOUS
    };
    if let Verdict::Unavailable { error, .. } = limiter.check(&caller, 1).await {
        return Err(error);
    }
    if let Err(ResetError::Store(error)) = limiter.reset(&caller).await {
        return Err(error);
    }
    let (store, ttl) = (limiter.store(), Nanos::MINUTE);
    store
        .put("sluicegate:~ext:f:per-ip:a", b"reply".to_vec(), ttl)
        .await?;
    store.get("sluicegate:~ext:f:per-ip:a").await?;
    let key = "sluicegate:!overrides";
    let list = store.get(key).await?;
    store
        .swap(key, list.as_deref(), b"[]".to_vec(), ttl)
        .await?;
    Ok(())
}

#[tokio::test]
async fn layouts_with_names_of_their_own_need_the_prefix_as_well() {
    for (layout, rule) in OTHER_LAYOUTS {
        let server = RedisServer::start();
        let mut options = as_user(RedisOptions::standalone(endpoint(&server)));
        options.key_layout = layout;
        apply_rule(&server, rule);
        server.command::<()>(&["ACL", "LOG", "RESET"]);
        counter_and_value(&options).await.unwrap();
        assert!(!was_refused(&server), "{rule}");
        options.deadline = Nanos::from_millis(500);
        for (grant, rule) in weakened(rule) {
            if !grant.starts_with('~') {
                continue;
            }
            apply_rule(&server, &rule);
            assert!(
                counter_and_value(&options).await.is_err(),
                "{grant} is not needed for {layout:?}"
            );
            assert!(was_refused(&server), "{grant}");
            server.command::<()>(&["ACL", "LOG", "RESET"]);
        }
    }
}

#[tokio::test]
async fn a_replicated_server_needs_to_tell_its_role_as_well() {
    let replication = Replication::start(1);
    let servers: Vec<&RedisServer> = replication.servers().iter().collect();
    let options = as_user(RedisOptions::replication(
        servers.iter().map(|server| endpoint(server)),
    ));
    servers.iter().for_each(|server| apply_rule(server, SERVER));
    everything(&options, &[replication.primary()])
        .await
        .unwrap();
    servers
        .iter()
        .for_each(|server| apply_rule(server, &SERVER.replace(" +role", "")));
    assert!(
        everything(&options, &[replication.primary()])
            .await
            .is_err(),
        "+role is not needed"
    );
}

#[tokio::test]
async fn sentinels_need_three_commands_and_two_channels() {
    let group = SentinelGroup::start();
    group
        .servers()
        .iter()
        .for_each(|server| apply_rule(server, SERVER));
    let sentinels = group.sentinels();
    sentinels
        .iter()
        .for_each(|sentinel| apply_rule(sentinel, SENTINEL));
    let endpoints = sentinels.iter().map(endpoint);
    let mut options = as_user(RedisOptions::sentinel(endpoints, SentinelGroup::NAME));
    everything(&options, &[group.primary()]).await.unwrap();
    assert!(!sentinels.iter().any(was_refused));

    options.deadline = Nanos::from_millis(500);
    for (grant, rule) in weakened(SENTINEL) {
        sentinels
            .iter()
            .for_each(|sentinel| apply_rule(sentinel, &rule));
        let done = everything(&options, &[group.primary()]).await;
        sluicegate_testkit::wait_until(
            std::time::Duration::from_secs(5),
            &format!("{grant} is needed"),
            || sentinels.iter().any(was_refused),
        );
        // Without the channels, a switch is noticed by the next question, a second or two later.
        // Without SENTINEL MASTER, the sentinel that answers first is believed.
        assert_eq!(
            done.is_err(),
            grant.starts_with("+sentinel|get"),
            "without {grant}: {done:?}"
        );
        sentinels
            .iter()
            .for_each(|sentinel| sentinel.command::<()>(&["ACL", "LOG", "RESET"]));
    }
}

#[tokio::test]
async fn a_cluster_needs_its_slots_and_asking_as_well() {
    let cluster = RedisCluster::start();
    let servers: Vec<&RedisServer> = cluster.nodes().iter().collect();
    let options = as_user(RedisOptions::cluster(
        servers.iter().map(|server| endpoint(server)),
    ));
    is_enough_and_no_more(CLUSTER, &options, &servers).await;

    // A slot that is moving. All its keys are new, so all of them are decided at the new node.
    let limiter = limiter(options.clone());
    let caller = "203.0.113.9".parse().unwrap();
    run_as(&limiter, caller).await.unwrap();
    let key = servers
        .iter()
        .flat_map(|server| server.keys("sluicegate:"))
        .find(|key| key.ends_with(b"203.0.113.9"));
    let slot = cluster.slot_of_key(&String::from_utf8(key.unwrap()).unwrap());
    let from = cluster.master_of_slot(slot);
    let to = (from + 1) % 3;
    let id = |node: usize| servers[node].command::<String>(&["CLUSTER", "MYID"]);
    servers[to].command::<()>(&[
        "CLUSTER",
        "SETSLOT",
        &slot.to_string(),
        "IMPORTING",
        &id(from),
    ]);
    servers[from].command::<()>(&[
        "CLUSTER",
        "SETSLOT",
        &slot.to_string(),
        "MIGRATING",
        &id(to),
    ]);
    servers
        .iter()
        .for_each(|server| drop(server.try_command::<()>(&["FLUSHALL"])));
    let limiter = super::operations::limiter(options.clone());
    run_as(&limiter, caller).await.unwrap();
    assert!(servers[to].command_calls("asking") > 0);
    apply_rule(servers[to], &CLUSTER.replace(" +asking", ""));
    servers
        .iter()
        .for_each(|server| drop(server.try_command::<()>(&["FLUSHALL"])));
    assert!(
        run_as(&super::operations::limiter(options), caller)
            .await
            .is_err(),
        "+asking is not needed"
    );
}

/// Settings that the user may not read are advice, and nothing fails.
#[tokio::test]
async fn advice_under_the_narrow_rule_says_what_it_could_not_see() {
    let server = RedisServer::builder()
        .config("appendonly yes")
        .config("timeout 60")
        .start();
    let options = as_user(RedisOptions::standalone(endpoint(&server)));
    let settings = async |rule: String| {
        apply_rule(&server, &rule);
        let advice = RedisStore::new(options.clone())
            .unwrap()
            .advice()
            .await
            .unwrap();
        advice
            .into_iter()
            .map(|advice| advice.setting)
            .collect::<Vec<_>>()
    };
    assert_eq!(settings(SERVER.to_owned()).await, ["INFO and CONFIG GET"]);
    assert_eq!(settings(format!("{SERVER} +info")).await, ["CONFIG GET"]);
    assert_eq!(
        settings(format!("{SERVER} +config|get")).await,
        ["INFO", "timeout"]
    );
    assert_eq!(
        settings(format!("{SERVER} +info +config|get")).await,
        ["timeout"]
    );
}
