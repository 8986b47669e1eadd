//! From the reply to one call to the responses of all requests in it.
//!
//! The idea: one call carries the charges of many requests, and its reply is one list of results in
//! the same order. `deliver` walks requests and results together, responds to each request, and
//! collects on the way what the reply shows about every counter, so that the shadows can deny
//! later requests without a call.
//!
//! **Invariant:** the shadows are written before the call counts as finished. Requests on the same
//! counter are parked in `traffic` until then, so none of them misses what this reply showed.
//!
//! A reply that does not fit its call is an error of the whole connection: requests and replies
//! are matched by order alone, and nobody knows from where on the order is wrong.

use sluicegate_core::algorithm::State;
use sluicegate_core::{Pace, Timestamp};
use tokio::time::Instant;

use super::call::{Call, CallKind};
use super::charge::StoreCharge;
use super::context::StoreContext;
use super::request::{Operation, RequestError, StoreRequest, StoreResponse};
use super::script::{self, ChargeReply, DecideReply};
use super::shadow::{Observation, ObservedCharge, Prediction, ShadowCharge};
use super::wire::Reply;
use sluicegate_core::RedisClock;

/// Responds to every request of a call and remembers the states in the reply. An error means that
/// the reply does not fit the call; then some requests have no response yet.
pub(super) fn deliver(
    call: &mut Call,
    reply: &mut Reply,
    now: Instant,
    context: &StoreContext,
) -> Result<(), String> {
    match call.kind {
        CallKind::Decide => return deliver_decisions(call, reply, now, context),
        CallKind::Refund => deliver_refund(&mut call.requests[0], reply, context),
        CallKind::Delete => deliver_deletions(&mut call.requests, context),
        CallKind::Get => call.requests[0].respond_once(value_in(reply)),
        CallKind::Put => call.requests[0].respond_once(Ok(StoreResponse::Stored)),
        CallKind::Swap => call.requests[0].respond_once(swap_result_in(reply)),
        // Belongs to the call behind it.
        CallKind::Asking => {}
    }
    Ok(())
}

/// Responds to all requests of a decide call. A key that holds a foreign value fails its own
/// request and no other.
fn deliver_decisions(
    call: &mut Call,
    reply: &mut Reply,
    now: Instant,
    context: &StoreContext,
) -> Result<(), String> {
    let charge_count = call
        .requests
        .iter()
        .filter_map(StoreRequest::charges)
        .map(<[StoreCharge]>::len)
        .sum();
    let mut reader = DecideReply::new(reply, charge_count)?;
    let mut observed = Vec::with_capacity(charge_count);
    let times = CallTimes {
        sent: call.sent,
        received: now,
        server_now: reader.now,
    };
    for request in &mut call.requests {
        match reader.request(request.charges().unwrap_or_default())? {
            Ok(answers) => {
                observe(request, &answers, times, context, &mut observed);
                request.respond_once(Ok(StoreResponse::Decided {
                    now: reader.now,
                    answers,
                }));
            }
            Err(error) => {
                context.foreign_value(request, &error);
                request.respond_once(Err(RequestError::Unavailable(error)));
            }
        }
    }
    context.shadows.remember_all(&observed);
    Ok(())
}

fn deliver_refund(request: &mut StoreRequest, reply: &mut Reply, context: &StoreContext) {
    let Operation::Refund { charge, .. } = &request.operation else {
        return;
    };
    // Again: a decision that was in flight may have written the shadow since the caller forgot it.
    context.shadows.forget(charge.hash);
    let response = script::read_refund(reply)
        .map(StoreResponse::Refunded)
        .map_err(RequestError::Unavailable);
    request.respond_once(response);
}

fn deliver_deletions(requests: &mut [StoreRequest], context: &StoreContext) {
    for request in requests {
        request
            .hashes()
            .for_each(|hash| context.shadows.forget(hash));
        request.respond_once(Ok(StoreResponse::Deleted));
    }
}

fn value_in(reply: &mut Reply) -> Result<StoreResponse, RequestError> {
    match std::mem::take(reply) {
        Reply::Bulk(value) => Ok(StoreResponse::Value(Some(value))),
        Reply::Nil => Ok(StoreResponse::Value(None)),
        _ => Err(RequestError::Unavailable(
            "unexpected reply type to GET".to_owned(),
        )),
    }
}

fn swap_result_in(reply: &Reply) -> Result<StoreResponse, RequestError> {
    match reply {
        Reply::Integer(stored) => Ok(StoreResponse::Swapped(*stored == 1)),
        _ => Err(RequestError::Unavailable(
            "unexpected reply type to the swap script".to_owned(),
        )),
    }
}

/// The times of one call. The server's time lies between the other two.
#[derive(Clone, Copy)]
struct CallTimes {
    sent: Instant,
    received: Instant,
    server_now: Timestamp,
}

/// Adds to `observed` what the replies to one request show of its counters.
///
/// The times count from the call, not from the request, which may have waited in a queue before.
fn observe(
    request: &StoreRequest,
    answers: &[ChargeReply],
    times: CallTimes,
    context: &StoreContext,
    observed: &mut Vec<ObservedCharge>,
) {
    let sent_at = callers_time(request, times.sent, context);
    // Waits that clients are told count from here, so this is rounded to the later side.
    let received_at = match context.options.clock {
        RedisClock::Given => request.submitted_at,
        RedisClock::Server | RedisClock::Replica => request.callers_time_at_latest(times.received),
    };
    for (charge, answer) in request.charges().into_iter().flatten().zip(answers) {
        if !answer.allowed {
            note_excess(charge, answer, times, sent_at, context);
        }
        // A counter of another pace flows back at that pace, so this tells nothing about later.
        let is_own = answer.is_stored && answer.excess_at.is_none();
        if !is_own || is_repair_pending(charge, answer, times.server_now) {
            continue;
        }
        let observation = Observation {
            quota: charge.quota,
            state: answer.state,
            server_now: times.server_now,
            sent_at,
            received_at,
        };
        observed.push(ObservedCharge {
            hash: charge.hash,
            cost: charge.cost,
            observation,
        });
    }
}

/// Notes a counter that denied a charge because it owes more than the limit of the charge has. Where
/// the clocks of replicas count, one that is behind sees a larger debt than there is, so nothing
/// follows from it.
fn note_excess(
    charge: &StoreCharge,
    answer: &ChargeReply,
    times: CallTimes,
    sent_at: Timestamp,
    context: &StoreContext,
) {
    let pace = answer.excess_at.unwrap_or(charge.quota.pace());
    let (Pace::TokenBucket { interval }, Some(State::Instant(full_at))) = (pace, answer.state)
    else {
        return;
    };
    let units = full_at.since(times.server_now).get().div_ceil(interval);
    let is_certain = answer.is_stored && context.options.clock != RedisClock::Replica;
    if units > charge.quota.limit() && is_certain {
        context.excess.note(charge.hash, pace, units, sent_at);
    }
}

/// Returns true when the reply may show a stored time that is too far ahead to be true. A charge
/// that only looks is told of an empty counter, but only a denied charge repairs it in Redis.
/// Denying from memory would keep such a charge from ever reaching Redis.
fn is_repair_pending(charge: &StoreCharge, answer: &ChargeReply, server_now: Timestamp) -> bool {
    let only_looks = charge.cost == 0 || charge.cost > charge.quota.limit();
    only_looks && script::outcome(charge.quota, 0, answer, server_now).remaining() == 0
}

/// The prediction of the shadows for a request that waits to be sent.
pub(super) fn predict(request: &StoreRequest, now: Instant, context: &StoreContext) -> Prediction {
    let charges = request
        .charges()
        .into_iter()
        .flatten()
        .map(|charge| ShadowCharge {
            hash: charge.hash,
            quota: &charge.quota,
            cost: charge.cost,
            enforced: charge.enforced,
        });
    context
        .shadows
        .predict(charges, callers_time(request, now, context))
}

/// Converts an instant to the caller's clock. A given clock stands still while a request waits.
fn callers_time(request: &StoreRequest, now: Instant, context: &StoreContext) -> Timestamp {
    match context.options.clock {
        RedisClock::Given => request.submitted_at,
        RedisClock::Server | RedisClock::Replica => request.callers_time(now),
    }
}
