//! The admin API over real sockets, served in the test's own runtime.

mod access;
mod connections;
mod routes;
mod strangers;

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, UNIX_EPOCH};

use serde_json::Value;
use sluicegate_gate::telemetry::Metrics;
use sluicegate_server::admin::{AdminState, AdminToken, ConfigVersion, Readiness, serve};
use sluicegate_testkit::HttpResponse;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Nothing here takes that long unless it never comes.
const LONG: Duration = Duration::from_secs(30);
const TOKEN: &str = "a-token-that-is-long-enough";

/// A running admin API.
struct AdminServer {
    address: SocketAddr,
    end: Option<oneshot::Sender<()>>,
    served: JoinHandle<std::io::Result<()>>,
    _directory: tempfile::TempDir,
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

/// A state that counts reloads, and their number so far.
fn counting_reloads() -> (Arc<AtomicUsize>, AdminState) {
    let reloads = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&reloads);
    let reload = move || {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok("applied".to_owned())
    };
    let state = AdminState {
        reload: Box::new(reload),
        ..state()
    };
    (reloads, state)
}

/// A reload as the admin API calls it.
type Reload = Box<dyn Fn() -> Result<String, String> + Send + Sync>;

/// A reload that says when the first has started, and ends when it is told to.
fn reload_that_waits() -> (Reload, oneshot::Receiver<()>, mpsc::Sender<()>) {
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
    (Box::new(reload), has_started, go_on)
}

async fn start_at(listen: &str, token: bool, state: AdminState) -> AdminServer {
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
    AdminServer {
        address,
        end: Some(end),
        served,
        _directory: directory,
    }
}

async fn start(state: AdminState) -> AdminServer {
    start_at("127.0.0.1:0", false, state).await
}

async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, future).await.expect("this ends")
}

impl AdminServer {
    /// Sends these bytes and reads until the server closes. The server runs in the same runtime, so
    /// a socket that blocks would wait for itself.
    async fn raw(&self, request: &[u8]) -> HttpResponse {
        in_time(async {
            let mut stream = TcpStream::connect(self.address).await.unwrap();
            // A server that has answered may not read the rest.
            let _ = stream.write_all(request).await;
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
            HttpResponse::from_bytes(answer)
        })
        .await
    }

    async fn ask(&self, method: &str, path: &str, lines: &str) -> HttpResponse {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\n{lines}\r\n",
            self.address
        );
        self.raw(request.as_bytes()).await
    }

    async fn get(&self, path: &str) -> HttpResponse {
        self.ask("GET", path, "").await
    }

    async fn end(mut self) -> std::io::Result<()> {
        drop(self.end.take());
        in_time(self.served).await.unwrap()
    }
}

#[track_caller]
fn json_of(response: &HttpResponse) -> Value {
    serde_json::from_str(response.body()).unwrap_or_else(|error| panic!("{error}: {response}"))
}
