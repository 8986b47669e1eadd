//! Replies that are cached here and in Redis, renewed, and not cached.

use super::*;

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
