//! The response to a gateway: a code for each descriptor and for all, headers and metadata.

use std::collections::BTreeMap;

use http::HeaderMap;
use http::header::RETRY_AFTER;
use prost_types::value::Kind;
use prost_types::{Struct, Value};
use sluicegate::http::{ResponseHeaders, retry_after_secs};
use sluicegate::{Decision, LimitOutcome, Nanos};

use super::descriptors::{ChargeIndex, DescriptorCharges};
use super::messages::envoy::config::core::v3::HeaderValue;
use super::messages::envoy::service::ratelimit::v3::RateLimitResponse;
use super::messages::envoy::service::ratelimit::v3::rate_limit_response::{
    Code, DescriptorStatus, RateLimit,
};
use super::units;

/// The entries of a decision on what is taken and on what is given back, one per charge; empty
/// where nothing was decided.
pub(super) struct ChargeOutcomes<'a> {
    take: &'a [Option<LimitOutcome>],
    give: &'a [Option<LimitOutcome>],
}

impl<'a> ChargeOutcomes<'a> {
    pub(super) fn of(
        charges: &DescriptorCharges<'_>,
        taken: Option<&'a Decision>,
        given: Option<&'a Decision>,
    ) -> Self {
        let (take, give) = (
            taken.map_or(&[][..], Decision::entries),
            given.map_or(&[][..], Decision::entries),
        );
        debug_assert!(take.is_empty() || take.len() == charges.take.len());
        debug_assert!(give.is_empty() || give.len() == charges.give.len());
        Self { take, give }
    }

    fn at(&self, index: ChargeIndex) -> Option<&'a LimitOutcome> {
        match index {
            ChargeIndex::Take(index) => self.take.get(index)?.as_ref(),
            ChargeIndex::Give(index) => self.give.get(index)?.as_ref(),
        }
    }

    /// True when an enforced limit denied the charge. A refund is never denied.
    fn is_denied_at(&self, charges: &DescriptorCharges<'_>, index: ChargeIndex) -> bool {
        let ChargeIndex::Take(at) = index else {
            return false;
        };
        charges.take[at].enforced
            && self
                .at(index)
                .is_some_and(|charged| !charged.outcome.is_allowed())
    }
}

/// The response to a request with this number of descriptors.
pub(super) fn answer(
    descriptors: usize,
    charges: &DescriptorCharges<'_>,
    outcomes: &ChargeOutcomes<'_>,
    taken: Option<&Decision>,
    headers: &ResponseHeaders,
) -> RateLimitResponse {
    let is_denied = taken.is_some_and(|decision| !decision.is_allowed());
    RateLimitResponse {
        overall_code: code(is_denied).into(),
        statuses: (0..descriptors)
            .map(|descriptor| status(descriptor, charges, outcomes))
            .collect(),
        response_headers_to_add: taken
            .map_or_else(Vec::new, |decision| lines(decision, is_denied, headers)),
        dynamic_metadata: taken.and_then(|decision| metadata(decision, is_denied)),
    }
}

/// The response where no limit was asked: each descriptor is denied or not.
pub(super) fn without_limits(are_denied: impl Iterator<Item = bool>) -> RateLimitResponse {
    let status = |is_denied| DescriptorStatus {
        code: code(is_denied).into(),
        ..DescriptorStatus::default()
    };
    let statuses: Vec<_> = are_denied.map(status).collect();
    let is_denied = statuses
        .iter()
        .any(|status| status.code() == Code::OverLimit);
    RateLimitResponse {
        overall_code: code(is_denied).into(),
        statuses,
        ..RateLimitResponse::default()
    }
}

/// Metadata for the gateway's log about a request that was denied, or decided without the store.
/// Most are neither and have none.
fn metadata(decision: &Decision, is_denied: bool) -> Option<Struct> {
    if !is_denied && !decision.is_degraded() {
        return None;
    }
    let mut fields = BTreeMap::new();
    let mut put =
        |name: &str, kind: Kind| fields.insert(name.to_owned(), Value { kind: Some(kind) });
    if let Some((limit, _)) = decision.tightest().filter(|_| is_denied) {
        put("limited_by", Kind::StringValue(limit.name.clone()));
        put(
            "retry_after",
            Kind::NumberValue(retry_after_secs(decision) as f64),
        );
    }
    put("degraded", Kind::BoolValue(decision.is_degraded()));
    Some(Struct { fields })
}

/// The status of one descriptor, taken from its tightest limit: a denied one first, then the one
/// with the longest wait, then the one with the least left.
fn status(
    descriptor: usize,
    charges: &DescriptorCharges<'_>,
    outcomes: &ChargeOutcomes<'_>,
) -> DescriptorStatus {
    let own = charges
        .shares
        .iter()
        .filter(|(owner, _)| *owner == descriptor)
        .map(|(_, place)| *place);
    let decided = own.filter_map(|place| Some((place, outcomes.at(place)?)));
    let tightest = decided.min_by_key(|(place, charged)| {
        let wait = charged.outcome.retry_after().unwrap_or(Nanos::MAX);
        (
            !outcomes.is_denied_at(charges, *place),
            std::cmp::Reverse(wait),
            charged.outcome.remaining(),
        )
    });
    let Some((place, charged)) = tightest else {
        return DescriptorStatus {
            code: Code::Ok.into(),
            ..DescriptorStatus::default()
        };
    };
    let charge = match place {
        ChargeIndex::Take(at) => &charges.take[at],
        ChargeIndex::Give(at) => &charges.give[at],
    };
    let (requests_per_unit, unit) = units::rate_of(&charged.quota);
    let limit = RateLimit {
        requests_per_unit,
        unit: unit.into(),
        name: charge.key.limit().name.clone(),
    };
    DescriptorStatus {
        code: code(outcomes.is_denied_at(charges, place)).into(),
        current_limit: Some(limit),
        limit_remaining: u32::try_from(charged.outcome.remaining()).unwrap_or(u32::MAX),
        duration_until_reset: Some(duration(charged.outcome.reset_after())),
    }
}

fn code(is_denied: bool) -> Code {
    if is_denied { Code::OverLimit } else { Code::Ok }
}

fn duration(span: Nanos) -> prost_types::Duration {
    const SECOND: u64 = Nanos::SECOND.get();
    // Less than a second of nanoseconds, and no more seconds than 64 bits of those are.
    prost_types::Duration {
        seconds: (span.get() / SECOND) as i64,
        nanos: (span.get() % SECOND) as i32,
    }
}

/// The same lines that the proxy would write.
fn lines(decision: &Decision, is_denied: bool, headers: &ResponseHeaders) -> Vec<HeaderValue> {
    let mut map = HeaderMap::new();
    headers.write(decision, &mut map);
    if is_denied {
        map.insert(RETRY_AFTER, retry_after_secs(decision).into());
    }
    let line = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        let value = value.to_str().unwrap_or_default().to_owned();
        HeaderValue {
            key: name.as_str().to_owned(),
            value,
        }
    };
    map.iter().map(line).collect()
}
