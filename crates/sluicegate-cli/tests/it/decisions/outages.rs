//! Decisions in Redis, and without it.

use std::io::{Read, Write};

use serde_json::json;
use sluicegate_testkit::{RedisServer, eventually, raw_socket};

use super::{allowed_in, body, exchange, request};
use crate::running::Sluicegate;

fn config(server: &RedisServer, policy: &str) -> String {
    format!(
        "
proxy: {{ listen: '127.0.0.1:0' }}
decisions: {{ http: '127.0.0.1:0', resp: '127.0.0.1:0' }}
admin: {{ listen: '127.0.0.1:0' }}
store:
  kind: redis
  on_failure: {{ policy: {policy} }}
  deadline: 1s
  redis: {{ endpoints: ['{}'] }}
limits:
  - {{ name: per-ip, key: [client_ip], rate: 1/h, burst: 5 }}
",
        server.address()
    )
}

const ONE: &str = r#"{"limit": "per-ip", "key": ["203.0.113.7"]}"#;

#[test]
fn two_processes_answer_as_one() {
    let server = RedisServer::start();
    let both = [0; 2].map(|_| Sluicegate::start(&config(&server, "closed")));
    let ask = |turn: usize, path: &str| {
        body(&exchange(
            &both[turn % 2],
            request(path, &[], ONE).as_bytes(),
        ))
    };
    let allowed = (0..8)
        .filter(|turn| ask(*turn, "/v1/check")["allowed"] == true)
        .count();
    assert_eq!(allowed, 5);
    assert_eq!(ask(0, "/v1/refund")["limits"][0]["remaining"], 1);
    assert_eq!(ask(0, "/v1/check")["allowed"], true);
    assert_eq!(ask(0, "/v1/reset")["reset"], true);
    let many = format!("{{\"checks\": [{}]}}", [ONE; 50].join(","));
    let answers = body(&exchange(
        &both[0],
        request("/v1/check/batch", &[], &many).as_bytes(),
    ));
    assert_eq!(allowed_in(&answers), 5, "{answers}");
}

#[test]
fn without_redis_the_failure_policy_answers_and_says_so() {
    for (policy, allowed) in [("closed", false), ("open", true), ("local", true)] {
        let server = RedisServer::start();
        let sluicegate = Sluicegate::start(&config(&server, policy));
        let ask = |path: &str| exchange(&sluicegate, request(path, &[], ONE).as_bytes());
        assert_eq!(body(&ask("/v1/check"))["degraded"], false);
        drop(server);
        eventually("the policy decides", || {
            body(&ask("/v1/peek"))["degraded"] == true
        });
        let answer = ask("/v1/check");
        assert_eq!(
            (answer.status(), &body(&answer)["allowed"]),
            (200, &json!(allowed)),
            "{policy}"
        );
        assert_eq!(
            body(&answer)["limits"].as_array().unwrap().len(),
            usize::from(policy == "local")
        );
        let given_back = if policy == "local" { 200 } else { 503 };
        assert_eq!(ask("/v1/refund").status(), given_back, "{policy}");
        assert_eq!(ask("/v1/reset").status(), 503, "{policy}");
        let mut client = raw_socket::connect(sluicegate.resp.unwrap());
        client
            .write_all(b"SG.RESET per-ip 203.0.113.7\r\n")
            .unwrap();
        let mut reply = [0; 12];
        client.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"-UNAVAILABLE", "{policy}");
        // The check is counted by the policy's answer, and what the store could not do as such.
        let counted = |protocol: &str| {
            let labels = format!("protocol=\"{protocol}\",outcome=\"unavailable\"");
            sluicegate.metric(&format!("sluicegate_decisions_total{{{labels}}}"))
        };
        let refunds_and_resets = if policy == "local" { 1 } else { 2 };
        assert!(counted("http") >= refunds_and_resets, "{policy}");
        assert_eq!(counted("resp"), 1, "{policy}");
    }
}
