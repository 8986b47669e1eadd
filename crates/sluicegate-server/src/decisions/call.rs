//! One call of the decision service: its answer is counted, and written to its span if it is
//! traced. All protocols go through it, so that none of them can decide without being counted.

use std::net::SocketAddr;
use std::sync::Arc;

use http::HeaderMap;
use sluicegate_gate::admission::{
    AdmissionRecord, AdmissionRequest, Candidate, Purpose, Refusal, admit,
};
use sluicegate_gate::gate::Gate;
use sluicegate_gate::request_id::RequestId;
use sluicegate_gate::snapshot::Snapshot;
use sluicegate_gate::telemetry::metrics::{DecisionAnswer, DecisionProtocol, Label};
use sluicegate_gate::telemetry::{DecisionSummary, DecisionTransport, TraceSpan};

/// A call of the decision service. Clones stand for the same call and share its span.
#[derive(Clone)]
pub(crate) struct DecisionCall {
    protocol: DecisionProtocol,
    traced: Option<Arc<TracedCall>>,
}

struct TracedCall {
    span: Box<TraceSpan>,
    /// The first answer; a batch has many.
    record: AdmissionRecord,
}

impl DecisionCall {
    /// A call with headers, which may name a trace.
    pub(super) fn begin(
        gate: &Gate,
        protocol: DecisionProtocol,
        headers: &HeaderMap,
        peer: SocketAddr,
    ) -> Self {
        let traced = gate.traces.as_ref().and_then(|traces| {
            let is_trusted = gate.snapshot().trusts(peer.ip());
            let span = traces.begin(&RequestId::next(), headers, is_trusted)?;
            Some(Arc::new(TracedCall {
                span,
                record: AdmissionRecord::default(),
            }))
        });
        Self { protocol, traced }
    }

    /// A call that is never traced.
    pub(super) fn untraced(protocol: DecisionProtocol) -> Self {
        Self {
            protocol,
            traced: None,
        }
    }

    /// Asks admission about a candidate, and has the answer counted under this call's protocol.
    pub(super) fn admit<'a, C: Candidate + 'a>(
        &'a self,
        gate: &'a Gate,
        snapshot: &'a Snapshot,
        candidate: C,
        purpose: Purpose,
    ) -> impl Future<Output = Result<C::Admitted, Refusal>> + 'a {
        let question = AdmissionRequest {
            candidate,
            purpose,
            protocol: Some(self.protocol),
            record: self.traced.as_ref().map(|traced| &traced.record),
        };
        admit(gate, snapshot, question)
    }

    /// Counts a call that is refused before anything is asked: its token or its body is wrong.
    pub(super) fn refuse(&self, gate: &Gate, answer: DecisionAnswer) {
        gate.metrics.decision(self.protocol, answer);
        if let Some(traced) = &self.traced {
            traced.record.note_answer(answer, None);
        }
    }

    /// Ends the call's span.
    pub(super) fn end(&self, gate: &Gate, transport: DecisionTransport<'_>) {
        let (Some(traced), Some(traces)) = (&self.traced, &gate.traces) else {
            return;
        };
        let TracedCall { span, record } = &**traced;
        let outcome = record.answer().map(Label::as_str);
        let limit = record.limit();
        traces.end(
            span,
            DecisionSummary {
                transport,
                outcome,
                limit,
            },
        );
    }
}
