//! The whole way of a question, with a service and a Redis that are pretended, and time that is told.

use futures_util::FutureExt;
use sluicegate_config::{BackendUrlSettings, ExternalService, ServiceAddress};

use super::error::CallError;
use super::fakes::{FakeRedis, FakeService, ReplyFuture};
use super::lifetime::CacheLifetime;
use super::reply::ServiceReply;
use super::*;

const TIMEOUT: Duration = Duration::from_secs(5);

fn settings(max_concurrent_requests: usize) -> ExternalSettings {
    let at = ServiceAddress {
        tls: false,
        host: "service.invalid".to_owned(),
        port: 1,
        ca_file: None,
    };
    ExternalSettings {
        timeout: TIMEOUT.into(),
        cache_ttl: Nanos::MINUTE,
        max_concurrent_requests,
        service: ExternalService::Http {
            at,
            path: "/".to_owned(),
        },
        headers: HeaderFilter::default(),
        cache_redis: None,
        backend_url: BackendUrlSettings::default(),
    }
}

fn external(service: &FakeService, redis_cache: Option<&FakeRedis>) -> External {
    let redis_cache = redis_cache.map(|redis| RedisCache::Fake(redis.clone()));
    External::with_service(
        &settings(50),
        LimitsService::Fake(service.clone()),
        redis_cache,
        Handle::current(),
    )
}

fn lookup_of(key: &str) -> LimitsLookup<'_> {
    static NO_HEADERS: std::sync::LazyLock<HeaderMap> = std::sync::LazyLock::new(HeaderMap::new);
    LimitsLookup {
        limit: "tenant",
        key,
        method: "GET",
        path: "/",
        headers: &NO_HEADERS,
    }
}

fn reply(average: i64) -> (ServiceReply, CacheLifetime) {
    (
        ServiceReply {
            average,
            ..ServiceReply::default()
        },
        CacheLifetime {
            fresh: Some(Nanos::MINUTE),
            keeps_stale: true,
        },
    )
}

fn at_once(result: Result<(ServiceReply, CacheLifetime), CallError>) -> ReplyFuture {
    Box::pin(std::future::ready(result))
}

fn later(seconds: u64, result: Result<(ServiceReply, CacheLifetime), CallError>) -> ReplyFuture {
    Box::pin(async move {
        // bounded wait: the clock of these tests stands still, and is put forward while everybody waits
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        result
    })
}

async fn pass(seconds: u64) {
    tokio::time::advance(Duration::from_secs(seconds)).await;
    // What was begun behind a request's back.
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

/// How many at once, and whether that is an older answer.
fn limits(resolved: &ResolvedLimits) -> Option<(u64, bool)> {
    match resolved {
        ResolvedLimits::External(limits) => Some((
            limits.quota.map_or(0, |quota| quota.limit()),
            limits.is_stale,
        )),
        ResolvedLimits::Configured => None,
    }
}

fn dead() -> FakeService {
    FakeService::new(|_, _| at_once(Err(CallError::Unreachable("gone".to_owned()))))
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_asked_for_once_and_then_known_at_once() {
    let service = FakeService::new(|_, _| at_once(Ok(reply(7))));
    let external = external(&service, Some(&FakeRedis::default()));
    assert_eq!(
        external.resolve_cached(&lookup_of("a"), Instant::now()),
        None
    );
    assert_eq!(
        limits(&external.resolve(lookup_of("a")).await),
        Some((7, false))
    );
    assert_eq!(
        limits(
            &external
                .resolve_cached(&lookup_of("a"), Instant::now())
                .unwrap()
        ),
        Some((7, false))
    );
    assert_eq!(service.calls(), 1);
    assert_eq!(external.counts().local_hits, 1);
}

/// E7
#[tokio::test(start_paused = true)]
async fn without_redis_every_request_asks() {
    let service = FakeService::new(|_, _| at_once(Ok(reply(7))));
    let external = external(&service, None);
    for _ in 0..3 {
        assert_eq!(
            limits(&external.resolve(lookup_of("a")).await),
            Some((7, false))
        );
        assert_eq!(
            external.resolve_cached(&lookup_of("a"), Instant::now()),
            None
        );
    }
    assert_eq!(service.calls(), 3);
}

/// E7
#[tokio::test(start_paused = true)]
async fn another_replica_finds_the_answer_in_redis_and_looks_again_soon() {
    let service = FakeService::new(|number, _| at_once(Ok(reply(7 + number as i64))));
    let redis = FakeRedis::default();
    let (first, second) = (
        external(&service, Some(&redis)),
        external(&service, Some(&redis)),
    );
    assert_eq!(
        limits(&first.resolve(lookup_of("a")).await),
        Some((7, false))
    );
    pass(1).await;
    assert_eq!(
        limits(&second.resolve(lookup_of("a")).await),
        Some((7, false))
    );
    assert_eq!((service.calls(), second.counts().redis_hits), (1, 1));
    pass(7).await;
    assert_eq!(
        second.resolve_cached(&lookup_of("a"), Instant::now()),
        None,
        "after a tenth of its time it is looked for again"
    );
    assert_eq!(
        limits(&second.resolve(lookup_of("a")).await),
        Some((7, false))
    );
    pass(60).await;
    assert_eq!(
        limits(&second.resolve(lookup_of("a")).await),
        Some((8, false)),
        "it has ended in Redis"
    );
    assert_eq!(service.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_about_to_end_is_renewed_behind_the_requests_back() {
    let service = FakeService::new(|number, _| at_once(Ok(reply(7 + number as i64))));
    let external = external(&service, Some(&FakeRedis::default()));
    external.resolve(lookup_of("a")).await;
    pass(53).await;
    assert!(
        external
            .resolve_cached(&lookup_of("a"), Instant::now())
            .is_some()
    );
    assert_eq!(service.calls(), 1);
    pass(2).await;
    for _ in 0..5 {
        assert_eq!(
            limits(
                &external
                    .resolve_cached(&lookup_of("a"), Instant::now())
                    .unwrap()
            ),
            Some((7, false))
        );
    }
    pass(0).await;
    assert_eq!((service.calls(), external.counts().renewals), (2, 1));
    pass(50).await;
    assert_eq!(
        limits(
            &external
                .resolve_cached(&lookup_of("a"), Instant::now())
                .unwrap()
        ),
        Some((8, false))
    );
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_fails_leaves_the_answer_until_its_end() {
    let service = FakeService::new(|number, _| match number {
        0 => at_once(Ok(reply(7))),
        _ => at_once(Err(CallError::Status(500))),
    });
    let external = external(&service, Some(&FakeRedis::default()));
    external.resolve(lookup_of("a")).await;
    pass(55).await;
    external.resolve_cached(&lookup_of("a"), Instant::now());
    pass(1).await;
    assert_eq!(service.calls(), 2);
    assert_eq!(
        limits(
            &external
                .resolve_cached(&lookup_of("a"), Instant::now())
                .unwrap()
        ),
        Some((7, false))
    );
}

/// E8
#[tokio::test(start_paused = true)]
async fn what_is_not_to_be_kept_is_nowhere() {
    let kept_not = CacheLifetime {
        fresh: None,
        keeps_stale: false,
    };
    let service = FakeService::new(move |number, _| match number {
        0 | 1 => at_once(Ok((reply(7).0, kept_not))),
        _ => at_once(Err(CallError::TimedOut)),
    });
    let redis = FakeRedis::default();
    let external = external(&service, Some(&redis));
    external.resolve(lookup_of("a")).await;
    assert_eq!(
        limits(&external.resolve(lookup_of("a")).await),
        Some((7, false))
    );
    pass(0).await;
    assert_eq!(service.calls(), 2);
    assert!(redis.is_empty());
    assert_eq!(
        external.resolve(lookup_of("a")).await,
        ResolvedLimits::Configured,
        "not even for later"
    );
}

/// E8
#[tokio::test(start_paused = true)]
async fn what_is_not_cached_is_still_there_when_the_service_is_not() {
    let not_cached = CacheLifetime {
        fresh: None,
        keeps_stale: true,
    };
    let service = FakeService::new(move |number, _| match number {
        0 => at_once(Ok((reply(7).0, not_cached))),
        _ => at_once(Err(CallError::TimedOut)),
    });
    let external = external(&service, Some(&FakeRedis::default()));
    external.resolve(lookup_of("a")).await;
    assert_eq!(
        limits(&external.resolve(lookup_of("a")).await),
        Some((7, true))
    );
}

/// E12
#[tokio::test(start_paused = true)]
async fn a_service_that_fails_leaves_the_older_answer_for_five_minutes_and_then_the_static_quota() {
    let service = FakeService::new(|number, _| match number {
        0 => at_once(Ok(reply(7))),
        _ => at_once(Err(CallError::Status(503))),
    });
    let redis = FakeRedis::default();
    let (first, second) = (
        external(&service, Some(&redis)),
        external(&service, Some(&redis)),
    );
    first.resolve(lookup_of("a")).await;
    pass(60).await;
    assert_eq!(
        limits(&first.resolve(lookup_of("a")).await),
        Some((7, true)),
        "what it remembers itself"
    );
    assert_eq!(
        limits(&second.resolve(lookup_of("a")).await),
        Some((7, true)),
        "from Redis"
    );
    pass(299).await;
    assert_eq!(
        limits(&second.resolve(lookup_of("a")).await),
        Some((7, true))
    );
    redis.set_away(true);
    assert_eq!(
        limits(&first.resolve(lookup_of("a")).await),
        Some((7, true)),
        "without Redis too"
    );
    redis.set_away(false);
    pass(2).await;
    assert_eq!(
        first.resolve(lookup_of("a")).await,
        ResolvedLimits::Configured
    );
    assert_eq!(
        second.resolve(lookup_of("a")).await,
        ResolvedLimits::Configured
    );
    assert_eq!(first.counts().statics, 1);
}

/// T-57
#[tokio::test(start_paused = true)]
async fn a_poisoned_value_is_refused_counted_and_fetched_again() {
    let service = FakeService::new(|_, _| at_once(Ok(reply(7))));
    let redis = FakeRedis::default();
    let keys = redis_cache::RedisKeys::new("test", "tenant", "a");
    for name in [&keys.fresh, &keys.stale] {
        redis
            .put(name, b"{\"v\":1,\"average\":1000000}".to_vec(), Nanos::HOUR)
            .unwrap();
    }
    let external = external(&service, Some(&redis));
    assert_eq!(
        limits(&external.resolve(lookup_of("a")).await),
        Some((7, false))
    );
    assert_eq!((service.calls(), external.counts().poisoned), (1, 2));
    pass(0).await;
    let value = redis.get(&keys.fresh).unwrap().unwrap();
    assert!(
        redis_cache::decode(&keys, &value).is_some(),
        "it is put right"
    );
}

/// T-57
#[tokio::test(start_paused = true)]
async fn tenants_with_telling_names_are_not_mixed_up() {
    let keys = ["x", "stale:x", "s:x", "t:a", "a", "f:tenant:x"];
    let service = FakeService::new(move |_, request| {
        let place = keys.iter().position(|name| *name == request.key).unwrap();
        at_once(Ok(reply(1 + place as i64)))
    });
    let redis = FakeRedis::default();
    let (first, second) = (
        external(&service, Some(&redis)),
        external(&service, Some(&redis)),
    );
    for name in keys {
        first.resolve(lookup_of(name)).await;
    }
    pass(0).await;
    for (place, name) in keys.iter().enumerate() {
        assert_eq!(
            limits(&second.resolve(lookup_of(name)).await),
            Some((1 + place as u64, false)),
            "{name}"
        );
    }
    assert_eq!(service.calls(), keys.len());
}

/// T-59, E9
#[tokio::test(start_paused = true)]
async fn a_thousand_first_requests_of_one_caller_are_one_call() {
    let service = FakeService::new(|_, _| later(1, Ok(reply(7))));
    let external = external(&service, Some(&FakeRedis::default()));
    let waiting = (0..1_000).map(|_| external.resolve(lookup_of("a")));
    let answers = futures_util::future::join_all(waiting).await;
    assert!(
        answers
            .iter()
            .all(|resolved| limits(resolved) == Some((7, false)))
    );
    assert_eq!(service.calls(), 1);
    assert_eq!(external.shared.single_flight.len(), 0);
}

/// T-59, E9
#[tokio::test(start_paused = true)]
async fn a_first_one_who_goes_away_changes_nothing_for_the_others() {
    let service = FakeService::new(|_, _| later(1, Ok(reply(7))));
    let external = external(&service, Some(&FakeRedis::default()));
    let mut first = Box::pin(external.resolve(lookup_of("a")));
    assert!(first.as_mut().now_or_never().is_none());
    let others = (0..999)
        .map(|_| external.resolve(lookup_of("a")))
        .collect::<Vec<_>>();
    let others = futures_util::future::join_all(others);
    drop(first);
    assert!(
        others
            .await
            .iter()
            .all(|resolved| limits(resolved) == Some((7, false)))
    );
    assert_eq!(service.calls(), 1);
}

/// T-59, E9
#[tokio::test(start_paused = true)]
async fn a_call_that_panics_or_takes_too_long_fails_for_all_and_the_next_is_tried() {
    let service = FakeService::new(|number, _| match number {
        0 => Box::pin(async { panic!("as told by the test") }),
        1 => later(60, Ok(reply(1))),
        _ => at_once(Ok(reply(7))),
    });
    let external = external(&service, None);
    for _ in 0..2 {
        let waiting = (0..1_000).map(|_| external.resolve(lookup_of("a")));
        let answers = futures_util::future::join_all(waiting).await;
        assert!(
            answers
                .iter()
                .all(|resolved| *resolved == ResolvedLimits::Configured)
        );
    }
    assert_eq!((service.calls(), external.counts().errors), (2, 2));
    assert_eq!(
        limits(&external.resolve(lookup_of("a")).await),
        Some((7, false))
    );
    assert_eq!(external.counts().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_longer_than_the_timeout_and_then_gets_the_older_answer() {
    let service = FakeService::new(|number, _| match number {
        0 => at_once(Ok(reply(7))),
        _ => later(600, Ok(reply(8))),
    });
    let external = external(&service, Some(&FakeRedis::default()));
    external.resolve(lookup_of("a")).await;
    pass(61).await;
    let begun = Instant::now();
    assert_eq!(
        limits(&external.resolve(lookup_of("a")).await),
        Some((7, true))
    );
    assert!(
        begun.elapsed() <= TIMEOUT + Duration::from_millis(1),
        "{:?}",
        begun.elapsed()
    );
}

/// E10
#[tokio::test(start_paused = true)]
async fn never_more_calls_than_allowed_are_under_way() {
    let service = FakeService::new(|_, _| later(1, Ok(reply(7))));
    let external = external(&service, Some(&FakeRedis::default()));
    let keys: Vec<String> = (0..1_000)
        .map(|number| format!("tenant-{number}"))
        .collect();
    let answers =
        futures_util::future::join_all(keys.iter().map(|key| external.resolve(lookup_of(key))))
            .await;
    // In five seconds, fifty at a time.
    let served = answers
        .iter()
        .filter(|resolved| limits(resolved).is_some())
        .count();
    assert!((200..=250).contains(&served), "{served}");
    assert_eq!(service.most_under_way(), 50);
    assert_eq!(external.counts().waits, 950);
    assert_eq!(
        external.counts().openings,
        0,
        "that the calls were too many is not the service's fault"
    );
    pass(5).await;
    assert_eq!(
        (
            external.counts().in_flight,
            external.shared.single_flight.len()
        ),
        (0, 0)
    );
}

/// E10
#[tokio::test(start_paused = true)]
async fn a_call_that_had_too_little_time_after_its_wait_is_not_held_against_the_service() {
    let service = FakeService::new(|_, _| later(3, Ok(reply(7))));
    let external = external(&service, Some(&FakeRedis::default()));
    let keys: Vec<String> = (0..100).map(|number| format!("tenant-{number}")).collect();
    let answers =
        futures_util::future::join_all(keys.iter().map(|key| external.resolve(lookup_of(key))))
            .await;
    assert_eq!(
        answers
            .iter()
            .filter(|resolved| limits(resolved).is_some())
            .count(),
        50
    );
    pass(1).await;
    assert_eq!(
        (external.counts().errors, external.counts().openings),
        (50, 0)
    );
}

/// E11, E12
#[tokio::test(start_paused = true)]
async fn after_five_errors_a_caller_is_not_asked_for_until_one_may_try() {
    let service = FakeService::new(|number, _| match number {
        0..6 => at_once(Err(CallError::Malformed("it is no JSON"))),
        _ => at_once(Ok(reply(7))),
    });
    let external = external(&service, Some(&FakeRedis::default()));
    for _ in 0..100 {
        assert_eq!(
            external.resolve(lookup_of("a")).await,
            ResolvedLimits::Configured
        );
    }
    assert_eq!((service.calls(), external.counts().openings), (5, 1));
    pass(30).await;
    assert_eq!(
        external.resolve(lookup_of("a")).await,
        ResolvedLimits::Configured,
        "the one who may try fails"
    );
    external.resolve(lookup_of("a")).await;
    assert_eq!(service.calls(), 6);
    pass(30).await;
    assert_eq!(
        limits(&external.resolve(lookup_of("a")).await),
        Some((7, false))
    );
}

/// T-60
#[tokio::test(start_paused = true)]
async fn a_dead_service_is_called_a_few_times_for_a_hundred_thousand_callers() {
    let service = dead();
    let external = external(&service, Some(&FakeRedis::default()));
    for number in 0..100_000 {
        let key = format!("tenant-{number}");
        assert_eq!(
            external.resolve(lookup_of(&key)).await,
            ResolvedLimits::Configured
        );
    }
    assert_eq!(service.calls(), 20);
    assert!(external.shared.local_cache.as_ref().unwrap().len() <= LocalCache::ENTRIES_MAX);
    assert_eq!(external.shared.single_flight.len(), 0);
    for _ in 0..10 {
        pass(5).await;
        external.resolve(lookup_of("another")).await;
    }
    assert!(service.calls() <= 30, "{}", service.calls());
}

#[tokio::test(start_paused = true)]
async fn a_held_answer_is_let_go_within_a_second_of_recovery() {
    let service = FakeService::new(|number, _| match number {
        0..20 => at_once(Err(CallError::Status(500))),
        _ => at_once(Ok(reply(7))),
    });
    let external = external(&service, Some(&FakeRedis::default()));
    for number in 0..20 {
        external.resolve(lookup_of(&number.to_string())).await;
    }
    assert_eq!(
        external.resolve(lookup_of("a")).await,
        ResolvedLimits::Configured
    );
    assert_eq!(
        external.resolve_cached(&lookup_of("a"), Instant::now()),
        Some(ResolvedLimits::Configured)
    );
    pass(5).await;
    assert_eq!(
        limits(&external.resolve(lookup_of("b")).await),
        Some((7, false))
    );
    assert_eq!(
        limits(&external.resolve(lookup_of("a")).await),
        Some((7, false))
    );
}

/// E5, E6
#[tokio::test(start_paused = true)]
async fn what_is_ignored_in_an_answer_is_counted() {
    let service = FakeService::new(|_, _| {
        let (mut limits, lifetime) = reply(7);
        limits.tenant_key = "no key".to_owned();
        limits.backend_url = "http://127.0.0.1".to_owned();
        at_once(Ok((limits, lifetime)))
    });
    let external = external(&service, None);
    let ResolvedLimits::External(limits) = external.resolve(lookup_of("a")).await else {
        panic!("nothing was told")
    };
    assert_eq!((&limits.tenant, &limits.backend), (&None, &None));
    let counts = external.counts();
    assert_eq!(
        (
            counts.invalid_tenants,
            counts.refused_backends,
            counts.errors
        ),
        (1, 1, 0)
    );
}

#[test]
fn a_runtime_that_has_ended_leaves_nobody_waiting() {
    let ended = tokio::runtime::Runtime::new().unwrap();
    let service = FakeService::new(|_, _| at_once(Ok(reply(7))));
    let external = External::with_service(
        &settings(50),
        LimitsService::Fake(service),
        None,
        ended.handle().clone(),
    );
    ended.shutdown_background();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    assert_eq!(
        runtime.block_on(external.resolve(lookup_of("a"))),
        ResolvedLimits::Configured
    );
    assert_eq!(external.shared.single_flight.len(), 0);
}

/// T-60
#[tokio::test(start_paused = true)]
async fn beyond_ten_thousand_flights_nobody_begins_another() {
    let service = FakeService::new(|_, _| later(600, Ok(reply(7))));
    let external = external(&service, Some(&FakeRedis::default()));
    for number in 0..20_000 {
        let key = number.to_string();
        // Who asks goes away at once.
        assert!(
            number >= SingleFlight::MAX
                || external.resolve(lookup_of(&key)).now_or_never().is_none(),
            "{number}"
        );
        assert!(
            number < SingleFlight::MAX
                || external.resolve(lookup_of(&key)).now_or_never()
                    == Some(ResolvedLimits::Configured)
        );
    }
    assert_eq!(external.shared.single_flight.len(), SingleFlight::MAX);
    pass(6).await;
    for _ in 0..100_000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(external.shared.single_flight.len(), 0);
}

/// Callers on threads of their own, each with a runtime of its own, as cores have them.
#[test]
fn callers_on_other_runtimes_share_one_call() {
    let background = tokio::runtime::Runtime::new().unwrap();
    let gate = Arc::new(tokio::sync::Notify::new());
    let service = FakeService::new({
        let gate = Arc::clone(&gate);
        move |_, _| {
            let gate = Arc::clone(&gate);
            Box::pin(async move {
                gate.notified().await;
                Ok(reply(7))
            })
        }
    });
    let redis_cache = Some(RedisCache::Fake(FakeRedis::default()));
    let external = External::with_service(
        &settings(50),
        LimitsService::Fake(service.clone()),
        redis_cache,
        background.handle().clone(),
    );
    let ready = Arc::new(std::sync::Barrier::new(5));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (external, ready) = (external.clone(), Arc::clone(&ready));
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .unwrap();
                runtime.block_on(async {
                    let mut asking = Box::pin(external.resolve(lookup_of("a")));
                    assert!(asking.as_mut().now_or_never().is_none());
                    ready.wait();
                    asking.await
                })
            })
        })
        .collect();
    ready.wait();
    gate.notify_one();
    assert!(
        threads
            .into_iter()
            .all(|thread| limits(&thread.join().unwrap()) == Some((7, false)))
    );
    assert_eq!(service.calls(), 1);
}
