//! Limits that count by the answer, in the layer.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use sluicegate::{
    Answer, AnswerPattern, AnswerSet, Limit, Limiter, LocalStore, ManualClock, Nanos, Quota,
    RateLimitLayer, Subject,
};
use tower::{Layer, Service, ServiceExt, service_fn};

use super::{get, limiter};

const CLIENT: &str = "203.0.113.7";

fn answers(statuses: &[&str]) -> AnswerSet {
    AnswerSet::of(statuses.iter().copied()).unwrap()
}

/// Layers around a service that answers with the status in the path, or not at all.
struct App {
    limiter: Limiter<LocalStore, ManualClock>,
    clock: ManualClock,
    calls: Arc<Mutex<usize>>,
}

/// A body of these frames.
struct Frames(VecDeque<Frame<Bytes>>);

impl Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(Ok))
    }
}

impl App {
    fn new(limits: impl IntoIterator<Item = Limit>) -> Self {
        let clock = ManualClock::default();
        Self {
            limiter: limiter(limits, &clock),
            clock,
            calls: Arc::default(),
        }
    }

    fn service(
        &self,
    ) -> impl Service<
        Request<()>,
        Response = Response<sluicegate::http::RateLimitBody<Frames>>,
        Error = Infallible,
    > {
        let calls = Arc::clone(&self.calls);
        let answer = service_fn(move |request: Request<()>| {
            *calls.lock().unwrap() += 1;
            async move { Ok(reply(request.uri().path()).await) }
        });
        RateLimitLayer::new(self.limiter.clone()).layer(answer)
    }

    /// The status of a request that is answered with the status in its path.
    async fn status(&self, path: &str) -> u16 {
        let request = get(CLIENT, path).body(()).unwrap();
        let Ok(response) = self.service().oneshot(request).await;
        let status = response.status().as_u16();
        let _ = response.into_body().collect().await;
        status
    }

    /// A client that leaves while it waits.
    fn leave_early(&self) {
        let request = get(CLIENT, "/never").body(()).unwrap();
        let mut waiting = Box::pin(self.service().oneshot(request));
        let polled = Pin::new(&mut waiting).poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Pending));
    }

    async fn left(&self, limit: &str) -> u64 {
        let verdict = self.limiter.check_named(limit, &[CLIENT], 0).await;
        let decision = verdict.decision().unwrap();
        decision.outcomes().next().unwrap().1.outcome.remaining()
    }
}

/// `/401` answers 401; `/grpc/16` with gRPC's 16 in the trailers, `/grpc-header/16` in the header.
async fn reply(path: &str) -> Response<Frames> {
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let data = || Frame::data(Bytes::from_static(b"x"));
    let trailers = |status: &str| {
        let map = HeaderMap::from_iter([("grpc-status".parse().unwrap(), status.parse().unwrap())]);
        Frame::trailers(map)
    };
    let (builder, frames) = match parts[..] {
        ["never"] => std::future::pending().await,
        ["grpc", status] => (
            Response::builder().header("content-type", "application/grpc+proto"),
            vec![data(), trailers(status)],
        ),
        ["grpc-header", status] => (
            Response::builder()
                .header("content-type", "application/grpc")
                .header("grpc-status", status),
            vec![],
        ),
        [status] => (Response::builder().status(status), vec![data()]),
        _ => panic!("{path}"),
    };
    builder.body(Frames(frames.into())).unwrap()
}

fn subject() -> Subject<'static> {
    Subject {
        client_ip: Some(CLIENT.parse().unwrap()),
        ..Subject::ANONYMOUS
    }
}

#[tokio::test]
async fn only_the_answers_that_count_are_charged() {
    let logins = Limit::per_client("logins", Quota::per_hour(1).burst(2));
    let app = App::new([logins.count_when(answers(&["401", "5xx"]))]);
    for _ in 0..5 {
        assert_eq!(app.status("/200").await, 200);
    }
    assert_eq!(app.left("logins").await, 2);
    assert_eq!(app.status("/401").await, 401);
    assert_eq!(app.status("/200").await, 200);
    assert_eq!(app.left("logins").await, 1);
    assert_eq!(app.status("/503").await, 503);
    assert_eq!(*app.calls.lock().unwrap(), 8);
    assert_eq!(app.status("/200").await, 429, "nothing is left to look at");
    assert_eq!(*app.calls.lock().unwrap(), 8, "the service is not asked");
    app.clock.advance(Nanos::HOUR);
    assert_eq!(app.status("/401").await, 401);
    assert_eq!(app.status("/401").await, 429);
}

#[tokio::test]
async fn answers_that_are_free_give_their_units_back() {
    let cached = Limit::per_client("cached", Quota::per_hour(1).burst(2));
    let app = App::new([cached.refund_when(answers(&["304"]))]);
    for _ in 0..5 {
        assert_eq!(app.status("/304").await, 304);
    }
    assert_eq!(app.left("cached").await, 2);
    assert_eq!(
        [app.status("/200").await, app.status("/200").await],
        [200; 2]
    );
    assert_eq!(app.status("/304").await, 429);
}

#[tokio::test]
async fn a_caller_who_leaves_before_the_answer_pays() {
    let quota = || Quota::per_hour(1).burst(3);
    let app = App::new([
        Limit::per_client("when", quota()).count_when(answers(&["401"])),
        Limit::per_client("refund", quota()).refund_when(answers(&["5xx"])),
    ]);
    app.leave_early();
    assert_eq!(*app.calls.lock().unwrap(), 1, "the service was asked");
    assert_eq!([app.left("when").await, app.left("refund").await], [2, 2]);
}

#[tokio::test]
async fn a_denied_request_takes_nothing_from_the_limits_beside() {
    let quota = || Quota::per_hour(1).burst(2);
    let app = App::new([
        Limit::per_client("always", Quota::per_hour(1).burst(9)),
        Limit::per_client("logins", quota()).count_when(answers(&["401"])),
        Limit::per_client("watched", quota())
            .count_when(answers(&["401"]))
            .shadow(),
    ]);
    for _ in 0..2 {
        assert_eq!(app.status("/401").await, 401);
    }
    assert_eq!(app.left("always").await, 7);
    for _ in 0..3 {
        assert_eq!(app.status("/200").await, 429);
    }
    assert_eq!(app.left("always").await, 7, "all or nothing");
    assert_eq!(
        app.left("watched").await,
        0,
        "a shadow limit counts the same"
    );
}

#[tokio::test]
async fn a_shadow_limit_counts_and_lets_pass() {
    let logins = Limit::per_client("logins", Quota::per_hour(1)).shadow();
    let app = App::new([logins.count_when(answers(&["401"]))]);
    for _ in 0..3 {
        assert_eq!(app.status("/401").await, 401);
    }
    assert_eq!(app.left("logins").await, 0);
}

#[tokio::test]
async fn the_status_of_grpc_counts_in_the_header_and_in_the_trailers() {
    let unauthenticated = AnswerSet::default().with(AnswerPattern::Grpc(16));
    let app = App::new([
        Limit::per_client("calls", Quota::per_hour(1).burst(5)).count_when(unauthenticated)
    ]);
    for (path, left) in [
        ("/grpc/0", 5),
        ("/grpc/16", 4),
        ("/grpc-header/0", 4),
        ("/grpc-header/16", 3),
        ("/200", 3),
    ] {
        assert_eq!(app.status(path).await, 200, "{path}");
        assert_eq!(app.left("calls").await, left, "{path}");
    }
    // Whoever does not wait for the trailers pays as well.
    let request = get(CLIENT, "/grpc/0").body(()).unwrap();
    let Ok(response) = app.service().oneshot(request).await;
    assert_eq!(app.left("calls").await, 3, "the trailers decide");
    drop(response);
    assert_eq!(app.left("calls").await, 2);
}

/// The bound: those under way when the last unit is taken still pass, and nobody after them.
#[tokio::test]
async fn requests_under_way_pass_and_the_counter_never_owes_more_than_its_burst() {
    let logins = Limit::per_client("logins", Quota::per_hour(1).burst(2));
    let app = App::new([logins.count_when(answers(&["401"]))]);
    let mut pending = Vec::new();
    let subject = subject();
    for _ in 0..5 {
        let (verdict, waiting) = app.limiter.check_pending(&subject, 1).await;
        assert!(verdict.is_forwarded());
        pending.push(waiting.unwrap());
    }
    for waiting in &pending {
        let answer = Some(Answer::http(401));
        app.limiter.settle(waiting, answer).await;
    }
    assert_eq!(app.left("logins").await, 0);
    assert!(!app.limiter.check(&subject, 1).await.is_forwarded());
    app.clock.advance(Nanos::HOUR);
    assert_eq!(app.left("logins").await, 1);
}

/// Units that flow back while the server works are not given back a second time.
#[tokio::test]
async fn a_refund_is_worth_what_has_not_flowed_back() {
    let slow = Limit::per_client("slow", Quota::per_hour(1).burst(2));
    let app = App::new([slow.refund_when(answers(&["5xx"]))]);
    let subject = subject();
    let (_, pending) = app.limiter.check_pending(&subject, 1).await;
    app.clock.advance(Nanos::HOUR);
    assert!(app.limiter.check(&subject, 2).await.is_forwarded());
    let answer = Some(Answer::http(500));
    app.limiter.settle(&pending.unwrap(), answer).await;
    assert_eq!(app.left("slow").await, 0);
}

#[tokio::test]
async fn a_refund_of_a_request_gives_nothing_to_what_was_only_looked_at() {
    let quota = || Quota::per_hour(1).burst(3);
    let app = App::new([
        Limit::per_client("always", quota()),
        Limit::per_client("when", quota()).count_when(answers(&["401"])),
    ]);
    let subject = subject();
    assert_eq!(app.status("/401").await, 401);
    app.limiter.refund(&subject, 1, Nanos::ZERO).await;
    assert_eq!([app.left("always").await, app.left("when").await], [3, 2]);
}
