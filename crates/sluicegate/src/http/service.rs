//! The tower service: asks the limiter, then the service behind it or nobody.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Request, Response, Uri};
use sluicegate_core::{Decision, KeyPart, MissingKey};
use tower_service::Service;

use super::body::RateLimitBody;
use super::extract::{KeyHeaders, extract};
use super::layer::LayerSettings;
use super::log_line::RateLimitLine;
use super::rejection::Rejection;
use crate::clock::{Clock, MonotonicClock};
use crate::limiter::Limiter;
use crate::local::LocalStore;
use crate::store::Store;
use crate::verdict::Verdict;

/// A service behind limits; made by [`RateLimitLayer`](super::RateLimitLayer). Clones share the counters.
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
            let decision = match gate.admit(&mut parts).await {
                Admission::Refused(response) => return Ok(response.map(RateLimitBody::own)),
                Admission::Unchecked => None,
                Admission::Admitted(decision) => Some(decision),
            };
            let mut response = inner.call(Request::from_parts(parts, body)).await?;
            if let Some(decision) = decision {
                gate.settings
                    .headers
                    .write(&decision, response.headers_mut());
            }
            Ok(response.map(RateLimitBody::inner))
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

/// What all clones of a service share.
pub(super) struct Gate<S, C> {
    pub(super) limiter: Limiter<S, C>,
    pub(super) settings: LayerSettings,
    pub(super) key_headers: KeyHeaders,
    pub(super) warned_of_missing_peer: AtomicBool,
}

/// What happens to a request.
enum Admission {
    Admitted(Decision),
    Unchecked,
    Refused(Response<Bytes>),
}

impl<S: Store, C: Clock> Gate<S, C> {
    /// Decides a request. An admitted one leaves with its path as it was limited.
    async fn admit(&self, parts: &mut Parts) -> Admission {
        if let Some(twin) = self
            .key_headers
            .find_ambiguous(&self.limiter.policy(), &parts.headers)
        {
            return self.refuse(Rejection::AmbiguousHeader(&twin), &parts.headers);
        }
        let extracted = match extract(parts, &self.settings.client_ip) {
            Ok(extracted) => extracted,
            Err(ambiguous) => {
                return self.refuse(Rejection::AmbiguousPath(ambiguous), &parts.headers);
            }
        };
        let normal_uri = match &extracted.path {
            Cow::Borrowed(_) => None,
            Cow::Owned(path) => match with_path(&parts.uri, path) {
                Some(uri) => Some(uri),
                None => return self.refuse(Rejection::PathTooLong, &parts.headers),
            },
        };
        let subject = extracted.subject();
        let cost = self
            .settings
            .cost
            .as_ref()
            .map_or(1, |cost_of| cost_of(parts));
        let admission = match self.limiter.check(&subject, cost).await {
            Verdict::Forward(decision) => Admission::Admitted(decision),
            Verdict::ForwardUnchecked(_) => Admission::Unchecked,
            Verdict::Reject(decision) => {
                let rejection = Rejection::Limited(&decision);
                if self.settings.log_rejections {
                    tracing::info!(target: "sluicegate", "{}", RateLimitLine::new(&subject, rejection.status()));
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
        if let Some(uri) = normal_uri {
            parts.uri = uri;
        }
        admission
    }

    fn refuse(&self, rejection: Rejection<'_>, request_headers: &HeaderMap) -> Admission {
        Admission::Refused(rejection.respond(request_headers, &self.settings.headers))
    }

    /// Once: a server that hides its peers does so for every request.
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

/// `None` when escapes have made the path longer than a target may be.
fn with_path(uri: &Uri, path: &str) -> Option<Uri> {
    let path_and_query = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(path_and_query.try_into().ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_path_of_a_target_is_replaced() {
        let uri = |text: &str| text.parse::<Uri>().unwrap();
        assert_eq!(
            with_path(&uri("/a/../b?x=%2e&y"), "/b"),
            Some(uri("/b?x=%2e&y"))
        );
        assert_eq!(
            with_path(&uri("http://a.example:81//b"), "/b"),
            Some(uri("http://a.example:81/b"))
        );
    }

    #[test]
    fn a_path_beyond_what_a_target_holds_is_refused() {
        let long = format!("/{}", "%C3%A9".repeat(11_000));
        assert_eq!(with_path(&Uri::from_static("/"), &long), None);
    }
}
