//! Limits from outside, with real services and a real Redis.

mod codecs;
mod described;
mod grpc;
mod hostile;
pub mod http;
mod redis;
pub mod service;

use std::sync::LazyLock;

use ::http::HeaderMap;
use sluicegate_config::{
    BackendUrlSettings, ExternalService, ExternalSettings, HeaderFilter, ServiceAddress,
};
use sluicegate_core::{Key, KeyPart, Limit, Nanos, Quota};
use sluicegate_gate::external::{
    External, HeaderSpelling, LimitsLookup, ResolvedLimits, SpelledHeaders,
};
use sluicegate_testkit::STEP_TIMEOUT;
use tokio::runtime::Handle;

fn at(port: u16) -> ServiceAddress {
    ServiceAddress {
        tls: false,
        host: "127.0.0.1".to_owned(),
        port,
        ca_file: None,
    }
}

fn over_http(port: u16) -> ExternalSettings {
    settings(ExternalService::Http {
        at: at(port),
        path: "/limits?v=1".to_owned(),
    })
}

fn settings(service: ExternalService) -> ExternalSettings {
    ExternalSettings {
        timeout: STEP_TIMEOUT.into(),
        cache_ttl: Nanos::MINUTE,
        max_concurrent_requests: 50,
        service,
        headers: HeaderFilter::default(),
        cache_redis: None,
        backend_url: BackendUrlSettings::default(),
    }
}

fn external(settings: &ExternalSettings) -> External {
    External::new(settings, None, Handle::current()).unwrap()
}

/// A question about a caller whose key is this header.
fn asks<'a>(key: &'a str, headers: &'a HeaderMap) -> LimitsLookup<'a> {
    static LIMIT: LazyLock<Limit> = LazyLock::new(|| {
        Limit::new("tenant", Quota::per_second(1)).key([KeyPart::header("x-tenant-id")])
    });
    let parts = Box::leak(Box::new([key]));
    LimitsLookup {
        counter: Key::of_parts(&LIMIT, parts).unwrap(),
        key,
        method: "POST",
        path: "/orders",
        headers: SpelledHeaders {
            lines: headers,
            spelling: HeaderSpelling::LowerCase,
        },
    }
}

async fn ask(external: &External, key: &str) -> ResolvedLimits {
    let headers = HeaderMap::new();
    external.resolve(asks(key, &headers)).await
}

/// How many at once, and whether that is an older answer; `None` for the static quota.
fn told(known: &ResolvedLimits) -> Option<(u64, bool)> {
    match known {
        ResolvedLimits::External(told) => {
            Some((told.quota.map_or(0, |quota| quota.limit()), told.is_stale))
        }
        ResolvedLimits::Configured => None,
    }
}
