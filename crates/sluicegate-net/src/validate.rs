//! Validation of requests: refuses those that two servers could read differently.
//!
//! Much is refused or made unambiguous before a request gets here. The HTTP/1 parser refuses
//! control characters, folded lines, spaces around names, and names or methods that are no tokens;
//! [`http::HeaderValue`] and [`http::HeaderName`] cannot hold them either. [`http::Uri`] drops a
//! fragment, so that the target goes upstream in the one reading that was limited. The HTTP/2
//! parser resets streams with headers that belong to a connection; what it lets through, or may
//! let through in another version, is checked here. The end of a body over HTTP/1 is decided here
//! and nowhere else.

mod framing;
mod host;
mod invalid_request;

pub use framing::{BodyEnd, body_end};
pub use invalid_request::InvalidRequest;

use http::request::Parts;
use http::{Method, header};
use sluicegate_config::Bounds;

use crate::upgrade_request::ExtendedConnect;

/// Longest method that is accepted. The longest registered one has 17 bytes.
const METHOD_BYTES: usize = 32;

/// Checks a request whose [end is known](body_end), before anything else looks at it.
pub fn validate(
    parts: &Parts,
    end: BodyEnd,
    bounds: &Bounds,
    is_http2: bool,
) -> Result<(), InvalidRequest> {
    check_request(parts, end, bounds, is_http2)?;
    check_lines(parts, is_http2)
}

/// The part of it that no header line decides alone: method, target, sizes and the body.
pub(crate) fn check_request(
    parts: &Parts,
    end: BodyEnd,
    bounds: &Bounds,
    is_http2: bool,
) -> Result<(), InvalidRequest> {
    framing::check(parts, end, bounds)?;
    check_protocol(parts)?;
    check_method(&parts.method)?;
    check_size(parts, bounds)?;
    check_target(parts, is_http2)
}

/// The part of it that depends on the header lines, the version and the host in the target.
pub(crate) fn check_lines(parts: &Parts, is_http2: bool) -> Result<(), InvalidRequest> {
    if is_http2 {
        check_blanks(parts)?;
    }
    host::check(parts)?;
    check_expectation(parts)
}

/// The streams of HTTP/2 that change their protocol change it to that of WebSocket.
fn check_protocol(parts: &Parts) -> Result<(), InvalidRequest> {
    match parts.extensions.get::<ExtendedConnect>() {
        Some(connect) if !connect.is_websocket() => Err(InvalidRequest::Protocol),
        _ => Ok(()),
    }
}

/// CONNECT and TRACE are never served.
fn check_method(method: &Method) -> Result<(), InvalidRequest> {
    match *method {
        Method::CONNECT => Err(InvalidRequest::Connect),
        Method::TRACE => Err(InvalidRequest::Trace),
        _ if method.as_str().len() > METHOD_BYTES => Err(InvalidRequest::Method),
        _ => Ok(()),
    }
}

/// Compares sizes with the bounds. Lines are counted as HTTP/1 writes them, in any version.
pub(crate) fn check_size(parts: &Parts, bounds: &Bounds) -> Result<(), InvalidRequest> {
    let target = target_bytes(parts);
    if target > bounds.target_bytes {
        return Err(InvalidRequest::TargetTooLong);
    }
    if parts.headers.len() > bounds.headers {
        return Err(InvalidRequest::TooManyHeaders);
    }
    let request_line = parts.method.as_str().len() + target + "  HTTP/1.1\r\n".len();
    let line = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        name.as_str().len() + value.len() + ": \r\n".len()
    };
    let head = request_line + parts.headers.iter().map(line).sum::<usize>() + "\r\n".len();
    if head > bounds.header_bytes {
        Err(InvalidRequest::HeadersTooLarge)
    } else {
        Ok(())
    }
}

/// Bytes of the target as it was sent, with scheme and authority.
fn target_bytes(parts: &Parts) -> usize {
    let scheme = parts
        .uri
        .scheme_str()
        .map_or(0, |scheme| scheme.len() + "://".len());
    let authority = parts
        .uri
        .authority()
        .map_or(0, |authority| authority.as_str().len());
    scheme
        + authority
        + parts
            .uri
            .path_and_query()
            .map_or(0, |path| path.as_str().len())
}

/// The target is a path, with a scheme and a host before it or without; or `*` for OPTIONS.
fn check_target(parts: &Parts, is_http2: bool) -> Result<(), InvalidRequest> {
    let uri = &parts.uri;
    let path = uri.path_and_query().map_or("", |path| path.as_str());
    match (uri.scheme_str(), uri.authority()) {
        (None, None) => {}
        (Some("http" | "https"), Some(authority)) if !authority.as_str().contains('@') => {}
        (Some("http" | "https"), Some(_)) => return Err(InvalidRequest::Userinfo),
        (Some(_), _) => return Err(InvalidRequest::Scheme),
        // `GET a.example:80`: this form belongs to CONNECT.
        (None, Some(_)) => return Err(InvalidRequest::TargetForm),
    }
    if path == "*" && parts.method == Method::OPTIONS && !is_http2 {
        return Ok(());
    }
    if !path.starts_with('/') {
        return Err(InvalidRequest::TargetForm);
    }
    if path.is_ascii() {
        Ok(())
    } else {
        Err(InvalidRequest::TargetBytes)
    }
}

/// Refuses blanks around a value (RFC 9113, section 8.2.1). The HTTP/1 parser removes them; over
/// HTTP/2 they would be a part of the value here, and no longer for the server behind.
fn check_blanks(parts: &Parts) -> Result<(), InvalidRequest> {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let has_blanks = |value: &http::HeaderValue| {
        let bytes = value.as_bytes();
        bytes.first().is_some_and(is_blank) || bytes.last().is_some_and(is_blank)
    };
    match parts.headers.values().any(has_blanks) {
        true => Err(InvalidRequest::Blanks),
        false => Ok(()),
    }
}

/// `100-continue` is the only expectation there is.
fn check_expectation(parts: &Parts) -> Result<(), InvalidRequest> {
    let is_known = |line: &http::HeaderValue| line.as_bytes().eq_ignore_ascii_case(b"100-continue");
    if parts.headers.get_all(header::EXPECT).iter().all(is_known) {
        Ok(())
    } else {
        Err(InvalidRequest::Expectation)
    }
}

#[cfg(test)]
mod tests;
