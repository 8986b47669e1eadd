//! Quotas that change while callers owe units: a reload, an override, and a new plan are felt at the
//! next request, with counters in this process and in Redis.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

use sluicegate_testkit::{
    HttpResponse, RecordedRequest, RedisServer, UpstreamRecorder, UpstreamResponse, eventually,
};

use super::operator;
use super::running::Sluicegate;

/// The two places for counters; the server ends with the test.
fn stores() -> [(Option<RedisServer>, String); 2] {
    let server = RedisServer::start();
    let redis = format!(
        "store: {{ kind: redis, deadline: 1s, redis: {{ endpoints: ['{}'] }} }}",
        server.address()
    );
    [
        (None, "store: { kind: local }".to_owned()),
        (Some(server), redis),
    ]
}

fn config(store: &str, rate: &str, burst: u32) -> String {
    format!(
        "
proxy: {{ listen: '127.0.0.1:0' }}
admin: {{ listen: '127.0.0.1:0' }}
{store}
limits:
  - {{ name: per-client, key: [client_ip], rate: {rate}, burst: {burst} }}
"
    )
}

fn statuses(sluicegate: &Sluicegate, times: usize) -> Vec<u16> {
    let status = |_| sluicegate.get("/", &[]).status();
    (0..times).map(status).collect()
}

fn number(response: &HttpResponse, header: &str) -> u64 {
    let value = response.header(header);
    value
        .and_then(|value| value.parse().ok())
        .unwrap_or_else(|| panic!("no {header}: {response}"))
}

/// Puts another configuration in force, and returns the response to the first request under it.
fn reloaded(sluicegate: &Sluicegate, config: &str, burst: u64) -> HttpResponse {
    fs::write(sluicegate.file("sluicegate.yaml"), config).unwrap();
    sluicegate.signal("HUP");
    first_under(sluicegate, burst)
}

/// The response to the first request under a limit of this size.
fn first_under(sluicegate: &Sluicegate, burst: u64) -> HttpResponse {
    let mut first = None;
    eventually("the new limit is in force", || {
        let response = sluicegate.get("/", &[]);
        let is_new = number(&response, "x-ratelimit-limit") == burst;
        first = Some(response);
        is_new
    });
    first.unwrap()
}

#[test]
fn a_reload_is_felt_at_the_next_request() {
    for (_server, store) in &stores() {
        let sluicegate = Sluicegate::start(&config(store, "60/h", 10));
        assert_eq!(statuses(&sluicegate, 11)[9..], [200, 429], "{store}");
        let first = reloaded(&sluicegate, &config(store, "600/m", 12), 12);
        assert_eq!(first.status(), 200, "an upgrade, {store}: {first}");
        // Ten a second: within moments all is back. Twelve of them are spent again.
        let passed = statuses(&sluicegate, 40);
        assert_eq!(passed[0], 200, "{store}: one more is there");
        assert_eq!(passed.last(), Some(&429), "{store}: {passed:?}");
        let first = reloaded(&sluicegate, &config(store, "1/d", 200), 200);
        // About twelve units are owed, less what came back at the old rate until now.
        let remaining = number(&first, "x-ratelimit-remaining");
        assert!(
            (187..200).contains(&remaining),
            "tightened, {store}: {first}"
        );
        let again = sluicegate.get("/", &[]);
        assert_eq!(number(&again, "x-ratelimit-remaining"), remaining - 1);
    }
}

/// One an hour, five at once: whoever has spent them waits an hour.
#[test]
fn an_override_is_felt_when_it_begins_and_when_it_ends() {
    for (_server, store) in &stores() {
        let sluicegate = Sluicegate::start(&config(store, "1/h", 5));
        assert_eq!(
            statuses(&sluicegate, 6),
            [200, 200, 200, 200, 200, 429],
            "{store}"
        );
        let order = r#"{"limit":"per-client","key":["127.0.0.1"],"rate":"1/m","burst":20,"for":"1h","by":"ann","reason":"sale"}"#;
        let (code, begun) = operator::ask(&sluicegate, "POST", "/v1/overrides", Some(order));
        assert_eq!(code, 201, "{begun}");
        let first = sluicegate.get("/", &[]);
        assert_eq!(
            (first.status(), number(&first, "x-ratelimit-remaining")),
            (200, 14),
            "five were owed, {store}: {first}"
        );
        assert_eq!(statuses(&sluicegate, 4), [200; 4], "{store}");
        let path = format!("/v1/orders/{}", begun["id"].as_str().unwrap());
        let reason = Some(r#"{"by":"ann","reason":"over"}"#);
        assert_eq!(
            operator::ask(&sluicegate, "DELETE", &path, reason).0,
            200,
            "{store}"
        );
        let first = sluicegate.get("/", &[]);
        assert_eq!(first.status(), 429, "ten are owed, {store}: {first}");
        let wait = number(&first, "retry-after");
        assert!(
            (3_590..=3_600).contains(&wait),
            "the excess is forgiven, {store}: {first}"
        );
    }
}

#[test]
fn a_new_plan_of_the_limits_service_is_felt_at_the_next_request() {
    for (_server, store) in &stores() {
        let is_paid = Arc::new(AtomicBool::new(false));
        let plan = Arc::clone(&is_paid);
        let service = UpstreamRecorder::answering(move |_: &RecordedRequest| {
            let body = if plan.load(SeqCst) {
                r#"{"average": 2, "burst": 30, "period": "1h"}"#
            } else {
                r#"{"average": 1, "burst": 5, "period": "1h"}"#
            };
            UpstreamResponse::ok(body)
                .header("content-type", "application/json")
                .header("cache-control", "no-store")
        });
        let config =
            config(store, "1/h", 1).replace("burst: 1 }", "burst: 1, quota_from: external }");
        let external = format!(
            "external: {{ timeout: 2s, http: {{ url: 'http://{}/limits' }} }}\n",
            service.address
        );
        let sluicegate = Sluicegate::start(&format!("{config}{external}"));
        assert_eq!(
            statuses(&sluicegate, 6),
            [200, 200, 200, 200, 200, 429],
            "{store}"
        );
        is_paid.store(true, SeqCst);
        let first = first_under(&sluicegate, 30);
        assert_eq!(
            (first.status(), number(&first, "x-ratelimit-remaining")),
            (200, 24),
            "five were owed, {store}: {first}"
        );
        is_paid.store(false, SeqCst);
        let back = first_under(&sluicegate, 5);
        assert_eq!(
            back.status(),
            429,
            "more than five are owed, {store}: {back}"
        );
    }
}

#[test]
fn a_roll_out_replaces_replicas_one_by_one_without_fresh_counters() {
    let server = RedisServer::start();
    let store = format!(
        "store: {{ kind: redis, deadline: 1s, redis: {{ endpoints: ['{}'] }} }}",
        server.address()
    );
    let (old, other) = (
        Sluicegate::start(&config(&store, "1/h", 10)),
        Sluicegate::start(&config(&store, "1/h", 10)),
    );
    assert_eq!(statuses(&old, 6), [200; 6]);
    drop(old);
    let new = Sluicegate::start(&config(&store, "2/h", 12));
    let answer = new.get("/", &[]);
    assert_eq!(number(&answer, "x-ratelimit-remaining"), 5, "{answer}");
    let answer = other.get("/", &[]);
    assert_eq!(number(&answer, "x-ratelimit-remaining"), 2, "{answer}");
    drop(other);
    let newest = Sluicegate::start(&config(&store, "2/h", 12));
    let answer = newest.get("/", &[]);
    assert_eq!(number(&answer, "x-ratelimit-remaining"), 3, "{answer}");
}
