//! The end of a request's body. Request smuggling lives where two servers disagree about it, so
//! everything that leaves a doubt is refused.

use http::request::Parts;
use http::{HeaderMap, Version, header};
use sluicegate_config::Bounds;

use super::InvalidRequest;
use crate::hop_by_hop;
use crate::upgrade_request::upgrade_of;

/// End of a request's body, by its headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyEnd {
    /// There is no body.
    None,
    /// The body has this many bytes, at least one.
    Length(u64),
    /// The body says its own end.
    Chunked,
}

/// Finds the end of the body, unless that is in doubt.
pub fn body_end(parts: &Parts) -> Result<BodyEnd, InvalidRequest> {
    if parts.version == Version::HTTP_2 {
        check_connection_headers(&parts.headers)?;
    }
    match (check_coding(parts)?, length_of(&parts.headers)?) {
        (true, Some(_)) => Err(InvalidRequest::CodingBesideLength),
        (true, None) => Ok(BodyEnd::Chunked),
        (false, Some(length)) if length > 0 => Ok(BodyEnd::Length(length)),
        (false, _) => Ok(BodyEnd::None),
    }
}

/// Refuses bodies that are announced as too long, and those of requests that change the protocol.
pub(super) fn check(parts: &Parts, end: BodyEnd, bounds: &Bounds) -> Result<(), InvalidRequest> {
    if end != BodyEnd::None && upgrade_of(parts).is_some() {
        return Err(InvalidRequest::UpgradeWithBody);
    }
    match (end, bounds.body_bytes) {
        (BodyEnd::Length(length), Some(most)) if length > most => Err(InvalidRequest::BodyTooLong),
        _ => Ok(()),
    }
}

/// HTTP/2 frames requests by itself; a server behind us that believed these headers would find
/// another end.
fn check_connection_headers(headers: &HeaderMap) -> Result<(), InvalidRequest> {
    // One look at each name: a map would be searched for every one of them.
    for (name, value) in headers {
        match hop_by_hop::known(name.as_str().as_bytes()) {
            Some("te") if value == "trailers" => {}
            // They belong to a connection, but not to the framing of HTTP/1.
            None | Some("proxy-authenticate" | "proxy-authorization") => {}
            Some(name) => return Err(InvalidRequest::ConnectionHeader(name)),
        }
    }
    Ok(())
}

/// Returns true when the body is chunked; any other coding is refused, and so is `chunked` twice.
fn check_coding(parts: &Parts) -> Result<bool, InvalidRequest> {
    let mut lines = parts.headers.get_all(header::TRANSFER_ENCODING).iter();
    let Some(line) = lines.next() else {
        return Ok(false);
    };
    if parts.version < Version::HTTP_11 {
        return Err(InvalidRequest::CodingInHttp10);
    }
    let is_chunked = line.as_bytes().eq_ignore_ascii_case(b"chunked");
    if is_chunked && lines.next().is_none() {
        Ok(true)
    } else {
        Err(InvalidRequest::Coding)
    }
}

/// The value of `Content-Length`: digits only, where `u64::from_str` would take a sign, and no
/// leading zeros, which some programs take for another base.
fn length_of(headers: &HeaderMap) -> Result<Option<u64>, InvalidRequest> {
    let mut lines = headers.get_all(header::CONTENT_LENGTH).iter();
    let Some(line) = lines.next() else {
        return Ok(None);
    };
    if lines.next().is_some() {
        return Err(InvalidRequest::RepeatedLength);
    }
    let digits = line.to_str().map_err(|_| InvalidRequest::MalformedLength)?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit())
        && (digits == "0" || !digits.starts_with('0'));
    if !is_number {
        return Err(InvalidRequest::MalformedLength);
    }
    digits
        .parse()
        .map(Some)
        .map_err(|_| InvalidRequest::MalformedLength)
}
