//! The HTTP side: from a request to a [`Subject`](crate::Subject), and from a verdict to a response.
//!
//! [`RateLimitLayer`] does all of it for tower and axum. The steps are public for front doors of another shape:
//! [`extract`] reads a request, [`ResponseHeaders`] tells the caller what is left, [`Rejection`] says no.

mod accept;
mod body;
mod extract;
mod headers;
mod layer;
mod log_line;
mod rejection;
mod response_fields;
mod service;

pub use body::RateLimitBody;
pub use extract::{
    AmbiguousHeader, ClientIp, Extracted, HeaderLines, KeyHeaders, PeerAddr, ProxyHeader,
    ProxyHeaderFault, extract, host_of,
};
pub use headers::{HeaderStyle, IetfDraft, ResponseHeaders, retry_after_secs};
pub use ipnet::IpNet;
pub use layer::RateLimitLayer;
pub use log_line::RateLimitLine;
pub use rejection::Rejection;
pub use response_fields::ResponseFields;
pub use service::RateLimit;
