//! The HTTP side: the caller of a request, and the headers and bodies of responses.
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot build its request fails"
)]

mod bodies;
mod client_ip;
mod counted_answers;
mod forwarding;
mod grpc;
mod headers;
mod keys;
mod layer;
mod limit_options;
mod log;
mod rejections;
mod retry;
mod server;

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::request::{Builder, Parts};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use sluicegate::http::{PeerAddr, RateLimit};
use sluicegate::{
    FailurePolicy, Limit, Limiter, LocalOptions, LocalStore, ManualClock, Policy, RateLimitLayer,
    Timestamp,
};
use tower::{Layer, Service, ServiceExt};

type TestLayer<S = LocalStore> = RateLimitLayer<S, ManualClock>;

/// A handler behind limits, and a clock that stands still.
struct App<S = LocalStore> {
    service: RateLimit<Handler, S, ManualClock>,
    handler: Handler,
    clock: ManualClock,
}

impl App {
    fn new(limits: impl IntoIterator<Item = Limit>) -> Self {
        Self::with(limits, |layer| layer)
    }

    fn with(
        limits: impl IntoIterator<Item = Limit>,
        settings: impl FnOnce(TestLayer) -> TestLayer,
    ) -> Self {
        let clock = ManualClock::new(Timestamp::from_millis(1_700_000_000_000));
        Self::behind(
            settings(RateLimitLayer::new(limiter(limits, &clock))),
            clock,
        )
    }
}

impl<S: sluicegate::Store> App<S> {
    fn behind(layer: TestLayer<S>, clock: ManualClock) -> Self {
        let handler = Handler::default();
        Self {
            service: layer.layer(handler.clone()),
            handler,
            clock,
        }
    }

    /// One limit per client address, in this store.
    fn on_store(store: S, on_failure: FailurePolicy) -> Self {
        let clock = ManualClock::default();
        let per_ip = Limit::per_client("per-ip", sluicegate::Quota::per_second(1));
        let policy = Policy::new([per_ip]).unwrap();
        let limiter = Limiter::with_failure_policy(policy, store, clock.clone(), on_failure);
        Self::behind(RateLimitLayer::new(limiter), clock)
    }

    /// Sends a request on a clone of the service, as servers do for each connection.
    async fn send(&self, request: Builder) -> Response<String> {
        let request = request.body(()).unwrap();
        let Ok(response) = self.service.clone().oneshot(request).await;
        let (parts, body) = response.into_parts();
        let Ok(body) = body.collect().await;
        Response::from_parts(parts, String::from_utf8(body.to_bytes().to_vec()).unwrap())
    }

    async fn status(&self, request: Builder) -> u16 {
        self.send(request).await.status().as_u16()
    }

    /// The number of these requests that pass.
    async fn passed(&self, requests: impl IntoIterator<Item = Builder>) -> usize {
        let mut passed = 0;
        for request in requests {
            passed += usize::from(self.status(request).await == 200);
        }
        passed
    }
}

fn limiter(
    limits: impl IntoIterator<Item = Limit>,
    clock: &ManualClock,
) -> Limiter<LocalStore, ManualClock> {
    let store = LocalStore::new(LocalOptions {
        max_keys: 10_000,
        ..LocalOptions::default()
    });
    Limiter::new(Policy::new(limits).unwrap(), store, clock.clone())
}

/// Answers 200 and keeps the head of each request.
#[derive(Clone, Default)]
struct Handler {
    seen: Arc<Mutex<Vec<Parts>>>,
    reply_headers: Arc<Mutex<http::HeaderMap>>,
}

impl Handler {
    fn calls(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    fn last(&self) -> Parts {
        self.seen.lock().unwrap().last().unwrap().clone()
    }

    /// Answers with this header too.
    fn reply_with(&self, name: &'static str, value: &'static str) {
        self.reply_headers
            .lock()
            .unwrap()
            .append(name, value.parse().unwrap());
    }
}

impl<B> Service<Request<B>> for Handler {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        self.seen.lock().unwrap().push(request.into_parts().0);
        let mut response = Response::new(Full::from("hello"));
        *response.headers_mut() = self.reply_headers.lock().unwrap().clone();
        ready(Ok(response))
    }
}

/// A request for `path` from a peer's address.
fn get(peer: &str, path: &str) -> Builder {
    let peer = SocketAddr::new(peer.parse().unwrap(), 4711);
    Request::get(path).extension(PeerAddr(peer))
}

/// The value of a header that is there once.
fn header<'a, B>(response: &'a Response<B>, name: &str) -> &'a str {
    let lines = header_lines(response, name);
    assert_eq!(lines.len(), 1, "{name}: {lines:?}");
    lines[0]
}

fn header_lines<'a, B>(response: &'a Response<B>, name: &str) -> Vec<&'a str> {
    response
        .headers()
        .get_all(name)
        .iter()
        .map(|line| line.to_str().unwrap())
        .collect()
}
