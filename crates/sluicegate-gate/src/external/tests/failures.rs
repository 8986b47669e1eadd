//! A service that fails: expired replies, circuit breakers, ignored parts of replies.

use super::*;

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

#[tokio::test(start_paused = true)]
async fn after_five_errors_a_caller_is_not_asked_for_until_one_may_try() {
    let service = FakeService::new(|number, _| match number {
        0..6 => at_once(Err(CallError::Malformed("it is not valid JSON"))),
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

#[tokio::test(start_paused = true)]
async fn what_is_ignored_in_an_answer_is_counted() {
    let service = FakeService::new(|_, _| {
        let (mut limits, lifetime) = reply(7);
        limits.tenant_key = "no key".to_owned();
        limits.backend_url = "http://127.0.0.1".to_owned();
        limits.failure_policy = 9;
        limits.failure_code = 99;
        at_once(Ok((limits, lifetime)))
    });
    let external = external(&service, None);
    let ResolvedLimits::External(limits) = external.resolve(lookup_of("a")).await else {
        panic!("nothing was told")
    };
    assert_eq!((&limits.tenant, &limits.backend), (&None, &None));
    let counts = external.counts();
    assert_eq!(
        OptionalField::ALL.map(|field| counts.ignored(field)),
        [1, 1, 1, 1, 0, 0, 0, 0]
    );
    assert_eq!(counts.errors, 0);
}

/// Five ids that the service fails on take no answer from anybody else, however often they come.
#[tokio::test(start_paused = true)]
async fn bogus_tenants_do_not_put_healthy_ones_on_the_configured_quota() {
    let service = FakeService::new(|_, request| match request.key.starts_with("bogus") {
        true => at_once(Err(CallError::Status(500))),
        false => at_once(Ok(reply(7))),
    });
    let external = external(&service, Some(&FakeRedis::default()));
    assert_eq!(
        limits(&external.resolve(lookup_of("old")).await),
        Some((7, false))
    );
    for round in 0..600 {
        for bogus in 0..5 {
            let key = format!("bogus-{bogus}");
            external.resolve(lookup_of(&key)).await;
        }
        pass(1).await;
        let (old, new) = ("old".to_owned(), format!("new-{round}"));
        for healthy in [&old, &new] {
            assert_eq!(
                limits(&external.resolve(lookup_of(healthy)).await),
                Some((7, false)),
                "{healthy} after {round} s"
            );
        }
    }
}

/// Whoever invents an id for each request cuts off nobody whom the service has answered.
#[tokio::test(start_paused = true)]
async fn a_flood_of_invented_tenants_leaves_known_ones_their_plan() {
    let service = FakeService::new(|_, request| match request.key.starts_with("bogus") {
        true => at_once(Err(CallError::TimedOut)),
        false => at_once(Ok(reply(7))),
    });
    let external = external(&service, Some(&FakeRedis::default()));
    external.resolve(lookup_of("old")).await;
    for number in 0..3_000 {
        let key = format!("bogus-{number}");
        external.resolve(lookup_of(&key)).await;
        if number % 10 == 0 {
            pass(2).await;
            assert_eq!(
                limits(&external.resolve(lookup_of("old")).await),
                Some((7, false)),
                "after {number} invented ids"
            );
        }
    }
}
