//! Quotas from outside, through the running proxy: a real service, a real Redis.

mod codecs;
mod examples;
mod factors;
mod hostile;
mod question;
mod rebinding;

use std::time::Duration;

use sluicegate_testkit::{
    RecordedRequest, RedisServer, UpstreamRecorder, UpstreamResponse, eventually,
};

use super::decisions::{exchange, request};
use super::operator;
use super::resp::redis_cli;
use super::running::Sluicegate;

/// A limit of one request an hour by tenant, for when nobody knows better.
fn config(service: &str, server: &RedisServer, upstream: &UpstreamRecorder, more: &str) -> String {
    format!(
        "
proxy: {{ listen: '127.0.0.1:0', upstream: 'http://{}' }}
admin: {{ listen: '127.0.0.1:0' }}
decisions: {{ http: '127.0.0.1:0', resp: '127.0.0.1:0' }}
store:
  kind: redis
  deadline: 1s
  redis: {{ endpoints: ['{}'] }}
external:
  timeout: 2s
  http: {{ url: '{service}' }}
  {more}
limits:
  - name: tenant
    key: ['header:X-Tenant-Id']
    rate: 1/h
    burst: 1
    quota_from: external
    on_failure: {{ policy: open }}
",
        upstream.address,
        server.address()
    )
}

/// A service that answers what the plan of a key is, with the key in its place.
fn service(plan: impl Fn(&str) -> String + Send + Sync + 'static) -> UpstreamRecorder {
    UpstreamRecorder::answering(move |recorded: &RecordedRequest| {
        let question: serde_json::Value =
            serde_json::from_slice(&recorded.body).unwrap_or_default();
        let key = question["key"].as_str().unwrap_or_default();
        UpstreamResponse::ok(plan(key)).header("content-type", "application/json")
    })
}

fn url(service: &UpstreamRecorder) -> String {
    format!("http://{}/limits", service.address)
}

fn ask(sluicegate: &Sluicegate, tenant: &str) -> u16 {
    sluicegate
        .get("/", &[&format!("X-Tenant-Id: {tenant}")])
        .status()
}

/// How many requests of a tenant pass before the first that does not.
fn passes(sluicegate: &Sluicegate, tenant: &str) -> usize {
    (0..30)
        .take_while(|_| ask(sluicegate, tenant) == 200)
        .count()
}

#[test]
fn each_tenant_has_the_quota_of_its_plan_on_every_replica() {
    let (redis, upstream) = (RedisServer::start(), UpstreamRecorder::start());
    let service = service(|key| match key {
        "gold" => r#"{"average": 1, "burst": 7, "period": "1h"}"#.to_owned(),
        "free" => r#"{"average": "1", "burst": "2", "period": "1h"}"#.to_owned(),
        "vip" => r#"{"average": 0}"#.to_owned(),
        _ => r#"{"average": 1, "burst": 3, "period": "1h", "tenant_key": "everybody-else"}"#
            .to_owned(),
    });
    let config = config(&url(&service), &redis, &upstream, "");
    let (one, other) = (Sluicegate::start(&config), Sluicegate::start(&config));
    assert_eq!(
        (
            passes(&one, "gold"),
            passes(&one, "free"),
            passes(&one, "vip")
        ),
        (7, 2, 30)
    );
    assert_eq!(ask(&other, "gold"), 429, "the counter is shared");
    let calls = |sluicegate: &Sluicegate| sluicegate.metric("sluicegate_external_calls_total");
    assert_eq!(
        (calls(&one), calls(&other)),
        (3, 0),
        "what one replica was told, the others find in Redis"
    );
    assert_eq!(
        (passes(&other, "somebody"), passes(&other, "else")),
        (3, 0),
        "two keys of one tenant"
    );
    let answer = other.get("/", &["X-Tenant-Id: gold"]);
    assert!(
        answer.contains("x-ratelimit-limit: 7\r\n"),
        "headers say what holds: {answer}"
    );
    let asked = service.requests();
    assert!(
        asked
            .iter()
            .all(|recorded| recorded.method == "POST" && recorded.path() == "/limits"),
        "{asked:?}"
    );
}

#[test]
fn an_override_comes_before_the_service_also_for_a_caller_that_it_leaves_unlimited() {
    let (redis, upstream) = (RedisServer::start(), UpstreamRecorder::start());
    let service = service(|_| r#"{"average": 0}"#.to_owned());
    let sluicegate = Sluicegate::start(&config(&url(&service), &redis, &upstream, ""));
    assert_eq!(passes(&sluicegate, "vip"), 30);
    let order = r#"{"limit": "tenant", "key": ["vip"], "rate": "1/h", "burst": 3, "for": "1h",
                    "by": "ann", "reason": "too much"}"#;
    let (status, granted) = operator::ask(&sluicegate, "POST", "/v1/overrides", Some(order));
    assert_eq!(status, 201, "{granted}");
    assert_eq!(passes(&sluicegate, "vip"), 3);
    // A counter that is named is decided and refunded under the same terms.
    let counter = r#"{"limit": "tenant", "key": ["vip"]}"#;
    let named = |path: &str| {
        let answer = exchange(&sluicegate, request(path, &[], counter).as_bytes());
        serde_json::from_str::<serde_json::Value>(answer.body()).unwrap()
    };
    assert_eq!(named("/v1/check")["allowed"], false);
    let limit = &named("/v1/refund")["limits"][0];
    assert_eq!(
        (&limit["limit"], &limit["remaining"]),
        (&3.into(), &1.into()),
        "{limit}"
    );
    assert_eq!(passes(&sluicegate, "vip"), 1);
}

#[test]
fn the_service_is_told_who_asks_for_what_but_no_secret() {
    let (redis, upstream) = (RedisServer::start(), UpstreamRecorder::start());
    let service = service(|_| r#"{"average": 0}"#.to_owned());
    let sluicegate = Sluicegate::start(&config(&url(&service), &redis, &upstream, ""));
    let headers = [
        "X-Tenant-Id: acme",
        "X-Plan: gold",
        "Authorization: Bearer hidden",
        "Cookie: hidden=1",
    ];
    assert_eq!(sluicegate.get("/a/../b?c", &headers).status(), 200);
    let recorded = service.requests();
    let question: serde_json::Value = serde_json::from_slice(&recorded[0].body).unwrap();
    assert_eq!(
        (&question["key"], &question["method"], &question["path"]),
        (&"acme".into(), &"GET".into(), &"/b".into())
    );
    assert_eq!(question["headers"]["X-Plan"], "gold");
    assert!(
        !String::from_utf8_lossy(&recorded[0].body).contains("hidden"),
        "{question}"
    );
}

#[test]
fn the_decision_service_asks_as_the_proxy_does() {
    let (redis, upstream) = (RedisServer::start(), UpstreamRecorder::start());
    let service = service(|_| {
        r#"{"average": 1, "burst": 4, "period": "1h", "tenant_key": "acme"}"#.to_owned()
    });
    let sluicegate = Sluicegate::start(&config(&url(&service), &redis, &upstream, ""));
    assert_eq!(ask(&sluicegate, "a"), 200);
    let post = |path: &str, body: &str| exchange(&sluicegate, request(path, &[], body).as_bytes());
    let answer = post("/v1/check", r#"{"limit": "tenant", "key": ["b"]}"#);
    assert!(answer.contains("\"limit\":4,\"remaining\":2"), "{answer}");
    let answer = post(
        "/v1/check",
        r#"{"subject": {"headers": {"x-tenant-id": "c"}}}"#,
    );
    assert!(answer.contains("\"limit\":4,\"remaining\":1"), "{answer}");
    let answer = post(
        "/v1/refund",
        r#"{"limit": "tenant", "key": ["d"], "cost": 2}"#,
    );
    assert!(answer.contains("\"remaining\":3"), "{answer}");
    let answer = redis_cli(&sluicegate, &["SG.CHECK", "tenant", "e", "3"]);
    assert!(answer.starts_with("0 4 0 "), "{answer}");
    assert_eq!(ask(&sluicegate, "a"), 429, "all of them spent the tenant's");
    post("/v1/reset", r#"{"limit": "tenant", "key": ["f"]}"#);
    assert_eq!(ask(&sluicegate, "a"), 200);
}

#[test]
fn without_redis_each_tenant_has_the_policy_of_its_plan() {
    let (redis, upstream) = (RedisServer::start(), UpstreamRecorder::start());
    let service = service(|key| {
        match key {
            "closed" => {
                r#"{"average": 1, "burst": 9, "period": "1h", "failure_policy": "FAIL_CLOSED", "failure_code": 429}"#
            }
            "local" => r#"{"average": 1, "burst": 2, "period": "1h", "failure_policy": 3}"#,
            _ => r#"{"average": 1, "burst": 1, "period": "1h"}"#,
        }
        .to_owned()
    });
    let sluicegate = Sluicegate::start(&config(&url(&service), &redis, &upstream, ""));
    assert_eq!(
        ["closed", "local", "open"].map(|tenant| ask(&sluicegate, tenant)),
        [200; 3]
    );
    drop(redis);
    eventually("the store is away", || {
        ask(&sluicegate, "closed") == 429 && ask(&sluicegate, "open") == 200
    });
    let local: Vec<u16> = (0..6).map(|_| ask(&sluicegate, "local")).collect();
    assert!(
        local.contains(&429) && !local.contains(&503),
        "the plan's quota holds on this replica: {local:?}"
    );
}

#[test]
fn a_tenant_goes_to_its_own_server_where_that_is_allowed() {
    let (redis, upstream) = (RedisServer::start(), UpstreamRecorder::start());
    let own = UpstreamRecorder::answering(|_| UpstreamResponse::ok("its own"));
    let at = own.address;
    let service = service(move |key| match key {
        "own" => format!(r#"{{"average": 0, "backend_url": "http://{at}"}}"#),
        "named" => format!(
            r#"{{"average": 0, "backend_url": "http://localhost:{}"}}"#,
            at.port()
        ),
        _ => r#"{"average": 0}"#.to_owned(),
    });
    let allowed = "backend_url: { deny_private_networks: false }";
    let sluicegate = Sluicegate::start(&config(&url(&service), &redis, &upstream, allowed));
    let body = |sluicegate: &Sluicegate, tenant: &str| {
        let answer = sluicegate.get("/", &[&format!("X-Tenant-Id: {tenant}")]);
        answer.body().to_owned()
    };
    for tenant in ["own", "named", "own"] {
        assert_eq!(body(&sluicegate, tenant), "its own");
    }
    assert_eq!(body(&sluicegate, "other"), "ok");
    let before = own.requests().len();
    redis.flush_all();
    let careful = Sluicegate::start(&config(&url(&service), &redis, &upstream, ""));
    assert_eq!(
        body(&careful, "own"),
        "ok",
        "an address inside is ignored, and the request goes where all go"
    );
    assert_eq!(
        body(&careful, "named"),
        "ok",
        "a name that leads inside is not dialled, and the request goes where all go"
    );
    assert_eq!(own.requests().len(), before, "nothing was dialled");
    assert_eq!(
        careful.metric("sluicegate_external_ignored_total{part=\"backend_url\"}"),
        2
    );
}

#[test]
fn a_backend_that_may_not_be_dialled_is_warned_about_once_and_counted_each_time() {
    let (redis, upstream) = (RedisServer::start(), UpstreamRecorder::start());
    let service = service(|key| match key {
        "named" => r#"{"average": 0, "backend_url": "http://localhost:9"}"#.to_owned(),
        _ => r#"{"average": 0}"#.to_owned(),
    });
    let sluicegate = Sluicegate::start(&config(&url(&service), &redis, &upstream, ""));
    assert_eq!(passes(&sluicegate, "named"), 30);
    assert_eq!(
        sluicegate.metric("sluicegate_external_ignored_total{part=\"backend_url\"}"),
        30
    );
    sluicegate.wait_for_log("named a backend that may not be dialled, it is ignored");
    let is_warning = |line: &&String| line.contains("named a backend that may not be dialled");
    let warnings = sluicegate.logged.lock().unwrap();
    assert_eq!(warnings.iter().filter(is_warning).count(), 1);
}

/// A server that may be dialled and does not answer is no reason to send its requests elsewhere.
#[test]
fn a_backend_that_is_down_is_a_bad_gateway() {
    let (redis, upstream) = (RedisServer::start(), UpstreamRecorder::start());
    let port = sluicegate_testkit::free_port();
    let service =
        service(move |_| format!(r#"{{"average": 0, "backend_url": "http://127.0.0.1:{port}"}}"#));
    let allowed = "backend_url: { deny_private_networks: false }";
    let sluicegate = Sluicegate::start(&config(&url(&service), &redis, &upstream, allowed));
    assert_eq!(ask(&sluicegate, "acme"), 502);
    assert_eq!(upstream.requests().len(), 0);
}

#[test]
fn a_limit_without_a_quota_of_its_own_asks_the_service() {
    let (redis, upstream) = (RedisServer::start(), UpstreamRecorder::start());
    let service = service(|key| match key {
        "gold" => r#"{"average": 1, "burst": 7, "period": "1h"}"#.to_owned(),
        "vip" => r#"{"average": 0}"#.to_owned(),
        _ => "no plan".to_owned(),
    });
    let text = config(&url(&service), &redis, &upstream, "")
        .replace("rate: 1/h\n    burst: 1", "average: 0");
    let sluicegate = Sluicegate::start(&text);
    assert_eq!(
        ["gold", "vip", "nobody"].map(|tenant| passes(&sluicegate, tenant)),
        [7, 30, 30],
        "the answer limits, and without one nothing does"
    );
    let post = |body: &str| exchange(&sluicegate, request("/v1/check", &[], body).as_bytes());
    let denied = post(r#"{"limit": "tenant", "key": ["gold"]}"#);
    assert!(denied.contains("\"allowed\":false"), "{denied}");
    let allowed = post(r#"{"limit": "tenant", "key": ["nobody"]}"#);
    assert!(allowed.contains("\"allowed\":true"), "{allowed}");
}

/// The tenant's policy has no code of its own: the limit's is used, and else the store's.
#[test]
fn a_closed_tenant_without_a_code_is_refused_with_the_configured_status() {
    for (of_store, of_limit, expected) in [
        ("{ policy: closed, status: 418 }", "open", 418),
        ("open", "{ policy: closed, status: 451 }", 451),
        ("open", "local", 503),
    ] {
        let (redis, upstream) = (RedisServer::start(), UpstreamRecorder::start());
        let service = service(|_| {
            r#"{"average": 1, "burst": 9, "period": "1h", "failure_policy": "failClosed"}"#
                .to_owned()
        });
        let text = config(&url(&service), &redis, &upstream, "")
            .replace(
                "deadline: 1s",
                &format!("deadline: 1s\n  on_failure: {of_store}"),
            )
            .replace(
                "on_failure: { policy: open }",
                &format!("on_failure: {of_limit}"),
            );
        let sluicegate = Sluicegate::start(&text);
        assert_eq!(ask(&sluicegate, "acme"), 200);
        drop(redis);
        eventually("the store is away", || ask(&sluicegate, "acme") == expected);
    }
}

#[test]
fn a_plan_may_have_its_own_patience() {
    let redis = RedisServer::start();
    // A server that answers when the test is over.
    let (over, until) = std::sync::mpsc::channel::<()>();
    let until = std::sync::Mutex::new(until);
    let slow = UpstreamRecorder::answering(move |_| {
        let _ = until.lock().unwrap().recv_timeout(Duration::from_secs(20));
        UpstreamResponse::ok("late")
    });
    let service = service(|key| match key {
        "hasty" => r#"{"average": 0, "request_timeout": "200ms"}"#.to_owned(),
        _ => r#"{"average": 0}"#.to_owned(),
    });
    let sluicegate = Sluicegate::start(&config(&url(&service), &redis, &slow, ""));
    assert_eq!(ask(&sluicegate, "hasty"), 504);
    drop(over);
}

#[test]
fn a_reload_keeps_what_is_known_of_the_service() {
    let (redis, upstream) = (RedisServer::start(), UpstreamRecorder::start());
    let service = service(|_| r#"{"average": 1, "burst": 20, "period": "1h"}"#.to_owned());
    let text = config(&url(&service), &redis, &upstream, "");
    let sluicegate = Sluicegate::start(&text);
    assert_eq!(ask(&sluicegate, "acme"), 200);
    std::fs::write(
        sluicegate.file("sluicegate.yaml"),
        text.replace("burst: 1", "burst: 2"),
    )
    .unwrap();
    sluicegate.signal("HUP");
    sluicegate.wait_for_log("version=2");
    assert_eq!(ask(&sluicegate, "acme"), 200);
    assert_eq!(sluicegate.metric("sluicegate_external_calls_total"), 1);
}
