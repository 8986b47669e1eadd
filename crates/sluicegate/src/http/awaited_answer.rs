//! The charges of a request in the layer, from its admission to its answer.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::header::{CONTENT_TYPE, HeaderMap, HeaderName};
use sluicegate_core::Answer;

use super::service::Gate;
use crate::backlog::BackgroundWork;
use crate::clock::Clock;
use crate::pending::PendingCharges;
use crate::store::Store;

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// Settles the charges of a request when its answer is known. Dropped before that, it settles them
/// without: the caller went away.
pub(super) struct AwaitedAnswer<S: Store, C: Clock> {
    gate: Arc<Gate<S, C>>,
    /// `None` once they are settled.
    pending: Option<Box<PendingCharges>>,
    /// The answer as far as it is known; its trailers may follow.
    begun: Option<Answer>,
}

impl<S: Store, C: Clock> AwaitedAnswer<S, C> {
    pub(super) fn new(gate: &Arc<Gate<S, C>>, pending: Box<PendingCharges>) -> Self {
        Self {
            gate: Arc::clone(gate),
            pending: Some(pending),
            begun: None,
        }
    }

    /// Settles by the head of the answer. Returns itself when the trailers matter.
    pub(super) fn begin(mut self, status: u16, headers: &HeaderMap) -> Option<Self> {
        let grpc_status = grpc_status(headers);
        let answer = Answer {
            status,
            grpc_status,
        };
        let may_have_trailers = grpc_status.is_none() && is_grpc(headers);
        let waits = |pending: &PendingCharges| pending.waits_for_trailers(answer);
        if may_have_trailers && self.pending.as_deref().is_some_and(waits) {
            self.begun = Some(answer);
            return Some(self);
        }
        self.settle(Some(answer));
        None
    }

    /// The work of settling; `None` when there is none.
    fn work(&self, pending: Box<PendingCharges>, answer: Option<Answer>) -> Option<BackgroundWork> {
        if pending.is_settled_by(answer) {
            return None;
        }
        let limiter = self.gate.limiter.clone();
        Some(Box::pin(
            async move { limiter.settle(&pending, answer).await },
        ))
    }

    /// Settles in the background, so that nobody waits for the store.
    fn settle(&mut self, answer: Option<Answer>) {
        let pending = self.pending.take();
        let Some(work) = pending.and_then(|pending| self.work(pending, answer)) else {
            return;
        };
        let is_done = self.gate.backlog.run(work, spawn);
        if !is_done
            && !self
                .gate
                .warned_of_lost_charges
                .swap(true, Ordering::Relaxed)
        {
            tracing::warn!(
                target: "sluicegate",
                "the store is too slow: charges of requests that were answered are lost"
            );
        }
    }
}

impl<S: Store, C: Clock> Drop for AwaitedAnswer<S, C> {
    fn drop(&mut self) {
        self.settle(None);
    }
}

/// The end of an answer whose trailers matter; dropped when there is none.
pub(super) trait AwaitedTrailers: Send + Sync {
    /// The trailers came, or the body ended without any.
    fn end(&mut self, trailers: Option<&HeaderMap>);
}

impl<S: Store, C: Clock> AwaitedTrailers for AwaitedAnswer<S, C> {
    fn end(&mut self, trailers: Option<&HeaderMap>) {
        let answer = self.begun.map(|begun| Answer {
            grpc_status: trailers.and_then(grpc_status),
            ..begun
        });
        self.settle(answer);
    }
}

/// True for the header of a gRPC answer, whose status may come in the trailers.
fn is_grpc(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).map(|value| value.as_bytes());
    let rest = content_type.and_then(|value| value.strip_prefix(b"application/grpc"));
    // Not `application/grpc-web`, which has its trailers in the body.
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';' | b' ')))
}

/// The status of gRPC in a header or in trailers.
///
/// ```
/// use http::HeaderMap;
/// use sluicegate::http::grpc_status;
///
/// let trailers = HeaderMap::from_iter([("grpc-status".parse()?, "16".parse()?)]);
/// assert_eq!(grpc_status(&trailers), Some(16));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn grpc_status(fields: &HeaderMap) -> Option<u16> {
    fields.get(GRPC_STATUS)?.to_str().ok()?.parse().ok()
}

/// Finishes work as a task of the runtime that is there. Only a store that waits for another
/// process needs one, and brings the feature.
#[cfg(feature = "redis")]
fn spawn(work: BackgroundWork) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(work);
    }
}

/// Without a runtime that is known, work that has to wait ends here.
#[cfg(not(feature = "redis"))]
fn spawn(_work: BackgroundWork) {}
