//! The HTTP API: one request per tenant, answered with the quota of its plan.

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};

use crate::plans::{Plan, Plans};

/// `POST /limits`, and its description at `GET /openapi.json`.
pub fn router(plans: Arc<Plans>) -> Router {
    const REQUEST_BYTES_MAX: usize = 128 * 1024;
    let described = || async { ([(header::CONTENT_TYPE, "application/json")], OPENAPI) };
    Router::new()
        .route("/limits", post(limits))
        .route("/openapi.json", get(described))
        .layer(DefaultBodyLimit::max(REQUEST_BYTES_MAX))
        .with_state(plans)
}

const OPENAPI: &str = include_str!("../openapi.json");

/// The part of Sluicegate's request that matters here; it also has headers, method and path.
#[derive(Deserialize)]
struct LimitsRequest {
    key: String,
}

/// The quota of the tenant.
#[derive(Serialize)]
struct LimitsResponse {
    average: i64,
    burst: i64,
    period: String,
}

async fn limits(State(plans): State<Arc<Plans>>, Json(request): Json<LimitsRequest>) -> Response {
    let found = tokio::task::spawn_blocking(move || plans.of(&request.key)).await;
    match found {
        Ok(Ok(plan)) => quota_response(plan),
        // Sluicegate keeps using the last response.
        _ => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

/// The quota, with the plan's lifetime in `Cache-Control`.
fn quota_response(plan: Plan) -> Response {
    let Plan {
        average,
        burst,
        period,
        max_age_seconds,
    } = plan;
    let cached = [(header::CACHE_CONTROL, format!("max-age={max_age_seconds}"))];
    (
        cached,
        Json(LimitsResponse {
            average,
            burst,
            period,
        }),
    )
        .into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Request;
    use http_body_util::BodyExt;
    use serde_json::{Value, json};
    use tower::ServiceExt;

    use super::*;

    async fn ask(question: &Value) -> (StatusCode, String, Value) {
        let router = router(Arc::new(Plans::in_memory().unwrap()));
        let request = Request::post("/limits").header("content-type", "application/json");
        let response = router
            .oneshot(request.body(Body::from(question.to_string())).unwrap())
            .await
            .unwrap();
        let cached = response
            .headers()
            .get("cache-control")
            .map(|value| value.to_str().unwrap().to_owned());
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (
            status,
            cached.unwrap_or_default(),
            serde_json::from_slice(&body).unwrap_or_default(),
        )
    }

    #[tokio::test]
    async fn a_request_of_sluicegate_is_answered_with_the_tenants_plan() {
        let question =
            json!({"key": "acme", "headers": {"x-plan": "?"}, "method": "GET", "path": "/orders"});
        let (status, cached, body) = ask(&question).await;
        assert_eq!((status, cached.as_str()), (StatusCode::OK, "max-age=300"));
        assert_eq!(body, json!({"average": 100, "burst": 200, "period": "1s"}));
    }

    #[tokio::test]
    async fn the_document_names_every_field_of_an_answer() {
        let document: Value = serde_json::from_str(OPENAPI).unwrap();
        let described = document["components"]["schemas"]["Answer"]["properties"]
            .as_object()
            .unwrap();
        let (_, _, body) = ask(&json!({"key": "acme"})).await;
        assert!(
            described.keys().eq(body.as_object().unwrap().keys()),
            "{body}"
        );
    }

    #[tokio::test]
    async fn a_request_without_a_key_is_refused() {
        assert_eq!(
            ask(&json!({"tenant": "acme"})).await.0,
            StatusCode::UNPROCESSABLE_ENTITY
        );
    }
}
