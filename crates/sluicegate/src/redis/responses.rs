//! What the answer to a call means for everybody who waits for it.

use sluicegate_core::Timestamp;
use tokio::time::Instant;

use super::StoreCharge;
use super::call::{Call, CallKind};
use super::context::StoreContext;
use super::options::RedisClock;
use super::request::{Operation, RequestError, StoreRequest, StoreResponse};
use super::script::{self, ChargeReply, DecideReply};
use super::shadow::{Observation, ObservedCharge, Prediction, ShadowCharge};
use super::wire::Reply;

/// Tells every ask of a call its answer and remembers what was seen; an error says that the answer makes no sense.
pub(super) fn deliver(
    call: &mut Call,
    reply: &mut Reply,
    now: Instant,
    context: &StoreContext,
) -> Result<(), String> {
    match call.kind {
        CallKind::Asking => Ok(()),
        CallKind::Delete => {
            for request in call.requests.iter_mut() {
                request
                    .hashes()
                    .for_each(|hash| context.shadows.forget(hash));
                respond(request, Ok(StoreResponse::Deleted));
            }
            Ok(())
        }
        CallKind::Get => {
            let response = match std::mem::take(reply) {
                Reply::Bulk(value) => Ok(StoreResponse::Value(Some(value))),
                Reply::Nil => Ok(StoreResponse::Value(None)),
                _ => Err(RequestError::Unavailable(
                    "a value came in a form that is none".to_owned(),
                )),
            };
            respond(&mut call.requests[0], response);
            Ok(())
        }
        CallKind::Put => {
            respond(&mut call.requests[0], Ok(StoreResponse::Stored));
            Ok(())
        }
        CallKind::Swap => {
            let response = match reply {
                Reply::Integer(done) => Ok(StoreResponse::Swapped(*done == 1)),
                _ => Err(RequestError::Unavailable(
                    "an answer came in a form that is none".to_owned(),
                )),
            };
            respond(&mut call.requests[0], response);
            Ok(())
        }
        CallKind::Refund => {
            let request = &mut call.requests[0];
            let Operation::Refund { charge, .. } = &request.operation else {
                return Ok(());
            };
            context.shadows.forget(charge.hash);
            respond(
                request,
                script::read_refund(reply)
                    .map(StoreResponse::Refunded)
                    .map_err(RequestError::Unavailable),
            );
            Ok(())
        }
        CallKind::Decide => {
            let charge_count = call
                .requests
                .iter()
                .filter_map(StoreRequest::charges)
                .map(<[StoreCharge]>::len)
                .sum();
            let mut reading = DecideReply::new(reply, charge_count)?;
            let mut observed = Vec::with_capacity(charge_count);
            for request in call.requests.iter_mut() {
                match reading.request(request.charges().unwrap_or_default())? {
                    Ok(answers) => {
                        observe(
                            request,
                            &answers,
                            reading.now,
                            (call.sent, now),
                            context,
                            &mut observed,
                        );
                        respond(
                            request,
                            Ok(StoreResponse::Decided {
                                now: reading.now,
                                answers,
                            }),
                        );
                    }
                    Err(error) => {
                        context.foreign_value(request, &error);
                        respond(request, Err(RequestError::Unavailable(error)));
                    }
                }
            }
            // Whoever asks for one of these counters meanwhile waits for this call to be over.
            context.shadows.remember_all(&observed);
            Ok(())
        }
    }
}

fn respond(request: &mut StoreRequest, told: Result<StoreResponse, RequestError>) {
    if let Some(answer) = request.responder.take() {
        let _ = answer.send(told);
    }
}

/// The server's time was between the sending of the call and its answer. The ask itself may have waited longer.
fn observe(
    request: &StoreRequest,
    answers: &[ChargeReply],
    server_now: Timestamp,
    (sent, received): (Instant, Instant),
    context: &StoreContext,
    observed: &mut Vec<ObservedCharge>,
) {
    let sent_at = callers_time(request, sent, context);
    // A wait that is told counts from here, so rather too late than too early.
    let received_at = match context.options.clock {
        RedisClock::Given => request.submitted_at,
        RedisClock::Server | RedisClock::Replica => request.callers_time_at_latest(received),
    };
    for (charge, answer) in request.charges().into_iter().flatten().zip(answers) {
        if is_repair_pending(charge, answer, server_now) {
            continue;
        }
        let sight = Observation {
            quota: charge.quota,
            state: answer.state,
            server_now,
            sent_at,
            received_at,
        };
        observed.push(ObservedCharge {
            hash: charge.hash,
            cost: charge.cost,
            sight,
        });
    }
}

/// An absurd state is told as an empty counter to whoever only looks, but stays until a denial repairs it: denying from
/// memory would keep it there.
fn is_repair_pending(charge: &StoreCharge, answer: &ChargeReply, server_now: Timestamp) -> bool {
    let only_looks = charge.cost == 0 || charge.cost > charge.quota.limit();
    only_looks && script::outcome(charge.quota, 0, answer, server_now).remaining() == 0
}

/// What was seen a moment ago says of a request.
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
        .foresee(charges, callers_time(request, now, context))
}

/// A given clock stands still while we wait.
fn callers_time(request: &StoreRequest, now: Instant, context: &StoreContext) -> Timestamp {
    match context.options.clock {
        RedisClock::Given => request.submitted_at,
        RedisClock::Server | RedisClock::Replica => request.callers_time(now),
    }
}
