//! The JSON Schema agrees with what is loaded.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;
use sluicegate_config::{Source, schema};

use crate::{bad, good};

/// The text as JSON, as an editor sees it.
pub fn as_json(text: &str) -> Value {
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options)
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[track_caller]
pub fn accepts(text: &str) -> Result<(), String> {
    accepts_json(&as_json(text))
}

pub fn accepts_json(json: &Value) -> Result<(), String> {
    let validator = jsonschema::draft202012::new(&schema()).expect("the schema is one");
    let errors: Vec<String> = validator
        .iter_errors(json)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors.join("\n"))
    }
}

#[test]
fn the_schema_is_a_schema() {
    assert!(jsonschema::draft202012::meta::is_valid(&schema()));
    assert_eq!(
        schema()["$schema"],
        "https://json-schema.org/draft/2020-12/schema"
    );
}

/// Editors find the schema by its address, and from the first line of each example.
#[test]
fn the_schema_has_an_address_and_every_example_names_it() {
    let id = schema()["$id"].clone();
    let id = id.as_str().unwrap();
    assert!(
        id.starts_with("https://") && id.ends_with("sluicegate.schema.json"),
        "{id}"
    );
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let directories = std::fs::read_dir(root.join("examples")).unwrap();
    let examples = directories.map(|entry| entry.unwrap().path());
    let examples = examples.chain([root.join("docs/examples")]);
    let files = examples.map(|directory| directory.join("sluicegate.yaml"));
    let files: Vec<PathBuf> = files.filter(|file| file.exists()).collect();
    assert!(files.len() >= 8, "{files:?}");
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let named = text
            .lines()
            .next()
            .and_then(|line| line.strip_prefix("# yaml-language-server: $schema="))
            .unwrap_or_else(|| panic!("{}", file.display()));
        let found = file.parent().unwrap().join(named);
        let found = std::fs::read_to_string(&found)
            .unwrap_or_else(|error| panic!("{}: {error}", found.display()));
        let found: Value = serde_json::from_str(&found).unwrap();
        assert_eq!(found["$id"], id);
        accepts(&text).unwrap_or_else(|why| panic!("{}: {why}", file.display()));
    }
}

#[test]
fn what_is_loaded_is_accepted() {
    for text in [
        Source::embedded().text.as_str(),
        "{}",
        "admin: off",
        "admin: { listen: \"127.0.0.1:1\" }",
        "decisions:\n",
        "decisions: { http: \"0.0.0.0:1\", allow_remote: true }",
        "decisions: { grpc: \"0.0.0.0:1\", tls: { cert: a, key: b, client_ca_file: c } }",
        "store:\nlog:\n",
        "store: { kind: \" In-Memory \", fail_open: true }",
        "store: { on_failure: passThrough }",
        "store: { on_failure: { policy: in_memory_fallback } }",
        "store: { kind: redis, redis: { url: \"rediss+cluster://a,b\", tls: { cert: a, key: b } } }",
        "limits: [{ name: a, key: global, average: 0 }]",
        "limits: [{ name: a, key: [client_ip, \"claim:x y\"], rate: 3 per minute, burst: 1 }]",
        "limits: [{ name: a, key: path, size: 1, drip_rate: 5 min, factor: { claim: x, default: 0 } }]",
        "limits: [{ name: a, key: path, min_interval: 1s, match: { headers: { X-A: \"*\" } } }]",
        "proxy: { listen: [\"[::1]:1\"], upstream: HTTPS://a, max_body: 5 GiB, routes: [{ host: \"*.a\", upstream: echo }] }",
        "client_ip: { header: X-Real-IP, trusted_proxies: \"::1\" }",
        "response: { headers: none }",
        "response: { reject: { status: 503, body: a, content_type: text/html, headers: { x-a: b } } }",
        "limits: [{ name: a, key: global, rate: 1/s, reject: null }]",
        "traces: { otlp: \"http://127.0.0.1:4317\" }",
        "traces: { otlp: \"https://collector/\", one_in: 1, service_name: edge, ca_file: ca.pem }",
        "external: { http: { url: \"http://limits:8080/limits\" } }",
        "external: { http: { url: \"https://[::1]/?a=b\", tls: { ca_file: ca.pem } }, cache_redis: null, timeout: 1s }",
        "external: { grpc: { address: \"limits:50052\", codec: json, tls: { enabled: true, ca_file: ca.pem } } }",
        "external: { grpc: { address: \"a:1\" }, header_filter: { allow_list: X-Plan }, cache_redis: { endpoints: a } }",
        "external: { grpc: { address: \"a:1\" }, backend_url: { allowed_hosts: [\"*.a\"], schemes: https } }",
        "external: { http: { url: http://a } }\nlimits: [{ name: a, key: path, average: 1, quota_from: external }]",
        "proxy: { enabled: false }\ndecisions: { enabled: false }\nadmin: { enabled: false }\nprincipals: { enabled: false }",
        "external: { enabled: false }\ntraces: { enabled: false }\naccess: { enabled: false, deny: { enabled: false } }",
        "proxy: { listen: \"127.0.0.1:0\", tls: { enabled: false }, routes: [{ enabled: false }] }",
        "decisions: { tls: { enabled: false } }\nprincipals: { api_keys: { enabled: false }, jwt: { enabled: false } }",
        "principals: { credentials: strip_unverified, jwt: { jwks_file: a, typ: [at+jwt, application/JWT] } }",
        "principals: { jwt: { jwks_url: \"https://a/b?c\", jwks: { refresh: 1m, timeout: 1s, max_stale: 1h, ca_file: a } } }",
        "limits: [{ name: a, key: path, rate: 1/s, enabled: false, factor: { enabled: false } }]",
        "limits: [{ name: a, key: path, rate: 1/s, factor: { claim: x, map: { gold: 0.5, staff: 0 }, applies_to: both } }]",
        "limits: [{ name: a, key: path, rate: 10/1m30s }, { name: b, key: path, average: 1, period: \" 1 h 1.5 min \" }]",
    ] {
        good(text);
        accepts(text).unwrap_or_else(|why| panic!("{why}\n{text}"));
    }
    for text in [
        "limits: [{ name: \"${A}\", key: \"${A}\", rate: \"${A}\", burst: \"${A}\", mode: \"${A}\" }]",
        "proxy: { listen: \"${A}\", upstream: \"${A}\", workers: \"${A}\", max_body: \"${A}\" }",
        "proxy: { enabled: \"${A}\" }\ntraces: { enabled: \"${A}\" }\nexternal: { enabled: \"${A}\" }",
        "limits: [{ name: a, key: path, rate: 1/s, factor: { claim: a, map: { b: \"${A}\" }, applies_to: \"${A}\" } }]",
        "store: { kind: \"${A}\", deadline: \"${A}\", fail_open: \"${A}\", redis: { password: \"${A}\" } }",
    ] {
        accepts(text).unwrap_or_else(|why| panic!("{why}\n{text}"));
    }
}

#[test]
fn what_is_refused_is_refused_by_the_schema_too_where_it_can_tell() {
    for text in [
        "limit: []",
        "decisions: { http: a }",
        "decisions: { grpc: 1 }",
        "decisions: { allow_remote: maybe }",
        "decisions: { tls: { cert: a } }",
        "external: {}",
        "external: { http: { url: http://a }, grpc: { address: \"a:1\" } }",
        "external: { http: {} }",
        "external: { http: { url: ftp://a } }",
        "external: { http: { url: \"http://u:p@a\" } }",
        "external: { grpc: { address: \"a:1\", codec: xml } }",
        "external: { http: { url: http://a }, max_concurrent_requests: 0 }",
        "external: { http: { url: http://a }, header_filter: { deny_list: [\"a b\"] } }",
        "external: { http: { url: http://a }, backend_url: { schemes: [ftp] } }",
        "external: { http: { url: http://a }, backend_url: { schemes: [] } }",
        "limits: [{ name: a, key: global, rate: 1/s, quota_from: elsewhere }]",
        "admin: on",
        "proxy: {}",
        "proxy: { listen: a }",
        "proxy: { listen: [] }",
        "proxy: { listen: \"a:1\", max_header_bytes: 1 }",
        "proxy: { listen: \"a:1\", max_body: 1MB }",
        "proxy: { listen: \"a:1\", timeouts: { idle: 1M } }",
        "proxy: { listen: \"a:1\", upstream: \"ftp://a\" }",
        "proxy: { listen: \"a:1\", upstream: \"http://u:p@a\" }",
        "proxy: { listen: \"a:1\", routes: [{ upstream: echo }] }",
        "client_ip: { ipv4_prefix: 33 }",
        "client_ip: { header: via }",
        "client_ip: { trusted_proxies: [any] }",
        "principals: { jwt: { jwks_file: a, algorithms: [none] } }",
        "principals: { jwt: {} }",
        "principals: { credentials: both }",
        "principals: { jwt: { jwks_file: a, typ: [] } }",
        "principals: { jwt: { jwks_file: a, typ: a/b } }",
        "principals: { jwt: { jwks_file: a, jwks_url: \"https://a\" } }",
        "principals: { jwt: { jwks_file: a, jwks: { timeout: 1s } } }",
        "principals: { jwt: { jwks_url: a } }",
        "store: { kind: dynamo }",
        "store: { on_failure: sideways }",
        "store: { on_failure: { policy: closed, status: 200 } }",
        "store: { key_prefix: \"{a}\" }",
        "store: { redis: { endpoints: a, password: hunter2 } }",
        "store: { redis: { url: \"redis://:hunter2@a\" } }",
        "store: { redis: { endpoints: a, tls: { cert: a } } }",
        "limits: { a: 1 }",
        "limits: [{ key: global, rate: 1/s }]",
        "limits: [{ name: a, rate: 1/s }]",
        "limits: [{ name: a, key: global }]",
        "limits: [{ name: a b, key: global, rate: 1/s }]",
        "limits: [{ name: a, key: ip, rate: 1/s }]",
        "limits: [{ name: a, key: [], rate: 1/s }]",
        "limits: [{ name: a, key: global, rate: 0/s }]",
        "limits: [{ name: a, key: global, rate: 1/s, burst: 0 }]",
        "limits: [{ name: a, key: global, rate: 1/s, average: 1 }]",
        "limits: [{ name: a, key: global, rate: 1/s, brust: 1 }]",
        "limits: [{ name: a, key: global, average: -1 }]",
        "limits: [{ name: a, key: global, average: 1, period: 60 }]",
        "limits: [{ name: a, key: global, rate: 1/s, match: { path: api } }]",
        "limits: [{ name: a, key: global, rate: 1/s, mode: watch }]",
        "limits: [{ name: a, key: global, rate: 1/s, factor: { claim: a, default: -1 } }]",
        "limits: [{ name: a, key: global, rate: 1/s, factor: { claim: a, map: { b: -1 } } }]",
        "limits: [{ name: a, key: global, rate: 1/s, factor: { claim: a, map: {} } }]",
        "limits: [{ name: a, key: global, rate: 1/s, factor: { claim: a, applies_to: burst } }]",
        "limits: [{ name: a, key: global, rate: 1/s, factor: { enabled: true } }]",
        "limits: [{ name: a, key: global, rate: 1/s, enabled: off }]",
        "limits: [{ name: a, key: global, enabled: false }]",
        "limits: [{ name: a, key: global, average: 1, period: 1m30 }]",
        "limits: [{ name: a, key: global, average: 1, period: 1..5s }]",
        "limits: [{ name: a, key: global, average: 1, period: .5s }]",
        "proxy: { enabled: true }",
        "proxy: { enabled: false, listen: a }",
        "external: { enabled: true }",
        "external: { enabled: false, timeout: 5 }",
        "store: { enabled: false }",
        "client_ip: { enabled: false }",
        "response: { headers: [all] }",
        "response: { reject: { status: 200 } }",
        "limits: [{ name: a, key: global, rate: 1/s, count_when: {} }]",
        "limits: [{ name: a, key: global, rate: 1/s, count_when: { status: 6xx } }]",
        "limits: [{ name: a, key: global, rate: 1/s, count_when: { status: [99] } }]",
        "limits: [{ name: a, key: global, rate: 1/s, refund_when: { grpc_status: 17 } }]",
        "limits: [{ name: a, key: global, rate: 1/s, count_when: { status: 401 }, refund_when: { status: 304 } }]",
        "response: { reject: { body: a, body_file: b } }",
        "limits: [{ name: a, key: global, rate: 1/s, reject: { content_type: text/html } }]",
        "limits: [{ name: a, key: global, rate: 1/s, reject: { headers: { \"a b\": c } } }]",
        "log: { format: xml }",
        "log: { access: maybe }",
    ] {
        bad(text);
        assert!(accepts(text).is_err(), "the schema accepts {text}");
    }
}

/// Every section of the schema by its place there, and a text that puts an unknown key into it.
const SECTIONS: &[(&str, &str)] = &[
    ("", "{ODD: 1}"),
    ("/properties/overload", "overload: { ODD: 1 }"),
    (
        "/properties/proxy",
        "proxy: { listen: \"127.0.0.1:0\", ODD: 1 }",
    ),
    (
        "/properties/proxy/properties/routes/items",
        "proxy: { listen: \"127.0.0.1:0\", routes: [{ host: a, upstream: echo, ODD: 1 }] }",
    ),
    (
        "/properties/proxy/properties/tls",
        "proxy: { listen: \"127.0.0.1:0\", tls: { cert: a, key: b, ODD: 1 } }",
    ),
    (
        "/properties/proxy/properties/refused_requests",
        "proxy: { listen: \"127.0.0.1:0\", refused_requests: { rate: 1/s, ODD: 1 } }",
    ),
    (
        "/properties/proxy/properties/timeouts",
        "proxy: { listen: \"127.0.0.1:0\", timeouts: { ODD: 1 } }",
    ),
    ("/properties/decisions", "decisions: { ODD: 1 }"),
    (
        "/properties/decisions/properties/tls",
        "decisions: { tls: { cert: a, key: b, ODD: 1 } }",
    ),
    ("/properties/admin/anyOf/1", "admin: { ODD: 1 }"),
    ("/properties/client_ip", "client_ip: { ODD: 1 }"),
    ("/properties/principals", "principals: { ODD: 1 }"),
    (
        "/properties/principals/properties/api_keys",
        "principals: { api_keys: { file: a, ODD: 1 } }",
    ),
    (
        "/properties/principals/properties/jwt",
        "principals: { jwt: { jwks_file: a, ODD: 1 } }",
    ),
    (
        "/properties/principals/properties/jwt/properties/jwks",
        "principals: { jwt: { jwks_url: \"https://a\", jwks: { ODD: 1 } } }",
    ),
    ("/properties/access", "access: { ODD: 1 }"),
    ("/$defs/access_list", "access: { deny: { ODD: 1 } }"),
    ("/properties/store", "store: { ODD: 1 }"),
    (
        "/properties/store/properties/local",
        "store: { local: { ODD: 1 } }",
    ),
    (
        "/properties/store/properties/redis",
        "store: { redis: { endpoints: a, ODD: 1 } }",
    ),
    (
        "/properties/store/properties/redis/properties/tls",
        "store: { redis: { endpoints: a, tls: { ODD: 1 } } }",
    ),
    (
        "/properties/store/properties/redis/properties/recovery",
        "store: { redis: { endpoints: a, recovery: { ODD: 1 } } }",
    ),
    (
        "/properties/store/properties/redis/properties/sentinel",
        "store: { redis: { endpoints: a, mode: sentinel, sentinel: { master: m, ODD: 1 } } }",
    ),
    (
        "/$defs/on_failure/anyOf/1",
        "store: { on_failure: { policy: open, ODD: 1 } }",
    ),
    (
        "/$defs/limit",
        "limits: [{ name: a, key: global, rate: 1/s, ODD: 1 }]",
    ),
    (
        "/$defs/limit/properties/match",
        "limits: [{ name: a, key: global, rate: 1/s, match: { ODD: 1 } }]",
    ),
    (
        "/$defs/limit/properties/cost/anyOf/2",
        "limits: [{ name: a, key: global, rate: 1/s, cost: { header: x, ODD: 1 } }]",
    ),
    (
        "/$defs/limit/properties/factor",
        "limits: [{ name: a, key: global, rate: 1/s, factor: { claim: c, ODD: 1 } }]",
    ),
    (
        "/$defs/limit/properties/ban",
        "limits: [{ name: a, key: client_ip, rate: 1/s, ban: { after: 1, within: 1s, for: 1s, ODD: 1 } }]",
    ),
    (
        "/properties/external",
        "external: { http: { url: http://a }, ODD: 1 }",
    ),
    (
        "/properties/external/properties/http",
        "external: { http: { url: http://a, ODD: 1 } }",
    ),
    (
        "/properties/external/properties/http/properties/tls",
        "external: { http: { url: https://a, tls: { ODD: 1 } } }",
    ),
    (
        "/properties/external/properties/grpc",
        "external: { grpc: { address: \"a:1\", ODD: 1 } }",
    ),
    (
        "/properties/external/properties/grpc/properties/tls",
        "external: { grpc: { address: \"a:1\", tls: { ODD: 1 } } }",
    ),
    (
        "/properties/external/properties/header_filter",
        "external: { http: { url: http://a }, header_filter: { ODD: 1 } }",
    ),
    (
        "/properties/external/properties/backend_url",
        "external: { http: { url: http://a }, backend_url: { ODD: 1 } }",
    ),
    ("/properties/response", "response: { ODD: 1 }"),
    (
        "/$defs/answers",
        "limits: [{ name: a, key: global, rate: 1/s, count_when: { status: 401, ODD: 1 } }]",
    ),
    ("/$defs/reject", "response: { reject: { ODD: 1 } }"),
    ("/properties/log", "log: { ODD: 1 }"),
    ("/properties/traces", "traces: { otlp: http://a, ODD: 1 }"),
];

/// The reader lists the keys it knows when a key is unlike all of them.
#[test]
fn reader_and_schema_know_the_same_keys() {
    const ODD: &str = "zzzzzzzzzzzzzzzzzzzz";
    let schema = schema();
    let mut seen = 0;
    for (path, text) in SECTIONS {
        let reported = bad(&text.replace("ODD", ODD)).join("\n");
        let known = reported
            .split_once("(known: ")
            .unwrap_or_else(|| panic!("{reported}"))
            .1
            .trim_end_matches(')');
        let read: BTreeSet<&str> = known.split(", ").collect();
        let listed = schema
            .pointer(path)
            .and_then(|section| section["properties"].as_object());
        let listed: BTreeSet<&str> = listed
            .unwrap_or_else(|| panic!("{path}"))
            .keys()
            .map(String::as_str)
            .collect();
        assert_eq!(read, listed, "{path}");
        seen += 1;
    }
    let sections = schema
        .to_string()
        .matches("\"additionalProperties\":false")
        .count();
    // Each section of the schema is listed once, that of sentinels included.
    assert_eq!(
        seen, sections,
        "a section of the schema is not in the list above"
    );
}
