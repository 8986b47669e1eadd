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
    let [host, method, principal, id] =
        [(); 4].map(|()| String::from_utf8_lossy(input.line()).into_owned());
    let path = String::from_utf8_lossy(input.rest()).into_owned();
    let is_there = |bit: u8| choice & bit != 0;
    let client_ip = match choice >> 6 {
        0 => None,
        1 => Some(IpAddr::V4(Ipv4Addr::new(203, 0, 113, choice))),
        _ => Some(IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7))),
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

/// One line of printable ASCII; returns it without its end.
fn single_line(line: &[u8]) -> &str {
    let line = line.strip_suffix(b"\n").expect("a line end");
    assert!(line.iter().all(|byte| matches!(byte, b' '..=b'~')));
    str::from_utf8(line).expect("ASCII")
}

/// The longest part of a value that is logged, and what follows it if that is not all.
fn logged(value: &str) -> String {
    const BYTES_MAX: usize = 2_048;
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
    let text = |name: &str| fields[name].as_str().map(str::to_owned);
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
    assert_eq!(
        (&fields["status"], &fields["verdict"]),
        (&429.into(), &"limited".into())
    );
    assert_eq!(fields["bytes_out"], u64::MAX);
    let count = fields.as_object().map(|fields| fields.len());
    assert_eq!(count, Some(14 + usize::from(entry.trace_id.is_some())));
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
        word.strip_prefix(wanted)
            .and_then(|word| word.strip_prefix('='))
    };
    for (name, word) in names.iter().zip(&words[2..]) {
        assert!(word.starts_with(&format!("{name}=")), "{word}");
    }
    assert!(value_of("path").is_some_and(|word| is_escaped(word, entry.path)));
    assert!(value_of("host").is_some_and(|word| is_escaped(word, entry.host.unwrap_or("-"))));
    assert!(value_of("id").is_some_and(|word| is_escaped(word, entry.request_id)));
    assert_eq!(value_of("status"), Some("429"));
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
    if rejected.path.len() <= 2_048 && rejected.host.is_none_or(|host| host.len() <= 2_048) {
        assert!(is_escaped(path, rejected.path), "{line}");
        assert!(is_escaped(host, rejected.host.unwrap_or("-")), "{line}");
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
            ([b'%', high, low, rest @ ..], false) if digit(*high) * 16 + digit(*low) == byte => {
                rest
            }
            _ => return false,
        };
    }
    rest.is_empty()
}

/// A hexadecimal digit in upper case.
fn digit(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'A'..=b'F' => digit - b'A' + 10,
        other => panic!("{other} is no digit"),
    }
}
