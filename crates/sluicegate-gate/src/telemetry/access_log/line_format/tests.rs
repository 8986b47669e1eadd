use std::time::{Duration, UNIX_EPOCH};

use http::StatusCode;
use serde_json::Value;

use super::*;

const NOW: Duration = Duration::from_millis(1_794_802_220_007);

fn entry() -> AccessLogEntry<'static> {
    AccessLogEntry {
        request_id: "0af7651916cd43dd",
        trace_id: None,
        client_ip: Some("203.0.113.7".parse().unwrap()),
        peer: "10.0.0.1:4711".parse().unwrap(),
        method: "GET",
        host: Some("a.example"),
        path: "/x",
        status: 429,
        verdict: "limited",
        limit: Some("per-ip"),
        principal: None,
        upstream: None,
        took: Duration::from_micros(1234),
        bytes_out: 17,
    }
}

fn as_json(entry: &AccessLogEntry<'_>) -> String {
    let mut line = Vec::new();
    json(&mut line, entry, UNIX_EPOCH + NOW);
    String::from_utf8(line).unwrap()
}

fn as_text(entry: &AccessLogEntry<'_>) -> String {
    let mut line = Vec::new();
    text(&mut line, entry, UNIX_EPOCH + NOW);
    String::from_utf8(line).unwrap()
}

/// Everything that has ever broken a log: controls, quotes, terminal commands, line ends of other
/// alphabets.
fn nasty() -> impl Iterator<Item = String> {
    let letters = ('\0'..='\u{ff}').chain([
        '\u{2028}',
        '\u{2029}',
        '\u{202e}',
        '\u{feff}',
        '\u{fffd}',
        '\u{1f600}',
    ]);
    let alone = letters.map(|letter| format!("/a{letter}b"));
    let phrases = [
        "/a\r\n2026-01-01T00:00:00.000Z REQUEST id=forged status=200 b",
        "/a\"},{\"status\":200,\"x\":\"b",
        "/a\u{1b}[2J\u{1b}]0;title\u{7}b",
        "/a status=200 verdict=forwarded b",
    ];
    // Bytes that are not UTF-8 arrive here as replacement characters.
    let lossy = String::from_utf8_lossy(b"/a\xff\xfe\xc3\x28b").into_owned();
    alone.chain(phrases.map(str::to_owned)).chain([lossy])
}

#[test]
fn a_line_is_the_documented_one() {
    assert_eq!(
        as_json(&entry()),
        "{\"time\":\"2026-11-16T04:10:20.007Z\",\"request_id\":\"0af7651916cd43dd\",\"client_ip\":\"203.0.113.7\",\
         \"peer\":\"10.0.0.1:4711\",\"method\":\"GET\",\"host\":\"a.example\",\"path\":\"/x\",\"status\":429,\
         \"verdict\":\"limited\",\"limit\":\"per-ip\",\"principal\":null,\"upstream\":null,\"took_us\":1234,\
         \"bytes_out\":17}\n"
    );
    assert_eq!(
        as_text(&entry()),
        "2026-11-16T04:10:20.007Z REQUEST id=0af7651916cd43dd client_ip=203.0.113.7 peer=10.0.0.1:4711 method=GET \
         host=a.example path=/x status=429 verdict=limited limit=per-ip principal=- upstream=- took_us=1234 \
         bytes_out=17\n"
    );
}

#[test]
fn a_traced_request_names_its_trace() {
    let traced = AccessLogEntry {
        trace_id: Some("4bf92f3577b34da6a3ce929d0e0e4736"),
        ..entry()
    };
    let line: Value = serde_json::from_str(&as_json(&traced)).unwrap();
    assert_eq!(line["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736");
    assert!(
        as_text(&traced)
            .contains(" id=0af7651916cd43dd trace_id=4bf92f3577b34da6a3ce929d0e0e4736 client_ip=")
    );
}

#[test]
fn addresses_are_written_as_everywhere() {
    for address in [
        "0.0.0.0",
        "255.255.255.255",
        "::1",
        "2001:db8::7",
        "::ffff:1.2.3.4",
    ] {
        let client_ip = address.parse().unwrap();
        let peer = SocketAddr::new(client_ip, 65535);
        let line: Value = serde_json::from_str(&as_json(&AccessLogEntry {
            client_ip: Some(client_ip),
            peer,
            ..entry()
        }))
        .unwrap();
        assert_eq!(line["client_ip"], client_ip.to_string());
        assert_eq!(line["peer"], peer.to_string());
    }
}

#[test]
fn no_value_breaks_a_json_line_or_changes_in_it() {
    for value in nasty() {
        let host = Some(value.as_str());
        let line = as_json(&AccessLogEntry {
            host,
            path: &value,
            principal: host,
            method: &value,
            request_id: &value,
            ..entry()
        });
        let (object, end) = line.split_at(line.len() - 1);
        assert_eq!(end, "\n");
        assert!(
            object.bytes().all(|byte| matches!(byte, b' '..=b'~')),
            "{line:?}"
        );
        let object: Value = serde_json::from_str(object).unwrap();
        for field in ["host", "path", "principal", "method", "request_id"] {
            assert_eq!(object[field], *value, "{field}");
        }
        assert_eq!(
            (&object["status"], &object["verdict"]),
            (&Value::from(429), &Value::from("limited"))
        );
        assert_eq!(object.as_object().unwrap().len(), 14);
    }
}

#[test]
fn no_value_breaks_a_text_line_or_its_fields() {
    for value in nasty() {
        let host = Some(value.as_str());
        let line = as_text(&AccessLogEntry {
            host,
            path: &value,
            principal: host,
            method: &value,
            request_id: &value,
            ..entry()
        });
        let (words, end) = line.split_at(line.len() - 1);
        assert_eq!(end, "\n");
        assert!(
            words.bytes().all(|byte| matches!(byte, b' '..=b'~')),
            "{line:?}"
        );
        assert!(!words.contains(['"', '\'', '\\']), "{line:?}");
        let words: Vec<&str> = words.split(' ').collect();
        assert_eq!(words.len(), 15, "{line:?}");
        assert_eq!((words[8], words[9]), ("status=429", "verdict=limited"));
        assert!(
            words[7].starts_with("path=/a") && words[7].ends_with('b'),
            "{line:?}"
        );
    }
}

#[test]
fn long_values_are_cut_between_letters() {
    let long = "é".repeat(40_000);
    let entry = AccessLogEntry {
        path: &long,
        host: Some(&long),
        principal: Some(&long),
        ..entry()
    };
    let line: Value = serde_json::from_str(&as_json(&entry)).unwrap();
    let path = line["path"].as_str().unwrap().strip_suffix("...").unwrap();
    assert_eq!(path, "é".repeat(VALUE_BYTES_MAX / 2));
    assert!(as_json(&entry).len() < 6 * 4 * VALUE_BYTES_MAX);
    assert!(as_text(&entry).len() < 6 * 4 * VALUE_BYTES_MAX);
}

#[test]
fn the_line_about_a_rejection_stays_one_line_in_both_forms() {
    for value in nasty() {
        let rejected = RateLimitLine {
            client_ip: Some("203.0.113.50".parse().unwrap()),
            host: Some(&value),
            path: &value,
            status: StatusCode::TOO_MANY_REQUESTS,
        };
        let mut line = Vec::new();
        rate_limit_text(&mut line, &rejected);
        assert_eq!(String::from_utf8(line).unwrap(), format!("{rejected}\n"));
        let mut line = Vec::new();
        rate_limit_json(&mut line, &rejected, UNIX_EPOCH + NOW);
        assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        let object: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(object["message"], rejected.to_string());
    }
}
