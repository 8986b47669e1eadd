//! Keys of tokens from a URL, in the running program. How a fetch goes wrong is tested in
//! `sluicegate-server`.

use std::fs;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use sluicegate_testkit::{HttpRequest, UpstreamRecorder, UpstreamResponse, eventually};

use crate::running::Sluicegate;

/// Keys and tokens that another program has made; the tokens are good until 2033.
const KEYS: &str = include_str!("../../../sluicegate-server/tests/it/auth/foreign_jwks.json");
const TOKENS: &str = include_str!("../../../sluicegate-server/tests/it/auth/foreign_tokens.txt");

fn bearer(algorithm: &str) -> String {
    let mut lines = TOKENS.lines().filter_map(|line| line.split_once(' '));
    let (_, token) = lines.find(|(name, _)| *name == algorithm).unwrap();
    format!("Authorization: Bearer {token}")
}

/// A key set with these keys only.
fn key_set(ids: &[&str]) -> UpstreamResponse {
    let all: Value = serde_json::from_str(KEYS).unwrap();
    let keys = all["keys"].as_array().unwrap();
    let is_wanted = |key: &&Value| ids.contains(&key["kid"].as_str().unwrap());
    let keys: Vec<&Value> = keys.iter().filter(is_wanted).collect();
    assert_eq!(keys.len(), ids.len());
    UpstreamResponse::ok(json!({ "keys": keys }).to_string())
}

fn config(url: &str, burst: u32) -> String {
    format!(
        "
proxy: {{ listen: '127.0.0.1:0' }}
admin: {{ listen: '127.0.0.1:0' }}
principals: {{ jwt: {{ jwks_url: '{url}/keys?secret=hunter2' }} }}
limits:
  - {{ name: per-principal, key: principal, rate: 1000/s, burst: {burst} }}
"
    )
}

fn jwks(sluicegate: &Sluicegate) -> Value {
    let stats = sluicegate.admin_get("/v1/stats");
    serde_json::from_str::<Value>(stats.body()).unwrap()["jwks"].clone()
}

#[test]
fn keys_of_a_url_survive_a_reload_and_are_shown_to_operators() {
    let answer = Arc::new(Mutex::new(UpstreamResponse {
        status: 500,
        ..key_set(&["rsa"])
    }));
    let current = Arc::clone(&answer);
    let issuer = UpstreamRecorder::answering(move |_| current.lock().unwrap().clone());
    let sluicegate = Sluicegate::start(&config(&issuer.url(), 10));
    let status = |algorithm: &str| sluicegate.get("/", &[&bearer(algorithm)]).status();
    sluicegate.wait_for_log("the keys of tokens cannot be fetched, requests with a token get 503");
    assert_eq!(status("RS256"), 503);
    let ready = sluicegate.admin_get("/readyz");
    assert_eq!(ready.status(), 200, "requests without a token are served");
    assert!(ready.contains("requests with a token get 503: keys not yet loaded"));
    let question = json!({ "subject": { "client_ip": "192.0.2.1", "method": "GET", "path": "/",
        "headers": { "authorization": bearer("RS256").split_once(": ").unwrap().1 } } });
    let admin = sluicegate.admin.unwrap();
    let explained = HttpRequest::post("/v1/explain", question.to_string())
        .host(admin)
        .headers(&["Content-Type: application/json"])
        .send(admin);
    assert!(
        explained.contains("\"verdict\":\"unavailable\"")
            && explained.contains("with 503: keys not yet loaded"),
        "{explained}"
    );

    *answer.lock().unwrap() = key_set(&["rsa"]);
    eventually("the keys are loaded", || {
        jwks(&sluicegate)["state"] == "loaded"
    });
    assert_eq!((status("RS256"), status("RS384")), (200, 401));
    let shown = jwks(&sluicegate);
    assert_eq!(
        (&shown["keys"], &shown["last_error"]),
        (&json!(1), &Value::Null)
    );
    assert_eq!(shown["url"], format!("{}/keys?secret=***", issuer.url()));
    sluicegate.wait_for_log("new keys of tokens were fetched and are in force");

    // From here on the issuer is away; the keys stay, with the same settings and with others.
    *answer.lock().unwrap() = UpstreamResponse::ok("<html>");
    let faster = config(&issuer.url(), 8).replace("hunter2'", "hunter2', jwks: { refresh: 30s }");
    for config in [config(&issuer.url(), 9), faster] {
        fs::write(sluicegate.file("sluicegate.yaml"), config).unwrap();
        assert_eq!(sluicegate.admin_request("POST", "/v1/reload").status(), 200);
        assert_eq!(status("RS256"), 200);
    }
    // The other settings are a reason to fetch again.
    eventually("it was fetched again", || {
        jwks(&sluicegate)["last_error"]
            .as_str()
            .is_some_and(|error| error.contains("valid JSON"))
    });
    assert_eq!((status("RS256"), status("ES256")), (200, 401));
    let fetches = |result| {
        sluicegate.metric(&format!(
            "sluicegate_jwks_fetches_total{{result=\"{result}\"}}"
        ))
    };
    assert_eq!(fetches("changed"), 1);
    assert!(sluicegate.metric("sluicegate_jwks_age_seconds") < 60);
    let log = sluicegate.logged.lock().unwrap().join("\n");
    let told = log.matches("the last ones stay in force").count();
    assert_eq!(told, 1, "told once: {log}");
    assert!(!log.contains("hunter2"), "{log}");
}
