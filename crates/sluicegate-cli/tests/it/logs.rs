//! Lines that are written about requests: the access log, and one for each rejection.

use sluicegate_testkit::{UpstreamRecorder, eventually};

use super::running::Sluicegate;

fn config(log: &str) -> String {
    format!(
        "
proxy: {{ listen: '127.0.0.1:0' }}
admin: off
log: {{ {log} }}
response: {{ body: json }}
limits:
  - {{ name: per-client, key: [client_ip], rate: 1/h, burst: 1 }}
"
    )
}

fn printed(sluicegate: &Sluicegate, text: &str) -> Option<String> {
    sluicegate
        .printed
        .lock()
        .unwrap()
        .iter()
        .find(|line| line.contains(text))
        .cloned()
}

#[test]
fn every_request_has_a_line_in_json_and_a_rejection_its_own() {
    let sluicegate = Sluicegate::start(&config("format: json, access: true"));
    let passed = sluicegate.get(
        "/some/where?token=secret",
        &["Authorization: Bearer secret"],
    );
    let refused = sluicegate.get(
        "/some/where?token=secret",
        &["Authorization: Bearer secret"],
    );
    assert_eq!((passed.status(), refused.status()), (200, 429));
    assert!(
        refused
            .header("content-type")
            .unwrap()
            .starts_with("application/problem+json"),
        "{refused}"
    );
    for answer in [&passed, &refused] {
        let id = answer.header("x-request-id").unwrap().to_owned();
        eventually("the line is written", || {
            printed(&sluicegate, &id).is_some()
        });
        let line: serde_json::Value =
            serde_json::from_str(&printed(&sluicegate, &id).unwrap()).unwrap();
        assert_eq!(line["status"], answer.status());
        assert_eq!(
            (&line["method"], &line["path"]),
            (&"GET".into(), &"/some/where".into())
        );
    }
    eventually("the line of the rejection", || {
        printed(&sluicegate, "RATE_LIMIT client_ip=127.0.0.1").is_some()
    });
    let all = sluicegate.printed.lock().unwrap().join("\n")
        + &sluicegate.logged.lock().unwrap().join("\n");
    assert!(!all.contains("secret"), "{all}");
}

#[test]
fn without_asking_only_rejections_are_written_and_as_plain_text() {
    let sluicegate = Sluicegate::start(&config("format: text"));
    sluicegate.get("/a", &[]);
    sluicegate.get("/b", &[]);
    eventually("the line of the rejection", || {
        printed(&sluicegate, "RATE_LIMIT").is_some()
    });
    assert_eq!(
        printed(&sluicegate, "RATE_LIMIT").unwrap(),
        "RATE_LIMIT client_ip=127.0.0.1 host=a.example path=/b status=429"
    );
    assert!(
        printed(&sluicegate, "/a").is_none_or(|line| !line.contains(" 200")),
        "no access log was asked for"
    );
}

fn config_behind(trusted: &str, upstream: &UpstreamRecorder, format: &str) -> String {
    format!(
        "
proxy: {{ listen: '127.0.0.1:0', upstream: 'http://{}' }}
admin: off
client_ip: {{ trusted_proxies: [{trusted}] }}
log: {{ format: {format}, access: true }}
limits:
  - {{ name: per-client, key: [client_ip], rate: 100/s }}
",
        upstream.address
    )
}

#[test]
fn the_request_id_of_a_trusted_proxy_is_kept_in_log_and_upstream_and_others_are_replaced() {
    for (trusted, is_kept) in [("127.0.0.1/32", true), ("192.0.2.1/32", false)] {
        let upstream = UpstreamRecorder::start();
        let sluicegate = Sluicegate::start(&config_behind(trusted, &upstream, "json"));
        let sent = "edge-7:f81d4fae-7dec-11d0-a765-00a0c91e6bf6";
        let answer = sluicegate.get("/", &[&format!("X-Request-Id: {sent}")]);
        let id = answer.header("x-request-id").unwrap().to_owned();
        assert_eq!(id == sent, is_kept, "{answer}");
        assert_eq!(
            upstream.requests()[0].header_values("x-request-id"),
            [id.as_str()]
        );
        eventually("the line is written", || {
            printed(&sluicegate, &id).is_some()
        });
        let line: serde_json::Value =
            serde_json::from_str(&printed(&sluicegate, &id).unwrap()).unwrap();
        assert_eq!(line["request_id"], id.as_str());
        assert_eq!(printed(&sluicegate, sent).is_some(), is_kept);
    }
}

/// Ids that would end a field or be of any length are replaced, whoever sends them.
#[test]
fn a_request_id_cannot_forge_a_line_of_the_log() {
    let upstream = UpstreamRecorder::start();
    let sluicegate = Sluicegate::start(&config_behind("127.0.0.1/32", &upstream, "text"));
    let long = "forged".repeat(30);
    let bad = [
        "forged RATE_LIMIT client_ip=192.0.2.9",
        "forged\"},{\"a\":\"b",
        "forged\tb",
        "forged%0a;b",
        long.as_str(),
    ];
    for sent in bad {
        let answer = sluicegate.get("/", &[&format!("X-Request-Id: {sent}")]);
        let id = answer.header("x-request-id").unwrap().to_owned();
        let is_ours = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        assert!(is_ours, "{sent:?} became {id:?}");
        eventually("the line is written", || {
            printed(&sluicegate, &id).is_some()
        });
    }
    let twice = sluicegate.get("/", &["X-Request-Id: forged-1", "X-Request-Id: forged-2"]);
    assert!(!twice.contains("forged"), "{twice}");
    let recorded = upstream.requests();
    assert!(
        recorded.iter().all(|request| {
            let ids = request.header_values("x-request-id");
            ids.len() == 1 && !ids[0].contains("forged")
        }),
        "{recorded:?}"
    );
    assert_eq!(printed(&sluicegate, "forged"), None);
}
