//! The caller's address: one peer, one counter, whatever the headers say.

use std::net::IpAddr;

use sluicegate::http::{ClientIp, IpNet, ProxyHeader, ProxyHeaderFault, extract};
use sluicegate::{Limit, Prefixes, Quota};

use super::{App, get};

const PROXY: &str = "10.0.0.1";

fn per_ip(burst: u32) -> Limit {
    Limit::per_client("per-ip", Quota::per_hour(1).burst(burst))
}

fn behind_proxies() -> ClientIp {
    ClientIp::behind([
        "10.0.0.0/8".parse().unwrap(),
        "2001:db8:ffff::/48".parse().unwrap(),
    ])
}

/// The caller's address behind a chain of header lines.
fn client_of(settings: &ClientIp, peer: &str, lines: &[&str]) -> Option<IpAddr> {
    let mut request = get(peer, "/");
    for line in lines {
        request = request.header("x-forwarded-for", *line);
    }
    let (parts, ()) = request.body(()).unwrap().into_parts();
    extract(&parts, settings).unwrap().client_ip
}

fn ip(text: &str) -> Option<IpAddr> {
    Some(text.parse().unwrap())
}

fn count(settings: &ClientIp, reason: ProxyHeaderFault) -> u64 {
    settings
        .counts()
        .into_iter()
        .find(|(own, _)| *own == reason)
        .unwrap()
        .1
}
#[tokio::test]
async fn without_trusted_proxies_no_header_makes_another_caller() {
    let app = App::new([per_ip(5)]);
    let names = [
        "X-Forwarded-For",
        "X-Real-IP",
        "Forwarded",
        "True-Client-IP",
    ];
    let spoofed = (0..10_000).map(|number| {
        let address = format!("198.51.{}.{}", number / 256, number % 256);
        let name = names[number % names.len()];
        let value = if name == "Forwarded" {
            format!("for={address}")
        } else {
            address
        };
        get("203.0.113.7", "/").header(name, value)
    });
    assert_eq!(app.passed(spoofed).await, 5);
    assert_eq!(app.status(get("203.0.113.8", "/")).await, 200);
}
#[tokio::test]
async fn a_peer_outside_the_trusted_networks_is_not_believed() {
    let settings = behind_proxies();
    let app = App::with([per_ip(3)], |layer| layer.client_ip(settings.clone()));
    let spoofed = (0..50)
        .map(|number| get("203.0.113.7", "/").header("x-forwarded-for", format!("9.9.9.{number}")));
    assert_eq!(app.passed(spoofed).await, 3);
    assert_eq!(count(&settings, ProxyHeaderFault::UntrustedPeer), 50);
}
#[tokio::test]
async fn behind_a_trusted_proxy_the_last_untrusted_hop_is_counted() {
    for header in [
        ProxyHeader::XForwardedFor,
        ProxyHeader::Forwarded,
        ProxyHeader::XRealIp,
    ] {
        let app = App::with([per_ip(2)], |layer| {
            layer.client_ip(behind_proxies().header(header))
        });
        let node = |address: String| {
            if header == ProxyHeader::Forwarded {
                format!("for={address}")
            } else {
                address
            }
        };
        let spoofed = |number: u8| node(format!("9.9.9.{number}"));
        let from_one_client = (0..50).map(|number| {
            let chain = format!(
                "{}, {}, {}",
                spoofed(number),
                node("198.51.100.1".into()),
                node("10.2.2.2".into())
            );
            get(PROXY, "/").header(header.name(), chain)
        });
        assert_eq!(app.passed(from_one_client).await, 2, "{header:?}");
        let from_another = get(PROXY, "/").header(header.name(), node("198.51.100.2".into()));
        assert_eq!(app.status(from_another).await, 200, "{header:?}");
    }
}
#[test]
fn a_chain_on_several_lines_is_the_same_chain() {
    let hops = [
        "9.9.9.9",
        "198.51.100.1",
        "10.1.1.1",
        "10.2.2.2",
        "10.3.3.3",
    ];
    let names = [
        "X-Forwarded-For",
        "x-forwarded-for",
        "X-FORWARDED-FOR",
        "x-Forwarded-foR",
        "X-forwarded-For",
    ];
    // Every set of places where the chain can be cut into lines.
    for cuts in 0..1_u32 << (hops.len() - 1) {
        let mut lines = vec![hops[0].to_owned()];
        for (place, hop) in hops.iter().enumerate().skip(1) {
            if cuts >> (place - 1) & 1 == 1 {
                lines.push((*hop).to_owned());
            } else {
                let line = lines.last_mut().unwrap();
                *line = format!("{line}, {hop}");
            }
        }
        let mut request = get(PROXY, "/");
        for (line, name) in lines.iter().zip(names) {
            request = request.header(name, line);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        assert_eq!(
            extract(&parts, &behind_proxies()).unwrap().client_ip,
            ip("198.51.100.1"),
            "{lines:?}"
        );
    }
}
#[test]
fn long_chains_are_walked_so_far_and_no_further() {
    for entries in [0, 1, 2, 63, 64, 65, 66, 500, 1_000] {
        let settings = behind_proxies();
        let chain = vec!["10.1.1.1"; entries].join(",");
        let lines = [chain.as_str()];
        let found = client_of(&settings, PROXY, if entries == 0 { &[] } else { &lines });
        let expected = if (1..=64).contains(&entries) {
            ip("10.1.1.1")
        } else {
            ip(PROXY)
        };
        assert_eq!(found, expected, "{entries} entries");
        assert_eq!(
            count(&settings, ProxyHeaderFault::TooManyHops),
            u64::from(entries > 64),
            "{entries} entries"
        );
        assert_eq!(
            count(&settings, ProxyHeaderFault::Missing),
            u64::from(entries == 0),
            "{entries} entries"
        );
    }
}
#[test]
fn what_lies_beyond_the_last_hop_is_never_looked_at() {
    let settings = behind_proxies();
    let beyond_64 = format!("nonsense,{}", vec!["10.1.1.1"; 64].join(","));
    assert_eq!(client_of(&settings, PROXY, &[&beyond_64]), ip(PROXY));
    assert_eq!(
        (
            count(&settings, ProxyHeaderFault::TooManyHops),
            count(&settings, ProxyHeaderFault::Unparsable)
        ),
        (1, 0)
    );
    let before_the_client = format!("{},198.51.100.1", ",".repeat(64 * 1024));
    assert_eq!(
        client_of(&settings, PROXY, &[&before_the_client]),
        ip("198.51.100.1")
    );
}
#[test]
fn sixty_four_kib_of_anything_panic_nowhere() {
    let settings = [
        ProxyHeader::XForwardedFor,
        ProxyHeader::Forwarded,
        ProxyHeader::XRealIp,
    ]
    .map(|header| behind_proxies().header(header));
    for piece in [
        ",",
        "\"",
        ";",
        "for=",
        "for=\"",
        "[",
        "10.0.0.1,",
        "for=10.0.0.1,",
        "a",
        " ",
        "\t,",
        "\\\"",
        "é,",
    ] {
        let line = piece.repeat(64 * 1024 / piece.len());
        for settings in &settings {
            let header = ["x-forwarded-for", "forwarded", "x-real-ip"];
            let request = header.iter().fold(get(PROXY, "/"), |request, name| {
                request.header(*name, line.as_bytes())
            });
            let (parts, ()) = request.body(()).unwrap().into_parts();
            assert_eq!(
                extract(&parts, settings).unwrap().client_ip,
                ip(PROXY),
                "{piece:?}"
            );
        }
    }
}
#[test]
fn a_header_that_is_not_used_is_counted_by_its_reason() {
    let settings = behind_proxies();
    assert_eq!(client_of(&settings, PROXY, &["unknown"]), ip(PROXY));
    assert_eq!(
        client_of(&settings, PROXY, &["198.51.100.1, 10.1.1.1,"]),
        ip(PROXY)
    );
    assert_eq!(client_of(&settings, PROXY, &[""]), ip(PROXY));
    assert_eq!(client_of(&settings, PROXY, &[]), ip(PROXY));
    assert_eq!(
        client_of(&settings, "203.0.113.7", &["198.51.100.1"]),
        ip("203.0.113.7")
    );
    assert_eq!(client_of(&settings, "203.0.113.7", &[]), ip("203.0.113.7"));
    assert_eq!(
        client_of(&settings, PROXY, &["9.9.9.9, 198.51.100.1"]),
        ip("198.51.100.1")
    );
    let counts = settings
        .counts()
        .map(|(reason, count)| (reason.as_str(), count));
    assert_eq!(
        counts,
        [
            ("untrusted_peer", 1),
            ("missing", 1),
            ("unparsable", 3),
            ("too_many_hops", 0)
        ]
    );
}
#[tokio::test]
async fn a_hundred_thousand_addresses_of_one_network_are_one_caller() {
    for (prefix, spread) in [(64, 0), (56, 64), (48, 64)] {
        // A /64 is the default.
        let limit = if prefix == 64 {
            per_ip(7)
        } else {
            per_ip(7).prefixes(Prefixes::new(32, prefix).unwrap())
        };
        let app = App::with([limit], |layer| layer.log_rejections(false));
        let network: u128 = 0x2001_0db8_0001_0000 << 64;
        // Addresses that differ in the lowest bits and, for wider networks, just below the prefix.
        let neighbours = (0..100_000_u128).map(|number| {
            let below_prefix = if spread == 0 {
                0
            } else {
                (number % 256) << spread
            };
            std::net::Ipv6Addr::from_bits(network | below_prefix | number << 20 | number)
        });
        let requests = neighbours.map(|address| get(&address.to_string(), "/"));
        assert_eq!(app.passed(requests).await, 7, "/{prefix}");
        let outside = std::net::Ipv6Addr::from_bits(network + (1 << (128 - prefix)));
        assert_eq!(
            app.status(get(&outside.to_string(), "/")).await,
            200,
            "/{prefix}"
        );
    }
}
#[tokio::test]
async fn ipv4_addresses_are_callers_of_their_own_and_mapped_ones_are_the_same() {
    let app = App::new([per_ip(1)]);
    assert_eq!(app.status(get("203.0.113.7", "/")).await, 200);
    assert_eq!(app.status(get("203.0.113.8", "/")).await, 200);
    assert_eq!(app.status(get("::ffff:203.0.113.7", "/")).await, 429);
    let by_24 = App::new([per_ip(1).prefixes(Prefixes::new(24, 64).unwrap())]);
    assert_eq!(by_24.status(get("203.0.113.7", "/")).await, 200);
    assert_eq!(by_24.status(get("203.0.113.8", "/")).await, 429);
}
#[tokio::test]
async fn forty_spellings_of_an_address_are_one_caller() {
    let v4 = [
        "198.51.100.1",
        "::ffff:198.51.100.1",
        "::FFFF:198.51.100.1",
        "::ffff:c633:6401",
        "::FFFF:C633:6401",
    ];
    let v4 = v4.into_iter().chain([
        "0:0:0:0:0:ffff:198.51.100.1",
        "0000:0000:0000:0000:0000:FFFF:c633:6401",
    ]);
    let v6 = [
        "2001:db8::1",
        "2001:DB8::1",
        "2001:0db8::0001",
        "2001:db8:0:0:0:0:0:1",
        "2001:db8:0000::1%eth0",
    ];
    let v6 = v6.into_iter().chain([
        "2001:0DB8:0000:0000:0000:0000:0000:0001",
        "2001:db8::0.0.0.1",
    ]);
    for spellings in [v4.collect::<Vec<_>>(), v6.collect()] {
        let app = App::with([per_ip(1)], |layer| layer.client_ip(behind_proxies()));
        let bare = spellings.iter().map(|spelling| (*spelling).to_owned());
        let spaced = spellings.iter().map(|spelling| format!(" \t{spelling} "));
        let v6_only = spellings.iter().filter(|spelling| spelling.contains(':'));
        let bracketed = v6_only.clone().map(|spelling| format!("[{spelling}]"));
        let with_port = v6_only.map(|spelling| format!("[{spelling}]:65535"));
        let all: Vec<String> = bare
            .chain(spaced)
            .chain(bracketed)
            .chain(with_port)
            .collect();
        assert!(all.len() >= 20);
        let requests = all
            .iter()
            .map(|spelling| get(PROXY, "/").header("x-forwarded-for", spelling));
        assert_eq!(app.passed(requests).await, 1);
        assert_eq!(
            app.passed([get(PROXY, "/")]).await,
            1,
            "the proxy itself is another caller"
        );
    }
}
#[test]
fn octets_with_leading_zeros_are_no_address() {
    let settings = behind_proxies();
    assert_eq!(client_of(&settings, PROXY, &["198.051.100.001"]), ip(PROXY));
    assert_eq!(count(&settings, ProxyHeaderFault::Unparsable), 1);
}
#[tokio::test]
async fn without_a_peer_address_nothing_passes_uncounted() {
    let app = App::with([per_ip(1)], |layer| layer.client_ip(behind_proxies()));
    let response = app
        .send(http::Request::get("/").header("x-forwarded-for", "198.51.100.1"))
        .await;
    assert_eq!(response.status(), 400);
    assert_eq!(
        response.body(),
        "key_extraction_failed: limit \"per-ip\": client_ip is missing"
    );
    assert_eq!(app.handler.calls(), 0);
}
#[test]
fn networks_can_be_written_in_mapped_form() {
    let mapped: IpNet = "::ffff:10.0.0.0/104".parse().unwrap();
    assert_eq!(
        client_of(
            &ClientIp::behind([mapped]),
            "::ffff:10.9.9.9",
            &["198.51.100.1"]
        ),
        ip("198.51.100.1")
    );
}
