//! Replies of the limits service, in JSON, in protocol buffers and as they lie in Redis.

use std::sync::LazyLock;

use sluicegate_config::BackendUrlSettings;
use sluicegate_core::Nanos;
use sluicegate_gate::external::{BackendPolicy, ExternalLimits};
use sluicegate_gate::fuzz_internals::{ReplyFormat, check_reply, stored_and_read};

use crate::input::InputBytes;

/// The first byte chooses the format of the rest.
pub fn run(data: &[u8]) {
    let mut input = InputBytes::new(data);
    let format = *input.one_of(&FORMATS);
    let bytes = input.rest();
    let limits = check_reply(format, bytes, &BACKENDS);
    let is_plain_json = format == ReplyFormat::PlainJson;
    if is_plain_json && limits.is_some() {
        let over_grpc = check_reply(ReplyFormat::GrpcJson, bytes, &BACKENDS);
        assert_eq!(over_grpc, limits, "the same JSON over gRPC");
    }
    let Some(limits) = limits else { return };
    check(&limits);
    let stored = stored_and_read(format, bytes, &BACKENDS);
    assert_eq!(stored.as_ref(), Some(&limits), "after a way through Redis");
}

const FORMATS: [ReplyFormat; 4] = [
    ReplyFormat::PlainJson,
    ReplyFormat::GrpcJson,
    ReplyFormat::Protobuf,
    ReplyFormat::Redis,
];

static BACKENDS: LazyLock<BackendPolicy> =
    LazyLock::new(|| BackendPolicy::new(&BackendUrlSettings::default()));

fn check(limits: &ExternalLimits) {
    if let Some(quota) = limits.quota {
        assert!(quota.limit() >= 1);
        assert!(quota.window() > Nanos::ZERO);
    }
    if let Some(tenant) = &limits.tenant {
        assert!((1..=256).contains(&tenant.len()));
        assert!(tenant.chars().all(is_plain), "{tenant:?}");
    }
    if let Some(timeout) = limits.request_timeout {
        assert!((Nanos::MILLISECOND..=Nanos::HOUR).contains(&timeout));
    }
    if let Some(backend) = &limits.backend {
        let host = backend.host.as_str();
        assert!(!host.is_empty());
        assert!(host.chars().all(is_plain), "{host:?}");
        assert!(backend.port > 0);
        // An address in the URL is one that may be dialled.
        if let Ok(address) = host.parse() {
            assert!(BACKENDS.may_dial(address), "{host}");
        }
    }
    assert!(!limits.is_stale);
}

fn is_plain(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "._:-".contains(letter)
}
