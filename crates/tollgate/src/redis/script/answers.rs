//! What an answer means. A reply of the wrong shape is an error that names what was expected.

use tollgate_core::algorithm::sliding_window::Windows;
use tollgate_core::algorithm::{self, State};
use tollgate_core::{List, Nanos, Outcome, Quota, Timestamp};

use crate::redis::Item;
use crate::redis::wire::Reply;

/// The answers to one call.
#[derive(Debug)]
pub(in crate::redis) struct Answers {
    /// The instant at which everything was decided.
    pub now: Timestamp,
    /// For each request its answers, or what is wrong with one of its keys.
    pub requests: Vec<Result<List<Answer>, String>>,
}

/// The answer to one charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::redis) struct Answer {
    pub allowed: bool,
    /// What the counter holds after it; `None` when it is full.
    pub state: Option<State>,
}

/// The answer to a refund.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::redis) struct Refunded {
    pub now: Timestamp,
    /// What the counter holds after it; `None` when it is full.
    pub state: Option<State>,
}

impl Refunded {
    /// The outcome that it means.
    pub(in crate::redis) fn outcome(&self, quota: Quota) -> Outcome {
        algorithm::decide(self.state, quota, 0, self.now).outcome
    }
}

/// Reads the reply to a call over these requests.
pub(in crate::redis) fn read_decide(reply: Reply, requests: &[&[Item]]) -> Result<Answers, String> {
    let count: usize = requests.iter().map(|request| request.len()).sum();
    let replies = array(reply, count + 1)?;
    let mut replies = replies.into_iter();
    let now = instant(replies.next())?;
    let requests = requests.iter().map(|request| read_request(&mut replies, request, now)).collect::<Result<_, _>>()?;
    Ok(Answers { now, requests })
}

/// Reads the reply to a refund.
pub(in crate::redis) fn read_refund(reply: Reply) -> Result<Refunded, String> {
    let mut replies = array(reply, 2)?.into_iter();
    let now = instant(replies.next())?;
    match replies.next() {
        Some(Reply::Bulk(bytes)) => match bytes.split_first() {
            Some((b'+', text)) => Ok(Refunded { now, state: state(text)? }),
            Some((b'!', reason)) => Err(String::from_utf8_lossy(reason).into_owned()),
            _ => Err(format!("expected a sign and a state, got {bytes:?}")),
        },
        other => Err(format!("expected a state, got {other:?}")),
    }
}

/// The outcome that an answer means: a look at what is left when allowed, else the charge decided against it.
pub(in crate::redis) fn outcome(quota: Quota, cost: u64, answer: &Answer, now: Timestamp) -> Outcome {
    if answer.allowed {
        return algorithm::decide(answer.state, quota, 0, now).outcome;
    }
    match algorithm::decide(answer.state, quota, cost, now).outcome {
        // The store has the last word, whatever its reason.
        Outcome::Allowed { .. } => {
            let left = algorithm::decide(answer.state, quota, 0, now).outcome;
            let (remaining, reset_after) = (left.remaining(), left.reset_after());
            Outcome::Denied { remaining, retry_after: Nanos::ZERO, reset_after }
        }
        denied => denied,
    }
}

/// The answers of one request; the inner error is that of a key.
type Request = Result<List<Answer>, String>;

fn read_request(
    replies: &mut impl Iterator<Item = Reply>,
    request: &[Item],
    now: Timestamp,
) -> Result<Request, String> {
    let mut answers = Ok(List::Empty);
    for item in request {
        match read_answer(replies.next(), item, now)? {
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

fn read_answer(reply: Option<Reply>, item: &Item, now: Timestamp) -> Result<Result<Answer, String>, String> {
    match (reply, item.quota) {
        (Some(Reply::Integer(answer)), Quota::TokenBucket(_)) => {
            let allowed = answer >= 0;
            // Denied with a debt of d is -1 - d, which is !d.
            let debt = Nanos::new(if allowed { answer } else { !answer } as u64);
            let state = (debt > Nanos::ZERO).then(|| State::Instant(now.after(debt)));
            Ok(Ok(Answer { allowed, state }))
        }
        (Some(Reply::Bulk(bytes)), quota) => match (bytes.split_first(), quota) {
            (Some((b'!', reason)), _) => Ok(Err(String::from_utf8_lossy(reason).into_owned())),
            (Some((sign @ (b'+' | b'-'), text)), Quota::Drip(_) | Quota::SlidingWindow(_)) => {
                Ok(Ok(Answer { allowed: *sign == b'+', state: state(text)? }))
            }
            _ => Err(format!("expected the answer to a charge, got {bytes:?}")),
        },
        (other, _) => Err(format!("expected the answer to a charge, got {other:?}")),
    }
}

fn array(reply: Reply, length: usize) -> Result<Vec<Reply>, String> {
    match reply {
        Reply::Array(replies) if replies.len() == length => Ok(replies),
        Reply::Array(replies) => Err(format!("expected {length} replies, got {}", replies.len())),
        Reply::Error(message) => Err(message),
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
        (Some(index), Some(previous), Some(current), None) => {
            Ok(Some(State::Windows(Windows { index, previous, current })))
        }
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
