use sluicegate::LocalStore;
use sluicegate_core::BanRule;
use sluicegate_gate::overrides::BanTarget;

use super::*;

/// Now, in milliseconds: a time that no test reaches by itself.
const NOW_MS: u64 = 4_000_000_000_000;

fn request(number: u32) -> BanRequest {
    let address = std::net::Ipv4Addr::from_bits(0x0a00_0000 + number);
    BanRequest {
        target: BanTarget::Clients(format!("{address}/32").parse().unwrap()),
        limit: "per-ip".to_owned(),
        rule: BanRule {
            after: 100,
            within: Nanos::MINUTE,
            lasts: Nanos::from_secs(600),
            grow: 2,
            max: Nanos::HOUR,
        },
    }
}

/// Two replicas with one list.
fn replicas() -> (BanKeeper, BanKeeper) {
    let one = BanKeeper::new(&AnyStore::Local(LocalStore::default()));
    let other = BanKeeper {
        list: one.list.shared(),
        state: Mutex::default(),
    };
    (one, other)
}

#[tokio::test]
async fn two_replicas_that_ban_a_caller_at_once_make_one_ban() {
    let (one, other) = replicas();
    for (keeper, at_ms) in [(&one, NOW_MS), (&other, NOW_MS + 20)] {
        keeper.accept(vec![request(7), request(7)], at_ms);
        assert_eq!(keeper.records(at_ms).len(), 1, "in force here at once");
        assert_eq!(keeper.state().pending.len(), 1, "and asked for once");
    }
    let (first, second) = (one.share(NOW_MS).await, other.share(NOW_MS + 20).await);
    assert_eq!((first.untold.len(), second.untold.len()), (1, 0));
    one.read().await.unwrap();
    assert_eq!(one.records(NOW_MS + 20), other.records(NOW_MS + 20));
    let records = one.records(NOW_MS + 20);
    assert_eq!((records.len(), records[0].earlier), (1, 0));
    assert!(!one.has_pending() && !other.has_pending());
}

#[tokio::test]
async fn a_further_ban_on_another_replica_is_longer_until_an_operator_ends_one() {
    let (one, other) = replicas();
    let mut now_ms = NOW_MS;
    for (keeper, earlier) in [(&one, 0), (&other, 1), (&one, 2)] {
        keeper.read().await.unwrap();
        keeper.accept(vec![request(7)], now_ms);
        let shared = keeper.share(now_ms).await;
        assert_eq!(shared.untold[0].earlier, earlier);
        now_ms = shared.untold[0].until_ms;
    }
    other.read().await.unwrap();
    let id = request(7).target.id();
    let ended = other.end(&id, now_ms).await;
    assert!(
        matches!(ended, Err(OperatorError::Unknown(_))),
        "what is over cannot be ended"
    );
    other.end(&id, now_ms - 1).await.unwrap();
    one.read().await.unwrap();
    assert!(one.records(now_ms).is_empty() && other.records(now_ms).is_empty());
    one.accept(vec![request(7)], now_ms);
    assert_eq!(one.share(now_ms).await.untold[0].earlier, 0);
}

#[tokio::test]
async fn what_is_pending_is_bounded_and_the_list_too() {
    let (one, _) = replicas();
    let requests = |from: u32, count: u32| (from..from + count).map(request).collect();
    assert_eq!(one.accept(requests(0, 900), NOW_MS), 0);
    assert_eq!(one.accept(requests(900, 300), NOW_MS + 1), 200);
    assert_eq!(one.state().pending.len(), BANS_MAX);
    assert_eq!(one.records(NOW_MS + 1).len(), BANS_MAX);
    let shared = one.share(NOW_MS + 1).await;
    assert_eq!((shared.untold.len(), shared.dropped), (BANS_MAX, 0));
    one.accept(requests(5_000, 100), NOW_MS + 2);
    assert_eq!(one.share(NOW_MS + 2).await.dropped, 100);
    let records = one.records(NOW_MS + 2);
    assert_eq!(records.len(), BANS_MAX);
    let newest = request(5_099).target;
    assert!(records.iter().any(|record| record.target == newest));
}
