//! The two formats of a line: JSON and `name=value` text.
//!
//! Lines are made byte by byte, without a serializer, because every request pays for one.
//! Invariant: nothing that a caller sends can end a line, forge a field or reach a terminal as an
//! escape sequence; every line is ASCII, and every value in it is bounded.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::time::SystemTime;

use sluicegate::http::RateLimitLine;

use super::AccessLogEntry;
use crate::telemetry::timestamp::push_rfc3339;

/// Appends a line as one JSON object in ASCII.
pub(super) fn json(line: &mut Vec<u8>, entry: &AccessLogEntry<'_>, now: SystemTime) {
    line.extend_from_slice(b"{\"time\":\"");
    push_rfc3339(line, now);
    line.extend_from_slice(b"\",\"request_id\":");
    push_json(line, entry.request_id);
    if let Some(trace_id) = entry.trace_id {
        line.extend_from_slice(b",\"trace_id\":");
        push_json(line, trace_id);
    }
    line.extend_from_slice(b",\"client_ip\":");
    match entry.client_ip {
        Some(address) => quoted(line, |line| push_ip(line, address)),
        None => line.extend_from_slice(b"null"),
    }
    line.extend_from_slice(b",\"peer\":");
    quoted(line, |line| push_peer(line, entry.peer));
    line.extend_from_slice(b",\"method\":");
    push_json(line, entry.method);
    line.extend_from_slice(b",\"host\":");
    push_json_or_null(line, entry.host);
    line.extend_from_slice(b",\"path\":");
    push_json(line, entry.path);
    line.extend_from_slice(b",\"status\":");
    push_number(line, entry.status.into());
    line.extend_from_slice(b",\"verdict\":");
    push_json(line, entry.verdict);
    line.extend_from_slice(b",\"limit\":");
    push_json_or_null(line, entry.limit);
    line.extend_from_slice(b",\"principal\":");
    push_json_or_null(line, entry.principal);
    line.extend_from_slice(b",\"upstream\":");
    push_json_or_null(line, entry.upstream);
    line.extend_from_slice(b",\"took_us\":");
    push_number(line, took_us(entry));
    line.extend_from_slice(b",\"bytes_out\":");
    push_number(line, entry.bytes_out);
    line.extend_from_slice(b"}\n");
}

/// Appends a line of `name=value` words; `-` stands for a missing value.
pub(super) fn text(line: &mut Vec<u8>, entry: &AccessLogEntry<'_>, now: SystemTime) {
    push_rfc3339(line, now);
    line.extend_from_slice(b" REQUEST id=");
    push_word(line, entry.request_id);
    if let Some(trace_id) = entry.trace_id {
        line.extend_from_slice(b" trace_id=");
        push_word(line, trace_id);
    }
    line.extend_from_slice(b" client_ip=");
    match entry.client_ip {
        Some(address) => push_ip(line, address),
        None => line.push(b'-'),
    }
    line.extend_from_slice(b" peer=");
    push_peer(line, entry.peer);
    line.extend_from_slice(b" method=");
    push_word(line, entry.method);
    line.extend_from_slice(b" host=");
    push_word(line, entry.host.unwrap_or_default());
    line.extend_from_slice(b" path=");
    push_word(line, entry.path);
    line.extend_from_slice(b" status=");
    push_number(line, entry.status.into());
    line.extend_from_slice(b" verdict=");
    push_word(line, entry.verdict);
    line.extend_from_slice(b" limit=");
    push_word(line, entry.limit.unwrap_or_default());
    line.extend_from_slice(b" principal=");
    push_word(line, entry.principal.unwrap_or_default());
    line.extend_from_slice(b" upstream=");
    push_word(line, entry.upstream.unwrap_or_default());
    line.extend_from_slice(b" took_us=");
    push_number(line, took_us(entry));
    line.extend_from_slice(b" bytes_out=");
    push_number(line, entry.bytes_out);
    line.push(b'\n');
}

/// Appends the `RATE_LIMIT` line as the message of a JSON object.
pub(super) fn rate_limit_json(line: &mut Vec<u8>, rejected: &RateLimitLine<'_>, now: SystemTime) {
    line.extend_from_slice(b"{\"time\":\"");
    push_rfc3339(line, now);
    line.extend_from_slice(b"\",\"message\":\"");
    // The line contains neither quotes nor backslashes, so it needs no escapes.
    push_rate_limit(line, rejected);
    line.extend_from_slice(b"\"}\n");
}

/// Appends the `RATE_LIMIT` line as it is.
pub(super) fn rate_limit_text(line: &mut Vec<u8>, rejected: &RateLimitLine<'_>) {
    push_rate_limit(line, rejected);
    line.push(b'\n');
}

/// Host and path are cut like other values; the rest has a bounded size.
fn push_rate_limit(line: &mut Vec<u8>, rejected: &RateLimitLine<'_>) {
    let (host, path) = (rejected.host.map(|host| cut(host).0), cut(rejected.path).0);
    RateLimitLine {
        host,
        path,
        ..*rejected
    }
    .push(line);
}

fn took_us(entry: &AccessLogEntry<'_>) -> u64 {
    u64::try_from(entry.took.as_micros()).unwrap_or(u64::MAX)
}

/// The bytes of a value that are logged; escaped, each can become six.
const VALUE_BYTES_MAX: usize = 2_048;
/// Follows a value that was cut.
const CUT: &[u8] = b"...";

/// The part of a value that is logged, and whether something was cut off.
fn cut(value: &str) -> (&str, bool) {
    let end = value.floor_char_boundary(VALUE_BYTES_MAX);
    (&value[..end], end < value.len())
}

fn push_json_or_null(line: &mut Vec<u8>, value: Option<&str>) {
    match value {
        Some(value) => push_json(line, value),
        None => line.extend_from_slice(b"null"),
    }
}

/// Appends a JSON string. Most values need no escapes and are copied whole.
fn push_json(line: &mut Vec<u8>, value: &str) {
    let (value, is_cut) = cut(value);
    quoted(line, |line| {
        if all_bytes(value, is_plain_in_json) {
            line.extend_from_slice(value.as_bytes());
        } else {
            value
                .chars()
                .for_each(|letter| push_json_char(line, letter));
        }
        if is_cut {
            line.extend_from_slice(CUT);
        }
    });
}

fn is_plain_in_json(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\')
}

/// Characters beyond ASCII are escaped too: some end a line or reverse its direction where it is
/// displayed.
fn push_json_char(line: &mut Vec<u8>, letter: char) {
    match letter {
        '"' => line.extend_from_slice(b"\\\""),
        '\\' => line.extend_from_slice(b"\\\\"),
        ' '..='~' => line.push(letter as u8),
        _ => {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                line.extend_from_slice(b"\\u");
                unit.to_be_bytes()
                    .into_iter()
                    .for_each(|byte| push_hex(line, byte, b"0123456789abcdef"));
            }
        }
    }
}

/// Appends a word of a text line. Everything but plain characters is percent-encoded, as in the
/// `RATE_LIMIT` line.
fn push_word(line: &mut Vec<u8>, value: &str) {
    let (value, is_cut) = cut(value);
    if value.is_empty() {
        return line.push(b'-');
    }
    if all_bytes(value, is_plain_in_text) {
        line.extend_from_slice(value.as_bytes());
    } else {
        for byte in value.bytes() {
            if is_plain_in_text(byte) {
                line.push(byte);
            } else {
                line.push(b'%');
                push_hex(line, byte, b"0123456789ABCDEF");
            }
        }
    }
    if is_cut {
        line.extend_from_slice(CUT);
    }
}

fn is_plain_in_text(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~') && !matches!(byte, b'"' | b'\'' | b'\\')
}

/// Returns true when all bytes are plain. Checks every byte instead of stopping early, so that the
/// compiler can check many in one step.
fn all_bytes(value: &str, is_plain: impl Fn(u8) -> bool) -> bool {
    value.bytes().fold(true, |all, byte| all & is_plain(byte))
}

fn push_hex(line: &mut Vec<u8>, byte: u8, digits: &[u8; 16]) {
    line.extend_from_slice(&[
        digits[usize::from(byte >> 4)],
        digits[usize::from(byte & 15)],
    ]);
}

fn quoted(line: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    line.push(b'"');
    write(line);
    line.push(b'"');
}

/// An address and port, with IPv6 in brackets.
fn push_peer(line: &mut Vec<u8>, peer: SocketAddr) {
    match peer.ip() {
        IpAddr::V4(_) => push_ip(line, peer.ip()),
        IpAddr::V6(_) => {
            line.push(b'[');
            push_ip(line, peer.ip());
            line.push(b']');
        }
    }
    line.push(b':');
    push_number(line, peer.port().into());
}

/// An address. IPv4 is written by hand, as the general formatter would take as long as the rest of
/// the line.
fn push_ip(line: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => {
            let [first, rest @ ..] = address.octets();
            push_number(line, first.into());
            for octet in rest {
                line.push(b'.');
                push_number(line, octet.into());
            }
        }
        IpAddr::V6(address) => write!(line, "{address}").expect("memory takes every byte"),
    }
}

fn push_number(line: &mut Vec<u8>, number: u64) {
    line.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[cfg(test)]
mod tests;
