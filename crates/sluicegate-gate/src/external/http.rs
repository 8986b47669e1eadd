//! The service over HTTP: a `POST` with JSON, answered with JSON.
//!
//! Only status 200 with an identity-encoded body of at most `REPLY_MAX` bytes is a reply;
//! everything else is an error, and `error.rs` says which ones speak against the service.

use std::error::Error;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Uri};
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use sluicegate_config::{ServiceAddress, UpstreamHttp};
use sluicegate_core::Nanos;

use super::REPLY_MAX;
use super::error::CallError;
use super::lifetime::CacheLifetime;
use super::reply::{ServiceReply, ZeroFields};
use super::request::{LIMIT_HEADER, LimitsRequest};
use crate::http_client::{ServiceConnector, innermost_cause, origin, read_response};

/// A client of a service that is called over HTTP/1.1.
pub(super) struct HttpService {
    client: Client<ServiceConnector, Full<Bytes>>,
    url: Uri,
}

impl HttpService {
    /// Reads certificates. Keeps up to `calls` idle connections: one for each call that may run.
    pub(super) fn new(
        address: &ServiceAddress,
        path: &str,
        timeout: Duration,
        calls: usize,
    ) -> Result<Self, String> {
        /// The largest response header in bytes, more than any sensible one.
        const HEAD_MAX: usize = 32 * 1024;
        let url = format!("{}{path}", origin(address))
            .parse()
            .map_err(|_| "url: not a valid address".to_owned())?;
        let client =
            ServiceConnector::new(address, UpstreamHttp::Http1, timeout)?.client(|builder| {
                builder
                    .pool_max_idle_per_host(calls)
                    .http1_max_buf_size(HEAD_MAX);
            });
        Ok(Self { client, url })
    }

    /// Makes one call and reads its reply. The deadline is kept by the caller of this function.
    pub(super) async fn call(
        &self,
        request: &LimitsRequest,
        default_ttl: Nanos,
    ) -> Result<(ServiceReply, CacheLifetime), CallError> {
        let response = self
            .client
            .request(self.post(request)?)
            .await
            .map_err(|error| unreachable(&error))?;
        let (headers, body) = read_response(response, REPLY_MAX).await?;
        let reply =
            ServiceReply::from_json(&body, ZeroFields::Written).map_err(CallError::Malformed)?;
        let lifetime =
            CacheLifetime::from_reply(Some(&headers), &reply, default_ttl, SystemTime::now());
        Ok((reply, lifetime))
    }

    /// The HTTP request. A limit whose name cannot be a header value is sent without that header.
    fn post(&self, request: &LimitsRequest) -> Result<Request<Full<Bytes>>, CallError> {
        let body = serde_json::to_vec(request)
            .map_err(|_| CallError::Malformed("the request cannot be encoded"))?;
        let mut post = Request::new(Full::from(body));
        *post.method_mut() = Method::POST;
        *post.uri_mut() = self.url.clone();
        let headers = post.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let Ok(limit) = HeaderValue::from_str(&request.limit) {
            headers.insert(LIMIT_HEADER, limit);
        }
        Ok(post)
    }
}

/// The error of a connection, with its innermost cause.
pub(super) fn unreachable(error: &(dyn Error + 'static)) -> CallError {
    CallError::Unreachable(innermost_cause(error))
}
