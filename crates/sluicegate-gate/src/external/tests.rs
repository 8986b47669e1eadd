//! Whole lookups, with a service and a Redis in memory and a paused clock.

mod caching;
mod concurrency;
mod failures;

use std::sync::LazyLock;

use ::http::HeaderMap;
use sluicegate_config::{BackendUrlSettings, ExternalService, ServiceAddress};
use sluicegate_core::{KeyPart, Limit, Quota};

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
    static NO_HEADERS: LazyLock<HeaderMap> = LazyLock::new(HeaderMap::new);
    static LIMIT: LazyLock<Limit> = LazyLock::new(|| {
        Limit::new("tenant", Quota::per_second(1)).key([KeyPart::header("x-tenant-id")])
    });
    LimitsLookup {
        counter: Key::of_parts(&LIMIT, Box::leak(Box::new([key]))).unwrap(),
        key,
        method: "GET",
        path: "/",
        headers: SpelledHeaders {
            lines: &NO_HEADERS,
            spelling: HeaderSpelling::LowerCase,
        },
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
        // bounded wait: the clock of these tests is paused, and moves on while everybody waits
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        result
    })
}

async fn pass(seconds: u64) {
    tokio::time::advance(Duration::from_secs(seconds)).await;
    // Lets the tasks run that were started in the background.
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

/// The quota, 0 for unlimited, and whether the reply is stale; `None` for the configured quota.
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
