//! Health, metrics, version and reload.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use serde_json::json;
use sluicegate_server::admin::{AdminState, Readiness};

use super::{counting_reloads, in_time, json_of, reload_that_waits, start, state};

#[tokio::test]
async fn health_metrics_and_version_are_told() {
    let admin = start(state()).await;
    let health = admin.get("/healthz").await;
    assert_eq!((health.status(), health.body()), (200, "ok\n"));
    let metrics = admin.get("/metrics?x=1").await;
    assert_eq!(metrics.status(), 200);
    assert_eq!(
        metrics.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    assert!(metrics.contains("sluicegate_requests_total{outcome=\"limited\"} 0\n"));
    let expected = json!({
        "version": 3,
        "hash": "5f70bf18",
        "loaded_at": "2026-11-16T04:10:20.007Z",
        "build": { "version": env!("CARGO_PKG_VERSION") },
    });
    assert_eq!(json_of(&admin.get("/v1/version").await), expected);
    let head = admin.ask("HEAD", "/metrics", "").await;
    assert_eq!((head.status(), head.body()), (200, ""));
    admin.end().await.unwrap();
}

#[tokio::test]
async fn readiness_is_a_status_with_its_reasons() {
    let is_ready = Arc::new(Mutex::new(Readiness {
        is_ready: false,
        reasons: vec!["store \"away\"".to_owned()],
    }));
    let ready = Arc::clone(&is_ready);
    let admin = start(AdminState {
        ready: Box::new(move || ready.lock().unwrap().clone()),
        ..state()
    })
    .await;
    let answer = admin.get("/readyz").await;
    assert_eq!(answer.status(), 503);
    assert_eq!(
        json_of(&answer),
        json!({ "ready": false, "reasons": ["store \"away\""] })
    );
    *is_ready.lock().unwrap() = Readiness {
        is_ready: true,
        reasons: vec!["redis is slow".to_owned()],
    };
    let answer = admin.get("/readyz").await;
    assert_eq!(answer.status(), 200);
    assert_eq!(
        json_of(&answer),
        json!({ "ready": true, "reasons": ["redis is slow"] })
    );
}

#[tokio::test]
async fn a_reload_tells_the_new_version_or_the_mistakes() {
    let results = Mutex::new(vec![
        Err(
            "limits[2].burst: must be at least 1 (got 0)\n\nproxy.listen: \"x\" is no address\n"
                .to_owned(),
        ),
        Ok("applied".to_owned()),
    ]);
    let admin = start(AdminState {
        reload: Box::new(move || results.lock().unwrap().pop().unwrap()),
        ..state()
    })
    .await;
    let answer = admin
        .ask("POST", "/v1/reload", "Content-Length: 0\r\n")
        .await;
    assert_eq!(answer.status(), 200);
    assert_eq!(
        (&json_of(&answer)["result"], &json_of(&answer)["version"]),
        (&json!("applied"), &json!(3))
    );
    let answer = admin.ask("POST", "/v1/reload", "").await;
    assert_eq!(answer.status(), 422);
    let mistakes = [
        "limits[2].burst: must be at least 1 (got 0)",
        "proxy.listen: \"x\" is no address",
    ];
    assert_eq!(json_of(&answer)["mistakes"], json!(mistakes));
}

#[tokio::test]
async fn one_reload_runs_at_a_time_and_does_not_hold_up_the_rest() {
    let (reload, has_started, go_on) = reload_that_waits();
    let admin = Arc::new(start(AdminState { reload, ..state() }).await);
    let first = Arc::clone(&admin);
    let first = tokio::spawn(async move { first.ask("POST", "/v1/reload", "").await });
    in_time(has_started).await.unwrap();
    assert_eq!(admin.ask("POST", "/v1/reload", "").await.status(), 409);
    assert_eq!(admin.get("/healthz").await.status(), 200);
    go_on.send(()).unwrap();
    assert_eq!(in_time(first).await.unwrap().status(), 200);
}

#[tokio::test]
async fn other_methods_and_paths_are_refused() {
    let (reloads, state) = counting_reloads();
    let admin = start(state).await;
    for method in ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW"] {
        let answer = admin.ask(method, "/v1/reload", "").await;
        assert_eq!(answer.status(), 405, "{method}");
        assert_eq!(answer.header("allow"), Some("POST"), "{answer}");
    }
    for path in ["/healthz", "/readyz", "/metrics", "/v1/version"] {
        let answer = admin.ask("POST", path, "").await;
        assert_eq!(answer.status(), 405, "{path}");
        assert_eq!(answer.header("allow"), Some("GET, HEAD"), "{answer}");
    }
    for path in [
        "/v1/reload/",
        "/v1/Reload",
        "/%761/reload",
        "/v1//reload",
        "/metrics/..",
        "*",
    ] {
        let answer = admin.ask("POST", path, "").await;
        assert!(
            matches!(answer.status(), 404 | 400),
            "{path}: {}",
            answer.status()
        );
    }
    assert_eq!(reloads.load(Ordering::Relaxed), 0);
}
