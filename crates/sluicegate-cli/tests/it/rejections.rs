//! Rejections of a limit's own, at every door that speaks HTTP.

use std::fs;

use sluicegate_testkit::{HttpRequest, HttpResponse, eventually};

use super::decisions::exchange;
use super::running::Sluicegate;

const CONFIG: &str = "
proxy: { listen: '127.0.0.1:0' }
decisions: { http: '127.0.0.1:0' }
admin: { listen: '127.0.0.1:0' }
client_ip: { trusted_proxies: [127.0.0.1/32] }
log: { access: true }
response: { body: json, reject: { headers: { X-Support: 'mail us about {request_id}' } } }
limits:
  - name: login
    key: [client_ip]
    rate: 1/h
    reject: { status: 503, body_file: sorry.html }
  - { name: unused, match: { path: /unused }, key: [global], rate: 1/h }
";

fn start() -> Sluicegate {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("sluicegate.yaml"), CONFIG).unwrap();
    fs::write(
        directory.path().join("sorry.html"),
        "<p>{limit} {request_id}",
    )
    .unwrap();
    Sluicegate::start_in(directory)
}

/// The lines of a request of a client behind a trusted proxy, which has named it.
fn lines(client: &str) -> [String; 2] {
    [
        format!("X-Forwarded-For: {client}"),
        "X-Request-Id: 7dec-11d0".to_owned(),
    ]
}

/// Sends a request of a client through a door.
type Door<'a> = &'a dyn Fn(&str) -> HttpResponse;

/// A gateway's question about a request.
fn authorize(sluicegate: &Sluicegate, flavour: &str, client: &str) -> HttpResponse {
    let origin = match flavour {
        "nginx" => "X-Original-Method: GET\r\nX-Original-Uri: /\r\nX-Original-Host: a\r\n",
        "forward-auth" => {
            "X-Forwarded-Method: GET\r\nX-Forwarded-Uri: /\r\nX-Forwarded-Host: a\r\n"
        }
        _ => "",
    };
    let lines = lines(client).join("\r\n");
    let question = format!(
        "GET /v1/authorize/{flavour} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{origin}{lines}\r\n\r\n"
    );
    exchange(sluicegate, question.as_bytes())
}

#[test]
fn a_rejection_of_its_own_is_the_same_at_every_http_door() {
    let sluicegate = start();
    let get = |client: &str| HttpRequest::get("/").headers(&lines(client));
    let proxy = sluicegate.proxy;
    let http1 = |client: &str| get(client).send(proxy);
    let http2 = |client: &str| get(client).send_http2(proxy);
    let doors: [(&str, u16, Door<'_>); 5] = [
        ("203.0.113.1", 503, &http1),
        ("203.0.113.2", 503, &http2),
        ("203.0.113.3", 503, &|client| {
            authorize(&sluicegate, "forward-auth", client)
        }),
        // nginx passes 403 on, and an outage in Envoy's eyes could let requests pass.
        ("203.0.113.4", 403, &|client| {
            authorize(&sluicegate, "nginx", client)
        }),
        ("203.0.113.5", 403, &|client| {
            authorize(&sluicegate, "envoy", client)
        }),
    ];
    for (client, status, ask) in doors {
        assert_eq!(ask(client).status(), 200, "{client}");
        let refused = ask(client);
        assert_eq!(refused.status(), status, "{refused}");
        assert_eq!(refused.body(), "<p>login 7dec-11d0", "{refused}");
        assert_eq!(
            refused.header("content-type"),
            Some("text/html; charset=utf-8")
        );
        assert_eq!(refused.header("x-support"), Some("mail us about 7dec-11d0"));
        assert!(refused.header("retry-after").is_some(), "{refused}");
        assert!(refused.header("ratelimit").is_some(), "{refused}");
        let line = format!("RATE_LIMIT client_ip={client} host=");
        eventually("the line has the configured status", || {
            let printed = sluicegate.printed.lock().unwrap();
            let written = printed.iter().find(|printed| printed.contains(&line));
            written.is_some_and(|line| line.ends_with(" status=503"))
        });
    }
    eventually("the access log has the configured status", || {
        let printed = sluicegate.printed.lock().unwrap();
        let is_rejection = |line: &&String| line.contains(" status=503 verdict=limited");
        printed.iter().filter(is_rejection).count() == 2
    });
    // A caller of gRPC reads neither status nor body of HTTP.
    let call = get("203.0.113.1").headers(&["Content-Type: application/grpc"]);
    let refused = call.send_http2(proxy);
    assert_eq!(
        (refused.status(), refused.header("grpc-status")),
        (200, Some("8"))
    );
    assert_eq!(refused.body(), "", "{refused}");
    assert_eq!(refused.header("x-support"), Some("mail us about 7dec-11d0"));
}

#[test]
fn an_explanation_tells_the_configured_status() {
    let sluicegate = start();
    sluicegate.get("/", &[]);
    let question = r#"{"subject": {"client_ip": "127.0.0.1"}}"#;
    let admin = sluicegate.admin.unwrap();
    let told = HttpRequest::post("/v1/explain", question)
        .headers(&["Content-Type: application/json"])
        .host(admin)
        .send(admin);
    assert!(told.contains("It is refused with 503 by login."), "{told}");
    assert!(told.contains("\"rejection_status\":503"), "{told}");
}

#[test]
fn a_changed_body_file_is_in_force_without_a_restart() {
    let sluicegate = start();
    sluicegate.get("/", &[]);
    assert!(sluicegate.get("/", &[]).body().starts_with("<p>login "));
    fs::write(sluicegate.file("sorry.html"), "<p>sorry").unwrap();
    eventually("the new body is sent", || {
        sluicegate.get("/", &[]).body() == "<p>sorry"
    });
    // A file that cannot be a body changes nothing, and is told.
    fs::write(sluicegate.file("sorry.html"), "<p>{sorry}").unwrap();
    sluicegate.wait_for_log("unknown placeholder {sorry}");
    assert_eq!(sluicegate.get("/", &[]).body(), "<p>sorry");
}
