//! What the answer to a call means for everybody who waits for it.

use sluicegate_core::{RedisClock, Timestamp};
use tokio::time::Instant;

use super::Item;
use super::ask::{Ask, Fault, Told, Work};
use super::call::{Call, CallKind};
use super::context::Context;
use super::script::{self, Answer, Reading};
use super::shadow::{Foresight, Looked, Seen, Sight};
use super::wire::Reply;

/// Tells every ask of a call its answer and remembers what was seen; an error says that the answer makes no sense.
pub(super) fn hand_out(
    call: &mut Call,
    reply: &mut Reply,
    now: Instant,
    context: &Context,
) -> Result<(), String> {
    match call.kind {
        CallKind::Asking => Ok(()),
        CallKind::Delete => {
            for ask in call.asks.iter_mut() {
                ask.hashes().for_each(|hash| context.shadows.forget(hash));
                tell(ask, Ok(Told::Deleted));
            }
            Ok(())
        }
        CallKind::Get => {
            let told = match std::mem::take(reply) {
                Reply::Bulk(value) => Ok(Told::Found(Some(value))),
                Reply::Nil => Ok(Told::Found(None)),
                _ => Err(Fault::Away(
                    "a value came in a form that is none".to_owned(),
                )),
            };
            tell(&mut call.asks[0], told);
            Ok(())
        }
        CallKind::Put => {
            tell(&mut call.asks[0], Ok(Told::Kept));
            Ok(())
        }
        CallKind::Swap => {
            let told = match reply {
                Reply::Integer(done) => Ok(Told::Swapped(*done == 1)),
                _ => Err(Fault::Away(
                    "an answer came in a form that is none".to_owned(),
                )),
            };
            tell(&mut call.asks[0], told);
            Ok(())
        }
        CallKind::Refund => {
            let ask = &mut call.asks[0];
            let Work::Refund { item, .. } = &ask.work else {
                return Ok(());
            };
            context.shadows.forget(item.hash);
            tell(
                ask,
                script::read_refund(reply)
                    .map(Told::Refunded)
                    .map_err(Fault::Away),
            );
            Ok(())
        }
        CallKind::Decide => {
            let charges = call
                .asks
                .iter()
                .filter_map(Ask::items)
                .map(<[Item]>::len)
                .sum();
            let mut reading = Reading::new(reply, charges)?;
            let mut seen = Vec::with_capacity(charges);
            for ask in call.asks.iter_mut() {
                match reading.request(ask.items().unwrap_or_default())? {
                    Ok(answers) => {
                        note(
                            ask,
                            &answers,
                            reading.now,
                            (call.sent, now),
                            context,
                            &mut seen,
                        );
                        tell(
                            ask,
                            Ok(Told::Decided {
                                now: reading.now,
                                answers,
                            }),
                        );
                    }
                    Err(error) => {
                        context.foreign_value(ask, &error);
                        tell(ask, Err(Fault::Away(error)));
                    }
                }
            }
            // Whoever asks for one of these counters meanwhile waits for this call to be over.
            context.shadows.remember_all(&seen);
            Ok(())
        }
    }
}

fn tell(ask: &mut Ask, told: Result<Told, Fault>) {
    if let Some(answer) = ask.answer.take() {
        let _ = answer.send(told);
    }
}

/// The server's time was between the sending of the call and its answer. The ask itself may have waited longer.
fn note(
    ask: &Ask,
    answers: &[Answer],
    server_now: Timestamp,
    (sent, received): (Instant, Instant),
    context: &Context,
    seen: &mut Vec<Seen>,
) {
    let asked_at = callers_time(ask, sent, context);
    // A wait that is told counts from here, so rather too late than too early.
    let received_at = match context.options.clock {
        RedisClock::Given => ask.asked_at,
        RedisClock::Server | RedisClock::Replica => ask.by_callers_clock_at_latest(received),
    };
    for (item, answer) in ask.items().into_iter().flatten().zip(answers) {
        if is_only_told(item, answer, server_now) {
            continue;
        }
        let sight = Sight {
            quota: item.quota,
            state: answer.state,
            server_now,
            asked_at,
            received_at,
        };
        seen.push(Seen {
            hash: item.hash,
            cost: item.cost,
            sight,
        });
    }
}

/// An absurd state is told as an empty counter to whoever only looks, but stays until a denial repairs it: denying from
/// memory would keep it there.
fn is_only_told(item: &Item, answer: &Answer, server_now: Timestamp) -> bool {
    let only_looks = item.cost == 0 || item.cost > item.quota.limit();
    only_looks && script::outcome(item.quota, 0, answer, server_now).remaining() == 0
}

/// What was seen a moment ago says of a request.
pub(super) fn from_memory(ask: &Ask, now: Instant, context: &Context) -> Foresight {
    let looked = ask.items().into_iter().flatten().map(|item| Looked {
        hash: item.hash,
        quota: &item.quota,
        cost: item.cost,
        enforced: item.enforced,
    });
    context
        .shadows
        .foresee(looked, callers_time(ask, now, context))
}

/// A given clock stands still while we wait.
fn callers_time(ask: &Ask, now: Instant, context: &Context) -> Timestamp {
    match context.options.clock {
        RedisClock::Given => ask.asked_at,
        RedisClock::Server | RedisClock::Replica => ask.by_callers_clock(now),
    }
}
