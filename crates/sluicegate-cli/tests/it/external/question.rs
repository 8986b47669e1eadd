//! What the limits service is told about a caller, from each front door.

use std::io::Write;

use serde_json::{Value, json};
use sluicegate_testkit::{HttpRequest, RedisServer, UpstreamRecorder, raw_socket};

use super::super::decisions::{exchange, request};
use super::super::running::Sluicegate;
use super::{config, service, url};

/// The last question to the service.
fn question(service: &UpstreamRecorder) -> Value {
    let recorded = service.requests();
    serde_json::from_slice(&recorded.last().expect("it was asked").body).unwrap()
}

/// The names of the headers in the last question that are ours, in their order.
fn names(service: &UpstreamRecorder) -> Vec<String> {
    let question = question(service);
    let names = question["headers"].as_object().unwrap().keys().cloned();
    names
        .filter(|name| name.to_ascii_lowercase().starts_with("x-"))
        .filter(|name| !name.starts_with("X-Original"))
        .collect()
}

#[test]
fn the_service_reads_the_names_of_headers_as_the_client_wrote_them() {
    let (redis, upstream) = (RedisServer::start(), UpstreamRecorder::start());
    let service = service(|_| r#"{"average": 0}"#.to_owned());
    let more = "header_filter: { deny_list: [x-HIDDEN] }";
    let sluicegate = Sluicegate::start(&config(&url(&service), &redis, &upstream, more));
    let lines = |tenant: &str| {
        [
            format!("X-Tenant-ID: {tenant}"),
            "x-PLAN: gold".to_owned(),
            "X-Plan: trial".to_owned(),
            "X-Hidden: no".to_owned(),
            "X-API-Key: no".to_owned(),
        ]
    };
    let get = |tenant: &str| HttpRequest::get("/").headers(&lines(tenant));
    assert_eq!(get("a").send(sluicegate.proxy).status(), 200);
    assert_eq!(names(&service), ["X-Tenant-ID", "x-PLAN"]);
    assert_eq!(question(&service)["headers"]["x-PLAN"], "gold, trial");

    assert_eq!(get("b").send_http2(sluicegate.proxy).status(), 200);
    assert_eq!(names(&service), ["x-plan", "x-tenant-id"], "over HTTP/2");

    let gateway = HttpRequest::get("/v1/authorize/nginx").headers(&lines("c"));
    let gateway = gateway.headers(&[
        "X-Original-Method: GET",
        "X-Original-URI: /",
        "X-Original-Host: a",
    ]);
    let answer = exchange(&sluicegate, &gateway.to_http1());
    assert_eq!(answer.status(), 200, "{answer}");
    assert_eq!(names(&service), ["X-Tenant-ID", "x-PLAN"], "from a gateway");

    let described = json!({"subject": {"headers": {"x-Tenant-ID": "d", "X-PLAN": "gold"}}});
    let check = request("/v1/check", &[], &described.to_string());
    assert_eq!(exchange(&sluicegate, check.as_bytes()).status(), 200);
    assert_eq!(
        names(&service),
        ["X-PLAN", "x-Tenant-ID"],
        "from a description"
    );
}

#[test]
fn the_service_reads_the_parts_of_a_key_beside_the_key() {
    let (redis, upstream) = (RedisServer::start(), UpstreamRecorder::start());
    let service = service(|_| r#"{"average": 0}"#.to_owned());
    let config = config(&url(&service), &redis, &upstream, "")
        .replace("['header:X-Tenant-Id']", "['header:X-Tenant-Id', method]");
    let sluicegate = Sluicegate::start(&config);
    assert_eq!(sluicegate.get("/", &["X-Tenant-Id: a:b c"]).status(), 200);
    let asked = question(&service);
    assert_eq!(asked["key"], "a%3Ab%20c:GET");
    assert_eq!(asked["key_parts"], json!(["a:b c", "GET"]));
}

#[test]
fn a_connection_from_before_the_service_was_configured_tells_its_names_too() {
    let (redis, upstream) = (RedisServer::start(), UpstreamRecorder::start());
    let service = service(|_| r#"{"average": 0}"#.to_owned());
    let with_service = config(&url(&service), &redis, &upstream, "");
    let (before, rest) = with_service.split_once("external:").unwrap();
    let (_, limits) = rest.split_once("limits:").unwrap();
    let without = format!("{before}limits:{limits}").replace("    quota_from: external\n", "");
    let sluicegate = Sluicegate::start(&without);
    let mut connection = sluicegate.connect();
    let mut get = |tenant: &str| {
        let line = format!("X-Tenant-ID: {tenant}");
        let get = HttpRequest::get("/").headers(&[line]).keep_open();
        connection.write_all(&get.to_http1()).unwrap();
        raw_socket::read_response(&mut connection).status()
    };
    assert_eq!(get("a"), 200);
    std::fs::write(sluicegate.file("sluicegate.yaml"), with_service).unwrap();
    sluicegate.signal("HUP");
    sluicegate.wait_for_log("version=2");
    assert_eq!(get("b"), 200);
    assert_eq!(names(&service), ["X-Tenant-ID"]);
}
