//! The times of fetches and waits, under a paused clock and with a server in memory. Real servers
//! are asked in the tests of `sluicegate-server`.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use sluicegate_config::{JwksUrl, JwtAlgorithm, ServiceAddress};
use sluicegate_core::Nanos;
use tokio::runtime::Handle;
use tokio::task::yield_now;
use tokio::time::{Instant, advance, sleep};

use super::fetch::{FetchError, KeyService, KeysResponse};
use super::follow::{refresh_after, retry_after};
use super::{DEMAND_PAUSE, KeysSetup, RemoteKeys, WAITERS_MAX};
use crate::auth::{KeysGap, KeysUnavailable};
use crate::http_client::ResponseError;

/// A server in memory that counts its fetches.
#[derive(Clone)]
pub(in crate::auth) struct FakeServer {
    answer: Arc<Answer>,
    fetches: Arc<AtomicUsize>,
}

type Answer = dyn Fn(usize) -> Pin<Box<dyn Future<Output = FakeAnswer> + Send>> + Send + Sync;
type FakeAnswer = Result<KeysResponse, FetchError>;

impl FakeServer {
    /// `answer` is given the number of the fetch, from 0.
    fn new(answer: impl Fn(usize) -> FakeAnswer + Send + Sync + 'static) -> Self {
        Self::taking(Duration::ZERO, answer)
    }

    /// Each answer comes after so long.
    fn taking(
        time: Duration,
        answer: impl Fn(usize) -> FakeAnswer + Send + Sync + 'static,
    ) -> Self {
        let answer = move |fetch| {
            let answer = answer(fetch);
            let answering = async move {
                // bounded wait: the clock is paused
                sleep(time).await;
                answer
            };
            Box::pin(answering) as Pin<Box<dyn Future<Output = FakeAnswer> + Send>>
        };
        Self {
            answer: Arc::new(answer),
            fetches: Arc::default(),
        }
    }

    pub(super) async fn fetch(&self) -> FakeAnswer {
        (self.answer)(self.fetches.fetch_add(1, SeqCst)).await
    }

    fn fetches(&self) -> usize {
        self.fetches.load(SeqCst)
    }
}

/// A set of one key with this id.
fn set_of(id: &str) -> FakeAnswer {
    let point = "A".repeat(43);
    let key = format!(r#"{{"kty":"OKP","crv":"Ed25519","kid":"{id}","x":"{point}"}}"#);
    Ok(KeysResponse {
        body: Bytes::from(format!(r#"{{"keys":[{key}]}}"#)),
        max_age: None,
    })
}

fn away() -> FakeAnswer {
    Err(FetchError::Response(ResponseError::Status(500)))
}

fn url() -> JwksUrl {
    JwksUrl {
        at: ServiceAddress {
            host: "id.example".to_owned(),
            port: 80,
            ..ServiceAddress::default()
        },
        path: "/keys".to_owned(),
        refresh: Nanos::from_secs(300),
        timeout: Nanos::from_secs(5),
        max_stale: Nanos::HOUR,
    }
}

fn not_started(server: &FakeServer, url: JwksUrl) -> RemoteKeys {
    let setup = KeysSetup {
        url,
        algorithms: vec![JwtAlgorithm::EdDSA],
        authorities: None,
    };
    RemoteKeys::with_service(setup, KeyService::Fake(server.clone()))
}

/// Started, and past its first fetch.
async fn started(server: &FakeServer) -> RemoteKeys {
    let keys = not_started(server, url());
    keys.start(&Handle::current(), None);
    settle().await;
    keys
}

/// Lets every task run that can.
async fn settle() {
    for _ in 0..20 {
        yield_now().await;
    }
}

async fn after(seconds: u64) {
    advance(Duration::from_secs(seconds)).await;
    settle().await;
}

/// True when the key with this id is in force.
fn has(keys: &RemoteKeys, id: &str) -> Result<bool, KeysUnavailable> {
    keys.with_keys(|set| set.choose(Some(id), JwtAlgorithm::EdDSA).is_ok())
}

#[tokio::test(start_paused = true)]
async fn keys_are_fetched_at_the_start_and_once_per_interval() {
    let server = FakeServer::new(|fetch| set_of(&fetch.to_string()));
    let keys = started(&server).await;
    assert_eq!((server.fetches(), has(&keys, "0")), (1, Ok(true)));
    after(269).await;
    assert_eq!(server.fetches(), 1, "at most a tenth earlier");
    after(31).await;
    assert_eq!(server.fetches(), 2);
    // The new key is in force, and the old one is gone.
    assert_eq!((has(&keys, "0"), has(&keys, "1")), (Ok(false), Ok(true)));
    keys.start(&Handle::current(), None);
    settle().await;
    assert_eq!(server.fetches(), 2, "a second start does nothing");
    drop(keys);
    settle().await;
    after(3_600).await;
    assert_eq!(server.fetches(), 2, "nobody needs them any more");
}

#[test]
fn the_interval_is_the_shorter_of_ours_and_max_age_within_bounds() {
    let seconds = |refresh, max_age, random| {
        refresh_after(Duration::from_secs(refresh), max_age, random).as_secs()
    };
    assert_eq!(seconds(300, None, 0), 300);
    assert_eq!(seconds(300, Some(60), 0), 60);
    assert_eq!(seconds(300, Some(86_400), 0), 300);
    assert_eq!(seconds(300, Some(0), 0), 30);
    assert_eq!(seconds(300, Some(u64::MAX), 0), 300);
    assert_eq!(seconds(1_000_000, None, 0), 86_400);
    for random in 0..2_000 {
        assert!((270..=300).contains(&seconds(300, None, random)));
        assert_eq!(seconds(300, Some(1), random), 30);
    }
    let distinct = (0..1_000).map(|random| seconds(3_000, None, random));
    assert!(distinct.collect::<std::collections::BTreeSet<_>>().len() > 200);
}

#[test]
fn failures_are_repeated_after_twice_the_time_up_to_half_a_minute() {
    let millis = |failures, refresh| {
        let refresh = Duration::from_secs(refresh);
        retry_after(failures, refresh, 0).as_millis()
    };
    let waits: Vec<_> = (1..8).map(|failures| millis(failures, 300)).collect();
    assert_eq!(waits, [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
    assert_eq!(
        (millis(u32::MAX, 300), millis(u32::MAX, 7)),
        (30_000, 7_000)
    );
}

#[tokio::test(start_paused = true)]
async fn before_the_first_keys_a_token_is_told_when_to_come_back() {
    let server = FakeServer::new(|fetch| if fetch < 3 { away() } else { set_of("a") });
    let keys = not_started(&server, url());
    let refused = has(&keys, "a").unwrap_err();
    assert_eq!(
        (refused.to_string().as_str(), refused.retry_after_secs()),
        ("keys not yet loaded", 1)
    );
    keys.start(&Handle::current(), None);
    settle().await;
    // The third attempt is up to four seconds after the second.
    after(1).await;
    after(2).await;
    let refused = has(&keys, "a").unwrap_err();
    assert_eq!(keys.status().gap, Some(KeysGap::NotLoaded));
    assert!((1..=4).contains(&refused.retry_after_secs()), "{refused:?}");
    after(4).await;
    assert_eq!((server.fetches(), has(&keys, "a")), (4, Ok(true)));
}

#[tokio::test(start_paused = true)]
async fn the_last_keys_outlive_an_outage_until_they_are_too_old() {
    let server = FakeServer::new(|fetch| match fetch {
        0 => set_of("a"),
        fetch if fetch < 140 => away(),
        _ => set_of("b"),
    });
    let keys = started(&server).await;
    for _ in 0..3_599 {
        after(1).await;
    }
    assert_eq!(has(&keys, "a"), Ok(true));
    let status = keys.status();
    assert_eq!((status.gap, status.keys), (None, 1));
    assert_eq!(
        status.last_error.as_deref(),
        Some("replied with status 500, expected 200")
    );
    after(2).await;
    assert_eq!(has(&keys, "a").unwrap_err().to_string(), "keys too old");
    assert_eq!(keys.status().gap, Some(KeysGap::TooOld));
    while server.fetches() <= 140 {
        after(1).await;
    }
    assert_eq!((has(&keys, "a"), has(&keys, "b")), (Ok(false), Ok(true)));
    assert_eq!(keys.status().last_error, None);
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_unknown_keys_costs_one_fetch_in_thirty_seconds() {
    let server = FakeServer::taking(Duration::from_millis(10), |_| set_of("a"));
    let keys = started(&server).await;
    after(1).await;
    assert_eq!(server.fetches(), 1);
    let flood = || async {
        for _ in 0..50 {
            let waits = join_all((0..200).map(|_| keys.wait_for_newer())).await;
            assert!(waits.iter().all(Result::is_ok));
        }
    };
    flood().await;
    assert_eq!(server.fetches(), 2, "one for all ten thousand");
    after(DEMAND_PAUSE.as_secs() - 1).await;
    flood().await;
    assert_eq!(server.fetches(), 2);
    after(1).await;
    flood().await;
    assert_eq!(server.fetches(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_asked_for_is_there_when_the_wait_ends() {
    let server = FakeServer::taking(Duration::from_millis(700), |fetch| {
        set_of(["old", "new"][fetch.min(1)])
    });
    let keys = started(&server).await;
    after(1).await;
    assert_eq!(has(&keys, "new"), Ok(false));
    let asked_at = Instant::now();
    keys.wait_for_newer().await.unwrap();
    assert_eq!(
        (has(&keys, "new"), has(&keys, "old")),
        (Ok(true), Ok(false))
    );
    assert_eq!(asked_at.elapsed(), Duration::from_millis(700));
}

#[tokio::test(start_paused = true)]
async fn a_bounded_number_waits_and_none_longer_than_the_timeout() {
    let server = FakeServer::new(|fetch| if fetch == 0 { set_of("a") } else { away() });
    let hanging = FakeServer {
        answer: Arc::new({
            let first = Arc::clone(&server.answer);
            move |fetch| match fetch {
                0 => first(0),
                _ => Box::pin(std::future::pending()),
            }
        }),
        ..server
    };
    let keys = started(&hanging).await;
    let asked_at = Instant::now();
    let waits = join_all((0..WAITERS_MAX + 7).map(|_| keys.wait_for_newer())).await;
    assert_eq!(asked_at.elapsed(), Duration::from_secs(5));
    let busy: Vec<_> = waits.into_iter().filter_map(Result::err).collect();
    assert_eq!(busy.len(), 7);
    assert_eq!(
        (busy[0].to_string().as_str(), busy[0].retry_after_secs()),
        ("too many requests wait for keys", 1)
    );
    assert_eq!((hanging.fetches(), has(&keys, "a")), (2, Ok(true)));
    assert_eq!(
        keys.status().last_error.as_deref(),
        Some("no response in time")
    );
}

#[tokio::test(start_paused = true)]
async fn a_reload_keeps_the_keys_and_the_pause_of_the_same_url_only() {
    let server = FakeServer::new(|fetch| set_of(&fetch.to_string()));
    let old = started(&server).await;
    old.wait_for_newer().await.unwrap();
    settle().await;
    assert_eq!(server.fetches(), 2);
    let faster = JwksUrl {
        refresh: Nanos::MINUTE,
        ..url()
    };
    let new = not_started(&server, faster);
    assert!(!new.is_same(&old) && old.is_same(&not_started(&server, url())));
    new.keep_keys_of(&old);
    assert_eq!(has(&new, "1"), Ok(true));
    new.start(&Handle::current(), None);
    settle().await;
    assert_eq!(server.fetches(), 3);
    new.wait_for_newer().await.unwrap();
    assert_eq!(server.fetches(), 3, "the pause goes on");
    let elsewhere = JwksUrl {
        path: "/others".to_owned(),
        ..url()
    };
    let other = not_started(&server, elsewhere);
    other.keep_keys_of(&old);
    assert!(has(&other, "1").is_err());
}
