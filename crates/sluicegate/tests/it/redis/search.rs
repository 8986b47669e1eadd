//! Searching counters by their names: matches, bounds, permissions.

use sluicegate::{FoundKeys, KeyLayout, KeySearch, Nanos, RedisOptions, RedisStore, StoreError};
use sluicegate_testkit::{RedisCluster, RedisServer};

use super::operations::{credentials, endpoint, limiter, patient, run_as};
use super::options;

const EVERYTHING: KeySearch<'static> = KeySearch {
    limit: None,
    contains: "",
    most: 1_000,
};

fn texts(found: &FoundKeys) -> Vec<&str> {
    found.texts.iter().map(String::as_str).collect()
}

#[tokio::test]
async fn counters_are_found_by_limit_and_by_a_piece_of_their_key() {
    let server = RedisServer::start();
    let limiter = limiter(patient(options(&server)));
    for address in ["203.0.113.7", "203.0.113.8", "2001:db8::1"] {
        run_as(&limiter, address.parse().unwrap()).await.unwrap();
    }
    let store = limiter.store();
    store
        .put("sluicegate:!board", b"no counter".to_vec(), Nanos::HOUR)
        .await
        .unwrap();
    store
        .put(
            "foreign:token:203.0.113.7",
            b"no counter".to_vec(),
            Nanos::HOUR,
        )
        .await
        .unwrap();
    let found = store
        .search(KeySearch {
            limit: Some("token"),
            ..EVERYTHING
        })
        .await
        .unwrap();
    assert_eq!(
        texts(&found),
        [
            "token:203.0.113.7",
            "token:203.0.113.8",
            "token:[2001:db8::]"
        ]
    );
    assert!(found.is_all && found.looked_at >= 11, "{found:?}");
    let found = store
        .search(KeySearch {
            contains: "113.8",
            ..EVERYTHING
        })
        .await
        .unwrap();
    let counters = ["leaky", "sliding", "token"].map(|limit| format!("{limit}:203.0.113.8"));
    assert_eq!(
        found
            .texts
            .iter()
            .filter(|text| !text.starts_with("value:"))
            .collect::<Vec<_>>(),
        counters.each_ref()
    );
    let found = store
        .search(KeySearch {
            most: 2,
            ..EVERYTHING
        })
        .await
        .unwrap();
    assert_eq!(
        (found.texts.len(), found.is_all),
        (2, false),
        "there are more"
    );
    let found = store
        .search(KeySearch {
            limit: Some("tok"),
            ..EVERYTHING
        })
        .await
        .unwrap();
    assert_eq!(
        (found.texts.len(), found.is_all),
        (0, true),
        "a limit has its whole name"
    );
}

/// A search asks for few names at a time and ends after a bounded number, however full Redis is.
#[tokio::test]
async fn a_search_of_a_large_store_is_bounded() {
    let server = RedisServer::start();
    let fill =
        "for number = 1, 250000 do redis.call('SET', 'foreign:' .. number, 1, 'PX', 600000) end";
    server.command::<()>(&["EVAL", fill, "0"]);
    server.command::<()>(&["CONFIG", "RESETSTAT"]);
    let store = RedisStore::new(patient(options(&server))).unwrap();
    let found = store.search(EVERYTHING).await.unwrap();
    assert!(found.texts.is_empty() && !found.is_all, "{found:?}");
    assert!((100_000..102_000).contains(&found.looked_at), "{found:?}");
    let stats: String = server.command(&["INFO", "commandstats"]);
    let calls = |command: &str| {
        let line = stats
            .lines()
            .find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
        line.map_or(0, |rest| {
            rest.split(',').next().unwrap().parse::<u64>().unwrap()
        })
    };
    // Each SCAN visits 500 buckets, which may hold more or fewer names.
    assert!((150..=250).contains(&calls("scan")), "{stats}");
    assert_eq!(calls("keys"), 0, "{stats}");
}

#[tokio::test]
async fn a_search_covers_every_node_of_a_cluster() {
    let cluster = RedisCluster::start();
    let limiter = limiter(patient(RedisOptions::cluster(
        cluster.nodes().iter().map(endpoint),
    )));
    let addresses: Vec<String> = (0..30)
        .map(|number| format!("203.0.113.{number}"))
        .collect();
    for address in &addresses {
        run_as(&limiter, address.parse().unwrap()).await.unwrap();
    }
    let found = limiter
        .store()
        .search(KeySearch {
            limit: Some("token"),
            ..EVERYTHING
        })
        .await
        .unwrap();
    let mut expected: Vec<String> = addresses
        .iter()
        .map(|address| format!("token:{address}"))
        .collect();
    expected.sort();
    assert!(found.texts == expected && found.is_all, "{found:?}");
}

#[tokio::test]
async fn a_search_that_is_not_possible_says_why() {
    let server = RedisServer::start();
    let rule = "ACL SETUSER narrow on >change-me ~sluicegate:* +eval +evalsha +get +set +del +time +ping +role";
    server.command::<()>(&rule.split(' ').collect::<Vec<_>>());
    let mut narrow = patient(options(&server));
    narrow.credentials = credentials("narrow", "change-me");
    let refused = RedisStore::new(narrow.clone())
        .unwrap()
        .search(EVERYTHING)
        .await;
    assert!(
        matches!(&refused, Err(StoreError::Unavailable(why)) if why.contains("+scan")),
        "{refused:?}"
    );
    server.command::<()>(&["ACL", "SETUSER", "narrow", "+scan"]);
    assert!(
        RedisStore::new(narrow)
            .unwrap()
            .search(EVERYTHING)
            .await
            .unwrap()
            .is_all
    );

    let mut compact = patient(options(&server));
    compact.key_layout = KeyLayout::Compact;
    let refused = RedisStore::new(compact).unwrap().search(EVERYTHING).await;
    assert!(
        matches!(&refused, Err(StoreError::Unavailable(why)) if why.contains("readable")),
        "{refused:?}"
    );
    let gone = patient(options(&server));
    drop(server);
    assert!(
        RedisStore::new(gone)
            .unwrap()
            .search(EVERYTHING)
            .await
            .is_err()
    );
}
