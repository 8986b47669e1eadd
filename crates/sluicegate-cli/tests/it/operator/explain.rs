//! `sluicegate explain`, of a file and of a running Sluicegate.

use std::process::Command;

use serde_json::{Value, json};
use sluicegate_testkit::{RedisServer, eventually};

use super::super::running::Sluicegate;
use super::{CONFIG, ask, from};

fn explain(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_sluicegate"))
        .arg("explain")
        .args(arguments)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code().unwrap(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

const EXAMPLE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/examples/sluicegate.yaml"
);

/// The text without the line breaks that make it readable.
fn sentences(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn each_limit_of_the_example_is_explained_in_words() {
    let url = "http://shop.example/api/orders";
    let (code, told, _) = explain(&[
        "--config",
        EXAMPLE,
        "-X",
        "POST",
        "-H",
        "X-Tenant-Id: acme",
        "--client-ip",
        "203.0.113.7",
        url,
    ]);
    let told = sentences(&told);
    assert_eq!(code, 0, "{told}");
    for sentence in [
        "It passes.",
        "per-ip would apply to every request, but api takes its place here.",
        "api applies because the path /api/orders lies below /api and the method is POST; it counts by client_ip (here 203.0.113.7), \
         in the counter api:203.0.113.7: at most 20 requests at once and 10 a second. 20 of 20 are left; this request takes 1 and leaves 19: allowed.",
        "tenant applies to every request; it counts by header x-tenant-id (here acme) and path_segment 1 (here api), in the counter tenant:acme:api: at most 50 \
         requests at once and 100 a second (the limits service may say otherwise, and is not asked here).",
        "sign-in does not apply: the path /api/orders does not lie below /signin.",
        "legacy-api would apply to every request, but is left out: the principal is missing.",
    ] {
        assert!(told.contains(&sentences(sentence)), "{sentence}\n{told}");
    }
    assert!(!told.contains("deny"), "nobody denies it: {told}");
    let (_, told, _) = explain(&[
        "--config",
        EXAMPLE,
        "-H",
        "X-Tenant-Id: acme",
        "--principal",
        "ann",
        "/signin",
    ]);
    let told = sentences(&told);
    for sentence in [
        "sign-in applies because the path is /signin;",
        "This limit only watches: it never refuses anybody.",
        "legacy-api applies to every request; it counts by principal (here ann),",
        "api does not apply: the path /signin does not lie below /api, and the method is GET, not POST.",
    ] {
        assert!(told.contains(sentence), "{sentence}\n{told}");
    }
    let (_, told, _) = explain(&["--config", EXAMPLE, "/"]);
    assert!(
        sentences(&told).contains("It is refused with 400: the header x-tenant-id is missing."),
        "{told}"
    );
    assert!(
        sentences(&told)
            .contains("deny tenant applies to every request, and cannot tell who is asking"),
        "{told}"
    );
}

#[test]
fn what_is_told_about_a_running_sluicegate_is_what_then_happens() {
    let sluicegate = Sluicegate::start(CONFIG);
    let url = format!("http://{}", sluicegate.admin.unwrap());
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
        assert_eq!(from(&sluicegate, "203.0.113.7"), 200);
    }
    let explained: Value = serde_json::from_str(&told(true)).unwrap();
    assert_eq!(
        (&explained["verdict"], &explained["limits"][0]["allowed"]),
        (&json!("reject"), &json!(false))
    );
    let wait = explained["would_pass_after_us"].as_u64().unwrap();
    assert!(
        (3_500_000_000..=3_600_000_000).contains(&wait),
        "an hour, less a moment: {wait}"
    );
    let words = sentences(&told(false));
    assert!(
        words.contains("It is refused with 429 by per-client. It would pass in "),
        "{words}"
    );
    assert!(
        words.contains("0 of 5 are left, and this request needs 1: denied. It would pass in "),
        "{words}"
    );
    assert_eq!(from(&sluicegate, "203.0.113.7"), 429);
}

#[test]
fn an_override_is_explained_and_so_is_a_store_that_is_away() {
    let server = RedisServer::start();
    let redis = format!(
        "store: {{ kind: redis, deadline: 1s, redis: {{ endpoints: ['{}'] }} }}\n",
        server.address()
    );
    let sluicegate = Sluicegate::start(&format!("{CONFIG}{redis}"));
    let order = r#"{"limit":"per-client","key":["203.0.113.7"],"rate":"9/m","burst":3,"for":"1h","by":"ann","reason":"x"}"#;
    assert_eq!(
        ask(&sluicegate, "POST", "/v1/overrides", Some(order)).0,
        201
    );
    let question = r#"{"subject":{"client_ip":"203.0.113.7","path":"/"},"cost":4}"#;
    let (_, explained) = ask(&sluicegate, "POST", "/v1/explain", Some(question));
    assert_eq!(
        (&explained["limits"][0]["quota_from"], &explained["verdict"]),
        (&json!("override"), &json!("reject"))
    );
    assert_eq!(
        explained["would_pass_after_us"],
        Value::Null,
        "more than it ever holds"
    );
    let (_, counter) = ask(&sluicegate, "GET", "/v1/keys/per-client/203.0.113.7", None);
    assert_eq!(
        (&counter["capacity"], &counter["override"]["by"]),
        (&json!(3), &json!("ann"))
    );
    drop(server);
    eventually("nobody can say", || {
        let (_, explained) = ask(&sluicegate, "POST", "/v1/explain", Some(question));
        explained["verdict"] == "unavailable" && explained["limits"][0]["standing"] == "unknown"
    });
}

/// The owner of a credential is found as at the proxy.
#[test]
fn a_credential_is_verified_and_one_that_is_not_accepted_is_told() {
    let directory = tempfile::tempdir().unwrap();
    // The digest of `key-of-ann`.
    let keys =
        "- { id: ann, sha256: ca64daa8b294dc4835d29ca02a6a47427ebc6a225ea3ac2e15f8417fb6601db2 }\n";
    std::fs::write(directory.path().join("keys.yaml"), keys).unwrap();
    let config = CONFIG.replace(
        "key: [client_ip], rate: 1/h, burst: 5",
        "key: [principal], rate: 1/h, burst: 5",
    );
    let principals = "principals: { required: true, api_keys: { file: keys.yaml } }\n";
    std::fs::write(
        directory.path().join("sluicegate.yaml"),
        format!("{config}{principals}"),
    )
    .unwrap();
    let sluicegate = Sluicegate::start_in(directory);
    let url = format!("http://{}", sluicegate.admin.unwrap());
    let told = |arguments: &[&str]| {
        let (code, told, error) = explain(&[&["--url", url.as_str(), "/x"], arguments].concat());
        assert_eq!(code, 0, "{error}");
        sentences(&told)
    };
    let known = told(&["-H", "X-Api-Key: key-of-ann"]);
    assert!(
        known.starts_with("GET /x from 127.0.0.1, ann It passes.")
            && known.contains("per-client:ann"),
        "{known}"
    );
    let wrong = told(&["-H", "X-Api-Key: another"]);
    assert!(
        wrong.contains("It is refused with 401: the credential is not valid (unknown_key)."),
        "{wrong}"
    );
    let missing = told(&[]);
    assert!(
        missing.contains("It is refused with 401: a credential is required (missing)."),
        "{missing}"
    );
    let said = told(&["--principal", "ben"]);
    assert!(
        said.contains("It passes.") && said.contains("per-client:ben"),
        "who is named needs no credential: {said}"
    );
    assert_eq!(sluicegate.get("/x", &["X-Api-Key: another"]).status(), 401);
    // Explaining is not asking.
    assert_eq!(
        sluicegate.metric("sluicegate_auth_refused_total{reason=\"unknown_key\"}"),
        1
    );
    assert_eq!(
        sluicegate.metric("sluicegate_auth_refused_total{reason=\"missing\"}"),
        0
    );
}

/// A line of curl, with another program in front.
#[test]
fn a_line_of_curl_is_understood_as_it_is() {
    let first = |arguments: &[&str]| {
        let (code, told, error) =
            explain(&[&["--config", EXAMPLE, "-H", "X-Tenant-Id: acme"], arguments].concat());
        assert_eq!(code, 0, "{error}");
        told.lines().next().unwrap().to_owned()
    };
    let url = "http://shop.example/api/orders";
    assert_eq!(
        first(&["-sSikLv", "-d", "a=1", "--data", "b=2", url]),
        format!("POST {url} from 127.0.0.1")
    );
    assert_eq!(first(&["-I", url]), format!("HEAD {url} from 127.0.0.1"));
    assert_eq!(
        first(&["-X", "PUT", "--data-binary", "@file", url]),
        format!("PUT {url} from 127.0.0.1")
    );
    assert_eq!(
        first(&["--silent", "--location", url]),
        format!("GET {url} from 127.0.0.1")
    );
}

#[test]
fn wrong_descriptions_are_refused_by_name() {
    for (arguments, words) in [
        (&["a.example/x"][..], "a.example/x"),
        (&["-H", "X-Tenant", "/"], "-H"),
        (
            &["-H", "X-Tenant-Id: a", "-H", "x-tenant-id: b", "/"],
            "-H x-tenant-id: given twice",
        ),
        (&["--client-ip", "somebody", "/"], "subject.client_ip"),
        (&["--descriptor", "user", "/"], "--descriptor"),
        (&["--url", "http://127.0.0.1:1", "/"], "connection refused"),
        (&["--config", "/nothing.yaml", "/"], "/nothing.yaml"),
        (&["/%2e%2e/x/%"], "subject.path"),
    ] {
        let (code, told, error) = explain(arguments);
        assert!(
            code == 1 && told.is_empty() && error.contains(words),
            "{arguments:?}: {code} {told} {error}"
        );
    }
    assert_eq!(explain(&[]).0, 2);
    let sluicegate = Sluicegate::start(CONFIG);
    assert_eq!(
        sluicegate.admin_request("POST", "/v1/explain").status(),
        400
    );
}
