//! One fetch of a key set over HTTP, within bounds.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, USER_AGENT};
use http::{HeaderValue, Request, Uri};
use http_body_util::Empty;
use hyper_util::client::legacy::Client;
use sluicegate_config::{JwksUrl, UpstreamHttp};

use crate::http_client::{CacheControl, ResponseError, ServiceConnector, origin, read_response};
use crate::telemetry::metrics::KeyFetchResult;

/// The largest response in bytes, many times the size of a real set.
const BYTES_MAX: usize = 256 * 1024;

/// The server of the keys.
#[derive(Clone)]
pub(super) enum KeyService {
    Http(Box<KeyServer>),
    /// A server in memory, for tests with a paused clock.
    #[cfg(test)]
    Fake(super::tests::FakeServer),
}

/// A server of keys over HTTP/1.1.
#[derive(Clone)]
pub(super) struct KeyServer {
    client: Client<ServiceConnector, Empty<Bytes>>,
    url: Uri,
}

/// The body of a good response, not parsed yet.
#[derive(Clone, Debug)]
pub(super) struct KeysResponse {
    pub(super) body: Bytes,
    /// Its `Cache-Control: max-age` in seconds.
    pub(super) max_age: Option<u64>,
}

/// A fetch without usable keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FetchError {
    /// No response within `jwks.timeout`.
    TimedOut,
    /// No response, or one that is not read.
    Response(ResponseError),
    /// A response that is no usable key set, and what is wrong with it.
    Invalid(String),
}

impl KeyService {
    /// Reads certificates; no connection is made yet.
    pub(super) fn new(url: &JwksUrl) -> Result<Self, String> {
        /// The largest response header in bytes, more than any sensible one.
        const HEAD_MAX: usize = 32 * 1024;
        let uri = format!("{}{}", origin(&url.at), url.path)
            .parse()
            .map_err(|_| "not a valid address".to_owned())?;
        let connector = ServiceConnector::new(&url.at, UpstreamHttp::Http1, url.timeout.into())?;
        let client = connector.client(|builder| {
            // Minutes pass until the next fetch, so no connection is kept.
            builder
                .pool_max_idle_per_host(0)
                .http1_max_buf_size(HEAD_MAX);
        });
        Ok(Self::Http(Box::new(KeyServer { client, url: uri })))
    }

    /// Makes one fetch, which ends after `timeout` at the latest.
    pub(super) async fn fetch(&self, timeout: Duration) -> Result<KeysResponse, FetchError> {
        let fetching = async {
            match self {
                Self::Http(server) => server.fetch().await,
                #[cfg(test)]
                Self::Fake(server) => server.fetch().await,
            }
        };
        tokio::time::timeout(timeout, fetching)
            .await
            .unwrap_or(Err(FetchError::TimedOut))
    }
}

impl KeyServer {
    async fn fetch(&self) -> Result<KeysResponse, FetchError> {
        let mut request = Request::new(Empty::new());
        *request.uri_mut() = self.url.clone();
        let headers = request.headers_mut();
        let json = HeaderValue::from_static("application/jwk-set+json, application/json");
        headers.insert(ACCEPT, json);
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.insert(USER_AGENT, HeaderValue::from_static("sluicegate"));
        let response = self.client.request(request).await;
        let response =
            response.map_err(|error| FetchError::Response(ResponseError::unreachable(&error)))?;
        let (headers, body) = read_response(response, BYTES_MAX)
            .await
            .map_err(FetchError::Response)?;
        Ok(KeysResponse {
            body,
            max_age: CacheControl::of(&headers).max_age,
        })
    }
}

impl FetchError {
    /// The label that counts it.
    pub(super) fn result(&self) -> KeyFetchResult {
        match self {
            Self::TimedOut => KeyFetchResult::TimedOut,
            Self::Response(ResponseError::Unreachable(_)) => KeyFetchResult::Unreachable,
            Self::Response(ResponseError::Status(_)) => KeyFetchResult::Status,
            Self::Response(ResponseError::TooLong(_) | ResponseError::Encoded)
            | Self::Invalid(_) => KeyFetchResult::Invalid,
        }
    }
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut => f.write_str("no response in time"),
            Self::Response(error) => error.fmt(f),
            Self::Invalid(what) => write!(f, "the reply is no usable key set: {what}"),
        }
    }
}

impl std::error::Error for FetchError {}
