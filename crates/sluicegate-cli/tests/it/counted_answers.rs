//! Limits that count by the answer, at every door of the running program.

use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::{Arc, Condvar, Mutex};

use serde_json::{Value, json};
use sluicegate_testkit::raw_socket::{self, read_head, serve_connections_in_parallel};
use sluicegate_testkit::{
    HttpRequest, HttpResponse, RedisServer, UpstreamProtocol, UpstreamRecorder, UpstreamResponse,
    eventually,
};

use super::decisions::{exchange, request};
use super::operator;
use super::running::Sluicegate;

/// Answers with the status in the last part of the path.
fn server(protocol: UpstreamProtocol) -> UpstreamRecorder {
    UpstreamRecorder::answering_with(protocol, |recorded| UpstreamResponse {
        status: recorded.path().rsplit('/').next().unwrap().parse().unwrap(),
        ..UpstreamResponse::ok("")
    })
}

fn config(upstream: &str, limits: &str, more: &str) -> String {
    format!(
        "
proxy: {{ listen: '127.0.0.1:0', upstream: '{upstream}', timeouts: {{ request: 1s }} }}
decisions: {{ http: '127.0.0.1:0' }}
admin: {{ listen: '127.0.0.1:0' }}
client_ip: {{ trusted_proxies: [127.0.0.1/32] }}
{more}
limits:
{limits}
"
    )
}

fn redis(server: &RedisServer) -> String {
    let address = server.address();
    format!("store: {{ kind: redis, deadline: 1s, redis: {{ endpoints: ['{address}'] }} }}")
}

const LOGINS: &str = "  - { name: logins, key: [client_ip], rate: 1/h, burst: 2, count_when: { status: [401, 5xx] } }";

/// The units that a counter has left.
fn left(sluicegate: &Sluicegate, limit: &str, client: &str) -> u64 {
    let state = sluicegate.admin_get(&format!("/v1/keys/{limit}/{client}"));
    let state: Value = serde_json::from_str(state.body()).unwrap_or_else(|_| panic!("{state}"));
    state["remaining"]
        .as_u64()
        .unwrap_or_else(|| panic!("{state}"))
}

fn get(sluicegate: &Sluicegate, client: &str, path: &str) -> HttpResponse {
    let line = format!("X-Forwarded-For: {client}");
    sluicegate.get(path, &[&line])
}

#[test]
fn failed_logins_count_and_others_are_free() {
    let store = RedisServer::start();
    for (store, client) in [(String::new(), 0), (redis(&store), 10)] {
        for (protocol, client) in [
            (UpstreamProtocol::Http1, client),
            (UpstreamProtocol::Http2, client + 5),
        ] {
            let upstream = server(protocol);
            let sluicegate = Sluicegate::start(&config(&upstream.url(), LOGINS, &store));
            for (client, http2) in [(client + 1, false), (client + 2, true)] {
                let client = &format!("203.0.113.{client}");
                let ask = |status: u16| {
                    let line = format!("X-Forwarded-For: {client}");
                    let request = HttpRequest::get(&format!("/{status}")).headers(&[line]);
                    match http2 {
                        false => request.send(sluicegate.proxy),
                        true => request.send_http2(sluicegate.proxy),
                    }
                };
                for _ in 0..4 {
                    assert_eq!(ask(200).status(), 200);
                }
                assert_eq!(left(&sluicegate, "logins", client), 2);
                for spent in 1..=2 {
                    assert_eq!(ask(401).status(), 401);
                    // Redis hears of it after the answer was sent.
                    eventually("the failure is counted", || {
                        left(&sluicegate, "logins", client) == 2 - spent
                    });
                }
                let seen = upstream.count();
                let refused = ask(200);
                assert_eq!(refused.status(), 429, "{refused}");
                assert!(refused.header("retry-after").is_some(), "{refused}");
                assert_eq!(upstream.count(), seen, "the server is not asked");
            }
            let counted = |outcome: &str| {
                sluicegate.metric(&format!(
                    "sluicegate_limit_decisions_total{{limit=\"logins\",outcome=\"{outcome}\"}}"
                ))
            };
            assert_eq!((counted("allowed"), counted("denied")), (4, 2));
        }
    }
}

#[test]
fn answers_that_are_free_give_their_units_back() {
    let store = RedisServer::start();
    let limits =
        "  - { name: cached, key: [client_ip], rate: 1/h, burst: 2, refund_when: { status: 304 } }";
    for store in [String::new(), redis(&store)] {
        let upstream = server(UpstreamProtocol::Http1);
        let sluicegate = Sluicegate::start(&config(&upstream.url(), limits, &store));
        let client = "203.0.113.1";
        for _ in 0..3 {
            assert_eq!(get(&sluicegate, client, "/304").status(), 304);
            eventually("the unit is back", || {
                left(&sluicegate, "cached", client) == 2
            });
        }
        for _ in 0..2 {
            assert_eq!(get(&sluicegate, client, "/200").status(), 200);
        }
        assert_eq!(get(&sluicegate, client, "/304").status(), 429);
    }
}

#[test]
fn our_own_errors_count_with_their_status() {
    let sluicegate = Sluicegate::start(&config(
        &format!("http://{}", raw_socket::closed_address()),
        LOGINS,
        "",
    ));
    for _ in 0..2 {
        assert_eq!(get(&sluicegate, "203.0.113.1", "/").status(), 502);
    }
    assert_eq!(get(&sluicegate, "203.0.113.1", "/").status(), 429);
    // A gRPC caller is told 200, but the server did not answer.
    let lines = [
        "X-Forwarded-For: 203.0.113.2",
        "Content-Type: application/grpc",
    ];
    let call = HttpRequest::post("/a.B/C", "").headers(&lines);
    for _ in 0..2 {
        assert_eq!(
            call.send_http2(sluicegate.proxy).header("grpc-status"),
            Some("14")
        );
    }
    assert_eq!(
        call.send_http2(sluicegate.proxy).header("grpc-status"),
        Some("8")
    );
    // A server that does not answer in time.
    let silent = serve_connections_in_parallel(|mut stream| {
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let sluicegate = Sluicegate::start(&config(&format!("http://{silent}"), LOGINS, ""));
    assert_eq!(get(&sluicegate, "203.0.113.1", "/").status(), 504);
    assert_eq!(left(&sluicegate, "logins", "203.0.113.1"), 1);
}

/// Guessing would be free for whoever hangs up before the answer.
#[test]
fn a_client_that_hangs_up_before_the_answer_pays() {
    let limits = "
  - { name: when, key: [client_ip], rate: 1/h, burst: 3, count_when: { status: [401] } }
  - { name: refund, key: [client_ip], rate: 1/h, burst: 3, refund_when: { status: [2xx] } }";
    let redis_server = RedisServer::start();
    for store in [String::new(), redis(&redis_server)] {
        // Answers when the test says so, which is never before the client is gone.
        let released = Arc::new((Mutex::new(false), Condvar::new()));
        let asked = Arc::new(Mutex::new(0));
        let (release, count) = (Arc::clone(&released), Arc::clone(&asked));
        let upstream = UpstreamRecorder::answering(move |_| {
            *count.lock().unwrap() += 1;
            let (is_over, changed) = &*release;
            let _over = changed
                .wait_while(is_over.lock().unwrap(), |is_over| !*is_over)
                .unwrap();
            UpstreamResponse::ok("")
        });
        let more = format!("{store}\nlog: {{ access: true }}");
        let text = config(&upstream.url(), limits, &more).replace("request: 1s", "request: 60s");
        let sluicegate = Sluicegate::start(&text);
        let client = "203.0.113.1";
        let mut socket = sluicegate.connect();
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {client}\r\n\r\n");
        socket.write_all(head.as_bytes()).unwrap();
        eventually("the server was asked", || *asked.lock().unwrap() == 1);
        assert_eq!(left(&sluicegate, "when", client), 3, "it is only looked at");
        drop(socket);
        eventually("the client who left has paid", || {
            left(&sluicegate, "when", client) == 2
        });
        assert_eq!(left(&sluicegate, "refund", client), 2, "nothing comes back");
        let (is_over, changed) = &*released;
        *is_over.lock().unwrap() = true;
        changed.notify_all();
        // Whoever waits for the same answer pays nothing.
        assert_eq!(get(&sluicegate, client, "/").status(), 200);
        assert_eq!(left(&sluicegate, "when", client), 2);
        eventually("the unit is back", || {
            left(&sluicegate, "refund", client) == 2
        });
    }
}

/// The same for a client that ends in the middle of its body.
#[test]
fn a_client_that_breaks_off_its_body_pays() {
    let upstream = server(UpstreamProtocol::Http1);
    let sluicegate = Sluicegate::start(&config(&upstream.url(), LOGINS, ""));
    let mut socket = sluicegate.connect();
    socket
        .write_all(b"POST /200 HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.1\r\nContent-Length: 9\r\n\r\nhalf")
        .unwrap();
    socket.shutdown(Shutdown::Write).unwrap();
    let _ = socket.read_to_end(&mut Vec::new());
    eventually("the client who left has paid", || {
        left(&sluicegate, "logins", "203.0.113.1") == 1
    });
}

#[test]
fn a_switch_of_protocols_is_an_answer_too() {
    let server = serve_connections_in_parallel(|mut stream| {
        if read_head(&mut stream).is_some() {
            let answer = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
            let _ = stream.write_all(answer);
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    let limits = "
  - { name: counted, key: [client_ip], rate: 1/h, burst: 3, count_when: { status: [101] } }
  - { name: free, key: [client_ip], rate: 1/h, burst: 3, refund_when: { status: [101] } }";
    let sluicegate = Sluicegate::start(&config(&format!("http://{server}"), limits, ""));
    let mut socket = sluicegate.connect();
    socket
        .write_all(b"GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
        .unwrap();
    let head = read_head(&mut socket).unwrap();
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    assert_eq!(left(&sluicegate, "counted", "203.0.113.1"), 2);
    assert_eq!(left(&sluicegate, "free", "203.0.113.1"), 3);
}

#[test]
fn wrong_credentials_are_failed_logins() {
    let directory = tempfile::tempdir().unwrap();
    let keys =
        "- { id: ann, sha256: 70b418541da77d413246ec0d700eebb8b23852493cfaa4ab4f39009cd68360f0 }\n";
    fs::write(directory.path().join("keys.yaml"), keys).unwrap();
    let upstream = server(UpstreamProtocol::Http1);
    let more = "principals: { required: true, api_keys: { file: keys.yaml } }";
    fs::write(
        directory.path().join("sluicegate.yaml"),
        config(&upstream.url(), LOGINS, more),
    )
    .unwrap();
    let sluicegate = Sluicegate::start_in(directory);
    let ask = |key: &str| {
        let lines = [
            "X-Forwarded-For: 203.0.113.1".to_owned(),
            format!("X-Api-Key: {key}"),
        ];
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        sluicegate.get("/200", &lines).status()
    };
    for _ in 0..3 {
        assert_eq!(ask("secret-of-ann"), 200);
    }
    assert_eq!([ask("guess"), ask("another guess")], [401, 401]);
    assert_eq!(ask("secret-of-ann"), 429, "no more guesses for this hour");
}

#[test]
fn the_decision_service_looks_and_the_caller_charges_by_name() {
    let sluicegate = Sluicegate::start(&config("http://127.0.0.1:9", LOGINS, ""));
    let ask = |path: &str, body: &Value| {
        let asked = request(path, &[], &body.to_string());
        let answer = exchange(&sluicegate, asked.as_bytes());
        serde_json::from_str::<Value>(answer.body()).unwrap_or_else(|_| panic!("{answer}"))
    };
    let login =
        json!({ "subject": { "client_ip": "203.0.113.1", "method": "POST", "path": "/login" } });
    let failed = json!({ "limit": "logins", "key": ["203.0.113.1"] });
    for _ in 0..3 {
        let looked = ask("/v1/check", &login);
        assert_eq!(looked["allowed"], true, "{looked}");
    }
    assert_eq!(left(&sluicegate, "logins", "203.0.113.1"), 2);
    for _ in 0..2 {
        assert_eq!(ask("/v1/check", &failed)["allowed"], true);
    }
    let refused = ask("/v1/check", &login);
    assert_eq!(refused["allowed"], false, "{refused}");
    assert!(refused["retry_after_us"].as_u64() > Some(0), "{refused}");
    let gateway = "GET /v1/authorize/forward-auth HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Forwarded-Method: GET\r\n\
                   X-Forwarded-Uri: /\r\nX-Forwarded-Host: a\r\nX-Forwarded-For: 203.0.113.1\r\n\r\n";
    assert_eq!(exchange(&sluicegate, gateway.as_bytes()).status(), 429);
    let other = gateway.replace("203.0.113.1", "203.0.113.2");
    for _ in 0..3 {
        assert_eq!(exchange(&sluicegate, other.as_bytes()).status(), 200);
    }
}

#[test]
fn overrides_and_replacements_hold_for_what_is_counted_later() {
    let limits = "
  - { name: base, key: [client_ip], rate: 1/h, burst: 9 }
  - { name: logins, replaces: base, match: { path: /login }, key: [client_ip], rate: 1/h, burst: 9, count_when: { status: 401 } }";
    let upstream = server(UpstreamProtocol::Http1);
    let sluicegate = Sluicegate::start(&config(&upstream.url(), limits, ""));
    let order = json!({ "limit": "logins", "key": ["203.0.113.1"], "rate": "1/h", "burst": 1, "for": "1h", "by": "ann", "reason": "test" });
    let (code, granted) = operator::ask(
        &sluicegate,
        "POST",
        "/v1/overrides",
        Some(&order.to_string()),
    );
    assert_eq!(code, 201, "{granted}");
    let ask =
        |client: &str, status: u16| get(&sluicegate, client, &format!("/login/{status}")).status();
    assert_eq!(
        [ask("203.0.113.1", 200), ask("203.0.113.1", 401)],
        [200, 401]
    );
    assert_eq!(ask("203.0.113.1", 200), 429);
    assert_eq!(
        [ask("203.0.113.2", 401), ask("203.0.113.2", 401)],
        [401, 401]
    );
    assert_eq!(left(&sluicegate, "logins", "203.0.113.2"), 7);
    assert_eq!(
        left(&sluicegate, "base", "203.0.113.2"),
        9,
        "it is replaced"
    );
}

#[test]
fn an_external_quota_holds_for_what_is_counted_later() {
    let service = UpstreamRecorder::answering(|_| {
        UpstreamResponse::ok(r#"{"average": 1, "period": "1h", "burst": 1, "tenant_key": "acme"}"#)
            .header("content-type", "application/json")
    });
    let store = RedisServer::start();
    let more = format!(
        "{}\nexternal: {{ timeout: 5s, http: {{ url: '{}/limits' }} }}",
        redis(&store),
        service.url()
    );
    let limits = "  - { name: logins, key: [client_ip], rate: 100/h, quota_from: external, count_when: { status: 401 } }";
    let upstream = server(UpstreamProtocol::Http1);
    let sluicegate = Sluicegate::start(&config(&upstream.url(), limits, &more));
    for _ in 0..3 {
        assert_eq!(get(&sluicegate, "203.0.113.1", "/200").status(), 200);
    }
    assert_eq!(get(&sluicegate, "203.0.113.1", "/401").status(), 401);
    // The tenant has one counter, whatever the address.
    eventually("the tenant has no guess left", || {
        get(&sluicegate, "203.0.113.2", "/200").status() == 429
    });
}

#[test]
fn what_will_be_counted_is_explained() {
    let upstream = server(UpstreamProtocol::Http1);
    let sluicegate = Sluicegate::start(&config(&upstream.url(), LOGINS, ""));
    let question = json!({ "subject": { "client_ip": "203.0.113.1" } });
    let (_, told) = operator::ask(
        &sluicegate,
        "POST",
        "/v1/explain",
        Some(&question.to_string()),
    );
    let limit = &told["limits"][0];
    let words = limit["words"].as_str().unwrap();
    assert!(
        words.contains("2 of 2 are left; this request takes nothing now, and 1 when it is answered with 401 or 5xx: allowed"),
        "{words}"
    );
    assert_eq!(
        limit["counts"],
        "requests that are answered with 401 or 5xx"
    );
    assert_eq!(limit["after"]["remaining"], 2);
    let printed = sluicegate.printed.lock().unwrap().join("\n");
    assert!(
        printed.contains(
            "logins counts requests that are answered with 401 or 5xx, and only looks at others"
        ),
        "{printed}"
    );
}
