//! The limits service in sentences: how it is asked, and how long its answers are kept.

use super::joined;
use crate::redact::shown_url;
use crate::typed::{Config, ExternalService, ExternalSettings, GrpcCodec, StoreKind};

/// The service, and where its answers are kept: in a Redis of their own, beside the counters, or
/// nowhere.
pub(super) fn in_words(external: &ExternalSettings, config: &Config) -> Vec<String> {
    let at = external.service.at();
    let host = if at.host.contains(':') {
        format!("[{}]", at.host)
    } else {
        at.host.clone()
    };
    let tls = if at.tls { " with TLS" } else { "" };
    let how = match &external.service {
        ExternalService::Http { path, .. } => shown_url(&format!("{}{path}", at.url())),
        ExternalService::Grpc { codec, .. } => {
            let codec = match codec {
                GrpcCodec::Auto => "",
                GrpcCodec::Protobuf => " in protobuf",
                GrpcCodec::Json => " in JSON",
            };
            format!("{host}:{} by gRPC{codec}{tls}", at.port)
        }
    };
    let mut words = vec![format!(
        "the limits service is {how}; a request waits for it at most {}, {} calls at a time",
        external.timeout, external.max_concurrent_requests
    )];
    words.push(match (&external.cache_redis, &config.store.kind) {
        (Some(redis), _) => {
            format!(
                "its answers are kept in Redis at {}, {}",
                joined(&redis.endpoints, "and"),
                span(external)
            )
        }
        (None, StoreKind::Redis(_)) => format!(
            "its answers are kept beside the counters, {}",
            span(external)
        ),
        (None, StoreKind::Local { .. }) => {
            "its answers are not kept: every request asks".to_owned()
        }
    });
    words
}

/// The lifetime of answers.
fn span(external: &ExternalSettings) -> String {
    format!("for {} unless they say", external.cache_ttl)
}
