//! A question to the decision service: what was answered is counted, and told in its span if it is traced.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use http::HeaderMap;
use sluicegate::Verdict;
use sluicegate_core::Decision;

use crate::live::{Gate, Live};
use crate::request_id::RequestId;
use crate::telemetry::metrics::{DecisionAnswer, DecisionProtocol, Label};
use crate::telemetry::{DecisionSummary, DecisionTransport, TraceSpan};

/// A question. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Asking {
    protocol: DecisionProtocol,
    traced: Option<Arc<Traced>>,
}

struct Traced {
    span: Box<TraceSpan>,
    /// The first answer; a batch has many.
    answer: OnceLock<(DecisionAnswer, Option<String>)>,
}

impl Asking {
    /// One with headers, which may name a trace.
    pub(super) fn begin(
        gate: &Gate,
        protocol: DecisionProtocol,
        headers: &HeaderMap,
        peer: SocketAddr,
    ) -> Self {
        let traced = gate.traces.as_ref().and_then(|traces| {
            let span = traces.begin(&RequestId::next(), headers, gate.live().trusts(peer.ip()))?;
            Some(Arc::new(Traced {
                span,
                answer: OnceLock::new(),
            }))
        });
        Self { protocol, traced }
    }

    /// One that is never traced.
    pub(super) fn untraced(protocol: DecisionProtocol) -> Self {
        Self {
            protocol,
            traced: None,
        }
    }

    /// It was answered so.
    pub(super) fn answered(
        &self,
        gate: &Gate,
        answer: DecisionAnswer,
        decision: Option<&Decision>,
    ) {
        gate.metrics.decision(self.protocol, answer);
        if let Some(traced) = &self.traced {
            let denied_by = || Some(decision?.denials().next()?.0.name.clone());
            traced.answer.get_or_init(|| (answer, denied_by()));
        }
    }

    /// The verdict about its charges is counted, for the limits too.
    pub(super) fn decided(&self, gate: &Gate, live: &Live, verdict: &Verdict) {
        if let Some(decision) = verdict.decision() {
            live.counts.count(decision);
        }
        let answer = match verdict {
            Verdict::Forward(_) | Verdict::ForwardUnchecked(_) => DecisionAnswer::Allowed,
            Verdict::Reject(_) => DecisionAnswer::Limited,
            Verdict::Unavailable { .. } => DecisionAnswer::Unavailable,
            Verdict::Unidentified(_) => DecisionAnswer::Refused,
        };
        self.answered(gate, answer, verdict.decision());
    }

    /// It is over.
    pub(super) fn end(&self, gate: &Gate, way: DecisionTransport<'_>) {
        let (Some(traced), Some(traces)) = (&self.traced, &gate.traces) else {
            return;
        };
        let (outcome, limit) = match traced.answer.get() {
            Some((answer, limit)) => (Some(answer.as_str()), limit.as_deref()),
            None => (None, None),
        };
        traces.end(
            &traced.span,
            DecisionSummary {
                transport: way,
                outcome,
                limit,
            },
        );
    }
}
