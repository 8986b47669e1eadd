//! The HTTP side: from a request to a [`Subject`](crate::Subject), and from a verdict to a response.
//!
//! [`RateLimitLayer`] does all of it for tower and axum. The steps are public for front doors of another shape:
//! [`extract`] reads a request, [`ResponseHeaders`] tells the caller what is left, [`Rejection`] says no.

mod accept;
mod body;
mod extract;
mod fields;
mod headers;
mod layer;
mod log_line;
mod reject;
mod service;

pub use body::RateLimitBody;
pub use extract::{
    ClientIp, Extracted, HeaderLines, KeyHeaders, Misread, PeerAddr, ReadRequest, RequestHead,
    TwinHeader, Unused, extract, host_of, one_spelling,
};
pub use fields::Fields;
pub use headers::{IetfDraft, ResponseHeaders, retry_after_secs};
pub use ipnet::IpNet;
pub use layer::RateLimitLayer;
pub use log_line::RateLimitLine;
pub use reject::Rejection;
pub use service::RateLimit;
pub use sluicegate_core::{HeaderStyle, ProxyHeader};
