//! Callers that are let in: by token, host and origin.

use std::sync::atomic::Ordering;

use super::{TOKEN, counting_reloads, in_time, start, start_at, state};

#[tokio::test]
async fn every_answer_keeps_browsers_out_and_none_lets_other_sites_read() {
    let admin = start(state()).await;
    let from_elsewhere =
        "Origin: http://attacker.example\r\nAccess-Control-Request-Method: POST\r\n";
    for (method, path) in [
        ("GET", "/healthz"),
        ("GET", "/readyz"),
        ("GET", "/metrics"),
        ("GET", "/v1/version"),
        ("POST", "/v1/reload"),
        ("OPTIONS", "/v1/reload"),
        ("OPTIONS", "*"),
        ("GET", "/nothing"),
    ] {
        let answer = admin.ask(method, path, from_elsewhere).await;
        assert!(
            answer
                .header("content-security-policy")
                .is_some_and(|policy| policy.starts_with("default-src 'none'")),
            "{path}: {answer}"
        );
        assert_eq!(
            answer.header("x-content-type-options"),
            Some("nosniff"),
            "{path}: {answer}"
        );
        assert!(
            !answer
                .head()
                .to_ascii_lowercase()
                .contains("access-control-"),
            "{path}: {answer}"
        );
    }
}

#[tokio::test]
async fn other_sites_and_other_names_do_nothing() {
    let (reloads, state) = counting_reloads();
    let admin = start(state).await;
    for line in [
        "Origin: http://attacker.example\r\n",
        "Origin: null\r\n",
        "Sec-Fetch-Site: cross-site\r\n",
    ] {
        assert_eq!(
            admin.ask("POST", "/v1/reload", line).await.status(),
            403,
            "{line}"
        );
    }
    for host in [
        "attacker.example",
        "attacker.example:9090",
        "localhost.attacker.example",
    ] {
        let request = format!("POST /v1/reload HTTP/1.1\r\nHost: {host}\r\n\r\n");
        assert_eq!(admin.raw(request.as_bytes()).await.status(), 421, "{host}");
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n");
        assert_eq!(admin.raw(request.as_bytes()).await.status(), 421, "{host}");
    }
    for request in [
        "GET /metrics HTTP/1.1\r\n\r\n",
        "GET /metrics HTTP/1.0\r\n\r\n",
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: attacker.example\r\n\r\n",
        "GET http://attacker.example/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ] {
        assert_eq!(
            admin.raw(request.as_bytes()).await.status(),
            400,
            "{request}"
        );
    }
    assert_eq!(reloads.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn beyond_loopback_a_token_is_required() {
    let beyond = start_at("0.0.0.0:0", false, state()).await;
    let error = in_time(beyond.served)
        .await
        .unwrap()
        .unwrap_err()
        .to_string();
    assert!(error.contains("admin.token_file is required"), "{error}");

    let admin = start_at("127.0.0.1:0", true, state()).await;
    assert_eq!(admin.get("/healthz").await.status(), 200);
    for path in ["/readyz", "/metrics", "/v1/version", "/nothing"] {
        let answer = admin.get(path).await;
        assert_eq!(answer.status(), 401, "{path}");
        assert!(
            answer
                .header("www-authenticate")
                .is_some_and(|value| value.starts_with("Bearer")),
            "{answer}"
        );
    }
    assert_eq!(admin.ask("POST", "/v1/reload", "").await.status(), 401);
    let wrong = format!("Authorization: Bearer {TOKEN}x\r\n");
    assert_eq!(admin.ask("GET", "/metrics", &wrong).await.status(), 401);
    let good = format!("Authorization: Bearer {TOKEN}\r\n");
    for path in ["/readyz", "/metrics", "/v1/version"] {
        assert_eq!(admin.ask("GET", path, &good).await.status(), 200, "{path}");
    }
    assert_eq!(admin.ask("POST", "/v1/reload", &good).await.status(), 200);
    let request = format!("GET /metrics HTTP/1.1\r\nHost: sluicegate.example\r\n{good}\r\n");
    assert_eq!(admin.raw(request.as_bytes()).await.status(), 200);
}
