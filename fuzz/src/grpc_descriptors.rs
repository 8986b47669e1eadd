//! Descriptors of Envoy's rate limit service: what each takes from which counter.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use prost::Message;
use sluicegate::Policy;
use sluicegate_server::fuzz_internals::{
    ChargedDescriptors, charge_descriptors, compare_with_prost,
};
use sluicegate_server::messages::envoy::service::ratelimit::v3::RateLimitRequest;

use crate::limits::config_of;

/// The input is a message. We read it as prost does, which is asked about everything else.
pub fn run(data: &[u8]) {
    compare_with_prost(data);
    let Ok(request) = RateLimitRequest::decode(data) else {
        return;
    };
    let Some(charged) = charge_descriptors(&POLICY, data) else {
        return;
    };
    let encoded = request.encode_to_vec();
    let charged_again = charge_descriptors(&POLICY, &encoded);
    assert_eq!(charged_again.as_ref(), Some(&charged));
    check(&request, &charged);
}

fn check(request: &RateLimitRequest, charged: &ChargedDescriptors) {
    assert!(request.descriptors.len() <= 64);
    assert_eq!(charged.rates.len(), charged.taken.len());
    check_sums(request, charged, &charged.taken, true);
    check_sums(request, charged, &charged.given, false);
}

/// Each counter is charged once, with the sum of what its descriptors ask for.
fn check_sums(
    request: &RateLimitRequest,
    charged: &ChargedDescriptors,
    charges: &[(String, u64)],
    are_taken: bool,
) {
    let mut sums = vec![0_u64; charges.len()];
    for (descriptor, is_taken, index) in &charged.shares {
        let descriptor = &request.descriptors[*descriptor];
        assert_eq!(*is_taken, !descriptor.is_negative_hits);
        if *is_taken != are_taken {
            continue;
        }
        let usual = request.hits_addend.max(1);
        let cost = descriptor.hits_addend.unwrap_or(usual.into());
        sums[*index] = sums[*index].saturating_add(cost);
    }
    let mut counters = BTreeSet::new();
    for ((counter, cost), sum) in charges.iter().zip(sums) {
        assert_eq!(*cost, sum, "{counter}");
        assert!(counters.insert(counter), "{counter} twice");
    }
}

const LIMITS: &str = r#"
admin: off
limits:
  - { name: per-ip, key: [client_ip], rate: 1/h, burst: 1 }
  - { name: per-user, key: ["descriptor:user"], rate: 3/h, burst: 3 }
  - { name: slow, key: ["descriptor:user"], rate: 1/h, burst: 1, match: { descriptor: { path: /slow } } }
  - { name: other-domain, key: [global], rate: 1/h, burst: 1, match: { domain: b, descriptor: { x: "*" } } }
  - { name: watched, key: ["descriptor:w"], rate: 1/h, burst: 1, mode: shadow }
  - { name: network, key: [client_ip], rate: 1/h, burst: 1, match: { descriptor: { remote_address: "*" } } }
"#;

static POLICY: LazyLock<Arc<Policy>> = LazyLock::new(|| config_of(LIMITS).policy);
