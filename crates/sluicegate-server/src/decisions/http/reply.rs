//! The JSON of answers; errors are in `problem.rs`.

use bytes::Bytes;
use http::Response;
use http::header::{CONTENT_TYPE, HeaderValue};
use http_body_util::Full;
use serde::Serialize;
use sluicegate_core::{Decision, Nanos};

use super::{HttpReply, Problem};
use crate::decisions::CheckAnswer;

/// The answer to a check. Waits are rounded up, so that a caller who waits so long is not too
/// early.
#[derive(Serialize)]
pub(super) struct AnswerJson<'a> {
    allowed: bool,
    retry_after_us: Option<u64>,
    degraded: bool,
    limits: Vec<LimitJson<'a>>,
}

#[derive(Serialize)]
struct LimitJson<'a> {
    name: &'a str,
    allowed: bool,
    limit: u64,
    remaining: u64,
    retry_after_us: Option<u64>,
    reset_after_us: u64,
}

impl<'a> AnswerJson<'a> {
    pub(super) fn new(answer: &'a CheckAnswer) -> Self {
        Self {
            allowed: answer.is_allowed,
            retry_after_us: answer.retry_after.map(Nanos::as_micros_ceil),
            degraded: answer.is_degraded,
            limits: answer
                .decision
                .iter()
                .flat_map(Decision::outcomes)
                .map(LimitJson::new)
                .collect(),
        }
    }
}

impl<'a> LimitJson<'a> {
    fn new(
        (limit, charged): (
            &'a sluicegate_core::Limit,
            &'a sluicegate_core::LimitOutcome,
        ),
    ) -> Self {
        Self {
            name: &limit.name,
            allowed: charged.outcome.is_allowed(),
            limit: charged.quota.limit(),
            remaining: charged.outcome.remaining(),
            retry_after_us: charged.outcome.retry_after().map(Nanos::as_micros_ceil),
            reset_after_us: charged.outcome.reset_after().as_micros_ceil(),
        }
    }
}

/// The answers to a batch, in the order of its checks.
#[derive(Serialize)]
pub(super) struct BatchAnswerJson<'a> {
    pub(super) answers: Vec<BatchEntryJson<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum BatchEntryJson<'a> {
    Answer(AnswerJson<'a>),
    Problem { problem: &'a Problem },
}

/// The answer to a reset.
#[derive(Serialize)]
pub(super) struct ResetAnswerJson {
    pub(super) reset: bool,
}

/// Makes a response of status 200, also for a denial: the check itself succeeded.
pub(super) fn json(value: &impl Serialize) -> HttpReply {
    with_type("application/json", json_bytes(value))
}

pub(super) fn with_type(content_type: &'static str, body: Bytes) -> HttpReply {
    let mut reply = Response::new(Full::new(body));
    reply
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    reply
}

pub(super) fn json_bytes(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value)
        .expect("names, numbers and texts are always JSON")
        .into()
}
