//! The guard of a request: when it is dropped, metrics, access log and span are written.
//!
//! It is made when the header is complete and moves into the body of the response. So each request
//! is recorded exactly once, also when the client goes away or a future is cancelled.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method};
use sluicegate::PendingCharges;
use sluicegate::http::grpc_status;
use sluicegate_core::Answer;
use sluicegate_gate::admission::AdmissionRecord;
use sluicegate_gate::request_id::RequestId;
use sluicegate_gate::settling::settle_later;
use sluicegate_gate::telemetry::metrics::{Label, RequestOutcome, UpstreamFailure};
use sluicegate_gate::telemetry::{AccessLogEntry, RequestSummary, TraceSpan};
use sluicegate_net::{ClientPermit, ConnectionRefusal};

use super::service::ClientConnection;

/// Lives as long as its request, and records it when dropped.
pub(super) struct RequestGuard {
    caller: Arc<ClientConnection>,
    started: Instant,
    pub(super) request_id: RequestId,
    /// The label of the request's metrics, and the verdict in the access log.
    pub(super) outcome: RequestOutcome,
    /// The status that the client gets; 0 before there is one.
    pub(super) status: u16,
    /// Bytes of the response's body that were passed to the client's connection.
    pub(super) bytes_out: u64,
    /// Present when the request is logged or traced.
    pub(super) access_record: Option<Box<AccessRecord>>,
    /// True when the configuration asks for a line in the access log.
    pub(super) is_logged: bool,
    /// The span, when the request is traced.
    pub(super) span: Option<Box<TraceSpan>>,
    /// True when the peer is a trusted proxy, whose headers are believed.
    pub(super) peer_is_trusted: bool,
    /// The charges that wait for the answer; `None` once they are settled.
    pub(super) pending: Option<Box<PendingCharges>>,
    /// The client's part in the connections to the server, while those are scarce.
    pub(super) share: ClientPermit,
}

/// The facts about a request for its line of the access log and its span.
pub(super) struct AccessRecord {
    pub(super) method: Method,
    /// The path as it was sent.
    pub(super) path: String,
    /// The caller, the limit and the principal, as far as admission came to know them.
    pub(super) admission: AdmissionRecord,
    /// `host:port` of the server that answered.
    pub(super) upstream: Option<HeaderValue>,
}

impl AccessRecord {
    /// Copies method and path, because forwarding changes the request.
    pub(super) fn of(parts: &Parts) -> Self {
        let (method, path) = (parts.method.clone(), parts.uri.path().to_owned());
        Self {
            method,
            path,
            admission: AdmissionRecord::default(),
            upstream: None,
        }
    }

    /// The path in its one spelling, or as it was sent if the request was refused for it.
    fn path(&self) -> &str {
        self.admission
            .caller()
            .map_or(&self.path, |caller| &caller.path)
    }

    fn host(&self) -> Option<&str> {
        self.admission.caller()?.host.as_deref()
    }

    fn client_ip(&self) -> Option<IpAddr> {
        self.admission.caller()?.client_ip
    }
}

impl RequestGuard {
    /// Starts the clock of a request whose header is complete. The outcome is a refusal and the
    /// status 0 until somebody sets them: a cancelled request is recorded so.
    pub(super) fn new(
        caller: &Arc<ClientConnection>,
        request_id: RequestId,
        peer_is_trusted: bool,
    ) -> Self {
        Self {
            caller: Arc::clone(caller),
            started: Instant::now(),
            request_id,
            outcome: RequestOutcome::Refused,
            status: 0,
            bytes_out: 0,
            access_record: None,
            is_logged: false,
            span: None,
            peer_is_trusted,
            pending: None,
            share: ClientPermit::uncounted(),
        }
    }
}

impl RequestGuard {
    /// Settles the charges that wait for this answer, unless its trailers may come and matter.
    pub(super) fn settle(&mut self, answer: Answer, may_have_trailers: bool) {
        let Some(pending) = self.pending.take() else {
            return;
        };
        if may_have_trailers && pending.waits_for_trailers(answer) {
            self.pending = Some(pending);
            return;
        }
        settle_later(&self.caller.handler.gate, pending, Some(answer));
    }

    /// Settles by the end of a body: its trailers came, or it ended without any.
    pub(super) fn settle_by_trailers(&mut self, trailers: Option<&HeaderMap>) {
        if let Some(pending) = self.pending.take() {
            let answer = Answer {
                status: self.status,
                grpc_status: trailers.and_then(grpc_status),
            };
            settle_later(&self.caller.handler.gate, pending, Some(answer));
        }
    }

    /// Counts a server that stopped in the middle of its response.
    pub(super) fn record_stalled_server(&mut self) {
        self.outcome = RequestOutcome::UpstreamError;
        let metrics = &self.caller.handler.gate.metrics;
        metrics.upstream_failed(UpstreamFailure::Stalled);
    }

    /// Counts a client that stopped in the middle of its body.
    pub(super) fn record_stalled_client(&self) {
        let metrics = &self.caller.handler.gate.metrics;
        metrics.connection_refused(ConnectionRefusal::Slow);
    }

    /// The attributes of the request's span.
    fn summary<'a>(&'a self, record: &'a AccessRecord) -> RequestSummary<'a> {
        RequestSummary {
            method: record.method.as_str(),
            path: record.path(),
            host: record.host(),
            client_ip: record.client_ip().map(|address| address.to_string()),
            status: self.status,
            outcome: self.outcome.as_str(),
            limit: record.admission.limit(),
            request_id: self.request_id.as_str(),
        }
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let took = self.started.elapsed();
        let trace_id = self.span.as_ref().map(|span| span.trace_id());
        let gate = &self.caller.handler.gate;
        if let Some(pending) = self.pending.take() {
            // The client went away before the answer was known.
            settle_later(gate, pending, None);
        }
        gate.metrics.request(self.outcome, took, trace_id.clone());
        let Some(record) = &self.access_record else {
            return;
        };
        if let (Some(span), Some(traces)) = (&self.span, &gate.traces) {
            traces.end(span, self.summary(record));
        }
        if !self.is_logged {
            return;
        }
        gate.access_log.write(&AccessLogEntry {
            request_id: self.request_id.as_str(),
            trace_id: trace_id.as_deref(),
            client_ip: record.client_ip(),
            peer: self.caller.peer,
            method: record.method.as_str(),
            host: record.host(),
            path: record.path(),
            status: self.status,
            verdict: self.outcome.as_str(),
            limit: record.admission.limit(),
            principal: record.admission.principal(),
            upstream: record
                .upstream
                .as_ref()
                .and_then(|server| server.to_str().ok()),
            took,
            bytes_out: self.bytes_out,
        });
    }
}
