//! The limits services of the examples: the same cases for each language, through the proxy, with Redis.

mod contract;
mod service;

use std::sync::mpsc;

use serde_json::{Value, json};
use sluicegate_testkit::{
    RedisServer, UpstreamProtocol, UpstreamRecorder, UpstreamResponse, eventually,
};

use self::contract::RecordingRelay;
use self::service::{ExampleService, Language};
use super::super::running::Sluicegate;

/// The configuration of the example, with other ports, in front of this upstream.
fn config(redis: &RedisServer, service: &str, upstream: &UpstreamRecorder) -> String {
    let example = include_str!("../../../../../examples/limits-service/sluicegate.yaml");
    let upstream = format!("listen: '127.0.0.1:0', upstream: '{}'", upstream.url());
    let private = "backend_url: { deny_private_networks: false }\n  header_filter:";
    let changes = [
        ("listen: \"127.0.0.1:8000\"", upstream.as_str()),
        ("127.0.0.1:6379", &redis.address().to_string()),
        ("http://127.0.0.1:8080/limits", service),
        ("redis: { endpoints", "deadline: 1s, redis: { endpoints"),
        ("header_filter:", private),
    ];
    let changed = changes
        .into_iter()
        .fold(example.to_owned(), |config, (from, to)| {
            assert!(config.contains(from), "{from}");
            config.replace(from, to)
        });
    changed + "admin: { listen: '127.0.0.1:0' }\n"
}

/// Every field of the contract in some plan, and a tenant for each.
fn plans(own: &UpstreamRecorder, own_http2: &UpstreamRecorder) -> Value {
    let [own, own_http2] = [own, own_http2].map(|server| format!("http://{}", server.address));
    let plans = json!({
        "free": {"average": 60, "burst": 10, "period": "1m", "cache_max_age_seconds": 300},
        "gold": {"average": 100, "burst": 200, "cache_max_age_seconds": 300},
        "plain": {"average": 7},
        "unlimited": {"average": 0},
        "team": {"average": 1, "burst": 3, "period": "1h"},
        "closed": {"average": 10, "failure_policy": "failClosed", "failure_code": 507,
            "cache_max_age_seconds": 300},
        "open": {"average": 10, "failure_policy": "passThrough", "cache_max_age_seconds": 300},
        "old": {"average": 1, "burst": 20, "period": "1h", "cache_max_age_seconds": 1},
        "new": {"average": 1, "burst": 30, "period": "1h", "cache_max_age_seconds": 1},
        "uncached": {"average": 50, "cache_no_store": true},
        "own": {"average": 0, "backend_url": own, "backend_protocol": "h1"},
        "own-http2": {"average": 0, "backend_url": own_http2, "backend_protocol": "h2"},
        "hasty": {"average": 0, "request_timeout": "200ms"},
    });
    let names = plans.as_object().unwrap().keys();
    let mut tenants: Value = names
        .map(|plan| (format!("of-{plan}"), json!({ "plan": plan })))
        .collect();
    for (name, plan, shared) in [
        ("team-a", "team", Some("team")),
        ("team-b", "team", Some("team")),
        ("changing", "old", None),
        ("with: colon", "gold", None),
        ("late", "gold", None),
    ] {
        tenants[name] = json!({ "plan": plan });
        if let Some(shared) = shared {
            tenants[name]["tenant_key"] = shared.into();
        }
    }
    json!({ "plans": plans, "tenants": tenants })
}

/// The tenant's burst, as the headers tell it; `None` without a limit.
fn limit(sluicegate: &Sluicegate, tenant: &str) -> Option<String> {
    let answer = sluicegate.get("/", &[&format!("X-Tenant-Id: {tenant}")]);
    answer.header("x-ratelimit-limit").map(str::to_owned)
}

fn status(sluicegate: &Sluicegate, path: &str, tenant: &str) -> u16 {
    let tenant = format!("X-Tenant-Id: {tenant}");
    sluicegate.get(path, &[&tenant]).status()
}

fn calls(sluicegate: &Sluicegate) -> u64 {
    sluicegate.metric("sluicegate_external_calls_total")
}

/// What every example must do, whatever it is written in.
fn passes_the_cases(language: Language) {
    let (over, wait) = mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let upstream = UpstreamRecorder::answering(move |recorded| {
        if recorded.path() == "/slow" {
            let _ = wait.lock().unwrap().recv();
        }
        UpstreamResponse::ok("of all")
    });
    let own = UpstreamRecorder::answering(|_| UpstreamResponse::ok("its own"));
    let own_http2 = UpstreamRecorder::answering_with(UpstreamProtocol::Http2, |_| {
        UpstreamResponse::ok("its own in HTTP/2")
    });
    let mut service = ExampleService::start(language, &plans(&own, &own_http2));
    keeps_the_contract(&service, &upstream);

    let redis = RedisServer::start();
    let sluicegate = Sluicegate::start(&config(&redis, &service.url(), &upstream));
    plans_are_applied(&sluicegate);
    answers_are_kept_as_they_say(&sluicegate, &service);
    requests_go_where_the_plan_says(&sluicegate, [&own, &own_http2]);
    assert_eq!(status(&sluicegate, "/slow", "of-hasty"), 504);
    drop(over);
    an_outage_is_survived(&sluicegate, &mut service);
    without_the_store_the_plan_has_its_policy(&sluicegate, redis);
}

/// Every question and every answer is as the OpenAPI document says, and every field is used.
fn keeps_the_contract(service: &ExampleService, upstream: &UpstreamRecorder) {
    let redis = RedisServer::start();
    let relay = RecordingRelay::start(service.port);
    let sluicegate = Sluicegate::start(&config(&redis, &relay.url(), upstream));
    for tenant in service.tenants() {
        status(&sluicegate, "/orders?x", &tenant);
    }
    relay.check(service.tenants().len());
}

fn plans_are_applied(sluicegate: &Sluicegate) {
    for (tenant, burst) in [
        ("of-free", Some("10")),
        ("of-gold", Some("200")),
        ("of-plain", Some("7")),
        ("with: colon", Some("200")),
        ("of-unlimited", None),
        ("stranger", Some("5")),
        ("'; --", Some("5")),
    ] {
        assert_eq!(limit(sluicegate, tenant).as_deref(), burst, "{tenant}");
    }
    let of_team = ["team-a", "team-b", "team-a", "team-b"];
    assert_eq!(
        of_team.map(|tenant| status(sluicegate, "/", tenant)),
        [200, 200, 200, 429],
        "one counter for both"
    );
    assert_eq!(
        status(sluicegate, "/", "of-team"),
        200,
        "and not for others"
    );
}

fn answers_are_kept_as_they_say(sluicegate: &Sluicegate, service: &ExampleService) {
    let before = calls(sluicegate);
    assert_eq!(limit(sluicegate, "of-gold").as_deref(), Some("200"));
    assert_eq!(calls(sluicegate), before, "the answer is still valid");
    for _ in 0..3 {
        assert_eq!(limit(sluicegate, "of-uncached").as_deref(), Some("50"));
    }
    assert_eq!(
        calls(sluicegate),
        before + 3,
        "each answer is for one request"
    );

    assert_eq!(limit(sluicegate, "changing").as_deref(), Some("20"));
    service.set_plan("of-gold", "free");
    service.set_plan("changing", "new");
    eventually("another plan counts when the old answer has ended", || {
        limit(sluicegate, "changing").as_deref() == Some("30")
    });
    assert_eq!(
        limit(sluicegate, "of-gold").as_deref(),
        Some("200"),
        "its answer is valid for longer"
    );
}

fn requests_go_where_the_plan_says(sluicegate: &Sluicegate, [own, http2]: [&UpstreamRecorder; 2]) {
    let body = |tenant: &str| {
        let answer = sluicegate.get("/", &[&format!("X-Tenant-Id: {tenant}")]);
        answer.body().to_owned()
    };
    assert_eq!(body("of-own"), "its own");
    assert_eq!(body("of-own-http2"), "its own in HTTP/2");
    assert_eq!(body("of-unlimited"), "of all");
    let version = |server: &UpstreamRecorder| server.requests().last().unwrap().version.clone();
    assert_eq!([version(own), version(http2)], ["HTTP/1.1", "HTTP/2"]);
}

fn an_outage_is_survived(sluicegate: &Sluicegate, service: &mut ExampleService) {
    service.stop();
    let stale = "sluicegate_external_answers_total{source=\"stale\"}";
    eventually("the old answer ends, and holds all the same", || {
        assert_eq!(limit(sluicegate, "changing").as_deref(), Some("30"));
        sluicegate.metric(stale) > 0
    });
    assert_eq!(
        limit(sluicegate, "of-nobody").as_deref(),
        Some("5"),
        "of whom nothing is known: the limit's own"
    );
    service.restart();
    assert_eq!(
        limit(sluicegate, "late").as_deref(),
        Some("200"),
        "it is asked again"
    );
}

fn without_the_store_the_plan_has_its_policy(sluicegate: &Sluicegate, redis: RedisServer) {
    for tenant in ["of-closed", "of-open"] {
        assert_eq!(status(sluicegate, "/", tenant), 200);
    }
    drop(redis);
    eventually("the store is away", || {
        status(sluicegate, "/", "of-closed") == 507 && status(sluicegate, "/", "of-open") == 200
    });
}

#[test]
fn the_limits_service_in_rust_passes_the_cases() {
    passes_the_cases(Language::Rust);
}

#[test]
#[ignore = "needs FastAPI"]
fn the_limits_service_in_python_passes_the_cases() {
    passes_the_cases(Language::Python);
}

#[test]
#[ignore = "needs TypeScript"]
fn the_limits_service_in_typescript_passes_the_cases() {
    passes_the_cases(Language::TypeScript);
}

#[test]
fn the_limits_services_have_the_same_plans() {
    let plans = Language::ALL.map(|language| {
        let file = language.directory().join("plans.json");
        serde_json::from_str::<Value>(&std::fs::read_to_string(file).unwrap()).unwrap()
    });
    assert!(plans.iter().all(|own| *own == plans[0]), "{plans:#?}");
}
