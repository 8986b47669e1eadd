//! A caller that waits as long as a denial says is let pass, if nobody else spends.

use std::time::{Duration, Instant};

use sluicegate::{
    Clock, KeyPart, Limit, Limiter, ManualClock, MonotonicClock, Nanos, Policy, Quota, RedisClock,
    RedisOptions, RedisStore, Timestamp,
};
use sluicegate_testkit::RedisServer;
use tokio::task::JoinSet;

use crate::random::SeededRandom;
use crate::{Length, Report};

/// By a clock that stands still: exactly at the wait it passes, and a nanosecond earlier it does not.
pub async fn retry_after_by_given_clock(length: Length) -> Report {
    let mut report = Report::new("retry after, by a given clock");
    let server = RedisServer::start();
    let clock = ManualClock::new(Timestamp::from_millis(1_800_000_000_000));
    let limiter = limiter(&server, RedisClock::Given, clock.clone());
    let (mut cases, mut early, mut late) = (0_u64, 0_u64, 0_u64);
    let mut random = SeededRandom(52);
    for case in 0..length.pick(1_000, 20_000) {
        let (name, quota) = quotas()[case % quotas().len()];
        let key = format!("key-{case}");
        let cost = 1 + random.below(quota.limit());
        while limiter
            .check_named(name, &[&key], cost)
            .await
            .is_forwarded()
        {
            clock.advance(Nanos::new(random.below(1_000_000)));
        }
        // The first denial came through Redis; this one, a little later, from memory.
        clock.advance(Nanos::new(random.below(300_000)));
        let Some(wait) = wait_of(&limiter, name, &key, cost).await else {
            continue;
        };
        cases += 1;
        clock.advance(Nanos::new(wait.get().saturating_sub(1)));
        late += u64::from(
            limiter
                .check_named(name, &[&key], cost)
                .await
                .is_forwarded(),
        );
        clock.advance(Nanos::new(1));
        early += u64::from(
            !limiter
                .check_named(name, &[&key], cost)
                .await
                .is_forwarded(),
        );
    }
    let denials = limiter.store().health().local_denials;
    report.promise(
        denials >= cases,
        format!("{denials} denials from memory in {cases} cases"),
    );
    report.promise(
        early == 0,
        format!("nobody was told to come back too early: {early} of {cases}"),
    );
    report.promise(
        late == 0,
        format!("and nobody a nanosecond too late: {late} of {cases}"),
    );
    report
}

/// In real time, with calls that Redis answers late: the wait counts from when the answer came.
pub async fn retry_after_in_real_time(length: Length) -> Report {
    let mut report = Report::new("retry after, in real time");
    let server = RedisServer::start();
    let limiter = limiter(&server, RedisClock::Server, MonotonicClock::new());
    let end = Instant::now() + Duration::from_secs(length.pick(4, 30));
    let mut callers = JoinSet::new();
    for caller in 0..8 {
        let limiter = limiter.clone();
        callers.spawn(async move { come_back(&limiter, caller, end).await });
    }
    while Instant::now() < end {
        // Questions asked now are decided later than they were asked.
        server.stop();
        tokio::time::sleep(Duration::from_millis(15)).await; // bounded wait: how much later
        server.resume();
        tokio::time::sleep(Duration::from_millis(15)).await; // bounded wait: until the end of the run
    }
    let (mut waits, mut early) = (0, 0);
    while let Some(seen) = callers.join_next().await {
        let seen = seen.expect("a caller does not panic");
        (waits, early) = (waits + seen.0, early + seen.1);
    }
    let denials = limiter.store().health().local_denials;
    report.fact(format!("{denials} denials from memory"));
    report.promise(
        denials > 0 && waits >= 100,
        format!("{waits} waits, through Redis and from memory"),
    );
    report.promise(
        early == 0,
        format!("nobody was told to come back too early: {early} of {waits}"),
    );
    report
}

/// Spends until denied, waits as told, and asks again. Returns how many waits there were, and how many were too short.
async fn come_back(limiter: &Limiter<RedisStore>, caller: usize, end: Instant) -> (u64, u64) {
    let mut random = SeededRandom(caller as u64);
    let (mut waits, mut early) = (0, 0);
    while Instant::now() < end {
        let (name, quota) = quotas()[random.below(quotas().len() as u64) as usize];
        let (key, cost) = (
            format!("caller-{caller}-{}", random.below(1_000)),
            1 + random.below(quota.limit()),
        );
        while limiter
            .check_named(name, &[&key], cost)
            .await
            .is_forwarded()
        {}
        if random.below(2) == 0 {
            tokio::time::sleep(Duration::from_millis(random.below(3))).await; // bounded wait: denied again, later
        }
        let Some(wait) = wait_of(limiter, name, &key, cost).await else {
            continue;
        };
        let until = Instant::now() + Duration::from_nanos(wait.get());
        // A sleep ends up to two milliseconds late, which would hide a wait that is too short.
        tokio::time::sleep_until((until - Duration::from_millis(2)).into()).await; // bounded wait: as told
        while Instant::now() < until {
            tokio::task::yield_now().await;
        }
        waits += 1;
        early += u64::from(
            !limiter
                .check_named(name, &[&key], cost)
                .await
                .is_forwarded(),
        );
    }
    (waits, early)
}

/// The wait that a denial tells; `None` when it was no denial.
async fn wait_of<C: Clock>(
    limiter: &Limiter<RedisStore, C>,
    name: &str,
    key: &str,
    cost: u64,
) -> Option<Nanos> {
    let verdict = limiter.check_named(name, &[key], cost).await;
    verdict
        .decision()
        .filter(|decision| !decision.is_allowed())?
        .retry_after()
}

fn limiter<C: Clock>(server: &RedisServer, whose: RedisClock, clock: C) -> Limiter<RedisStore, C> {
    let mut options =
        RedisOptions::from_url(&server.url()).expect("the kit writes URLs that are understood");
    options.clock = whose;
    options.deadline = Nanos::from_secs(2);
    let limits = quotas().map(|(name, quota)| Limit::new(name, quota).key([KeyPart::Principal]));
    let policy = Policy::new(limits).expect("the names differ");
    Limiter::new(
        policy,
        RedisStore::new(options).expect("the options name no file"),
        clock,
    )
}

fn quotas() -> [(&'static str, Quota); 4] {
    let leaky = Quota::leaky_bucket(4, Nanos::from_millis(20), 2).expect("a quota");
    [
        ("fast", Quota::per_second(100).burst(3).into()),
        ("uneven", Quota::per_second(70).burst(5).into()),
        ("leaky", leaky),
        ("slow", Quota::per_second(30).burst(2).into()),
    ]
}
