//! Questions and answers, without a connection; `reading_tests.rs` has the reading of messages.

use super::messages::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use super::messages::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{
    Entry, RateLimitOverride,
};
use super::messages::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit;
use super::messages::envoy::service::ratelimit::v3::rate_limit_response::{Code, RateLimit};
use super::messages::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use prost::Message;
use sluicegate_gate::telemetry::metrics::DecisionProtocol;
use tonic::Status;

use super::answer::MESSAGE_HEAD;
use super::comparison::compare;
use super::question::Question;
use crate::decisions::test_state::state_of;
use crate::decisions::{DecisionCall, DecisionsState};

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

fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let entries = entries.iter().map(|(key, value)| Entry {
        key: (*key).to_owned(),
        value: (*value).to_owned(),
    });
    RateLimitDescriptor {
        entries: entries.collect(),
        ..RateLimitDescriptor::default()
    }
}

fn request(descriptors: impl IntoIterator<Item = RateLimitDescriptor>) -> RateLimitRequest {
    RateLimitRequest {
        domain: "a".to_owned(),
        descriptors: descriptors.into_iter().collect(),
        hits_addend: 0,
    }
}

async fn decide(
    state: &DecisionsState,
    request: &RateLimitRequest,
) -> Result<RateLimitResponse, Status> {
    let message = request.encode_to_vec();
    compare(&message);
    let question = Question::decode(&message).unwrap();
    let call = DecisionCall::untraced(DecisionProtocol::Grpc);
    let answer = super::decide::decide(state, &call, &question).await?;
    let (head, answer) = answer.split_at(MESSAGE_HEAD);
    assert_eq!(head[0], 0, "not compressed");
    assert_eq!(head[1..], (answer.len() as u32).to_be_bytes());
    let response = RateLimitResponse::decode(answer).unwrap();
    assert_eq!(response.encode_to_vec(), answer, "as prost writes it");
    Ok(response)
}

/// Overall, and each descriptor with what is left.
fn codes(response: &RateLimitResponse) -> (Code, Vec<(Code, u32)>) {
    let statuses = response
        .statuses
        .iter()
        .map(|status| (status.code(), status.limit_remaining));
    (response.overall_code(), statuses.collect())
}

fn header<'a>(response: &'a RateLimitResponse, name: &str) -> Option<&'a str> {
    response
        .response_headers_to_add
        .iter()
        .find(|line| line.key == name)
        .map(|line| line.value.as_str())
}

#[tokio::test]
async fn every_descriptor_is_answered_in_order_and_all_pass_or_none() {
    let (state, _told) = state_of(LIMITS);
    let ann = || descriptor(&[("user", "ann")]);
    let slow = || descriptor(&[("path", "/slow"), ("user", "ann")]);
    let unknown = || descriptor(&[("nobody", "knows")]);
    let told = decide(&state, &request([slow(), unknown(), ann()]))
        .await
        .unwrap();
    assert_eq!(
        codes(&told),
        (Code::Ok, vec![(Code::Ok, 0), (Code::Ok, 0), (Code::Ok, 2)])
    );
    let told = decide(&state, &request([ann(), slow(), unknown()]))
        .await
        .unwrap();
    let denied = vec![(Code::Ok, 2), (Code::OverLimit, 0), (Code::Ok, 0)];
    assert_eq!(
        codes(&told),
        (Code::OverLimit, denied),
        "nothing was taken of what would fit"
    );
    assert_eq!(header(&told, "retry-after"), Some("3600"));
    assert_eq!(header(&told, "x-ratelimit-remaining"), Some("0"));
    assert!(header(&told, "ratelimit").is_some() && header(&told, "ratelimit-policy").is_some());
    let told = decide(&state, &request([ann()])).await.unwrap();
    assert_eq!(codes(&told), (Code::Ok, vec![(Code::Ok, 1)]));
    assert_eq!(header(&told, "retry-after"), None);
    let status = &told.statuses[0];
    let limit = RateLimit {
        requests_per_unit: 3,
        unit: Unit::Hour.into(),
        name: "per-user".to_owned(),
    };
    assert_eq!(status.current_limit, Some(limit));
    let reset = status.duration_until_reset.unwrap();
    assert!((2_390..=2_400).contains(&reset.seconds), "{reset:?}");
}

#[tokio::test]
async fn costs_come_with_the_request_or_with_each_descriptor() {
    let (state, _told) = state_of(LIMITS);
    let ann = |cost: Option<u64>| RateLimitDescriptor {
        hits_addend: cost,
        ..descriptor(&[("user", "ann")])
    };
    let two = RateLimitRequest {
        hits_addend: 2,
        ..request([ann(None)])
    };
    assert_eq!(
        codes(&decide(&state, &two).await.unwrap()).1,
        [(Code::Ok, 1)]
    );
    let own = RateLimitRequest {
        hits_addend: 2,
        ..request([ann(Some(1))])
    };
    assert_eq!(
        codes(&decide(&state, &own).await.unwrap()).1,
        [(Code::Ok, 0)],
        "its own cost counts"
    );
    let look = RateLimitRequest {
        hits_addend: 2,
        ..request([ann(Some(0))])
    };
    assert_eq!(
        codes(&decide(&state, &look).await.unwrap()).1,
        [(Code::Ok, 0)],
        "nothing is always there"
    );
    let back = RateLimitDescriptor {
        is_negative_hits: true,
        ..ann(Some(2))
    };
    let told = decide(&state, &request([back])).await.unwrap();
    assert_eq!(codes(&told), (Code::Ok, vec![(Code::Ok, 2)]), "given back");
    let huge = decide(&state, &request([ann(Some(u64::MAX)), ann(Some(u64::MAX))]))
        .await
        .unwrap();
    assert_eq!(huge.overall_code(), Code::OverLimit);
}

#[tokio::test]
async fn a_refund_that_comes_with_a_denied_request_is_not_made() {
    let (state, _told) = state_of(LIMITS);
    let slow = || descriptor(&[("path", "/slow"), ("user", "ann")]);
    let ann = descriptor(&[("user", "ann")]);
    decide(&state, &request([slow(), ann.clone()]))
        .await
        .unwrap();
    let back = RateLimitDescriptor {
        is_negative_hits: true,
        ..ann.clone()
    };
    assert_eq!(
        decide(&state, &request([slow(), back]))
            .await
            .unwrap()
            .overall_code(),
        Code::OverLimit
    );
    assert_eq!(
        codes(&decide(&state, &request([ann])).await.unwrap()).1,
        [(Code::Ok, 1)]
    );
}

#[tokio::test]
async fn two_descriptors_on_one_counter_are_charged_together() {
    let (state, _told) = state_of(LIMITS);
    let ann = || descriptor(&[("user", "ann")]);
    let told = decide(&state, &request([ann(), ann()])).await.unwrap();
    assert_eq!(codes(&told), (Code::Ok, vec![(Code::Ok, 1), (Code::Ok, 1)]));
    assert_eq!(
        decide(&state, &request([ann(), ann()]))
            .await
            .unwrap()
            .overall_code(),
        Code::OverLimit
    );
    assert_eq!(
        codes(&decide(&state, &request([ann()])).await.unwrap()).1,
        [(Code::Ok, 0)]
    );
}

#[tokio::test]
async fn numbers_that_come_along_take_the_place_of_the_configured_ones_and_count_apart() {
    let (state, _told) = state_of(LIMITS);
    let limit = |requests, unit| {
        Some(RateLimitOverride {
            requests_per_unit: requests,
            unit,
        })
    };
    let ann = |limit| RateLimitDescriptor {
        limit,
        ..descriptor(&[("user", "ann")])
    };
    for left in [1, 0] {
        let told = decide(&state, &request([ann(limit(2, Unit::Day as i32))]))
            .await
            .unwrap();
        assert_eq!(codes(&told).1, [(Code::Ok, left)]);
        let current = told.statuses[0].current_limit.clone().unwrap();
        assert_eq!((current.requests_per_unit, current.unit()), (2, Unit::Day));
    }
    let told = decide(&state, &request([ann(limit(2, Unit::Day as i32))]))
        .await
        .unwrap();
    assert_eq!(told.overall_code(), Code::OverLimit);
    assert_eq!(
        codes(&decide(&state, &request([ann(None)])).await.unwrap()).1,
        [(Code::Ok, 2)],
        "configured ones are untouched"
    );
    let unsaid = decide(&state, &request([ann(limit(2, 0))])).await.unwrap();
    assert_eq!(
        codes(&unsaid).1,
        [(Code::Ok, 1)],
        "without a unit there are no numbers"
    );
}

#[tokio::test]
async fn numbers_that_come_along_hold_where_nothing_is_configured_and_watch_where_limits_watch() {
    let (state, _told) = state_of(LIMITS);
    let limit = |requests, unit| {
        Some(RateLimitOverride {
            requests_per_unit: requests,
            unit,
        })
    };
    let unknown = RateLimitDescriptor {
        limit: limit(1, 1),
        ..descriptor(&[("nobody", "knows")])
    };
    assert_eq!(
        decide(&state, &request([unknown.clone()]))
            .await
            .unwrap()
            .overall_code(),
        Code::Ok
    );
    assert_eq!(
        decide(&state, &request([unknown]))
            .await
            .unwrap()
            .overall_code(),
        Code::OverLimit
    );
    let none = RateLimitDescriptor {
        limit: limit(0, 1),
        ..descriptor(&[("nobody", "passes")])
    };
    assert_eq!(
        decide(&state, &request([none]))
            .await
            .unwrap()
            .overall_code(),
        Code::OverLimit
    );
    let watched = || RateLimitDescriptor {
        limit: limit(0, 1),
        ..descriptor(&[("w", "x")])
    };
    assert_eq!(
        decide(&state, &request([watched()]))
            .await
            .unwrap()
            .overall_code(),
        Code::Ok,
        "only watched"
    );
}

#[tokio::test]
async fn limits_that_only_watch_stop_nobody_and_domains_are_apart() {
    let (state, _told) = state_of(LIMITS);
    for _ in 0..3 {
        let told = decide(&state, &request([descriptor(&[("w", "x")])]))
            .await
            .unwrap();
        assert_eq!(codes(&told), (Code::Ok, vec![(Code::Ok, 0)]));
    }
    let x = || request([descriptor(&[("x", "1")])]);
    let of_b = || RateLimitRequest {
        domain: "b".to_owned(),
        ..x()
    };
    assert_eq!(
        decide(&state, &of_b()).await.unwrap().overall_code(),
        Code::Ok
    );
    assert_eq!(
        decide(&state, &of_b()).await.unwrap().overall_code(),
        Code::OverLimit
    );
    assert_eq!(decide(&state, &x()).await.unwrap().overall_code(), Code::Ok);
}

#[tokio::test]
async fn a_remote_address_is_an_address() {
    let (state, _told) = state_of(LIMITS);
    let from = |address: &str| request([descriptor(&[("remote_address", address)])]);
    assert_eq!(
        decide(&state, &from("2001:db8::1"))
            .await
            .unwrap()
            .overall_code(),
        Code::Ok
    );
    assert_eq!(
        decide(&state, &from("2001:db8::2"))
            .await
            .unwrap()
            .overall_code(),
        Code::OverLimit,
        "the same /64"
    );
    assert_eq!(
        decide(&state, &from("2001:db9::1"))
            .await
            .unwrap()
            .overall_code(),
        Code::Ok
    );
}

#[tokio::test]
async fn messages_out_of_bounds_are_refused() {
    let (state, _told) = state_of(LIMITS);
    let one = || descriptor(&[("user", "ann")]);
    let entries = vec![("user", "ann"); 33];
    for refused in [
        request(vec![one(); 65]),
        request([descriptor(&[])]),
        request([descriptor(&entries)]),
    ] {
        assert_eq!(
            decide(&state, &refused).await.unwrap_err().code(),
            tonic::Code::InvalidArgument
        );
    }
    let fast = RateLimitDescriptor {
        limit: Some(RateLimitOverride {
            requests_per_unit: u32::MAX,
            unit: 1,
        }),
        ..one()
    };
    assert_eq!(
        decide(&state, &request([fast])).await.unwrap_err().code(),
        tonic::Code::InvalidArgument
    );
    assert_eq!(
        decide(&state, &request([])).await.unwrap().overall_code(),
        Code::Ok,
        "nothing is asked"
    );
}

#[tokio::test]
async fn the_failure_policy_of_the_store_decides_while_it_is_away() {
    let away = |policy: &str| {
        format!(
            "{LIMITS}store: {{ kind: redis, on_failure: {policy}, redis: {{ endpoints: \"127.0.0.1:1\" }} }}\n"
        )
    };
    let ann = || {
        request([
            descriptor(&[("nobody", "knows")]),
            descriptor(&[("user", "ann")]),
        ])
    };
    let (closed, _told) = state_of(&away("closed"));
    assert_eq!(
        decide(&closed, &ann()).await.unwrap_err().code(),
        tonic::Code::Unavailable
    );
    let (open, _told) = state_of(&away("open"));
    let told = decide(&open, &ann()).await.unwrap();
    assert_eq!(codes(&told), (Code::Ok, vec![(Code::Ok, 0), (Code::Ok, 0)]));
    assert!(told.statuses[1].current_limit.is_none(), "nobody knows");
    let (local, _told) = state_of(&away("local"));
    assert_eq!(
        codes(&decide(&local, &ann()).await.unwrap()).1,
        [(Code::Ok, 0), (Code::Ok, 2)]
    );
}

#[tokio::test]
async fn lists_speak_first_where_a_descriptor_has_the_address() {
    let lists = "access: { allow: { cidrs: [198.51.100.0/28] }, deny: { cidrs: [203.0.113.0/24, 198.51.100.9/32] } }\n";
    let (state, _told) = state_of(&format!("{lists}{LIMITS}"));
    let from = |address: &str| descriptor(&[("remote_address", address)]);
    let ann = || descriptor(&[("user", "ann")]);
    for _ in 0..2 {
        let told = decide(&state, &request([ann(), from("203.0.113.5")]))
            .await
            .unwrap();
        assert_eq!(
            codes(&told),
            (Code::OverLimit, vec![(Code::Ok, 0), (Code::OverLimit, 0)])
        );
        let told = decide(&state, &request([ann(), from("198.51.100.7")]))
            .await
            .unwrap();
        assert_eq!(
            codes(&told),
            (Code::Ok, vec![(Code::Ok, 0), (Code::Ok, 0)]),
            "whoever may pass is not counted"
        );
    }
    let both = decide(
        &state,
        &request([from("198.51.100.7"), from("198.51.100.9")]),
    )
    .await
    .unwrap();
    assert_eq!(both.overall_code(), Code::OverLimit);
    assert_eq!(
        codes(&decide(&state, &request([ann()])).await.unwrap()).1,
        [(Code::Ok, 2)],
        "nothing was taken"
    );
}
