//! Lines without a log, for the targets in `fuzz/`.

use std::time::SystemTime;

use sluicegate::http::RateLimitLine;

use super::{AccessLogEntry, line_format};

/// The line of a request as JSON.
pub fn access_json(entry: &AccessLogEntry<'_>) -> Vec<u8> {
    let mut line = Vec::new();
    line_format::json(&mut line, entry, SystemTime::UNIX_EPOCH);
    line
}

/// The line of a request as text.
pub fn access_text(entry: &AccessLogEntry<'_>) -> Vec<u8> {
    let mut line = Vec::new();
    line_format::text(&mut line, entry, SystemTime::UNIX_EPOCH);
    line
}

/// The line of a rejection as JSON.
pub fn rate_limit_json(rejected: &RateLimitLine<'_>) -> Vec<u8> {
    let mut line = Vec::new();
    line_format::rate_limit_json(&mut line, rejected, SystemTime::UNIX_EPOCH);
    line
}

/// The line of a rejection as text.
pub fn rate_limit_text(rejected: &RateLimitLine<'_>) -> Vec<u8> {
    let mut line = Vec::new();
    line_format::rate_limit_text(&mut line, rejected);
    line
}
