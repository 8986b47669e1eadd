//! Responses of the JSON API; errors are in `problem.rs`.

use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderName};
use serde::Serialize;
use sluicegate::http::ResponseFields;
use sluicegate_core::{Decision, Limit, LimitOutcome, Nanos};
use sluicegate_net::ResponseLines;

use super::Problem;
use crate::decisions::CheckAnswer;

/// A response of the decision service.
pub(in crate::decisions) struct HttpReply {
    pub(in crate::decisions) status: StatusCode,
    pub(in crate::decisions) lines: ResponseLines,
    pub(in crate::decisions) body: Bytes,
    /// It is for somebody who was not admitted: the connection ends with it. Gateways keep theirs, and
    /// whoever cannot ask must not hold a place that belongs to them.
    pub(in crate::decisions) is_unadmitted: bool,
}

impl HttpReply {
    /// A response of status 200 without a body.
    pub(in crate::decisions) fn empty() -> Self {
        Self {
            status: StatusCode::OK,
            lines: ResponseLines::default(),
            body: Bytes::new(),
            is_unadmitted: false,
        }
    }

    /// A response of status 200 with a body.
    pub(in crate::decisions) fn with_type(content_type: &'static str, body: Bytes) -> Self {
        let mut reply = Self {
            body,
            ..Self::empty()
        };
        reply.add_line(&CONTENT_TYPE, content_type);
        reply
    }

    pub(in crate::decisions) fn add_line(&mut self, name: &HeaderName, value: &str) {
        self.lines
            .append(name, |text| text.extend_from_slice(value.as_bytes()));
    }
}

/// Lines about limits are added to a reply that has none, so nothing is ever replaced.
impl ResponseFields for HttpReply {
    fn value(&self, _: &HeaderName) -> Option<&[u8]> {
        None
    }

    fn remove(&mut self, _: &HeaderName) {}

    fn append(&mut self, name: &HeaderName, value: impl FnOnce(&mut Vec<u8>)) {
        self.lines.append(name, value);
    }
}

/// The answer to a check, with status 200 also for a denial: the check itself succeeded.
pub(super) fn of_answer(answer: &CheckAnswer) -> HttpReply {
    /// Room for the answer of two limits.
    const USUAL_BYTES: usize = 320;
    let mut text = Vec::with_capacity(USUAL_BYTES);
    push_answer(&mut text, answer);
    json(text)
}

/// The answers to a batch, in the order of its checks.
pub(super) fn of_batch(answers: &[Result<CheckAnswer, Problem>]) -> HttpReply {
    let mut text = b"{\"answers\":[".to_vec();
    for (place, answer) in answers.iter().enumerate() {
        if place > 0 {
            text.push(b',');
        }
        match answer {
            Ok(answer) => push_answer(&mut text, answer),
            Err(problem) => {
                text.extend_from_slice(b"{\"problem\":");
                text.extend_from_slice(&json_bytes(problem));
                text.push(b'}');
            }
        }
    }
    text.extend_from_slice(b"]}");
    json(text)
}

/// The answer to a reset.
pub(super) fn of_reset() -> HttpReply {
    json(b"{\"reset\":true}".to_vec())
}

fn json(text: Vec<u8>) -> HttpReply {
    HttpReply::with_type("application/json", text.into())
}

/// Writes an answer. Waits are rounded up, so that a caller who waits so long is not too early.
fn push_answer(text: &mut Vec<u8>, answer: &CheckAnswer) {
    push_truth(text, b"{\"allowed\":", answer.is_allowed);
    push_wait(text, b",\"retry_after_us\":", answer.retry_after);
    push_truth(text, b",\"degraded\":", answer.is_degraded);
    text.extend_from_slice(b",\"limits\":[");
    let outcomes = answer.decision.iter().flat_map(Decision::outcomes);
    for (place, (limit, charged)) in outcomes.enumerate() {
        if place > 0 {
            text.push(b',');
        }
        push_limit(text, limit, charged);
    }
    text.extend_from_slice(b"]}");
}

fn push_limit(text: &mut Vec<u8>, limit: &Limit, charged: &LimitOutcome) {
    let outcome = &charged.outcome;
    // Names are letters, digits, `.`, `_` and `-`: there is nothing to escape.
    text.extend_from_slice(b"{\"name\":\"");
    text.extend_from_slice(limit.name.as_bytes());
    push_truth(text, b"\",\"allowed\":", outcome.is_allowed());
    push_number(text, b",\"limit\":", charged.quota.limit());
    push_number(text, b",\"remaining\":", outcome.remaining());
    push_wait(text, b",\"retry_after_us\":", outcome.retry_after());
    let reset_after = outcome.reset_after().as_micros_ceil();
    push_number(text, b",\"reset_after_us\":", reset_after);
    text.push(b'}');
}

fn push_truth(text: &mut Vec<u8>, name: &[u8], is_true: bool) {
    text.extend_from_slice(name);
    text.extend_from_slice(if is_true { b"true" } else { b"false" });
}

fn push_number(text: &mut Vec<u8>, name: &[u8], number: u64) {
    text.extend_from_slice(name);
    text.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Writes a wait in microseconds; without one, `null`.
fn push_wait(text: &mut Vec<u8>, name: &[u8], wait: Option<Nanos>) {
    match wait {
        Some(wait) => push_number(text, name, wait.as_micros_ceil()),
        None => {
            text.extend_from_slice(name);
            text.extend_from_slice(b"null");
        }
    }
}

pub(super) fn json_bytes(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value)
        .expect("names, numbers and texts are always JSON")
        .into()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn answers_are_the_json_that_is_documented() {
        let answer = CheckAnswer {
            is_allowed: false,
            retry_after: None,
            is_degraded: true,
            decision: None,
        };
        let expected =
            json!({"allowed": false, "retry_after_us": null, "degraded": true, "limits": []});
        let read = |reply: HttpReply| serde_json::from_slice::<Value>(&reply.body).unwrap();
        assert_eq!(read(of_answer(&answer)), expected);
        let problem = Problem::new(StatusCode::BAD_REQUEST, "\"no\"");
        let waits = CheckAnswer {
            is_allowed: true,
            retry_after: Some(Nanos::new(1_001)),
            is_degraded: false,
            decision: None,
        };
        let batch = read(of_batch(&[Ok(answer), Err(problem), Ok(waits)]));
        assert_eq!(batch["answers"][0], expected);
        assert_eq!(batch["answers"][1]["problem"]["detail"], "\"no\"");
        assert_eq!(batch["answers"][2]["retry_after_us"], 2, "rounded up");
        assert_eq!(read(of_batch(&[])), json!({"answers": []}));
        assert_eq!(read(of_reset()), json!({"reset": true}));
    }
}
