//! The tower service: asks the limiter, then the service behind it or nobody.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Request, Response};
use sluicegate_core::{Decision, KeyPart, MissingKey};
use tower_service::Service;

use super::awaited_answer::AwaitedAnswer;
use super::body::RateLimitBody;
use super::extract::{KeyHeaders, RequestHead};
use super::layer::LayerSettings;
use super::log_line::RateLimitLine;
use super::rejection::Rejection;
use crate::backlog::Backlog;
use crate::clock::{Clock, MonotonicClock};
use crate::limiter::Limiter;
use crate::local::LocalStore;
use crate::pending::PendingCharges;
use crate::store::Store;
use crate::verdict::Verdict;

/// A service behind limits; made by [`RateLimitLayer`](super::RateLimitLayer). Clones share the
/// counters.
///
/// ```
/// use http::{Request, Response, StatusCode};
/// use sluicegate::{Limit, Limiter, Quota, RateLimitLayer};
/// use tower::{Layer, ServiceExt, service_fn};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let limiter = Limiter::local([Limit::new("all", Quota::per_hour(1).burst(1))])?;
/// let hello = service_fn(async |_: Request<()>| Ok::<_, std::io::Error>(Response::new("hello".to_owned())));
/// let limited = RateLimitLayer::new(limiter).layer(hello);
/// let first = limited.clone().oneshot(Request::new(())).await?;
/// let second = limited.oneshot(Request::new(())).await?;
/// assert_eq!(first.status(), StatusCode::OK);
/// assert_eq!(second.status(), StatusCode::TOO_MANY_REQUESTS);
/// # Ok(())
/// # })
/// # }
/// ```
pub struct RateLimit<Inner, S = LocalStore, C = MonotonicClock> {
    inner: Inner,
    gate: Arc<Gate<S, C>>,
}

impl<Inner, S, C> RateLimit<Inner, S, C> {
    pub(super) fn new(inner: Inner, gate: Arc<Gate<S, C>>) -> Self {
        Self { inner, gate }
    }
}

impl<Inner, S, C, B, ResponseBody> Service<Request<B>> for RateLimit<Inner, S, C>
where
    Inner: Service<Request<B>, Response = Response<ResponseBody>> + Clone + Send + 'static,
    Inner::Future: Send,
    S: Store,
    C: Clock,
    B: Send + 'static,
{
    type Response = Response<RateLimitBody<ResponseBody>>;
    type Error = Inner::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    /// The inner service's readiness: the limiter itself is always ready.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The service that was polled ready is the one to call; its clone waits for the next request.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let gate = Arc::clone(&self.gate);
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            let (decision, pending) = match gate.admit(&mut parts).await {
                Admission::Refused(response) => return Ok(response.map(RateLimitBody::own)),
                Admission::Passed { decision, pending } => (decision, pending),
            };
            let awaited = pending.map(|pending| AwaitedAnswer::new(&gate, pending));
            let mut response = inner.call(Request::from_parts(parts, body)).await?;
            let mut trailers = None;
            if let Some(awaited) = awaited {
                trailers = awaited.begin(response.status().as_u16(), response.headers());
            }
            if let Some(decision) = decision {
                gate.settings
                    .headers
                    .write(&decision, response.headers_mut());
            }
            Ok(response.map(|body| match trailers {
                None => RateLimitBody::inner(body),
                Some(awaited) => RateLimitBody::watched(body, Box::new(awaited)),
            }))
        })
    }
}

impl<Inner: Clone, S, C> Clone for RateLimit<Inner, S, C> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            gate: Arc::clone(&self.gate),
        }
    }
}

impl<Inner: fmt::Debug, S, C> fmt::Debug for RateLimit<Inner, S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = f.debug_struct("RateLimit");
        parts
            .field("inner", &self.inner)
            .field("limiter", &self.gate.limiter)
            .finish_non_exhaustive()
    }
}

/// The state that all clones of a service share.
pub(super) struct Gate<S, C> {
    pub(super) limiter: Limiter<S, C>,
    pub(super) settings: LayerSettings,
    pub(super) key_headers: KeyHeaders,
    pub(super) warned_of_missing_peer: AtomicBool,
    pub(super) warned_of_lost_charges: AtomicBool,
    /// Charges that are settled after their answer was sent.
    pub(super) backlog: Backlog,
}

/// The answer to a request: it goes on, or it has its response.
enum Admission {
    Passed {
        /// `None` when it was not checked.
        decision: Option<Decision>,
        pending: Option<Box<PendingCharges>>,
    },
    Refused(Response<Bytes>),
}

impl<S: Store, C: Clock> Gate<S, C> {
    /// Decides a request: reads it, charges it, and says why it is refused if it is. An admitted
    /// request leaves with its path as it was limited.
    async fn admit(&self, parts: &mut Parts) -> Admission {
        let head = RequestHead::of(parts, &self.settings.client_ip);
        let read = match head.read(&self.key_headers, &self.limiter.policy()) {
            Ok(read) => read,
            Err(misread) => return self.refuse(Rejection::from(&misread), &parts.headers),
        };
        let subject = read.extracted.subject();
        let cost = match &self.settings.cost {
            None => 1,
            Some(cost_of) => cost_of(parts),
        };
        let (verdict, pending) = self.limiter.check_pending(&subject, cost).await;
        let admission = match verdict {
            Verdict::Forward(decision) => Admission::Passed {
                decision: Some(decision),
                pending,
            },
            Verdict::ForwardUnchecked(_) => Admission::Passed {
                decision: None,
                pending,
            },
            Verdict::Reject(decision) => {
                let rejection = Rejection::Limited(&decision);
                if self.settings.log_rejections {
                    let line = RateLimitLine::new(&subject, rejection.status());
                    tracing::info!(target: "sluicegate", "{line}");
                }
                self.refuse(rejection, &parts.headers)
            }
            Verdict::Unavailable { status, .. } => {
                self.refuse(Rejection::Unavailable(status), &parts.headers)
            }
            Verdict::Unidentified(missing) => {
                self.warn_of_missing_peer(&missing);
                self.refuse(Rejection::Unidentified(&missing), &parts.headers)
            }
        };
        if let Some(target) = read.rewritten_target {
            parts.uri = target;
        }
        admission
    }

    fn refuse(&self, rejection: Rejection<'_>, request_headers: &HeaderMap) -> Admission {
        Admission::Refused(rejection.respond(request_headers, &self.settings.headers))
    }

    /// Warns once: a server that hides its peers does so for every request.
    fn warn_of_missing_peer(&self, missing: &MissingKey) {
        if missing.part == Some(KeyPart::ClientIp)
            && !self.warned_of_missing_peer.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(
                target: "sluicegate",
                limit = %missing.limit,
                "requests carry no peer address: serve with connect info, or insert sluicegate::http::PeerAddr"
            );
        }
    }
}
