//! The HTTP side: from a request to a [`Subject`](crate::Subject), and from a verdict to a
//! response.
//!
//! [`RateLimitLayer`] does all of it for tower and axum. Its steps are public for servers that are
//! not built on tower, or that decide in the middle of a handler:
//!
//! | step | here |
//! |---|---|
//! | find the caller's address | [`ClientIp`] |
//! | read the request | [`extract`], or by hand with [`host_of`] and [`HeaderLines`] |
//! | refuse headers that pass for a key header | [`KeyHeaders`] |
//! | tell the caller how much is left | [`ResponseHeaders`] |
//! | refuse the request | [`Rejection`], logged as [`RateLimitLine`] |
//!
//! A handler that limits by itself:
//!
//! ```
//! use sluicegate::http::{ClientIp, PeerAddr, Rejection, ResponseHeaders, extract};
//! use sluicegate::{Limit, Limiter, Quota, Verdict};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let limiter = Limiter::local([Limit::per_client("per-ip", Quota::per_minute(1))])?;
//! let (client_ip, headers) = (ClientIp::default(), ResponseHeaders::default());
//!
//! let peer = PeerAddr("203.0.113.7:4711".parse()?);
//! let (parts, ()) = http::Request::get("/").extension(peer).body(())?.into_parts();
//! let extracted = extract(&parts, &client_ip)?;
//! # limiter.check(&extracted.subject(), 1).await;
//! if let Verdict::Reject(decision) = limiter.check(&extracted.subject(), 1).await {
//!     let response = Rejection::Limited(&decision).respond(&parts.headers, &headers);
//!     assert_eq!(response.status(), 429);
//!     assert_eq!(response.headers()["retry-after"], "60");
//! }
//! # Ok(())
//! # })
//! # }
//! ```

mod accept;
mod awaited_answer;
mod body;
mod extract;
mod headers;
mod layer;
mod log_line;
mod problem_json;
mod rejection;
mod request_id;
mod response_fields;
mod service;

pub use awaited_answer::grpc_status;
pub use body::RateLimitBody;
pub use extract::{
    AmbiguousHeader, ClientIp, Extracted, HeaderAmbiguity, HeaderLines, KeyHeaders, Misread,
    PeerAddr, ProxyHeaderFault, ReadRequest, RequestHead, TlsServerName, check_method, extract,
    host_of, one_spelling, split_target,
};
pub use headers::{IetfDraft, ResponseHeaders, retry_after_secs};
pub use ipnet::IpNet;
pub use layer::RateLimitLayer;
pub use log_line::RateLimitLine;
pub use rejection::Rejection;
pub use request_id::{REQUEST_ID, REQUEST_ID_MAX, sent_request_id};
pub use response_fields::ResponseFields;
pub use service::RateLimit;
pub use sluicegate_core::{HeaderStyle, ProxyHeader};
