//! Descriptors of Envoy's rate limit service: what each takes from which counter.

use std::sync::{Arc, LazyLock};

use prost::Message;
use sluicegate::Policy;
use sluicegate_config::{Source, load};
use sluicegate_server::fuzz_internals::{ChargedDescriptors, charge_descriptors};
use sluicegate_server::messages::envoy::service::ratelimit::v3::RateLimitRequest;

/// The input is a message.
pub fn run(data: &[u8]) {
    let Ok(request) = RateLimitRequest::decode(data) else {
        return;
    };
    let Some(charged) = charge_descriptors(&POLICY, &request) else {
        return;
    };
    let again = RateLimitRequest::decode(&request.encode_to_vec()[..]);
    let again = again.expect("what was decoded can be encoded");
    assert_eq!(charge_descriptors(&POLICY, &again).as_ref(), Some(&charged));
    check(&request, &charged);
}

fn check(request: &RateLimitRequest, charged: &ChargedDescriptors) {
    assert!(request.descriptors.len() <= 64);
    for list in [&charged.taken, &charged.given] {
        let counters = list.iter().map(|(counter, _)| counter);
        let mut counters: Vec<&String> = counters.collect();
        counters.sort_unstable();
        assert!(
            counters.windows(2).all(|pair| pair[0] != pair[1]),
            "{counters:?}"
        );
    }
    // Each charge is the sum of what its descriptors ask for.
    let mut sums = [&charged.taken, &charged.given].map(|list| vec![0_u64; list.len()]);
    for (descriptor, is_taken, index) in &charged.shares {
        let descriptor = &request.descriptors[*descriptor];
        assert_eq!(*is_taken, !descriptor.is_negative_hits);
        let own = descriptor.hits_addend;
        let cost = own.unwrap_or(u64::from(request.hits_addend.max(1)));
        let sum = &mut sums[usize::from(!is_taken)][*index];
        *sum = sum.saturating_add(cost);
    }
    for (list, sums) in [&charged.taken, &charged.given].into_iter().zip(sums) {
        let costs: Vec<u64> = list.iter().map(|(_, cost)| *cost).collect();
        assert_eq!(costs, sums);
    }
    assert_eq!(charged.rates.len(), charged.taken.len());
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

static POLICY: LazyLock<Arc<Policy>> = LazyLock::new(|| {
    let source = Source {
        text: LIMITS.to_owned(),
        ..Source::embedded()
    };
    let config = load(&source, &|_| None).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    config.policy
});
