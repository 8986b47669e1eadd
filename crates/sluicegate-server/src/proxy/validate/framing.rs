//! Where a request ends.

use http::request::Parts;
use http::{HeaderMap, Version, header};
use sluicegate_config::Bounds;

use super::Refusal;
use crate::proxy::rewrite::upgrade_of;

/// Where the body of a request ends, by its headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyEnd {
    /// There is none.
    None,
    Length(u64),
    Chunked,
}

/// Where the body ends, unless that is in doubt.
pub fn body_end(parts: &Parts) -> Result<BodyEnd, Refusal> {
    if parts.version == Version::HTTP_2 {
        check_connection_headers(&parts.headers)?;
    }
    match (check_coding(parts)?, length_of(&parts.headers)?) {
        (true, Some(_)) => Err(Refusal::CodingBesideLength),
        (true, None) => Ok(BodyEnd::Chunked),
        (false, Some(length)) if length > 0 => Ok(BodyEnd::Length(length)),
        (false, _) => Ok(BodyEnd::None),
    }
}

/// Refuses bodies that are announced as too long, or have no place.
pub(super) fn check(parts: &Parts, end: BodyEnd, bounds: &Bounds) -> Result<(), Refusal> {
    if end != BodyEnd::None && upgrade_of(parts).is_some() {
        return Err(Refusal::UpgradeWithBody);
    }
    match (end, bounds.body_bytes) {
        (BodyEnd::Length(length), Some(most)) if length > most => Err(Refusal::BodyTooLong),
        _ => Ok(()),
    }
}

/// HTTP/2 frames requests itself; a server behind that believes these headers would read another end.
fn check_connection_headers(headers: &HeaderMap) -> Result<(), Refusal> {
    for name in [
        "connection",
        "transfer-encoding",
        "keep-alive",
        "upgrade",
        "proxy-connection",
    ] {
        if headers.contains_key(name) {
            return Err(Refusal::ConnectionHeader(name));
        }
    }
    let other_than_trailers = headers
        .get_all(header::TE)
        .iter()
        .any(|line| line != "trailers");
    if other_than_trailers {
        Err(Refusal::ConnectionHeader("te"))
    } else {
        Ok(())
    }
}

/// Whether the body is chunked; any other coding is refused, and so is `chunked` twice.
fn check_coding(parts: &Parts) -> Result<bool, Refusal> {
    let mut lines = parts.headers.get_all(header::TRANSFER_ENCODING).iter();
    let Some(line) = lines.next() else {
        return Ok(false);
    };
    if parts.version < Version::HTTP_11 {
        return Err(Refusal::CodingInHttp10);
    }
    let is_chunked = line.as_bytes().eq_ignore_ascii_case(b"chunked");
    if is_chunked && lines.next().is_none() {
        Ok(true)
    } else {
        Err(Refusal::Coding)
    }
}

/// Digits only, where `u64::from_str` would take a sign, and no zeros in front, which may mean another base elsewhere.
fn length_of(headers: &HeaderMap) -> Result<Option<u64>, Refusal> {
    let mut lines = headers.get_all(header::CONTENT_LENGTH).iter();
    let Some(line) = lines.next() else {
        return Ok(None);
    };
    if lines.next().is_some() {
        return Err(Refusal::RepeatedLength);
    }
    let digits = line.to_str().map_err(|_| Refusal::MalformedLength)?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit())
        && (digits == "0" || !digits.starts_with('0'));
    if !is_number {
        return Err(Refusal::MalformedLength);
    }
    digits
        .parse()
        .map(Some)
        .map_err(|_| Refusal::MalformedLength)
}
