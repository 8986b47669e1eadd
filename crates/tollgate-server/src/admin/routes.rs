//! What is behind the door.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::header::{self, HeaderValue};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::answer::{self, Answer};
use super::guard::HEALTH;
use super::{AdminState, ConfigVersion};
use crate::telemetry::{Metrics, rfc3339};

/// The paths and what they do.
pub(super) struct Routes {
    state: Arc<AdminState>,
    /// One reload at a time.
    reload: Arc<Semaphore>,
}

/// Nothing here needs a body.
const BODY_BYTES_MAX: usize = 4096;
const BODY_TIMEOUT: Duration = Duration::from_secs(5);
const RELOAD_TIMEOUT: Duration = Duration::from_secs(30);

impl Routes {
    pub(super) fn new(state: Arc<AdminState>) -> Self {
        Self { state, reload: Arc::new(Semaphore::new(1)) }
    }

    pub(super) async fn answer(&self, request: Request<Incoming>) -> Answer {
        let path = request.uri().path();
        let allowed = match path {
            HEALTH | "/readyz" | "/metrics" | "/v1/version" => "GET, HEAD",
            "/v1/reload" => "POST",
            _ => return answer::error(StatusCode::NOT_FOUND, "there is nothing here"),
        };
        let method = if request.method() == Method::HEAD { &Method::GET } else { request.method() };
        match (method, path) {
            (&Method::GET, HEALTH) => answer::text(StatusCode::OK, "ok"),
            (&Method::GET, "/readyz") => self.readiness(),
            (&Method::GET, "/metrics") => {
                answer::with_type(StatusCode::OK, Metrics::CONTENT_TYPE, self.state.metrics.encode())
            }
            (&Method::GET, "/v1/version") => answer::json(StatusCode::OK, &version((self.state.version)())),
            (&Method::POST, "/v1/reload") => self.reload(request.into_body()).await,
            _ => {
                let mut answer = answer::error(StatusCode::METHOD_NOT_ALLOWED, "another method, please");
                answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
                answer
            }
        }
    }

    fn readiness(&self) -> Answer {
        let readiness = (self.state.ready)();
        let status = if readiness.is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        answer::json(status, &json!({ "ready": readiness.is_ready, "reasons": readiness.reasons }))
    }

    async fn reload(&self, body: Incoming) -> Answer {
        match timeout(BODY_TIMEOUT, Limited::new(body, BODY_BYTES_MAX).collect()).await {
            Ok(Ok(_)) => {}
            Ok(Err(_)) => return answer::error(StatusCode::PAYLOAD_TOO_LARGE, "no body is needed"),
            Err(_) => return answer::error(StatusCode::REQUEST_TIMEOUT, "no body is needed"),
        }
        let Ok(turn) = Arc::clone(&self.reload).try_acquire_owned() else {
            return answer::error(StatusCode::CONFLICT, "a reload is under way");
        };
        let state = Arc::clone(&self.state);
        // It reads files. One that takes too long goes on, and the next waits for its end.
        let reloaded = tokio::task::spawn_blocking(move || {
            let reloaded = (state.reload)();
            drop(turn);
            reloaded
        });
        match timeout(RELOAD_TIMEOUT, reloaded).await {
            Ok(Ok(Ok(result))) => {
                let mut body = version((self.state.version)());
                body["result"] = Value::from(result);
                answer::json(StatusCode::OK, &body)
            }
            Ok(Ok(Err(mistakes))) => {
                let mistakes: Vec<&str> = mistakes.lines().filter(|line| !line.trim().is_empty()).collect();
                let body = json!({ "error": "the running configuration stays", "mistakes": mistakes });
                answer::json(StatusCode::UNPROCESSABLE_ENTITY, &body)
            }
            Ok(Err(_)) => answer::error(StatusCode::INTERNAL_SERVER_ERROR, "the reload broke off"),
            Err(_) => answer::error(StatusCode::GATEWAY_TIMEOUT, "the reload takes long and goes on"),
        }
    }
}

fn version(version: ConfigVersion) -> Value {
    json!({
        "version": version.number,
        "hash": version.hash,
        "loaded_at": rfc3339(version.loaded_at),
        "build": { "version": env!("CARGO_PKG_VERSION") },
    })
}

impl fmt::Debug for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Routes")
    }
}
