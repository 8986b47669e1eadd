//! Reads the replies of the scripts and converts them to outcomes.
//!
//! A reply comes from outside: one of the wrong shape is an error that names what was expected, and
//! never a panic. Outcomes are computed from the returned state by the same pure code that the
//! local store uses, so both stores tell the same numbers.

use sluicegate_core::algorithm::sliding_window::Windows;
use sluicegate_core::algorithm::{self, State};
use sluicegate_core::{List, Nanos, Outcome, Pace, Quota, Timestamp};

use crate::redis::charge::StoreCharge;
use crate::redis::wire::Reply;

/// The reply to a decide call, read request by request. It takes the elements out of the reply.
pub(in crate::redis) struct DecideReply<'r> {
    /// The instant at which all its charges were decided.
    pub now: Timestamp,
    replies: std::slice::IterMut<'r, Reply>,
}

impl<'r> DecideReply<'r> {
    /// Begins to read the reply to a call with this many charges.
    pub(in crate::redis) fn new(reply: &'r mut Reply, charge_count: usize) -> Result<Self, String> {
        let mut replies = array(reply, charge_count + 1)?.iter_mut();
        let now = instant(replies.next().map(std::mem::take))?;
        Ok(Self { now, replies })
    }

    /// Reads the results of the next request. The inner error is about one of its keys and concerns
    /// this request only; the outer error is about the reply as a whole.
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

/// The result of one charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::redis) struct ChargeReply {
    pub allowed: bool,
    /// The state of the counter after it; `None` when it is full.
    pub state: Option<State>,
    /// The pace of the state when that is not the charge's: more is owed than its quota has.
    pub excess_at: Option<Pace>,
    /// True when Redis holds this state. False after a look at a counter of another pace, which is
    /// told as it would be at the charge's.
    pub is_stored: bool,
}

/// The result of a refund.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::redis) struct RefundReply {
    /// The instant of the refund.
    pub now: Timestamp,
    /// The state of the counter after it; `None` when it is full.
    pub state: Option<State>,
    /// The pace of the state when nothing was given back, as in [`ChargeReply`].
    pub excess_at: Option<Pace>,
}

impl RefundReply {
    /// The outcome to tell: the counter as it is after the refund.
    pub(in crate::redis) fn outcome(&self, quota: Quota) -> Outcome {
        let RefundReply {
            now,
            state,
            excess_at,
        } = *self;
        let answer = ChargeReply {
            allowed: true,
            state,
            excess_at,
            is_stored: true,
        };
        outcome(quota, 0, &answer, now)
    }
}

/// Reads the reply to a refund.
pub(in crate::redis) fn read_refund(reply: &mut Reply) -> Result<RefundReply, String> {
    let mut replies = array(reply, 2)?.iter_mut().map(std::mem::take);
    let now = instant(replies.next())?;
    match replies.next() {
        Some(Reply::Bulk(bytes)) => match bytes.split_first() {
            Some((b'+', text)) => {
                let (state, excess_at) = state_and_pace(text)?;
                Ok(RefundReply {
                    now,
                    state,
                    excess_at,
                })
            }
            Some((b'!', reason)) => Err(String::from_utf8_lossy(reason).into_owned()),
            _ => Err(format!("expected a sign and a state, got {bytes:?}")),
        },
        other => Err(format!("expected a state, got {other:?}")),
    }
}

/// Converts the result of a charge to an outcome. Computed from the state after it: as a look if it
/// was allowed, as the same charge again if it was denied.
pub(in crate::redis) fn outcome(
    quota: Quota,
    cost: u64,
    answer: &ChargeReply,
    now: Timestamp,
) -> Outcome {
    if let Some(pace) = answer.excess_at {
        let cost = if answer.allowed { 0 } else { cost };
        return algorithm::outcome_of_excess(answer.state, pace, quota, cost, now);
    }
    if answer.allowed {
        return algorithm::decide(answer.state, quota, 0, now).outcome;
    }
    match algorithm::decide(answer.state, quota, cost, now).outcome {
        // Redis denied it, so it is denied, though the state does not say why.
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

/// The results of one request, or the error about one of its keys.
type RequestReplies = Result<List<ChargeReply>, String>;

fn read_request(
    replies: &mut impl Iterator<Item = Reply>,
    request: &[StoreCharge],
    now: Timestamp,
) -> Result<RequestReplies, String> {
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

/// Reads the result of one charge: an integer for a token bucket, otherwise a sign and a state.
fn read_answer(
    reply: Option<Reply>,
    charge: &StoreCharge,
    now: Timestamp,
) -> Result<Result<ChargeReply, String>, String> {
    match (reply, charge.quota) {
        (Some(Reply::Integer(answer)), Quota::TokenBucket(_)) => {
            let allowed = answer >= 0;
            // A denial with a debt of d is -1 - d, which is !d; 0 could not carry the sign.
            let debt = Nanos::new(if allowed { answer } else { !answer } as u64);
            let state = (debt > Nanos::ZERO).then(|| State::Instant(now.after(debt)));
            Ok(Ok(ChargeReply {
                allowed,
                state,
                excess_at: None,
                is_stored: true,
            }))
        }
        (Some(Reply::Bulk(bytes)), quota) => match (bytes.split_first(), quota) {
            (Some((b'!', reason)), _) => Ok(Err(String::from_utf8_lossy(reason).into_owned())),
            (Some((b'?', [sign @ (b'+' | b'-'), text @ ..])), _) => Ok(Ok(ChargeReply {
                allowed: *sign == b'+',
                state: state(text)?,
                excess_at: None,
                is_stored: false,
            })),
            // A token bucket is told as a state only when that is of another pace.
            (Some((sign @ (b'+' | b'-'), text)), quota)
                if text.contains(&b'@') || !matches!(quota, Quota::TokenBucket(_)) =>
            {
                let (state, excess_at) = state_and_pace(text)?;
                Ok(Ok(ChargeReply {
                    allowed: *sign == b'+',
                    state,
                    excess_at,
                    is_stored: true,
                }))
            }
            _ => Err(format!("expected the result of a charge, got {bytes:?}")),
        },
        (other, _) => Err(format!("expected the result of a charge, got {other:?}")),
    }
}

/// The elements of an array of exactly this length.
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

/// An instant in decimal nanoseconds.
fn instant(reply: Option<Reply>) -> Result<Timestamp, String> {
    match reply {
        Some(Reply::Bulk(digits)) => number(&digits).map(Timestamp::from_nanos),
        other => Err(format!("expected the time in digits, got {other:?}")),
    }
}

/// A state, and the pace that follows an `@`.
fn state_and_pace(text: &[u8]) -> Result<(Option<State>, Option<Pace>), String> {
    let Some(at) = text.iter().position(|byte| *byte == b'@') else {
        return Ok((state(text)?, None));
    };
    let pace = std::str::from_utf8(&text[at + 1..]).unwrap_or_default();
    let pace = pace
        .parse()
        .map_err(|_| format!("expected a pace, got {pace:?}"))?;
    Ok((state(&text[..at])?, Some(pace)))
}

/// A state as Redis stores it: nanoseconds for an instant, `index:previous:current` for windows,
/// and nothing for a full counter.
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

/// Decimal digits. A number that does not fit becomes the largest that does: garbage, which the
/// script repairs with the next denial.
fn number(digits: &[u8]) -> Result<u64, String> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(format!("expected digits, got {digits:?}"));
    }
    let text = std::str::from_utf8(digits).map_err(|_| "expected digits".to_owned())?;
    Ok(text.parse().unwrap_or(u64::MAX))
}
