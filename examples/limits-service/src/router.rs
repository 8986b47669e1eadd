//! The HTTP API: one request per caller, answered with its quota.

use std::fmt::Display;
use std::future::Future;
use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};

use crate::contract::{LimitsRequest, LimitsResponse};

/// Knows the quota of each caller.
pub trait PlanSource: Send + Sync + 'static {
    /// The reason why nobody can say at the moment.
    type Error: Display;

    /// The quota of a caller; `None` for one that is not known, which has the quota in Sluicegate's
    /// own file.
    fn limits(
        &self,
        request: LimitsRequest,
    ) -> impl Future<Output = Result<Option<LimitsResponse>, Self::Error>> + Send;
}

/// The contract, for everybody who wants to write another such service.
pub(crate) const OPENAPI: &str =
    include_str!("../../../docs/reference/limits-service.openapi.json");

/// `POST /limits`, and its description at `GET /openapi.json`.
pub fn limits_router(plans: impl PlanSource) -> Router {
    const REQUEST_BYTES_MAX: usize = 128 * 1024;
    let described = || async { ([(header::CONTENT_TYPE, "application/json")], OPENAPI) };
    Router::new()
        .route("/limits", post(limits))
        .route("/openapi.json", get(described))
        .layer(DefaultBodyLimit::max(REQUEST_BYTES_MAX))
        .with_state(Arc::new(plans))
}

async fn limits<P: PlanSource>(
    State(plans): State<Arc<P>>,
    Json(request): Json<LimitsRequest>,
) -> Response {
    match plans.limits(request).await {
        Ok(Some(limits)) => Json(limits).into_response(),
        Ok(None) => StatusCode::NOT_FOUND.into_response(),
        Err(error) => {
            eprintln!("no plan could be read: {error}");
            // Sluicegate keeps using the last response.
            StatusCode::SERVICE_UNAVAILABLE.into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Request;
    use http_body_util::BodyExt;
    use serde_json::{Value, json};
    use tower::ServiceExt;

    use super::*;

    /// Knows `acme`, and nothing about `broken`.
    struct OnePlan;

    impl PlanSource for OnePlan {
        type Error = &'static str;

        async fn limits(
            &self,
            request: LimitsRequest,
        ) -> Result<Option<LimitsResponse>, &'static str> {
            match request.tenant() {
                Some("acme") => Ok(Some(LimitsResponse::per("1s", 100).burst(200))),
                Some("broken") => Err("no database"),
                _ => Ok(None),
            }
        }
    }

    async fn ask(question: &Value) -> (StatusCode, Value) {
        let request = Request::post("/limits").header("content-type", "application/json");
        let response = limits_router(OnePlan)
            .oneshot(request.body(Body::from(question.to_string())).unwrap())
            .await
            .unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    #[tokio::test]
    async fn a_caller_is_answered_with_its_quota_or_with_the_reason_why_not() {
        let of = |tenant: &str| json!({ "key": tenant, "key_parts": [tenant] });
        let (status, body) = ask(&of("acme")).await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(body, json!({"average": 100, "burst": 200, "period": "1s"}));
        assert_eq!(ask(&of("nobody")).await.0, StatusCode::NOT_FOUND);
        assert_eq!(ask(&of("broken")).await.0, StatusCode::SERVICE_UNAVAILABLE);
    }

    #[tokio::test]
    async fn a_request_without_a_key_is_refused() {
        let (status, _) = ask(&json!({"tenant": "acme"})).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    }
}
