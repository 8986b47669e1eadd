//! The service, asked with a `POST` of JSON.

use std::error::Error;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper_util::client::legacy::Client;
use sluicegate_config::{ServiceAddress, UpstreamHttp};
use sluicegate_core::Nanos;

use super::REPLY_MAX;
use super::answer::{Answer, Zeroes};
use super::ask::{Asked, LIMIT_HEADER};
use super::connect::{Connector, origin};
use super::error::CallError;
use super::lifetime::Lifetime;

pub(super) struct HttpService {
    client: Client<Connector, Full<Bytes>>,
    url: Uri,
}

impl HttpService {
    pub(super) fn new(
        at: &ServiceAddress,
        path: &str,
        timeout: Duration,
        calls: usize,
    ) -> Result<Self, String> {
        /// More than any sensible header.
        const HEAD_MAX: usize = 32 * 1024;
        let url = format!("{}{path}", origin(at))
            .parse()
            .map_err(|_| "it cannot be asked for".to_owned())?;
        let client = Connector::new(at, UpstreamHttp::Http1, timeout)?.client(|builder| {
            builder
                .pool_max_idle_per_host(calls)
                .http1_max_buf_size(HEAD_MAX);
        });
        Ok(Self { client, url })
    }

    pub(super) async fn ask(
        &self,
        asked: &Asked,
        default: Nanos,
    ) -> Result<(Answer, Lifetime), CallError> {
        let response = self
            .client
            .request(self.request(asked)?)
            .await
            .map_err(|error| broken(&error))?;
        let (head, body) = response.into_parts();
        if head.status != StatusCode::OK {
            return Err(CallError::Status(head.status.as_u16()));
        }
        if is_encoded(&head.headers) {
            return Err(CallError::Encoded);
        }
        let body = Limited::new(body, REPLY_MAX)
            .collect()
            .await
            .map_err(|error| {
                if error.is::<LengthLimitError>() {
                    CallError::TooLong
                } else {
                    broken(&*error)
                }
            })?;
        let answer =
            Answer::from_json(&body.to_bytes(), Zeroes::Written).map_err(CallError::Malformed)?;
        let lifetime = Lifetime::find(Some(&head.headers), &answer, default, SystemTime::now());
        Ok((answer, lifetime))
    }

    fn request(&self, asked: &Asked) -> Result<Request<Full<Bytes>>, CallError> {
        let body = serde_json::to_vec(asked)
            .map_err(|_| CallError::Malformed("the question cannot be written"))?;
        let mut request = Request::new(Full::from(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.url.clone();
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let Ok(limit) = HeaderValue::from_str(&asked.limit) {
            headers.insert(LIMIT_HEADER, limit);
        }
        Ok(request)
    }
}

/// A body that would have to be unpacked may be any size.
fn is_encoded(headers: &HeaderMap) -> bool {
    headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .any(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity"))
}

/// The innermost cause says it shortest.
pub(super) fn broken(error: &(dyn Error + 'static)) -> CallError {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    CallError::Unreachable(innermost.to_string())
}
