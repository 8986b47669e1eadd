//! What an answer means. A reply of the wrong shape is an error that names what was expected.

use sluicegate_core::algorithm::sliding_window::Windows;
use sluicegate_core::algorithm::{self, State};
use sluicegate_core::{List, Nanos, Outcome, Quota, Timestamp};

use crate::redis::charge::StoreCharge;
use crate::redis::wire::Reply;

/// The reply to a call, read request by request.
pub(in crate::redis) struct DecideReply<'r> {
    /// The instant at which everything was decided.
    pub now: Timestamp,
    replies: std::slice::IterMut<'r, Reply>,
}

impl<'r> DecideReply<'r> {
    /// Begins with the reply to a call over so many charges.
    pub(in crate::redis) fn new(reply: &'r mut Reply, charge_count: usize) -> Result<Self, String> {
        let mut replies = array(reply, charge_count + 1)?.iter_mut();
        let now = instant(replies.next().map(std::mem::take))?;
        Ok(Self { now, replies })
    }

    /// The answers to the next request; the inner error is what is wrong with one of its keys.
    pub(in crate::redis) fn request(
        &mut self,
        request: &[StoreCharge],
    ) -> Result<Result<List<ChargeReply>, String>, String> {
        read_request(
            &mut self.replies.by_ref().map(std::mem::take),
            request,
            self.now,
        )
    }
}

/// The answer to one charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::redis) struct ChargeReply {
    pub allowed: bool,
    /// What the counter holds after it; `None` when it is full.
    pub state: Option<State>,
}

/// The answer to a refund.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::redis) struct RefundReply {
    pub now: Timestamp,
    /// What the counter holds after it; `None` when it is full.
    pub state: Option<State>,
}

impl RefundReply {
    /// The outcome that it means.
    pub(in crate::redis) fn outcome(&self, quota: Quota) -> Outcome {
        algorithm::decide(self.state, quota, 0, self.now).outcome
    }
}

/// Reads the reply to a refund.
pub(in crate::redis) fn read_refund(reply: &mut Reply) -> Result<RefundReply, String> {
    let mut replies = array(reply, 2)?.iter_mut().map(std::mem::take);
    let now = instant(replies.next())?;
    match replies.next() {
        Some(Reply::Bulk(bytes)) => match bytes.split_first() {
            Some((b'+', text)) => Ok(RefundReply {
                now,
                state: state(text)?,
            }),
            Some((b'!', reason)) => Err(String::from_utf8_lossy(reason).into_owned()),
            _ => Err(format!("expected a sign and a state, got {bytes:?}")),
        },
        other => Err(format!("expected a state, got {other:?}")),
    }
}

/// The outcome that an answer means: a look at what is left when allowed, else the charge decided against it.
pub(in crate::redis) fn outcome(
    quota: Quota,
    cost: u64,
    answer: &ChargeReply,
    now: Timestamp,
) -> Outcome {
    if answer.allowed {
        return algorithm::decide(answer.state, quota, 0, now).outcome;
    }
    match algorithm::decide(answer.state, quota, cost, now).outcome {
        // The store has the last word, whatever its reason.
        Outcome::Allowed { .. } => {
            let left = algorithm::decide(answer.state, quota, 0, now).outcome;
            let (remaining, reset_after) = (left.remaining(), left.reset_after());
            Outcome::Denied {
                remaining,
                retry_after: Nanos::ZERO,
                reset_after,
            }
        }
        denied => denied,
    }
}

/// The answers of one request; the inner error is that of a key.
type Request = Result<List<ChargeReply>, String>;

fn read_request(
    replies: &mut impl Iterator<Item = Reply>,
    request: &[StoreCharge],
    now: Timestamp,
) -> Result<Request, String> {
    let mut answers = Ok(List::Empty);
    for charge in request {
        match read_answer(replies.next(), charge, now)? {
            Ok(answer) => {
                if let Ok(answers) = &mut answers {
                    answers.push(answer);
                }
            }
            Err(reason) => answers = Err(reason),
        }
    }
    Ok(answers)
}

fn read_answer(
    reply: Option<Reply>,
    charge: &StoreCharge,
    now: Timestamp,
) -> Result<Result<ChargeReply, String>, String> {
    match (reply, charge.quota) {
        (Some(Reply::Integer(answer)), Quota::TokenBucket(_)) => {
            let allowed = answer >= 0;
            // Denied with a debt of d is -1 - d, which is !d.
            let debt = Nanos::new(if allowed { answer } else { !answer } as u64);
            let state = (debt > Nanos::ZERO).then(|| State::Instant(now.after(debt)));
            Ok(Ok(ChargeReply { allowed, state }))
        }
        (Some(Reply::Bulk(bytes)), quota) => match (bytes.split_first(), quota) {
            (Some((b'!', reason)), _) => Ok(Err(String::from_utf8_lossy(reason).into_owned())),
            (Some((sign @ (b'+' | b'-'), text)), Quota::Drip(_) | Quota::SlidingWindow(_)) => {
                Ok(Ok(ChargeReply {
                    allowed: *sign == b'+',
                    state: state(text)?,
                }))
            }
            _ => Err(format!("expected the answer to a charge, got {bytes:?}")),
        },
        (other, _) => Err(format!("expected the answer to a charge, got {other:?}")),
    }
}

fn array(reply: &mut Reply, length: usize) -> Result<&mut Vec<Reply>, String> {
    match reply {
        Reply::Array(replies) if replies.len() != length => {
            Err(format!("expected {length} replies, got {}", replies.len()))
        }
        Reply::Array(replies) => Ok(replies),
        Reply::Error(message) => Err(std::mem::take(message)),
        other => Err(format!("expected an array, got {other:?}")),
    }
}

fn instant(reply: Option<Reply>) -> Result<Timestamp, String> {
    match reply {
        Some(Reply::Bulk(digits)) => number(&digits).map(Timestamp::from_nanos),
        other => Err(format!("expected the time in digits, got {other:?}")),
    }
}

/// A state as it is stored: digits, or three numbers for two windows.
fn state(text: &[u8]) -> Result<Option<State>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let mut numbers = text.split(|byte| *byte == b':').map(number);
    let mut next = || numbers.next().transpose();
    match (next()?, next()?, next()?, next()?) {
        (Some(nanos), None, None, None) => Ok(Some(State::Instant(Timestamp::from_nanos(nanos)))),
        (Some(index), Some(previous), Some(current), None) => Ok(Some(State::Windows(Windows {
            index,
            previous,
            current,
        }))),
        _ => Err(format!("expected a state, got {text:?}")),
    }
}

/// Digits; what does not fit is as far ahead as anything can be.
fn number(digits: &[u8]) -> Result<u64, String> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(format!("expected digits, got {digits:?}"));
    }
    let text = std::str::from_utf8(digits).map_err(|_| "expected digits".to_owned())?;
    Ok(text.parse().unwrap_or(u64::MAX))
}
