//! Routes of the admin API: health, readiness, metrics, version, reload and the dashboard.
//!
//! Other paths go to `operator_routes.rs`. The methods of a path are checked here for all of them.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::request::Parts;
use http::{Method, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::{Value, json};
use sluicegate_gate::telemetry::rfc3339;
use sluicegate_net::ClientBody;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::access_guard::{HEALTH, READY};
use super::operator_routes::{self, AdminRequest, AdminRoute};
use super::page;
use super::query::Query;
use super::response::{self, AdminResponse};
use super::{AdminState, ConfigVersion};

/// Answers requests that have passed the access checks.
pub(super) struct AdminRoutes {
    state: Arc<AdminState>,
    /// One reload at a time.
    reload: Arc<Semaphore>,
}

/// The body of a reload has only an author and a reason.
const RELOAD_BYTES_MAX: usize = 4096;
const QUESTION_BYTES_MAX: usize = 64 * 1024;
const BODY_TIMEOUT: Duration = Duration::from_secs(5);
const RELOAD_TIMEOUT: Duration = Duration::from_secs(30);

impl AdminRoutes {
    pub(super) fn new(state: Arc<AdminState>) -> Self {
        Self {
            state,
            reload: Arc::new(Semaphore::new(1)),
        }
    }

    pub(super) async fn respond(
        &self,
        parts: &Parts,
        body: ClientBody,
        peer: SocketAddr,
    ) -> AdminResponse {
        let path = parts.uri.path();
        let route = self
            .state
            .operator
            .as_ref()
            .and_then(|_| AdminRoute::find(path));
        let allowed = match (path, &route) {
            (HEALTH | READY | "/metrics" | "/v1/version", _) => "GET, HEAD",
            ("/v1/reload", _) => "POST",
            (path, _) if page::is_file(path) => "GET, HEAD",
            (_, Some(route)) => route.allowed(),
            _ => return response::error(StatusCode::NOT_FOUND, "there is nothing here"),
        };
        if !allowed
            .split(", ")
            .any(|method| method == parts.method.as_str())
        {
            let mut response =
                response::error(StatusCode::METHOD_NOT_ALLOWED, &format!("only {allowed}"));
            response
                .headers_mut()
                .insert(header::ALLOW, HeaderValue::from_static(allowed));
            return response;
        }
        match path {
            HEALTH => response::text(StatusCode::OK, "ok"),
            READY => self.readiness(parts.uri.query()).await,
            "/metrics" => {
                let (kind, text) = self.state.metrics.encode_for(&parts.headers);
                response::with_type(StatusCode::OK, kind, text)
            }
            "/v1/version" => response::json(StatusCode::OK, &version((self.state.version)())),
            "/v1/reload" => self.reload(parts, body, peer).await,
            path => match page::file(path) {
                Some(file) => file,
                None => self.operator_route(parts, body, peer).await,
            },
        }
    }

    async fn operator_route(
        &self,
        parts: &Parts,
        body: ClientBody,
        peer: SocketAddr,
    ) -> AdminResponse {
        let operator_and_route = self
            .state
            .operator
            .as_ref()
            .zip(AdminRoute::find(parts.uri.path()));
        let Some((operator, route)) = operator_and_route else {
            return response::error(StatusCode::NOT_FOUND, "there is nothing here");
        };
        let body = match read(body, QUESTION_BYTES_MAX).await {
            Ok(body) => body,
            Err(response) => return *response,
        };
        let request = AdminRequest {
            route,
            is_delete: parts.method == Method::DELETE,
            query: parts.uri.query(),
            headers: &parts.headers,
            body: &body,
            peer: peer.to_string(),
        };
        operator_routes::respond(operator, request).await
    }

    async fn readiness(&self, query: Option<&str>) -> AdminResponse {
        let is_deep =
            match Query::parse(query).and_then(|query| query.only(&["deep"]).map(|()| query)) {
                Ok(query) => query.get("deep").is_some_and(|deep| deep == "true"),
                Err(why) => return response::error(StatusCode::BAD_REQUEST, &why),
            };
        let mut readiness = (self.state.ready)();
        let store = match (&self.state.operator, is_deep) {
            (Some(operator), true) => {
                let (answers, why, took_us) = operator.ask_store().await;
                readiness.is_ready &= answers;
                readiness
                    .reasons
                    .extend(why.map(|why| format!("the store does not answer: {why}")));
                Some(json!({ "answers": answers, "took_us": took_us }))
            }
            _ => None,
        };
        let status = if readiness.is_ready {
            StatusCode::OK
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        };
        let mut body = json!({ "ready": readiness.is_ready, "reasons": readiness.reasons });
        if let Some(store) = store {
            body["store"] = store;
        }
        response::json(status, &body)
    }

    async fn reload(&self, parts: &Parts, body: ClientBody, peer: SocketAddr) -> AdminResponse {
        let body = match read(body, RELOAD_BYTES_MAX).await {
            Ok(body) => body,
            Err(response) => return *response,
        };
        let author = match operator_routes::author_of(&parts.headers, &body, &peer.to_string()) {
            Ok(author) => author,
            Err(refusal) => return operator_routes::refused(&refusal),
        };
        let Ok(turn) = Arc::clone(&self.reload).try_acquire_owned() else {
            return response::error(StatusCode::CONFLICT, "a reload is under way");
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
                author.note("reload", &result);
                let mut body = version((self.state.version)());
                body["result"] = Value::from(result);
                response::json(StatusCode::OK, &body)
            }
            Ok(Ok(Err(mistakes))) => {
                let mistakes: Vec<&str> = mistakes
                    .lines()
                    .filter(|line| !line.trim().is_empty())
                    .collect();
                let body =
                    json!({ "error": "the running configuration stays", "mistakes": mistakes });
                response::json(StatusCode::UNPROCESSABLE_ENTITY, &body)
            }
            Ok(Err(_)) => {
                response::error(StatusCode::INTERNAL_SERVER_ERROR, "the reload broke off")
            }
            Err(_) => response::error(
                StatusCode::GATEWAY_TIMEOUT,
                "the reload takes long and goes on",
            ),
        }
    }
}

async fn read(body: ClientBody, bytes_max: usize) -> Result<Bytes, Box<AdminResponse>> {
    match timeout(BODY_TIMEOUT, Limited::new(body, bytes_max).collect()).await {
        Ok(Ok(read)) => Ok(read.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(response::error(
            StatusCode::PAYLOAD_TOO_LARGE,
            &format!("at most {bytes_max} bytes"),
        )
        .into()),
        Ok(Err(_)) => Err(response::error(StatusCode::BAD_REQUEST, "the body broke off").into()),
        Err(_) => {
            Err(response::error(StatusCode::REQUEST_TIMEOUT, "the body took too long").into())
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

impl fmt::Debug for AdminRoutes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdminRoutes")
    }
}
