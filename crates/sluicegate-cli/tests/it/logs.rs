//! Lines that are written about requests: the access log, and one for each rejection.

use sluicegate_testkit::eventually;

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
