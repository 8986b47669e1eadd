//! Lines of the access log and of rejections: one line each, with the fields that were meant.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use http::StatusCode;
use serde_json::Value;
use sluicegate::http::RateLimitLine;
use sluicegate_gate::fuzz_internals::{access_json, access_text, rate_limit_json, rate_limit_text};
use sluicegate_gate::telemetry::AccessLogEntry;

use crate::input::InputBytes;

/// The first byte chooses what is there; the lines of the rest are host, method, principal, id and
/// path.
pub fn run(data: &[u8]) {
    let mut input = InputBytes::new(data);
    let choice = input.byte();
    let host = text_of(input.line());
    let method = text_of(input.line());
    let principal = text_of(input.line());
    let id = text_of(input.line());
    let path = text_of(input.rest());
    let is_there = |bit: u8| choice & bit != 0;
    let client_ip = match choice >> 6 {
        0 => None,
        1 => Some(IpAddr::V4(Ipv4Addr::BROADCAST)),
        _ => Some(IpAddr::V6(Ipv6Addr::LOCALHOST)),
    };
    let entry = AccessLogEntry {
        request_id: &id,
        trace_id: is_there(1).then_some(&*id),
        client_ip,
        peer: SocketAddr::new(client_ip.unwrap_or(Ipv4Addr::LOCALHOST.into()), 4711),
        method: &method,
        host: is_there(2).then_some(&*host),
        path: &path,
        status: 429,
        verdict: "limited",
        limit: is_there(4).then_some(&*principal),
        principal: is_there(8).then_some(&*principal),
        upstream: is_there(16).then_some(&*host),
        took: Duration::from_micros(7),
        bytes_out: u64::MAX,
    };
    check_json(&access_json(&entry), &entry);
    check_text(&access_text(&entry), &entry);
    check_rejection(&RateLimitLine {
        client_ip,
        host: entry.host,
        path: &path,
        status: StatusCode::TOO_MANY_REQUESTS,
    });
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// One line of printable ASCII; returns it without its end.
fn single_line(line: &[u8]) -> &str {
    let line = line.strip_suffix(b"\n").expect("a line end");
    let is_printable = |byte: &u8| matches!(byte, b' '..=b'~');
    assert!(line.iter().all(is_printable));
    str::from_utf8(line).expect("ASCII")
}

/// Longer values are cut.
const BYTES_MAX: usize = 2_048;

/// The longest part of a value that is logged, and what follows it if that is not all.
fn logged(value: &str) -> String {
    if value.len() <= BYTES_MAX {
        return value.to_owned();
    }
    let mut end = BYTES_MAX;
    while !value.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}...", &value[..end])
}

fn check_json(line: &[u8], entry: &AccessLogEntry<'_>) {
    let fields: Value = serde_json::from_str(single_line(line)).expect("an object");
    let text = |name: &str| {
        let value = fields[name].as_str();
        value.map(str::to_owned)
    };
    for (name, value) in [
        ("request_id", Some(entry.request_id)),
        ("trace_id", entry.trace_id),
        ("method", Some(entry.method)),
        ("host", entry.host),
        ("path", Some(entry.path)),
        ("limit", entry.limit),
        ("principal", entry.principal),
        ("upstream", entry.upstream),
    ] {
        assert_eq!(text(name), value.map(logged), "{name}");
    }
    let client_ip = entry.client_ip.map(|address| address.to_string());
    assert_eq!(text("client_ip"), client_ip);
    assert_eq!(text("peer"), Some(entry.peer.to_string()));
    assert_eq!(fields["status"], 429);
    assert_eq!(fields["verdict"], "limited");
    assert_eq!(fields["bytes_out"], u64::MAX);
    let count = fields.as_object().map(|fields| fields.len());
    let trace_ids = usize::from(entry.trace_id.is_some());
    assert_eq!(count, Some(14 + trace_ids));
}

fn check_text(line: &[u8], entry: &AccessLogEntry<'_>) {
    let words: Vec<&str> = single_line(line).split(' ').collect();
    assert_eq!(words[1], "REQUEST");
    let mut names = vec!["id"];
    names.extend(entry.trace_id.map(|_| "trace_id"));
    names.extend([
        "client_ip",
        "peer",
        "method",
        "host",
        "path",
        "status",
        "verdict",
    ]);
    names.extend(["limit", "principal", "upstream", "took_us", "bytes_out"]);
    assert_eq!(words.len(), 2 + names.len(), "{words:?}");
    let value_of = |wanted: &str| {
        let place = names.iter().position(|name| *name == wanted);
        let word = words[2 + place.expect("a known name")];
        let (_, value) = word.split_once('=').expect("a name and a value");
        value
    };
    for (name, word) in names.iter().zip(&words[2..]) {
        assert!(word.starts_with(&format!("{name}=")), "{word}");
    }
    assert!(is_escaped(value_of("path"), entry.path));
    let host = entry.host.unwrap_or("-");
    assert!(is_escaped(value_of("host"), host));
    assert!(is_escaped(value_of("id"), entry.request_id));
    assert_eq!(value_of("status"), "429");
}

fn check_rejection(rejected: &RateLimitLine<'_>) {
    let text = rate_limit_text(rejected);
    let line = single_line(&text);
    let words: Vec<&str> = line.split(' ').collect();
    let [mark, client_ip, host, path, status] = words[..] else {
        panic!("{line}");
    };
    assert_eq!((mark, status), ("RATE_LIMIT", "status=429"));
    assert!(client_ip.starts_with("client_ip="));
    let host = host.strip_prefix("host=").expect("the name of the field");
    let path = path.strip_prefix("path=").expect("the name of the field");
    // Longer ones are cut without a mark.
    if rejected.path.len() <= BYTES_MAX {
        assert!(is_escaped(path, rejected.path), "{line}");
    }
    let host_sent = rejected.host.unwrap_or("-");
    if host_sent.len() <= BYTES_MAX {
        assert!(is_escaped(host, host_sent), "{line}");
    }
    let object: Value =
        serde_json::from_str(single_line(&rate_limit_json(rejected))).expect("an object");
    assert_eq!(object["message"], line);
}

/// True when a word is a value with escapes in place of what could end it. Percent signs of the
/// value stay, so escapes are compared letter by letter and not decoded.
fn is_escaped(word: &str, value: &str) -> bool {
    let value = logged(value);
    if value.is_empty() {
        return word == "-";
    }
    let mut rest = word.as_bytes();
    for byte in value.bytes() {
        let is_plain = matches!(byte, b'!'..=b'~') && !b"\"'\\".contains(&byte);
        rest = match (rest, is_plain) {
            ([first, rest @ ..], true) if *first == byte => rest,
            ([b'%', digits @ ..], false) => match digits.split_first_chunk() {
                Some((pair, rest)) if hex_byte(*pair) == byte => rest,
                _ => return false,
            },
            _ => return false,
        };
    }
    rest.is_empty()
}

/// The byte that two digits in upper case stand for.
fn hex_byte(digits: [u8; 2]) -> u8 {
    let [high, low] = digits.map(|digit| match digit {
        b'0'..=b'9' => digit - b'0',
        b'A'..=b'F' => digit - b'A' + 10,
        other => panic!("{other} is no digit"),
    });
    high * 16 + low
}
