//! The operator's door over real sockets.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests may unwrap like the tests themselves"
)]

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};
use sluicegate_server::admin::{AdminState, AdminToken, ConfigVersion, Readiness, serve};
use sluicegate_server::telemetry::Metrics;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Nothing here takes that long unless it never comes.
const LONG: Duration = Duration::from_secs(30);
const TOKEN: &str = "a-token-that-is-long-enough";

/// A door that is being served.
struct Door {
    address: SocketAddr,
    end: Option<oneshot::Sender<()>>,
    served: JoinHandle<std::io::Result<()>>,
    _directory: tempfile::TempDir,
}

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

fn state() -> AdminState {
    AdminState {
        metrics: Metrics::new(),
        ready: Box::new(|| Readiness {
            is_ready: true,
            reasons: vec![],
        }),
        reload: Box::new(|| Ok("applied".to_owned())),
        version: Box::new(|| ConfigVersion {
            number: 3,
            hash: "5f70bf18".to_owned(),
            loaded_at: UNIX_EPOCH + Duration::from_millis(1_794_802_220_007),
        }),
        operator: None,
    }
}

async fn open_to(listen: &str, token: bool, state: AdminState) -> Door {
    let directory = tempfile::tempdir().unwrap();
    let token = token.then(|| {
        let path: PathBuf = directory.path().join("token");
        std::fs::write(&path, format!("{TOKEN}\n")).unwrap();
        AdminToken::from_file(path).unwrap()
    });
    let listener = TcpListener::bind(listen).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (end, ended) = oneshot::channel();
    let shutdown = async move { drop(ended.await) };
    let served = tokio::spawn(serve(listener, token, Arc::new(state), shutdown));
    Door {
        address,
        end: Some(end),
        served,
        _directory: directory,
    }
}

async fn open(state: AdminState) -> Door {
    open_to("127.0.0.1:0", false, state).await
}

async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, future).await.expect("this ends")
}

impl Door {
    /// Sends these bytes and reads until the door closes.
    async fn raw(&self, request: &[u8]) -> String {
        in_time(async {
            let mut stream = TcpStream::connect(self.address).await.unwrap();
            // A door that has answered may not read the rest.
            let _ = stream.write_all(request).await;
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
            String::from_utf8(answer).unwrap()
        })
        .await
    }

    async fn ask(&self, method: &str, path: &str, lines: &str) -> Answer {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\n{lines}\r\n",
            self.address
        );
        parsed(&self.raw(request.as_bytes()).await)
    }

    async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "").await
    }

    async fn end(mut self) -> std::io::Result<()> {
        drop(self.end.take());
        in_time(self.served).await.unwrap()
    }
}

fn parsed(answer: &str) -> Answer {
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .unwrap_or_else(|| panic!("no answer: {answer:?}"));
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    Answer {
        status: status.unwrap(),
        head: head.to_ascii_lowercase(),
        body: body.to_owned(),
    }
}

#[tokio::test]
async fn health_metrics_and_version_are_told() {
    let door = open(state()).await;
    let health = door.get("/healthz").await;
    assert_eq!((health.status, health.body.as_str()), (200, "ok\n"));
    let metrics = door.get("/metrics?x=1").await;
    assert_eq!(metrics.status, 200);
    assert!(
        metrics
            .head
            .contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    assert!(
        metrics
            .body
            .contains("sluicegate_requests_total{outcome=\"limited\"} 0\n")
    );
    let expected = json!({
        "version": 3,
        "hash": "5f70bf18",
        "loaded_at": "2026-11-16T04:10:20.007Z",
        "build": { "version": env!("CARGO_PKG_VERSION") },
    });
    assert_eq!(door.get("/v1/version").await.json(), expected);
    let head = door.ask("HEAD", "/metrics", "").await;
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    door.end().await.unwrap();
}

#[tokio::test]
async fn readiness_is_a_status_with_its_reasons() {
    let is_ready = Arc::new(Mutex::new(Readiness {
        is_ready: false,
        reasons: vec!["store \"away\"".to_owned()],
    }));
    let ready = Arc::clone(&is_ready);
    let door = open(AdminState {
        ready: Box::new(move || ready.lock().unwrap().clone()),
        ..state()
    })
    .await;
    let answer = door.get("/readyz").await;
    assert_eq!(answer.status, 503);
    assert_eq!(
        answer.json(),
        json!({ "ready": false, "reasons": ["store \"away\""] })
    );
    *is_ready.lock().unwrap() = Readiness {
        is_ready: true,
        reasons: vec!["redis is slow".to_owned()],
    };
    let answer = door.get("/readyz").await;
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.json(),
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
    let door = open(AdminState {
        reload: Box::new(move || results.lock().unwrap().pop().unwrap()),
        ..state()
    })
    .await;
    let answer = door
        .ask("POST", "/v1/reload", "Content-Length: 0\r\n")
        .await;
    assert_eq!(answer.status, 200);
    assert_eq!(
        (&answer.json()["result"], &answer.json()["version"]),
        (&json!("applied"), &json!(3))
    );
    let answer = door.ask("POST", "/v1/reload", "").await;
    assert_eq!(answer.status, 422);
    let mistakes = [
        "limits[2].burst: must be at least 1 (got 0)",
        "proxy.listen: \"x\" is no address",
    ];
    assert_eq!(answer.json()["mistakes"], json!(mistakes));
}

#[tokio::test]
async fn one_reload_runs_at_a_time_and_does_not_hold_up_the_rest() {
    let (go_on, wait) = mpsc::channel::<()>();
    let (started, has_started) = oneshot::channel();
    let (wait, started) = (Mutex::new(wait), Mutex::new(Some(started)));
    let reload = move || {
        if let Some(started) = started.lock().unwrap().take() {
            started.send(()).unwrap();
        }
        wait.lock()
            .unwrap()
            .recv_timeout(LONG)
            .map_err(|_| "nobody let it go on".to_owned())?;
        Ok("applied".to_owned())
    };
    let door = Arc::new(
        open(AdminState {
            reload: Box::new(reload),
            ..state()
        })
        .await,
    );
    let first = Arc::clone(&door);
    let first = tokio::spawn(async move { first.ask("POST", "/v1/reload", "").await });
    in_time(has_started).await.unwrap();
    assert_eq!(door.ask("POST", "/v1/reload", "").await.status, 409);
    assert_eq!(door.get("/healthz").await.status, 200);
    go_on.send(()).unwrap();
    assert_eq!(in_time(first).await.unwrap().status, 200);
}

#[tokio::test]
async fn other_methods_and_paths_are_refused() {
    let reloads = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&reloads);
    let reload = move || {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok("applied".to_owned())
    };
    let door = open(AdminState {
        reload: Box::new(reload),
        ..state()
    })
    .await;
    for method in ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW"] {
        let answer = door.ask(method, "/v1/reload", "").await;
        assert_eq!(answer.status, 405, "{method}");
        assert!(answer.head.contains("\r\nallow: post"), "{}", answer.head);
    }
    for path in ["/healthz", "/readyz", "/metrics", "/v1/version"] {
        let answer = door.ask("POST", path, "").await;
        assert_eq!(answer.status, 405, "{path}");
        assert!(
            answer.head.contains("\r\nallow: get, head"),
            "{}",
            answer.head
        );
    }
    for path in [
        "/v1/reload/",
        "/v1/Reload",
        "/%761/reload",
        "/v1//reload",
        "/metrics/..",
        "*",
    ] {
        let answer = door.ask("POST", path, "").await;
        assert!(
            matches!(answer.status, 404 | 400),
            "{path}: {}",
            answer.status
        );
    }
    assert_eq!(reloads.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn every_answer_keeps_browsers_out_and_none_lets_other_sites_read() {
    let door = open(state()).await;
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
        let answer = door.ask(method, path, from_elsewhere).await;
        assert!(
            answer
                .head
                .contains("\r\ncontent-security-policy: default-src 'none'"),
            "{path}: {}",
            answer.head
        );
        assert!(
            answer.head.contains("\r\nx-content-type-options: nosniff"),
            "{path}: {}",
            answer.head
        );
        assert!(
            !answer.head.contains("access-control-"),
            "{path}: {}",
            answer.head
        );
    }
}

#[tokio::test]
async fn other_sites_and_other_names_do_nothing() {
    let reloads = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&reloads);
    let reload = move || {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok("applied".to_owned())
    };
    let door = open(AdminState {
        reload: Box::new(reload),
        ..state()
    })
    .await;
    for line in [
        "Origin: http://attacker.example\r\n",
        "Origin: null\r\n",
        "Sec-Fetch-Site: cross-site\r\n",
    ] {
        assert_eq!(
            door.ask("POST", "/v1/reload", line).await.status,
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
        assert_eq!(
            parsed(&door.raw(request.as_bytes()).await).status,
            421,
            "{host}"
        );
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n");
        assert_eq!(
            parsed(&door.raw(request.as_bytes()).await).status,
            421,
            "{host}"
        );
    }
    for request in [
        "GET /metrics HTTP/1.1\r\n\r\n",
        "GET /metrics HTTP/1.0\r\n\r\n",
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: attacker.example\r\n\r\n",
        "GET http://attacker.example/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ] {
        assert_eq!(
            parsed(&door.raw(request.as_bytes()).await).status,
            400,
            "{request}"
        );
    }
    assert_eq!(reloads.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn beyond_loopback_a_token_is_required() {
    let open_wide = open_to("0.0.0.0:0", false, state()).await;
    let error = in_time(open_wide.served)
        .await
        .unwrap()
        .unwrap_err()
        .to_string();
    assert!(error.contains("admin.token_file is required"), "{error}");

    let door = open_to("127.0.0.1:0", true, state()).await;
    assert_eq!(door.get("/healthz").await.status, 200);
    for path in ["/readyz", "/metrics", "/v1/version", "/nothing"] {
        let answer = door.get(path).await;
        assert_eq!(answer.status, 401, "{path}");
        assert!(
            answer.head.contains("\r\nwww-authenticate: bearer"),
            "{}",
            answer.head
        );
    }
    assert_eq!(door.ask("POST", "/v1/reload", "").await.status, 401);
    let wrong = format!("Authorization: Bearer {TOKEN}x\r\n");
    assert_eq!(door.ask("GET", "/metrics", &wrong).await.status, 401);
    let good = format!("Authorization: Bearer {TOKEN}\r\n");
    for path in ["/readyz", "/metrics", "/v1/version"] {
        assert_eq!(door.ask("GET", path, &good).await.status, 200, "{path}");
    }
    assert_eq!(door.ask("POST", "/v1/reload", &good).await.status, 200);
    let request = format!("GET /metrics HTTP/1.1\r\nHost: sluicegate.example\r\n{good}\r\n");
    assert_eq!(parsed(&door.raw(request.as_bytes()).await).status, 200);
}

#[tokio::test]
async fn requests_beyond_the_bounds_are_refused() {
    let door = open(state()).await;
    let large = format!("X: {}\r\n", "x".repeat(64 * 1024));
    assert_eq!(door.ask("GET", "/healthz", &large).await.status, 431);
    let many = "X: x\r\n".repeat(200);
    assert_eq!(door.ask("GET", "/healthz", &many).await.status, 431);
    let body = format!("Content-Length: 100000\r\n\r\n{}", "x".repeat(100_000));
    assert_eq!(door.ask("POST", "/v1/reload", &body).await.status, 413);
}

#[tokio::test]
async fn a_connection_answers_once_and_pipelined_requests_are_dropped() {
    let door = open(state()).await;
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", door.address).repeat(3);
    assert_eq!(
        door.raw(request.as_bytes())
            .await
            .matches("HTTP/1.1 ")
            .count(),
        1
    );
}

/// Time stands still but for timers, so the test takes no longer than the work.
#[tokio::test(start_paused = true)]
async fn clients_that_dawdle_are_let_go_and_others_served() {
    let door = open(state()).await;
    let mut slow = Vec::new();
    for _ in 0..70 {
        let mut stream = TcpStream::connect(door.address).await.unwrap();
        stream
            .write_all(b"GET /healthz HTTP/1.1\r\n")
            .await
            .unwrap();
        slow.push(stream);
    }
    assert_eq!(door.get("/healthz").await.status, 200);
    for mut stream in slow {
        let mut rest = Vec::new();
        // Closed, or reset with what it had sent unread.
        let _ = in_time(stream.read_to_end(&mut rest)).await;
        assert!(!rest.starts_with(b"HTTP/1.1 200"));
    }
}

#[tokio::test]
async fn at_the_end_what_is_under_way_is_answered() {
    let (go_on, wait) = mpsc::channel::<()>();
    let (started, has_started) = oneshot::channel();
    let (wait, started) = (Mutex::new(wait), Mutex::new(Some(started)));
    let reload = move || {
        if let Some(started) = started.lock().unwrap().take() {
            started.send(()).unwrap();
        }
        wait.lock()
            .unwrap()
            .recv_timeout(LONG)
            .map_err(|_| "nobody let it go on".to_owned())?;
        Ok("applied".to_owned())
    };
    let mut door = open(AdminState {
        reload: Box::new(reload),
        ..state()
    })
    .await;
    let request = format!("POST /v1/reload HTTP/1.1\r\nHost: {}\r\n\r\n", door.address);
    let mut stream = TcpStream::connect(door.address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    in_time(has_started).await.unwrap();
    drop(door.end.take());
    go_on.send(()).unwrap();
    let mut answer = String::new();
    in_time(stream.read_to_string(&mut answer)).await.unwrap();
    assert_eq!(parsed(&answer).status, 200);
    in_time(door.served).await.unwrap().unwrap();
    assert!(
        TcpStream::connect(door.address).await.is_err(),
        "nobody is let in any more"
    );
}
