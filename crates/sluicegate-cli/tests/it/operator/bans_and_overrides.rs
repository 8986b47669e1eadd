//! Bans and overrides: on every replica within a second, and over by themselves.

use std::time::{Duration, Instant};

use serde_json::json;
use sluicegate_server::messages::envoy::service::ratelimit::v3::rate_limit_response::Code;
use sluicegate_testkit::{RedisServer, eventually, wait_until};

use super::super::envoy_rls;
use super::super::running::Sluicegate;
use super::{CONFIG, ask, exchange, from};

/// The promise is a second; this machine may be busy.
const PROMISED: Duration = Duration::from_secs(5);

fn with_redis(server: &RedisServer) -> String {
    let redis = format!(
        "store: {{ kind: redis, deadline: 1s, redis: {{ endpoints: ['{}'] }} }}\n",
        server.address()
    );
    format!("{CONFIG}{redis}")
}

#[test]
fn an_override_on_one_replica_holds_on_the_other_and_ends_by_itself() {
    let server = RedisServer::start();
    let (one, other) = (
        Sluicegate::start(&with_redis(&server)),
        Sluicegate::start(&with_redis(&server)),
    );
    // Another that stays: what ends must not take it along, and is not just forgotten with everything.
    let ban = r#"{"client_ip":"198.51.100.0/24","for":"1h","by":"bob","reason":"scraping"}"#;
    assert_eq!(ask(&one, "POST", "/v1/bans", Some(ban)).0, 201);
    let order = r#"{"limit":"per-client","key":["203.0.113.7"],"rate":"100/h","burst":50,"for":"4s","by":"ann","reason":"load test"}"#;
    let begun = Instant::now();
    let (code, granted) = ask(&one, "POST", "/v1/overrides", Some(order));
    assert_eq!(
        (code, &granted["kind"]),
        (201, &json!("override")),
        "{granted}"
    );
    wait_until(PROMISED, "the other replica knows", || {
        ask(&other, "GET", "/v1/orders", None).1["orders"]
            .as_array()
            .is_some_and(|orders| orders.len() == 2)
    });
    eprintln!("the other replica knew after {:?}", begun.elapsed());
    for _ in 0..10 {
        let answer = other.get("/", &["X-Forwarded-For: 203.0.113.7"]);
        assert_eq!(
            (answer.status(), answer.header("x-ratelimit-limit")),
            (200, Some("50")),
            "{answer}"
        );
    }
    // Others are as they were.
    let answers: Vec<u16> = (0..6).map(|_| from(&other, "203.0.113.8")).collect();
    assert_eq!(answers, [200, 200, 200, 200, 200, 429]);
    let capacity = || {
        let (_, counter) = ask(&other, "GET", "/v1/keys/per-client/203.0.113.7", None);
        counter["capacity"].as_u64()
    };
    wait_until(4 * PROMISED, "it ends by itself", || capacity() == Some(5));
    assert!(
        begun.elapsed() >= Duration::from_secs(4),
        "not before its time"
    );
    for replica in [&one, &other] {
        eventually("the other order is alone", || {
            let (_, orders) = ask(replica, "GET", "/v1/orders", None);
            orders["orders"]
                .as_array()
                .is_some_and(|orders| matches!(&orders[..], [only] if only["kind"] == "ban"))
        });
    }
    one.wait_for_log("load test");
    let logged = one.logged.lock().unwrap();
    let line = logged
        .iter()
        .find(|line| line.contains("sluicegate::audit") && line.contains("override"))
        .unwrap();
    for word in ["override", "ann", "load test", "203.0.113.7", "until"] {
        assert!(line.contains(word), "{word} in {line}");
    }
}

#[test]
fn a_ban_on_one_replica_holds_on_the_other_at_every_door_until_it_is_ended() {
    let server = RedisServer::start();
    let config = with_redis(&server).replace("decisions: { ", "decisions: { grpc: '127.0.0.1:0', ");
    let (one, other) = (Sluicegate::start(&config), Sluicegate::start(&config));
    assert_eq!(from(&other, "203.0.113.7"), 200);
    let order = r#"{"client_ip":"203.0.113.0/24","for":"1h","by":"ann","reason":"scraping"}"#;
    let (_, ban) = ask(&one, "POST", "/v1/bans", Some(order));
    wait_until(PROMISED, "the other replica bans", || {
        from(&other, "203.0.113.7") == 403
    });
    assert_eq!(
        (from(&one, "203.0.113.9"), from(&one, "203.0.114.1")),
        (403, 200)
    );
    let question = r#"{"subject":{"client_ip":"203.0.113.7"}}"#;
    let answer = exchange(
        other.decisions.unwrap(),
        "POST",
        "/v1/check",
        "application/json",
        Some(question),
    );
    assert!(answer.contains(r#""allowed":false"#), "{answer}");
    envoy_rls::client(&other, async |channel| {
        for (address, code) in [("203.0.113.7", Code::OverLimit), ("203.0.114.1", Code::Ok)] {
            let question = envoy_rls::request([envoy_rls::descriptor("remote_address", address)]);
            let answer = envoy_rls::ask_with(&channel, question, None).await.unwrap();
            assert_eq!(answer.overall_code(), code, "{address}");
        }
    });
    let (_, explained) = ask(&other, "POST", "/v1/explain", Some(question));
    assert_eq!(explained["verdict"], "refused");
    assert!(
        explained["summary"]
            .as_str()
            .unwrap()
            .contains("banned by ann (scraping)"),
        "{explained}"
    );
    assert_eq!(other.metric("sluicegate_orders{kind=\"ban\"}"), 1);

    let path = format!("/v1/orders/{}", ban["id"].as_str().unwrap());
    let (code, ended) = ask(
        &other,
        "DELETE",
        &path,
        Some(r#"{"by":"bob","reason":"sorted out"}"#),
    );
    assert_eq!((code, &ended["ended"]), (200, &json!(true)));
    assert_ne!(
        from(&other, "203.0.113.7"),
        403,
        "at once where it was ended"
    );
    wait_until(PROMISED, "and soon everywhere", || {
        from(&one, "203.0.113.9") != 403
    });
    other.wait_for_log("sorted out");
}

#[test]
fn orders_outlive_the_store_and_the_configuration() {
    let server = RedisServer::start();
    let config =
        with_redis(&server).replace("kind: redis,", "kind: redis, on_failure: { policy: open },");
    let sluicegate = Sluicegate::start(&config);
    let order =
        r#"{"limit":"per-client","unlimited":true,"for":"1h","by":"ann","reason":"launch day"}"#;
    assert_eq!(
        ask(&sluicegate, "POST", "/v1/overrides", Some(order)).0,
        201
    );
    assert!(
        (0..20).all(|_| from(&sluicegate, "203.0.113.7") == 200),
        "nobody is limited"
    );
    let ban = r#"{"client_ip":"203.0.113.66","for":"1h","by":"ann","reason":"x"}"#;
    assert_eq!(ask(&sluicegate, "POST", "/v1/bans", Some(ban)).0, 201);
    std::fs::write(
        sluicegate.file("sluicegate.yaml"),
        config.replace("burst: 5", "burst: 6"),
    )
    .unwrap();
    eventually("the file was read again", || {
        sluicegate.metric("sluicegate_config_version") == 2
    });
    assert!(
        (0..20).all(|_| from(&sluicegate, "203.0.113.7") == 200),
        "nor after a reload"
    );
    drop(server);
    eventually("the store is away", || {
        sluicegate.metric("sluicegate_store_degraded") == 1 || {
            from(&sluicegate, "203.0.113.7");
            false
        }
    });
    assert_eq!(
        from(&sluicegate, "203.0.113.66"),
        403,
        "a ban needs no store"
    );
    let (code, refused) = ask(&sluicegate, "POST", "/v1/bans", Some(ban));
    assert_eq!(
        code, 503,
        "what cannot be written down is not promised: {refused}"
    );
}

#[test]
fn an_order_about_nothing_is_refused_by_name() {
    let sluicegate = Sluicegate::start(CONFIG);
    for (order, code, words) in [
        (
            r#"{"limit":"nothing","unlimited":true,"for":"1h","by":"ann","reason":"x"}"#,
            404,
            "nothing",
        ),
        (
            r#"{"limit":"per-client","key":["somebody"],"unlimited":true,"for":"1h","by":"ann","reason":"x"}"#,
            400,
            "key: ",
        ),
        (
            r#"{"limit":"per-client","rate":"fast","for":"1h","by":"ann","reason":"x"}"#,
            400,
            "rate: ",
        ),
        (
            r#"{"limit":"per-client","rate":"1/s","by":"ann","reason":"x"}"#,
            400,
            "for: ",
        ),
        (
            r#"{"limit":"per-client","rate":"1/s","for":"1h","reason":"x"}"#,
            400,
            "by: ",
        ),
    ] {
        let (got, refused) = ask(&sluicegate, "POST", "/v1/overrides", Some(order));
        assert!(
            got == code && refused["error"].as_str().unwrap().contains(words),
            "{order}: {got} {refused}"
        );
    }
    assert_eq!(
        ask(&sluicegate, "GET", "/v1/orders", None).1["orders"],
        json!([])
    );
}

/// Writers at the same time lose nothing, and the list is bounded.
#[test]
fn orders_that_are_given_at_the_same_time_are_all_kept() {
    let server = RedisServer::start();
    let (one, other) = (
        Sluicegate::start(&with_redis(&server)),
        Sluicegate::start(&with_redis(&server)),
    );
    std::thread::scope(|scope| {
        for (number, replica) in [&one, &other, &one, &other].into_iter().enumerate() {
            scope.spawn(move || {
                for host in 0..10 {
                    let order = format!(
                        r#"{{"client_ip":"198.51.{number}.{host}","for":"1h","by":"ann","reason":"all of them"}}"#
                    );
                    let (code, told) = ask(replica, "POST", "/v1/bans", Some(&order));
                    assert_eq!(code, 201, "{told}");
                }
            });
        }
    });
    let known = |replica| {
        ask(replica, "GET", "/v1/orders", None).1["orders"]
            .as_array()
            .unwrap()
            .len()
    };
    wait_until(PROMISED, "both know all of them", || {
        known(&one) == 40 && known(&other) == 40
    });
    let ttl: i64 = server.command(&["PTTL", "sluicegate:!orders"]);
    assert!(
        (1..=3_600_000).contains(&ttl),
        "kept as long as the last of them: {ttl}"
    );
}

#[test]
fn there_is_an_end_to_how_many_orders_are_kept() {
    let sluicegate = Sluicegate::start(CONFIG);
    let order = |number: usize| {
        format!(
            r#"{{"client_ip":"10.{}.{}.0/24","for":"1h","by":"ann","reason":"x"}}"#,
            number / 250,
            number % 250
        )
    };
    for number in 0..1_000 {
        assert_eq!(
            ask(&sluicegate, "POST", "/v1/bans", Some(&order(number))).0,
            201
        );
    }
    let (code, refused) = ask(&sluicegate, "POST", "/v1/bans", Some(&order(1_000)));
    assert!(
        code == 400 && refused["error"].as_str().unwrap().contains("1000 orders"),
        "{code} {refused}"
    );
    assert_eq!(
        (
            from(&sluicegate, "10.3.249.7"),
            from(&sluicegate, "10.4.0.7")
        ),
        (403, 200)
    );
    // The last word about somebody takes the place of the one before.
    assert_eq!(ask(&sluicegate, "POST", "/v1/bans", Some(&order(7))).0, 201);
}

/// A value that another program wrote under our key changes nothing, and is logged.
#[test]
fn a_board_that_was_tampered_with_bans_nobody_and_keeps_what_is_known() {
    let server = RedisServer::start();
    let sluicegate = Sluicegate::start(&with_redis(&server));
    let ban = r#"{"client_ip":"203.0.113.66","for":"1h","by":"ann","reason":"x"}"#;
    assert_eq!(ask(&sluicegate, "POST", "/v1/bans", Some(ban)).0, 201);
    server.command::<()>(&["SET", "sluicegate:!orders", "{\"all\": \"your base\"}"]);
    sluicegate.wait_for_log("was not written by us");
    assert_eq!(
        (
            from(&sluicegate, "203.0.113.66"),
            from(&sluicegate, "203.0.113.7")
        ),
        (403, 200)
    );
    let some = r#"[{"id":"x"},7,{"id":"b-1","what":{"ban_clients":"203.0.113.7/32"},"by":"eve","reason":"y","since_ms":0,"until_ms":99999999999999}]"#;
    server.command::<()>(&["SET", "sluicegate:!orders", some]);
    wait_until(PROMISED, "the one that can be read holds", || {
        from(&sluicegate, "203.0.113.7") == 403
    });
}
