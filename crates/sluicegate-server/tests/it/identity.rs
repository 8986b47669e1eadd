//! The caller of a request, found over real connections.

use std::io::Write;
use std::net::SocketAddr;
use std::thread;

use sluicegate_core::address::Prefixes;
use sluicegate_core::{KeyPart, Limit, Quota};
use sluicegate_testkit::{UpstreamRecorder, http_client, raw_socket};

use super::edge::{Edge, one_a_day};

/// Behind a balancer on loopback.
fn trusting(recorder: &UpstreamRecorder, limits: Vec<Limit>) -> Edge {
    Edge::with(recorder.address, limits, |config| {
        config.client_ip.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    })
}

/// Many requests on one connection, each with its lines; the statuses in order.
fn pipeline(address: SocketAddr, all_lines: impl Iterator<Item = String>) -> Vec<u16> {
    let mut requests = Vec::new();
    let mut all_lines = all_lines.peekable();
    while let Some(lines) = all_lines.next() {
        let end = if all_lines.peek().is_none() {
            "Connection: close\r\n"
        } else {
            ""
        };
        requests.extend_from_slice(
            format!("GET / HTTP/1.1\r\nHost: a.example\r\n{end}{lines}\r\n").as_bytes(),
        );
    }
    let stream = raw_socket::connect(address);
    let mut writer = stream.try_clone().unwrap();
    let writing = thread::spawn(move || writer.write_all(&requests));
    let answers = raw_socket::read_to_end(stream);
    writing.join().unwrap().unwrap();
    answers.statuses()
}

/// A client may invent any header; its address counts.
#[test]
fn headers_of_a_peer_that_is_not_trusted_change_nothing() {
    let recorder = UpstreamRecorder::start();
    let edge = Edge::start(recorder.address, one_a_day());
    let names = [
        "X-Forwarded-For",
        "X-Real-IP",
        "Forwarded",
        "True-Client-IP",
        "X-Client-IP",
        "CF-Connecting-IP",
    ];
    let lines = (0..10_000).map(|number| {
        let address = format!("198.51.{}.{}", number / 256, number % 256);
        let name = names[number % names.len()];
        let value = if name == "Forwarded" {
            format!("for={address}")
        } else {
            address
        };
        format!("{name}: {value}\r\n")
    });
    let statuses = pipeline(edge.address, lines);
    assert_eq!(statuses.len(), 10_000);
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1);
    assert!(statuses[1..].iter().all(|status| *status == 429));
}

/// In one line or in several, with anything in front of the last hop that is not trusted.
#[test]
fn the_hop_that_a_trusted_proxy_saw_is_the_caller_however_the_chain_is_split() {
    let recorder = UpstreamRecorder::start();
    let edge = trusting(&recorder, one_a_day());
    let status = |lines: &[&str]| http_client::request(edge.address, "GET", "/", lines).status();
    assert_eq!(status(&["X-Forwarded-For: 9.9.9.9, 192.0.2.1"]), 200);
    for lines in [
        &["X-Forwarded-For: 8.8.8.8, 192.0.2.1"][..],
        &["X-Forwarded-For: 192.0.2.1"],
        &["x-forwarded-for: 8.8.8.8", "X-FORWARDED-FOR: 192.0.2.1"],
        &[
            "X-Forwarded-For: 7.7.7.7",
            "X-forwarded-for: 8.8.8.8, 9.9.9.9",
            "x-Forwarded-For: 192.0.2.1, 127.0.0.9",
        ],
        &[
            "X-Forwarded-For: 1.1.1.1",
            "X-Forwarded-For: 2.2.2.2",
            "X-Forwarded-For: 3.3.3.3",
            "X-Forwarded-For: 192.0.2.1",
        ],
        &["X-Forwarded-For: garbage, 192.0.2.1"],
        &[
            "X-Forwarded-For: 192.0.2.1",
            "X-Real-IP: 9.9.9.9",
            "Forwarded: for=9.9.9.9",
        ],
    ] {
        assert_eq!(status(lines), 429, "{lines:?}");
    }
    assert_eq!(status(&["X-Forwarded-For: 192.0.2.1, 192.0.2.2"]), 200);
}

/// Also chains that are longer than a header may be, or of nonsense.
#[test]
fn chains_of_any_length_are_answered() {
    let recorder = UpstreamRecorder::start();
    let edge = trusting(
        &recorder,
        vec![Limit::per_client(
            "many",
            Quota::per_second(1000).burst(1000),
        )],
    );
    for entries in [0, 1, 2, 63, 64, 65, 500, 1_000] {
        for entry in [
            "127.0.0.1",
            "2001:db8:1111:2222:3333:4444:5555:6666",
            "x",
            "",
        ] {
            let line = format!("X-Forwarded-For: {}", vec![entry; entries].join(", "));
            let status = http_client::request(edge.address, "GET", "/", &[&line]).status();
            assert!(
                status == 200 || status == 431,
                "{entries} of {entry:?}: {status}"
            );
        }
    }
    let line = format!("X-Forwarded-For: {}", "1,".repeat(32 << 10));
    let status = http_client::request(edge.address, "GET", "/", &[&line]).status();
    assert!(status == 431 || status == 0, "{status}");
}

/// A client may name headers in `Connection` as its own; those that we need stay.
#[test]
fn connection_takes_no_header_away_that_says_who_is_asking() {
    let recorder = UpstreamRecorder::start();
    let mut tenant = Limit::new("tenant", Quota::per_day(1).burst(1));
    tenant.key = vec![KeyPart::header("X-Tenant-Id")];
    let edge = Edge::start(recorder.address, vec![tenant]);
    let lines = |tenant: &str| {
        [
            "Connection: X-Forwarded-For, X-Forwarded-Proto, X-Forwarded-Host, X-Real-IP, Forwarded, Via".to_owned(),
            "Connection: x-tenant-id, HOST, Authorization, Cookie, X-Request-Id, X-Api-Key, X-Mine".to_owned(),
            format!("X-Tenant-Id: {tenant}"),
            "Authorization: Bearer x".to_owned(),
            "Cookie: a=b".to_owned(),
            "X-Forwarded-For: 9.9.9.9".to_owned(),
            "X-Mine: 1".to_owned(),
        ]
    };
    let status = |tenant: &str| {
        let lines = lines(tenant);
        http_client::request(
            edge.address,
            "GET",
            "/",
            &lines.each_ref().map(String::as_str),
        )
        .status()
    };
    assert_eq!(
        [status("acme"), status("acme"), status("other")],
        [200, 429, 200]
    );
    let recorded = recorder.requests().remove(0);
    assert_eq!(recorded.header_values("x-tenant-id"), ["acme"]);
    assert_eq!(recorded.header_values("host"), ["a.example"]);
    assert_eq!(recorded.header_values("authorization"), ["Bearer x"]);
    assert_eq!(recorded.header_values("cookie"), ["a=b"]);
    assert_eq!(recorded.header_values("x-forwarded-for"), ["127.0.0.1"]);
    assert_eq!(recorded.header_values("x-real-ip"), ["127.0.0.1"]);
    assert_eq!(
        recorded.header_values("forwarded"),
        ["for=127.0.0.1;host=a.example;proto=http"]
    );
    assert_eq!(recorded.header_values("via"), ["1.1 sluicegate"]);
    assert_eq!(recorded.header_values("x-request-id").len(), 1);
    assert!(
        recorded.header_values("x-mine").is_empty()
            && recorded.header_values("connection").is_empty(),
        "{}",
        recorded.head
    );
}

/// A client with a /64 has 2^64 addresses and one counter.
#[test]
fn a_network_of_ipv6_is_one_caller() {
    let recorder = UpstreamRecorder::start();
    let edge = trusting(&recorder, one_a_day());
    let lines = (0..10_000)
        .map(|number| format!("X-Forwarded-For: 2001:db8:1:2:{number:x}::{number:x}\r\n"));
    let statuses = pipeline(edge.address, lines);
    assert_eq!(statuses.len(), 10_000);
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1);
    assert_eq!(
        http_client::request(
            edge.address,
            "GET",
            "/",
            &["X-Forwarded-For: 2001:db8:1:3::1"]
        )
        .status(),
        200
    );
    for (prefix, inside, outside) in [
        (56, "2001:db8:0:ff::", "2001:db8:0:100::"),
        (48, "2001:db8:0:ffff::", "2001:db8:1::"),
    ] {
        let limits = one_a_day()
            .into_iter()
            .map(|limit| limit.prefixes(Prefixes::new(32, prefix).unwrap()))
            .collect();
        let edge = trusting(&recorder, limits);
        let callers = ["2001:db8::1", inside, outside];
        let statuses = callers.map(|caller| {
            http_client::request(
                edge.address,
                "GET",
                "/",
                &[&format!("X-Forwarded-For: {caller}")],
            )
            .status()
        });
        assert_eq!(statuses, [200, 429, 200], "/{prefix}");
    }
}

/// IPv4 in IPv6, zeros, case and ports.
#[test]
fn spellings_of_an_address_are_one_caller() {
    let recorder = UpstreamRecorder::start();
    let edge = trusting(&recorder, one_a_day());
    let status = |address: &str| {
        http_client::request(
            edge.address,
            "GET",
            "/",
            &[&format!("X-Forwarded-For: {address}")],
        )
        .status()
    };
    for spellings in [
        &[
            "192.0.2.1",
            "::ffff:192.0.2.1",
            "::FFFF:c000:201",
            "0:0:0:0:0:ffff:c000:0201",
            "[::ffff:192.0.2.1]:80",
            "192.0.2.1:4711",
        ][..],
        &[
            "2001:db8::1",
            "2001:DB8::1",
            "2001:0db8:0:0:0:0:0:1",
            "[2001:db8::1]",
            "[2001:db8::1]:443",
            "2001:db8:0:0::1",
        ],
    ] {
        assert_eq!(status(spellings[0]), 200, "{}", spellings[0]);
        for spelling in &spellings[1..] {
            assert_eq!(status(spelling), 429, "{spelling}");
        }
    }
}

/// Two values, none, odd bytes, or another header that some servers take for the same name.
#[test]
fn a_key_header_is_one_plain_value_without_a_twin() {
    let recorder = UpstreamRecorder::start();
    let mut tenant = Limit::new("tenant", Quota::per_day(1000).burst(1000));
    tenant.key = vec![KeyPart::header("X-Tenant-Id")];
    let edge = Edge::start(recorder.address, vec![tenant]);
    let status = |lines: &[&str]| http_client::request(edge.address, "GET", "/", lines).status();
    assert_eq!(status(&["X-Tenant-Id: acme"]), 200);
    let long = format!("X-Tenant-Id: {}", "x".repeat(8 << 10));
    for lines in [
        &[][..],
        &["X-Tenant-Id: acme", "X-Tenant-Id: acme"],
        &["X-Tenant-Id: acme", "X-Tenant-Id: other"],
        &["X-Tenant-Id: acme, other"],
        &["X-Tenant-Id: acme,other"],
        &["X-Tenant-Id:"],
        &["X-Tenant-Id:   "],
        &["X-Tenant-Id: caf\u{e9}"],
        &[&long],
        &["X-Tenant-Id: acme", "X_Tenant_Id: other"],
        &["X-Tenant-Id: acme", "X-Tenant_Id: acme"],
        &["X_Tenant_Id: acme"],
    ] {
        assert_eq!(status(lines), 400, "{lines:?}");
    }
    assert_eq!(recorder.requests().len(), 1);
}

/// Some servers take `_` for `-`.
#[test]
fn twins_of_our_headers_do_not_arrive_beside_them() {
    let recorder = UpstreamRecorder::start();
    let edge = Edge::start(recorder.address, Vec::new());
    let twins = [
        "X_Forwarded_For: 9.9.9.9",
        "X-Forwarded_Proto: https",
        "X_Real_IP: 9.9.9.9",
        "X_Request_Id: x",
        "Content_Length: 5",
    ];
    assert_eq!(
        http_client::request(edge.address, "GET", "/", &twins).status(),
        200
    );
    let recorded = recorder.requests().remove(0);
    assert!(!recorded.head.contains('_'), "{}", recorded.head);
}
