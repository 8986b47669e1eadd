//! The layer as a piece of tower: in front of the handler, ready when it is, one set of counters.

use std::future::{Ready, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use sluicegate::http::{PeerAddr, extract};
use sluicegate::{
    FailurePolicy, FailureStatus, Limit, Limiter, Nanos, Quota, RateLimitLayer, Subject, Verdict,
};
use tower::{Layer, Service};

use super::{App, get, header};
use crate::away_store::AwayStore;

const CLIENT: &str = "203.0.113.7";

fn per_ip(burst: u32) -> Limit {
    Limit::per_client("per-ip", Quota::per_hour(1).burst(burst))
}
#[tokio::test]
async fn a_rejected_request_never_reaches_the_handler() {
    let app = App::new([per_ip(3)]);
    assert_eq!(app.passed((0..10).map(|_| get(CLIENT, "/"))).await, 3);
    assert_eq!(app.handler.calls(), 3);
    assert_eq!(app.status(get(CLIENT, "/a%2Fb")).await, 400);
    assert_eq!(app.handler.calls(), 3);
}
#[test]
fn a_decision_is_there_at_once_whether_yes_or_no() {
    let app = App::new([per_ip(1)]);
    for expected in [200, 429] {
        let request = get(CLIENT, "/").body(()).unwrap();
        let mut answer = app.service.clone().call(request);
        let Poll::Ready(Ok(response)) = answer
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        else {
            panic!("the limiter made a request wait");
        };
        assert_eq!(response.status().as_u16(), expected);
    }
}
#[tokio::test]
async fn clones_of_a_service_and_of_its_layer_share_one_counter() {
    let clock = sluicegate::ManualClock::default();
    let limiter = super::limiter([per_ip(5)], &clock);
    let layer = RateLimitLayer::new(limiter.clone());
    let apps = [
        App::behind(layer.clone(), clock.clone()),
        App::behind(layer, clock.clone()),
    ];
    let mut passed = 0;
    for app in apps.iter().cycle().take(20) {
        // `App::send` clones its service for each request.
        passed += app.passed([get(CLIENT, "/")]).await;
    }
    assert_eq!(passed, 5);
    let caller = Subject {
        client_ip: Some(CLIENT.parse().unwrap()),
        ..Subject::ANONYMOUS
    };
    assert!(
        !limiter.check(&caller, 1).await.is_forwarded(),
        "the limiter itself counts with them"
    );
}
#[test]
fn the_service_is_ready_when_the_one_behind_it_is() {
    #[derive(Clone)]
    struct Gated(Arc<AtomicBool>);
    impl Service<http::Request<()>> for Gated {
        type Response = http::Response<http_body_util::Empty<bytes::Bytes>>;
        type Error = String;
        type Future = Ready<Result<Self::Response, String>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), String>> {
            if self.0.load(Ordering::SeqCst) {
                Poll::Ready(Ok(()))
            } else {
                Poll::Pending
            }
        }

        fn call(&mut self, _: http::Request<()>) -> Self::Future {
            ready(Err("no".to_owned()))
        }
    }
    let is_open = Arc::new(AtomicBool::new(false));
    let limiter = Limiter::local([per_ip(1)]).unwrap();
    let mut service = RateLimitLayer::new(limiter).layer(Gated(Arc::clone(&is_open)));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(service.poll_ready(&mut cx).is_pending());
    is_open.store(true, Ordering::SeqCst);
    assert_eq!(service.poll_ready(&mut cx), Poll::Ready(Ok(())));
    let mut answer = service.call(get(CLIENT, "/").body(()).unwrap());
    let Poll::Ready(Err(error)) = answer.as_mut().poll(&mut cx) else {
        panic!("an error of the inner service")
    };
    assert_eq!(error, "no");
}
#[tokio::test]
async fn a_denied_check_is_a_value_that_the_caller_decides_about() {
    let limiter = Limiter::local([per_ip(1)]).unwrap();
    let (parts, ()) = get(CLIENT, "/").body(()).unwrap().into_parts();
    let extracted = extract(&parts, &Default::default()).unwrap();
    assert!(matches!(
        limiter.check(&extracted.subject(), 1).await,
        Verdict::Forward(_)
    ));
    let Verdict::Reject(decision) = limiter.check(&extracted.subject(), 1).await else {
        panic!("expected a denial")
    };
    assert!(decision.retry_after() > Some(Nanos::ZERO));
}
#[tokio::test]
async fn a_request_costs_what_its_hook_says() {
    let app = App::with([per_ip(10)], |layer| {
        layer.cost(|parts| parts.uri.path().len() as u64)
    });
    assert_eq!(
        header(
            &app.send(get(CLIENT, "/1234")).await,
            "x-ratelimit-remaining"
        ),
        "5"
    );
    assert_eq!(app.status(get(CLIENT, "/12345")).await, 429);
    assert_eq!(
        header(
            &app.send(get(CLIENT, "/1234")).await,
            "x-ratelimit-remaining"
        ),
        "0"
    );
}

#[tokio::test]
async fn while_the_store_is_away_a_closed_policy_answers_503() {
    let app = App::on_store(AwayStore, FailurePolicy::default());
    let response = app.send(get(CLIENT, "/")).await;
    assert_eq!(
        (response.status().as_u16(), response.body().as_str()),
        (503, "Service Unavailable")
    );
    assert_eq!(
        header(&response, "content-type"),
        "text/plain; charset=utf-8"
    );
    assert_eq!(header(&response, "retry-after"), "1");
    let response = app
        .send(get(CLIENT, "/").header("accept", "application/json"))
        .await;
    let problem: serde_json::Value = serde_json::from_str(response.body()).unwrap();
    let expected = serde_json::json!({
        "type": "about:blank", "title": "Service Unavailable", "status": 503, "retry_after": 1,
    });
    assert_eq!(problem, expected);
    let grpc = app
        .send(get(CLIENT, "/").header("content-type", "application/grpc"))
        .await;
    assert_eq!(
        (grpc.status().as_u16(), header(&grpc, "grpc-status")),
        (200, "14")
    );
    assert_eq!(app.handler.calls(), 0);
}
#[tokio::test]
async fn a_closed_policy_answers_with_the_configured_status_and_its_words() {
    for (status, words) in [
        (429, "Too Many Requests"),
        (500, "Internal Server Error"),
        (599, "Service Unavailable"),
    ] {
        let on_failure = FailurePolicy::Closed(FailureStatus::new(status).unwrap());
        let app = App::on_store(AwayStore, on_failure);
        let response = app.send(get(CLIENT, "/")).await;
        assert_eq!(
            (response.status().as_u16(), response.body().as_str()),
            (status, words)
        );
        assert_eq!(header(&response, "retry-after"), "1");
        let grpc = app
            .send(get(CLIENT, "/").header("content-type", "application/grpc"))
            .await;
        assert_eq!(
            (grpc.status().as_u16(), header(&grpc, "grpc-status")),
            (200, "14")
        );
    }
}
#[tokio::test]
async fn an_unchecked_request_is_forwarded_without_a_word_about_limits() {
    let app = App::on_store(AwayStore, FailurePolicy::Open);
    let response = app.send(get(CLIENT, "/")).await;
    assert_eq!(response.status(), 200);
    assert!(response.headers().is_empty(), "{:?}", response.headers());
}
#[test]
fn the_own_extension_comes_before_that_of_the_framework() {
    use axum::extract::ConnectInfo;
    let framework = ConnectInfo(std::net::SocketAddr::from(([198, 51, 100, 1], 1)));
    let client_of = |request: http::request::Builder| {
        let (parts, ()) = request.body(()).unwrap().into_parts();
        extract(&parts, &Default::default())
            .unwrap()
            .client_ip
            .unwrap()
            .to_string()
    };
    assert_eq!(
        client_of(http::Request::get("/").extension(framework)),
        "198.51.100.1"
    );
    let own = PeerAddr(std::net::SocketAddr::from(([203, 0, 113, 7], 1)));
    assert_eq!(
        client_of(http::Request::get("/").extension(framework).extension(own)),
        CLIENT
    );
}
