//! Many requests at once: one lookup per caller, bounded calls, lookups that are lost.

use futures_util::FutureExt;

use super::*;

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

#[tokio::test(start_paused = true)]
async fn beyond_ten_thousand_flights_nobody_begins_another() {
    let service = FakeService::new(|_, _| later(600, Ok(reply(7))));
    let external = external(&service, Some(&FakeRedis::default()));
    for number in 0..20_000 {
        let key = number.to_string();
        // The request is cancelled at once.
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
