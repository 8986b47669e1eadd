//! Questions about counters, ready to be decided.

use std::sync::Arc;

use sluicegate::{Mode, Nanos, Outcome, ResetError, Verdict};

use super::command::{Name, Named, Throttle};
use super::reply::{Answer, Reply, number};
use crate::decisions::{Asking, Desk};
use crate::live::Live;
use crate::telemetry::metrics::DecisionProtocol;

/// A question about one counter.
pub(super) enum Asked<'a> {
    Throttle(Throttle<'a>),
    Check(Named<'a>),
    Peek(Named<'a>),
    Refund(Named<'a>),
    Reset(Named<'a>),
}

impl<'a> Asked<'a> {
    /// What a command asks, or what is wrong with it.
    pub(super) fn of(live: &Live, name: Name, arguments: &[&'a [u8]]) -> Result<Self, Reply> {
        let named = || Named::with_cost(&live.policy, arguments);
        match name {
            Name::Throttle => Throttle::of(arguments).map(Self::Throttle),
            Name::Check => named().map(Self::Check),
            Name::Peek => named().map(Self::Peek),
            Name::Refund => named().map(Self::Refund),
            Name::Reset => Named::whole(&live.policy, arguments).map(Self::Reset),
            _ => Err(Reply::wrong("this is no question about a counter")),
        }
    }

    /// The answer.
    pub(super) async fn decide(self, desk: &Desk, live: &Arc<Live>) -> Reply {
        let (gate, asking) = (&desk.gate, Asking::untraced(DecisionProtocol::Resp));
        match self {
            Self::Throttle(throttle) => {
                let parts = [throttle.key];
                let charge = throttle.charge(&live.policy, &parts);
                let verdict = gate.decide(live, &[charge]).await;
                asking.decided(gate, live, &verdict);
                Reply::of(&verdict, number(throttle.quota.limit()))
            }
            Self::Check(named) => match named.charge(&live.policy, named.cost()) {
                Ok(charges) => {
                    let verdict = gate.decide(live, &charges).await;
                    asking.decided(gate, live, &verdict);
                    Reply::of(&verdict, -1)
                }
                Err(refused) => refused,
            },
            Self::Peek(named) => match named.charge(&live.policy, 0) {
                Ok(charges) => would_pass(&gate.decide(live, &charges).await, named.cost()),
                Err(refused) => refused,
            },
            Self::Refund(named) => match named.charge(&live.policy, named.cost()) {
                Ok(charges) => match gate.give_back(live, &charges, Nanos::ZERO).await {
                    Verdict::ForwardUnchecked(error) => Reply::unavailable(&error),
                    verdict => Reply::of(&verdict, -1),
                },
                Err(refused) => refused,
            },
            Self::Reset(named) => match named.charge(&live.policy, 0) {
                Ok(charges) => match gate.forget(live, &charges).await {
                    Ok(()) => Reply::Word("OK"),
                    Err(ResetError::Store(error)) => Reply::unavailable(&error),
                    Err(error) => Reply::wrong(error.to_string()),
                },
                Err(refused) => refused,
            },
        }
    }
}

/// What so much would meet now, from the answer to nothing at all.
fn would_pass(verdict: &Verdict, cost: u64) -> Reply {
    let reply = Reply::of(verdict, -1);
    let Some((limit, charged)) = verdict
        .decision()
        .and_then(|decision| decision.outcomes().next())
    else {
        return reply;
    };
    match (reply, &charged.outcome) {
        (Reply::Answer(answer), Outcome::Allowed { remaining, .. }) => {
            let is_denied = limit.mode == Mode::Enforce && *remaining < cost;
            Reply::Answer(Answer {
                is_denied,
                ..answer
            })
        }
        (reply, _) => reply,
    }
}
