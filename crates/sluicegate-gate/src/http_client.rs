//! An HTTP client for services that the configuration names: the limits service, and the address of
//! the keys of tokens.
//!
//! Each client talks to one configured address, whatever a URL in a response says, so no redirect
//! leads elsewhere. Only a complete response of status 200 without a content encoding, within a
//! bound on its size, is handed on. Deadlines are kept by the callers.

mod cache_control;
mod connector;
mod response;

pub(crate) use cache_control::CacheControl;
pub(crate) use connector::{ServiceConnector, origin};
pub(crate) use response::{ResponseError, innermost_cause, read_response};
