//! Views of the admin API: counters, heaviest keys, numbers, the configuration.

use serde_json::{Value, json};
use sluicegate_testkit::{RedisServer, eventually};

use super::super::running::Sluicegate;
use super::{CONFIG, ask, exchange, from};

#[test]
fn a_key_is_inspected_and_reset_and_admitted_again() {
    let sluicegate = Sluicegate::start(CONFIG);
    (0..5).for_each(|_| assert_eq!(from(&sluicegate, "203.0.113.7"), 200));
    assert_eq!(from(&sluicegate, "203.0.113.7"), 429);
    let (code, counter) = ask(&sluicegate, "GET", "/v1/keys/per-client/203.0.113.7", None);
    assert_eq!(
        (code, &counter["remaining"], &counter["capacity"]),
        (200, &json!(0), &json!(5))
    );
    assert_eq!(counter["text"], "per-client:203.0.113.7");
    assert_eq!(counter["quota"], "at most 5 requests at once and 1 an hour");
    let reset_after = counter["reset_after_us"].as_u64().unwrap();
    assert!(
        (17_000_000_000..=18_000_000_000).contains(&reset_after),
        "five hours: {reset_after}"
    );

    let who = r#"{"by":"ann","reason":"a mistake of ours"}"#;
    let (code, reset) = ask(
        &sluicegate,
        "DELETE",
        "/v1/keys/per-client/203.0.113.7",
        Some(who),
    );
    assert_eq!((code, &reset["reset"]), (200, &json!(true)));
    assert_eq!(from(&sluicegate, "203.0.113.7"), 200);
    sluicegate.wait_for_log("a mistake of ours");
    let logged = sluicegate.logged.lock().unwrap();
    let line = logged
        .iter()
        .find(|line| line.contains("sluicegate::audit"))
        .unwrap();
    for word in [
        "reset",
        "per-client:203.0.113.7",
        "ann",
        "a mistake of ours",
        "127.0.0.1:",
    ] {
        assert!(line.contains(word), "{word} in {line}");
    }
}

#[test]
fn questions_about_nothing_say_what_is_wrong() {
    let sluicegate = Sluicegate::start(CONFIG);
    for (method, path, body, code, words) in [
        ("GET", "/v1/keys/nothing/x", None, 404, "nothing"),
        (
            "GET",
            "/v1/keys/per-client/somebody",
            None,
            400,
            "client_ip",
        ),
        (
            "GET",
            "/v1/keys/per-client/203.0.113.7/more",
            None,
            400,
            "per-client",
        ),
        ("GET", "/v1/keys/per-client/%ff", None, 400, "text"),
        (
            "DELETE",
            "/v1/keys/per-client/203.0.113.7",
            Some(r#"{"who":"ann"}"#),
            400,
            "who",
        ),
        ("GET", "/v1/keys?limit=nothing", None, 404, "nothing"),
        ("GET", "/v1/keys?n=1001", None, 400, "n: "),
        ("GET", "/v1/keys?key=x", None, 400, "key"),
        ("GET", "/v1/top?by=size", None, 400, "by"),
        ("GET", "/v1/top?n=0", None, 400, "n"),
        ("GET", "/v1/top?limits=a", None, 400, "limits"),
        ("GET", "/v1/stats?history=maybe", None, 400, "history"),
        ("GET", "/v1/events?outcome=maybe", None, 400, "outcome"),
        ("DELETE", "/v1/orders/b-0", None, 404, "b-0"),
        (
            "POST",
            "/v1/explain",
            Some(r#"{"limit":"per-client","key":["203.0.113.7"]}"#),
            400,
            "subject",
        ),
        ("POST", "/v1/explain", Some("{"), 400, "JSON"),
        (
            "POST",
            "/v1/bans",
            Some(r#"{"client_ip":"203.0.113.7","for":"1h","by":"ann","reason":"x","x":1}"#),
            400,
            "x",
        ),
        ("PUT", "/v1/bans", Some("{}"), 405, "POST"),
        ("GET", "/v1/bans", None, 405, "POST"),
    ] {
        let (got, answer) = ask(&sluicegate, method, path, body);
        let why = answer["error"]
            .as_str()
            .unwrap_or_else(|| panic!("{method} {path}: {answer}"));
        assert!(
            got == code && why.contains(words),
            "{method} {path}: {got} {why}"
        );
    }
    let answer = exchange(
        sluicegate.admin.unwrap(),
        "POST",
        "/v1/bans",
        "text/plain",
        Some("{}"),
    );
    assert!(
        answer.status() == 400 && answer.contains("application/json"),
        "{answer}"
    );
}

#[test]
fn counters_are_found_by_a_piece_of_their_key_and_can_be_reset_by_what_is_told() {
    let server = RedisServer::start();
    let redis = format!(
        "store: {{ kind: redis, deadline: 1s, redis: {{ endpoints: ['{}'] }} }}\n",
        server.address()
    );
    let shared = Sluicegate::start(&format!("{CONFIG}{redis}"));
    for sluicegate in [&shared, &Sluicegate::start(CONFIG)] {
        let hostile = "a:b/c !%41";
        for tenant in ["acme", hostile] {
            assert_eq!(
                sluicegate
                    .get(
                        "/",
                        &[
                            "X-Forwarded-For: 203.0.113.7",
                            &format!("X-Tenant: {tenant}")
                        ]
                    )
                    .status(),
                200
            );
        }
        let (code, found) = ask(sluicegate, "GET", "/v1/keys?limit=watched", None);
        let names: Vec<&Value> = found["keys"]
            .as_array()
            .unwrap()
            .iter()
            .map(|key| &key["key"][0])
            .collect();
        assert_eq!(
            (code, names),
            (200, vec![&json!(hostile), &json!("acme")]),
            "{found}"
        );
        let (_, found) = ask(sluicegate, "GET", "/v1/keys?contains=113.7", None);
        let expected = json!({ "limit": "per-client", "key": ["203.0.113.7"], "text": "per-client:203.0.113.7" });
        assert_eq!(found["keys"], json!([expected]), "{found}");
        let is_shared = std::ptr::eq(sluicegate, &raw const shared);
        assert_eq!(
            (&found["from"], &found["all"]),
            (
                &json!(if is_shared { "store" } else { "sketch" }),
                &json!(is_shared)
            )
        );
    }
    let compact =
        format!("{CONFIG}{redis}").replace("kind: redis,", "kind: redis, key_layout: compact,");
    let (code, refused) = ask(&Sluicegate::start(&compact), "GET", "/v1/keys", None);
    assert!(
        code == 400 && refused["error"].as_str().unwrap().contains("key_layout"),
        "{code} {refused}"
    );
}

#[test]
fn the_heaviest_and_the_most_denied_keys_are_on_top() {
    let sluicegate = Sluicegate::start(CONFIG);
    for number in 0..20 {
        from(&sluicegate, "203.0.113.66");
        from(&sluicegate, &format!("198.51.100.{number}"));
    }
    for _ in 0..4 {
        from(&sluicegate, "203.0.113.7");
    }
    let (_, denied) = ask(
        &sluicegate,
        "GET",
        "/v1/top?by=denied&limit=per-client",
        None,
    );
    assert_eq!(denied["keys"].as_array().map(Vec::len), Some(1), "{denied}");
    let expected = json!({
        "limit": "per-client", "key": ["203.0.113.66"], "text": "per-client:203.0.113.66", "requests": 20, "denied": 15,
    });
    assert_eq!(denied["keys"][0], expected);
    let (_, heavy) = ask(&sluicegate, "GET", "/v1/top?limit=per-client&n=2", None);
    assert_eq!(
        (&heavy["keys"][0]["requests"], &heavy["keys"][1]["requests"]),
        (&json!(20), &json!(4))
    );
    // Nobody names the key of requests that lack it.
    let (_, shared) = ask(&sluicegate, "GET", "/v1/top?limit=watched", None);
    assert_eq!(
        (&shared["keys"][0]["key"], &shared["keys"][0]["requests"]),
        (&Value::Null, &json!(44))
    );
}

#[test]
fn the_numbers_say_what_has_happened_and_the_last_minutes_are_kept() {
    let sluicegate = Sluicegate::start(CONFIG);
    for _ in 0..7 {
        from(&sluicegate, "203.0.113.7");
    }
    let (code, stats) = ask(&sluicegate, "GET", "/v1/stats", None);
    assert_eq!(
        (
            code,
            &stats["requests"]["forwarded"],
            &stats["requests"]["limited"]
        ),
        (200, &json!(5), &json!(2))
    );
    assert_eq!(
        (
            &stats["limits"][0]["allowed"],
            &stats["limits"][0]["denied"]
        ),
        (&json!(5), &json!(2))
    );
    assert_eq!(
        (&stats["store"]["kind"], &stats["store"]["degraded"]),
        (&json!("local"), &json!(false))
    );
    assert_eq!(stats["history"], Value::Null);
    eventually("the replica is on the board", || {
        let (_, stats) = ask(&sluicegate, "GET", "/v1/stats", None);
        stats["replicas"]
            .as_array()
            .is_some_and(|seen| seen.len() == 1 && seen[0]["is_this"] == true)
    });
    let sum = |series: &Value| {
        series
            .as_array()
            .unwrap()
            .iter()
            .map(|point| point.as_u64().unwrap())
            .sum::<u64>()
    };
    eventually("a second is over", || {
        from(&sluicegate, "203.0.113.7");
        let (_, stats) = ask(&sluicegate, "GET", "/v1/stats?history=true", None);
        let history = &stats["history"];
        sum(&history["denied"]) > 0
            && sum(&history["limits"][0]["denied"]) == sum(&history["denied"])
    });
}

#[test]
fn the_configuration_is_shown_without_secrets_and_with_the_last_mistakes() {
    let secrets = "# https://ann:hunter2@b.example\n# https://b.example/?api_key=hunter3\n# x-api-key: hunter4\n";
    let config = format!("{CONFIG}{secrets}");
    let sluicegate = Sluicegate::start(&config);
    let (_, shown) = ask(&sluicegate, "GET", "/v1/config", None);
    let text = shown["text"].as_str().unwrap();
    assert!(
        text.contains("name: per-client") && !text.contains("hunter"),
        "{text}"
    );
    assert!(
        shown["words"]
            .as_array()
            .unwrap()
            .iter()
            .any(|word| word.as_str().unwrap().starts_with("per-client: "))
    );
    assert_eq!(
        (&shown["version"], &shown["last_error"]),
        (&json!(1), &Value::Null)
    );
    std::fs::write(
        sluicegate.file("sluicegate.yaml"),
        config.replace("burst: 5", "burst: 0"),
    )
    .unwrap();
    eventually("the mistake is told", || {
        let (_, shown) = ask(&sluicegate, "GET", "/v1/config", None);
        shown["last_error"]["mistakes"][0]
            .as_str()
            .is_some_and(|mistake| mistake.contains("limits[0].burst"))
    });
    assert_eq!(
        sluicegate.metric("sluicegate_config_last_reload_successful"),
        0
    );
    std::fs::write(sluicegate.file("sluicegate.yaml"), config).unwrap();
    eventually("all is well again", || {
        let (_, shown) = ask(&sluicegate, "GET", "/v1/config", None);
        shown["last_error"] == Value::Null
    });
    assert_eq!(
        sluicegate.metric("sluicegate_config_last_reload_successful"),
        1
    );
}

#[test]
fn a_reload_that_somebody_asked_for_is_in_the_audit_log() {
    let sluicegate = Sluicegate::start(CONFIG);
    let is_told = |words: &[&str]| {
        let all = ["sluicegate::audit", "reload", "127.0.0.1:"]
            .iter()
            .chain(words);
        sluicegate
            .logged
            .lock()
            .unwrap()
            .iter()
            .any(|line| all.clone().all(|word| line.contains(word)))
    };
    assert_eq!(ask(&sluicegate, "POST", "/v1/reload", None).0, 200);
    eventually("it is told", || is_told(&["(not said)"]));
    let who = r#"{"by":"ann","reason":"launch day"}"#;
    assert_eq!(ask(&sluicegate, "POST", "/v1/reload", Some(who)).0, 200);
    eventually("with who and why", || is_told(&["ann", "launch day"]));
    let (code, refused) = ask(&sluicegate, "POST", "/v1/reload", Some(r#"{"who":"ann"}"#));
    assert!(
        code == 400 && refused["error"].as_str().unwrap().contains("who"),
        "{code} {refused}"
    );
}

#[test]
fn deep_readiness_asks_the_store() {
    let server = RedisServer::start();
    let redis = format!(
        "store: {{ kind: redis, deadline: 1s, redis: {{ endpoints: ['{}'] }} }}\n",
        server.address()
    );
    let sluicegate = Sluicegate::start(&format!("{CONFIG}{redis}"));
    eventually("it answers", || {
        let (code, ready) = ask(&sluicegate, "GET", "/readyz?deep=true", None);
        code == 200 && ready["store"]["answers"] == true
    });
    assert_eq!(
        ask(&sluicegate, "GET", "/readyz", None).1["store"],
        Value::Null
    );
    drop(server);
    eventually("it does not", || {
        let (code, ready) = ask(&sluicegate, "GET", "/readyz?deep=true", None);
        code == 503
            && ready["store"]["answers"] == false
            && !ready["reasons"].as_array().unwrap().is_empty()
    });
    eventually(
        "requests are answered all the same, and whoever asks is told why they may be answered otherwise",
        || {
            let (code, ready) = ask(&sluicegate, "GET", "/readyz", None);
            assert_eq!(code, 200);
            ready["reasons"] == json!(["the store is away: its failure policy decides"])
        },
    );
    eventually("it shows though nobody asks for anything", || {
        ask(&sluicegate, "GET", "/v1/stats", None).1["store"]["degraded"] == true
    });
    assert_eq!(sluicegate.metric("sluicegate_store_degraded"), 1);
}

#[test]
fn beyond_loopback_only_the_page_and_health_are_there_without_a_token() {
    let directory = tempfile::tempdir().unwrap();
    let config = CONFIG.replace(
        "admin: { listen: '127.0.0.1:0' }",
        "admin: { listen: '127.0.0.1:0', token_file: token }",
    );
    std::fs::write(
        directory.path().join("token"),
        "a-token-that-is-long-enough\n",
    )
    .unwrap();
    std::fs::write(directory.path().join("sluicegate.yaml"), config).unwrap();
    let sluicegate = Sluicegate::start_in(directory);
    for path in [
        "/v1/stats",
        "/v1/top",
        "/v1/config",
        "/v1/orders",
        "/v1/events",
        "/v1/keys/a/b",
        "/metrics",
        "/readyz",
    ] {
        assert_eq!(sluicegate.admin_get(path).status(), 401, "{path}");
    }
    for path in ["/v1/bans", "/v1/overrides", "/v1/explain", "/v1/reload"] {
        assert_eq!(
            sluicegate.admin_request("POST", path).status(),
            401,
            "{path}"
        );
    }
    assert_eq!(
        sluicegate
            .admin_request("DELETE", "/v1/keys/per-client/203.0.113.7")
            .status(),
        401
    );
    for path in ["/", "/app.js", "/app.css", "/favicon.svg", "/healthz"] {
        let answer = sluicegate.admin_get(path);
        assert_eq!(answer.status(), 200, "{path}");
        assert!(
            answer.contains("content-security-policy: default-src 'none'"),
            "{path}: {answer}"
        );
    }
}
