//! The tower layer and its settings.
//!
//! A layer is made once and applied to a service by [`Layer::layer`]; the service that comes out is
//! [`RateLimit`] in `service.rs`, which does the work.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use http::request::Parts;
use tower_layer::Layer;

use super::extract::{ClientIp, KeyHeaders};
use super::headers::ResponseHeaders;
use super::service::{Gate, RateLimit};
use crate::backlog::Backlog;
use crate::clock::{Clock, MonotonicClock};
use crate::limiter::Limiter;
use crate::local::LocalStore;
use crate::store::Store;

/// Limits every request before the service behind it sees it. No request is held back: it passes
/// now or is answered now.
///
/// ```
/// use axum::{Router, routing::get};
/// use sluicegate::{Limit, Limiter, Quota, RateLimitLayer};
///
/// let limiter = Limiter::local([Limit::per_client("per-ip", Quota::per_second(20).burst(60))])?;
/// let app: Router = Router::new()
///     .route("/", get(|| async { "hello" }))
///     .layer(RateLimitLayer::new(limiter));
/// # let _ = app;
/// # Ok::<(), sluicegate::PolicyErrors>(())
/// ```
///
/// A limit on client addresses needs to know them: serve with
/// `into_make_service_with_connect_info::<SocketAddr>()` and the feature `axum`, or put a
/// [`PeerAddr`](super::PeerAddr) into the extensions of each request. A request without one is
/// answered 400, never let through uncounted.
///
/// Limits by principal apply where a [`Principal`](crate::Principal) is in the request's
/// extensions: put this layer behind the one that verifies callers, or use two, one on each side of
/// it.
///
/// axum looks up the route before the layers of that `Router` run. Where limits match paths, put
/// the layer around the routes, so that the path that is limited is the path that is routed; a path
/// that is not in its normal spelling is rewritten to it:
///
/// ```
/// # use axum::{Router, routing::get};
/// # use sluicegate::{Limiter, RateLimitLayer};
/// # let limiter = Limiter::local([])?;
/// let routes: Router = Router::new().route("/login", get(|| async { "hello" }));
/// let app: Router = Router::new()
///     .fallback_service(routes)
///     .layer(RateLimitLayer::new(limiter));
/// # let _ = app;
/// # Ok::<(), sluicegate::PolicyErrors>(())
/// ```
pub struct RateLimitLayer<S = LocalStore, C = MonotonicClock> {
    limiter: Limiter<S, C>,
    settings: LayerSettings,
}

/// The settings of a [`RateLimitLayer`]; each has a method of the same name there.
#[derive(Clone)]
pub(super) struct LayerSettings {
    /// How the caller's address is found.
    pub(super) client_ip: ClientIp,
    /// Which headers responses carry.
    pub(super) headers: ResponseHeaders,
    /// The cost of a request; `None` is 1.
    pub(super) cost: Option<Arc<CostFunction>>,
    /// True when each request over a limit is logged.
    pub(super) log_rejections: bool,
}

/// The units that a request costs.
type CostFunction = dyn Fn(&Parts) -> u64 + Send + Sync;

impl<S, C> RateLimitLayer<S, C> {
    /// Limits with the counters of this limiter, which clones of it share.
    pub fn new(limiter: Limiter<S, C>) -> Self {
        let settings = LayerSettings {
            client_ip: ClientIp::default(),
            headers: ResponseHeaders::default(),
            cost: None,
            log_rejections: true,
        };
        Self { limiter, settings }
    }

    /// Sets how a caller's address is found; by default it is the peer's.
    #[must_use]
    pub fn client_ip(mut self, client_ip: ClientIp) -> Self {
        self.settings.client_ip = client_ip;
        self
    }

    /// Sets the headers that responses carry.
    ///
    /// ```
    /// # use sluicegate::{Limiter, RateLimitLayer};
    /// use sluicegate::http::HeaderStyle;
    ///
    /// # let limiter = Limiter::local([])?;
    /// let layer = RateLimitLayer::new(limiter).headers([HeaderStyle::Ietf]);
    /// # let _ = layer;
    /// # Ok::<(), sluicegate::PolicyErrors>(())
    /// ```
    #[must_use]
    pub fn headers(mut self, headers: impl Into<ResponseHeaders>) -> Self {
        self.settings.headers = headers.into();
        self
    }

    /// Sets what a request costs, instead of 1. A request that costs 0 passes even when nothing is
    /// left.
    ///
    /// ```
    /// # use sluicegate::{Limiter, RateLimitLayer};
    /// # let limiter = Limiter::local([])?;
    /// let layer = RateLimitLayer::new(limiter)
    ///     .cost(|request| if request.method == "POST" { 5 } else { 1 });
    /// # let _ = layer;
    /// # Ok::<(), sluicegate::PolicyErrors>(())
    /// ```
    #[must_use]
    pub fn cost(mut self, cost_of: impl Fn(&Parts) -> u64 + Send + Sync + 'static) -> Self {
        self.settings.cost = Some(Arc::new(cost_of));
        self
    }

    /// Sets whether each request over a limit is logged as one
    /// [`RateLimitLine`](super::RateLimitLine), at level info under the target `sluicegate`; by
    /// default it is.
    #[must_use]
    pub fn log_rejections(mut self, log_rejections: bool) -> Self {
        self.settings.log_rejections = log_rejections;
        self
    }
}

impl<Inner, S: Store, C: Clock> Layer<Inner> for RateLimitLayer<S, C> {
    type Service = RateLimit<Inner, S, C>;

    fn layer(&self, inner: Inner) -> Self::Service {
        // One gate for all clones of the service, so that they share the counters.
        let gate = Gate {
            limiter: self.limiter.clone(),
            settings: self.settings.clone(),
            key_headers: KeyHeaders::of(self.limiter.policy()),
            warned_of_missing_peer: AtomicBool::new(false),
            warned_of_lost_charges: AtomicBool::new(false),
            backlog: Backlog::default(),
        };
        RateLimit::new(inner, Arc::new(gate))
    }
}

impl<S, C> Clone for RateLimitLayer<S, C> {
    fn clone(&self) -> Self {
        Self {
            limiter: self.limiter.clone(),
            settings: self.settings.clone(),
        }
    }
}

impl<S, C> fmt::Debug for RateLimitLayer<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitLayer")
            .field("limiter", &self.limiter)
            .finish_non_exhaustive()
    }
}
