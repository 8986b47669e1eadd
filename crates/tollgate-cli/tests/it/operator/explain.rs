//! `tollgate explain`, of a file and of a running Tollgate.

use std::process::Command;

use serde_json::{Value, json};
use tollgate_testkit::RedisServer;

use super::super::running::{Tollgate, eventually, status};
use super::{CONFIG, ask, from};

fn explain(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_tollgate")).arg("explain").args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/tollgate.yaml");

/// The text without the line breaks that make it readable.
fn sentences(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn each_limit_of_the_example_is_explained_in_words() {
    let url = "http://shop.example/api/orders";
    let (code, told, _) =
        explain(&["--config", EXAMPLE, "-X", "POST", "-H", "X-Tenant-Id: acme", "--client-ip", "203.0.113.7", url]);
    let told = sentences(&told);
    assert_eq!(code, 0, "{told}");
    for sentence in [
        "It passes.",
        "per-ip would apply to every request, but api takes its place here.",
        "api applies because the path /api/orders lies below /api and the method is POST; it counts by client_ip 203.0.113.7, \
         in api:203.0.113.7: at most 20 requests at once and 10 a second. 20 of 20 are left; this request takes 1 and leaves 19: allowed.",
        "tenant applies to every request; it counts by header x-tenant-id acme and path_segment 1 api, in tenant:acme:api: at most 50 \
         requests at once and 100 a second (the limits service may say otherwise, and is not asked here).",
        "sign-in does not apply: the path /api/orders does not lie below /signin.",
        "legacy-api would apply to every request, but is left out: the principal is missing.",
    ] {
        assert!(told.contains(&sentences(sentence)), "{sentence}\n{told}");
    }
    let (_, told, _) = explain(&["--config", EXAMPLE, "-H", "X-Tenant-Id: acme", "--principal", "ann", "/signin"]);
    let told = sentences(&told);
    for sentence in [
        "sign-in applies because the path is /signin;",
        "This limit only watches: it never refuses anybody.",
        "legacy-api applies to every request; it counts by principal ann,",
        "api does not apply: the path /signin does not lie below /api, and the method is GET, not POST.",
    ] {
        assert!(told.contains(sentence), "{sentence}\n{told}");
    }
    let (_, told, _) = explain(&["--config", EXAMPLE, "/"]);
    assert!(sentences(&told).contains("It is refused with 400: the header x-tenant-id is missing."), "{told}");
}

#[test]
fn what_is_told_about_a_running_tollgate_is_what_then_happens() {
    let tollgate = Tollgate::start(CONFIG);
    let url = format!("http://{}", tollgate.admin.unwrap());
    let told = |json: bool| {
        let mut arguments = vec!["--url", url.as_str(), "--client-ip", "203.0.113.7", "/x"];
        arguments.extend(json.then_some("--json"));
        let (code, told, error) = explain(&arguments);
        assert_eq!(code, 0, "{error}");
        told
    };
    for left in (1..=5).rev() {
        for _ in 0..2 {
            let explained: Value = serde_json::from_str(&told(true)).unwrap();
            assert_eq!(explained["verdict"], "forward");
            assert_eq!(explained["limits"][0]["before"]["remaining"], left);
            assert_eq!(explained["limits"][0]["after"]["remaining"], left - 1);
        }
        assert_eq!(from(&tollgate, "203.0.113.7"), 200);
    }
    let explained: Value = serde_json::from_str(&told(true)).unwrap();
    assert_eq!((&explained["verdict"], &explained["limits"][0]["allowed"]), (&json!("reject"), &json!(false)));
    let wait = explained["would_pass_after_us"].as_u64().unwrap();
    assert!((3_500_000_000..=3_600_000_000).contains(&wait), "an hour, less a moment: {wait}");
    let words = sentences(&told(false));
    assert!(words.contains("It is refused with 429 by per-client. It would pass in "), "{words}");
    assert!(words.contains("0 of 5 are left, and this request needs 1: denied. It would pass in "), "{words}");
    assert_eq!(from(&tollgate, "203.0.113.7"), 429);
}

#[test]
fn an_override_is_explained_and_so_is_a_store_that_is_away() {
    let server = RedisServer::start();
    let redis = format!("store: {{ kind: redis, deadline: 1s, redis: {{ endpoints: ['{}'] }} }}\n", server.address());
    let tollgate = Tollgate::start(&format!("{CONFIG}{redis}"));
    let order =
        r#"{"limit":"per-client","key":["203.0.113.7"],"rate":"9/m","burst":3,"for":"1h","by":"ann","reason":"x"}"#;
    assert_eq!(ask(&tollgate, "POST", "/v1/overrides", Some(order)).0, 201);
    let question = r#"{"subject":{"client_ip":"203.0.113.7","path":"/"},"cost":4}"#;
    let (_, explained) = ask(&tollgate, "POST", "/v1/explain", Some(question));
    assert_eq!((&explained["limits"][0]["quota_from"], &explained["verdict"]), (&json!("override"), &json!("reject")));
    assert_eq!(explained["would_pass_after_us"], Value::Null, "more than it ever holds");
    let (_, counter) = ask(&tollgate, "GET", "/v1/keys/per-client/203.0.113.7", None);
    assert_eq!((&counter["capacity"], &counter["override"]["by"]), (&json!(3), &json!("ann")));
    drop(server);
    eventually("nobody can say", || {
        let (_, explained) = ask(&tollgate, "POST", "/v1/explain", Some(question));
        explained["verdict"] == "unavailable" && explained["limits"][0]["standing"] == "unknown"
    });
}

#[test]
fn wrong_descriptions_are_refused_by_name() {
    for (arguments, words) in [
        (&["a.example/x"][..], "a.example/x"),
        (&["-H", "X-Tenant", "/"], "-H"),
        (&["--client-ip", "somebody", "/"], "subject.client_ip"),
        (&["--descriptor", "user", "/"], "--descriptor"),
        (&["--url", "http://127.0.0.1:1", "/"], "connection refused"),
        (&["--config", "/nothing.yaml", "/"], "/nothing.yaml"),
        (&["/%2e%2e/x/%"], "subject.path"),
    ] {
        let (code, told, error) = explain(arguments);
        assert!(code == 1 && told.is_empty() && error.contains(words), "{arguments:?}: {code} {told} {error}");
    }
    assert_eq!(explain(&[]).0, 2);
    let tollgate = Tollgate::start(CONFIG);
    assert_eq!(status(&tollgate.tell_admin("POST", "/v1/explain")), 400);
}
