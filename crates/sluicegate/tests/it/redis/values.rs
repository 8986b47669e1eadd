//! Values that are no counters: stored, read, replaced and expired.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sluicegate::{Nanos, RedisOptions, RedisStore, StoreError};
use sluicegate_testkit::{RedisCluster, RedisServer};

use super::operations::{endpoint, patient};
use super::options;

const VALUE: &[u8] = b"any\r\n\0bytes\xff";

#[tokio::test]
async fn a_value_is_found_as_it_was_put_until_its_time_is_over() {
    let server = RedisServer::start();
    let store = RedisStore::new(patient(options(&server))).unwrap();
    assert_eq!(store.get("a").await, Ok(None));
    store
        .put("a", VALUE.to_vec(), Nanos::from_secs(100))
        .await
        .unwrap();
    store.put("b", Vec::new(), Nanos::new(1)).await.unwrap();
    assert_eq!(store.get("a").await, Ok(Some(VALUE.to_vec())));
    let ttl: u64 = server.command(&["PTTL", "a"]);
    assert!((1..=100_000).contains(&ttl), "{ttl}");
    sluicegate_testkit::wait_until(Duration::from_secs(5), "a millisecond is over", || {
        server.command::<u64>(&["EXISTS", "b"]) == 0
    });
    assert_eq!(store.get("b").await, Ok(None));
}

#[tokio::test]
async fn a_counter_of_another_kind_is_an_error_and_can_be_put_over() {
    let server = RedisServer::start();
    let store = RedisStore::new(patient(options(&server))).unwrap();
    server.command::<()>(&["LPUSH", "a", "1"]);
    assert!(
        matches!(store.get("a").await, Err(StoreError::Unavailable(why)) if why.starts_with("WRONGTYPE"))
    );
    store.put("a", VALUE.to_vec(), Nanos::HOUR).await.unwrap();
    assert_eq!(store.get("a").await, Ok(Some(VALUE.to_vec())));
}

#[tokio::test]
async fn on_a_cluster_each_value_is_on_the_node_of_its_slot_and_follows_it() {
    let cluster = RedisCluster::start();
    let options = patient(RedisOptions::cluster(cluster.nodes().iter().map(endpoint)));
    let store = RedisStore::new(options).unwrap();
    let keys: Vec<String> = (0..20).map(|number| format!("value:{number}")).collect();
    for key in &keys {
        store
            .put(key, key.as_bytes().to_vec(), Nanos::HOUR)
            .await
            .unwrap();
    }
    let slot = cluster.slot_of_key(&keys[0]);
    cluster.move_slots(slot..=slot, (cluster.master_of_slot(slot) + 1) % 3);
    for key in &keys {
        assert_eq!(
            store.get(key).await,
            Ok(Some(key.as_bytes().to_vec())),
            "{key}"
        );
    }
}

#[tokio::test]
async fn one_of_several_concurrent_swaps_succeeds() {
    let server = RedisServer::start();
    let store = Arc::new(RedisStore::new(patient(options(&server))).unwrap());
    assert_eq!(
        store
            .swap("a", Some(b"x"), VALUE.to_vec(), Nanos::HOUR)
            .await,
        Ok(false),
        "nothing is there"
    );
    assert_eq!(
        store.swap("a", None, VALUE.to_vec(), Nanos::HOUR).await,
        Ok(true)
    );
    assert_eq!(
        store.swap("a", None, b"other".to_vec(), Nanos::HOUR).await,
        Ok(false),
        "something is there by now"
    );
    let mut swaps = tokio::task::JoinSet::new();
    for number in 0..20 {
        let store = Arc::clone(&store);
        swaps.spawn(async move {
            let swapped = store
                .swap("a", Some(VALUE), vec![number], Nanos::from_secs(100))
                .await;
            swapped.unwrap().then_some(number)
        });
    }
    let winners: Vec<u8> = swaps.join_all().await.into_iter().flatten().collect();
    let &[winner] = &winners[..] else {
        panic!("one of them, not {winners:?}")
    };
    assert_eq!(store.get("a").await, Ok(Some(vec![winner])));
    let ttl: u64 = server.command(&["PTTL", "a"]);
    assert!((1..=100_000).contains(&ttl), "{ttl}");
    server.flush_scripts();
    assert_eq!(
        store
            .swap("a", Some(&[winner]), b"last".to_vec(), Nanos::HOUR)
            .await,
        Ok(true),
        "sent with its text"
    );
}

#[tokio::test]
async fn how_long_decisions_wait_and_how_many_fail_is_counted() {
    let server = RedisServer::start();
    let limiter = super::operations::limiter(patient(options(&server)));
    super::operations::run(&limiter).await.unwrap();
    let before = limiter.store().health().waits;
    assert!(
        before.count() > 0 && before.timed_out + before.unavailable == 0,
        "{before:?}"
    );
    assert!(before.quantile_us(0.5).is_some() && before.sum_us > 0);
    drop(server);
    let mut failed = 0;
    while limiter.store().health().waits.since(&before).unavailable == 0 && failed < 1_000 {
        failed += 1;
        let _ = super::operations::run(&limiter).await;
    }
    let waits = limiter.store().health().waits.since(&before);
    assert!(waits.unavailable + waits.timed_out > 0, "{waits:?}");
}

#[tokio::test]
async fn a_server_that_hangs_costs_no_more_than_the_deadline() {
    let server = RedisServer::start();
    let mut options = options(&server);
    options.deadline = Nanos::from_millis(200);
    let store = RedisStore::new(options).unwrap();
    let found = store.get("a").await;
    assert!(
        matches!(found, Ok(None) | Err(StoreError::TimedOut)),
        "{found:?}"
    );
    server.stop();
    let begun = Instant::now();
    assert!(store.get("a").await.is_err());
    assert!(store.put("a", VALUE.to_vec(), Nanos::SECOND).await.is_err());
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
    server.resume();
}
