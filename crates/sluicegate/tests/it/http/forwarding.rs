//! Chains of proxies against a small model that knows nothing of headers.

use std::net::IpAddr;

use proptest::prelude::*;
use sluicegate::http::{ClientIp, ProxyHeader, extract};

use super::get;

const PEER: &str = "10.0.0.1";
const HEADERS: [ProxyHeader; 3] = [
    ProxyHeader::XForwardedFor,
    ProxyHeader::Forwarded,
    ProxyHeader::XRealIp,
];

/// One hop of a chain, before it is written down.
#[derive(Clone, Debug)]
enum Hop {
    Trusted(IpAddr),
    Untrusted(IpAddr),
    Nonsense(&'static str),
}

fn hop() -> impl Strategy<Value = Hop> {
    let trusted = prop_oneof![
        any::<[u8; 3]>().prop_map(|[b, c, d]| IpAddr::from([10, b, c, d])),
        any::<u64>().prop_map(|low| IpAddr::from(
            (0x2001_0db8_ffff_0000_u128 << 64 | u128::from(low)).to_be_bytes()
        )),
    ];
    let untrusted = prop_oneof![
        any::<[u8; 3]>().prop_map(|[b, c, d]| IpAddr::from([198, b, c, d])),
        any::<u64>().prop_map(|low| IpAddr::from(
            (0x2001_0db8_0001_0000_u128 << 64 | u128::from(low)).to_be_bytes()
        )),
    ];
    let nonsense = prop::sample::select(vec![
        "unknown",
        "_hidden",
        "999.1.1.1",
        "a.example",
        "",
        "198.051.100.001",
        "::g",
    ]);
    prop_oneof![
        6 => trusted.prop_map(Hop::Trusted),
        2 => untrusted.prop_map(Hop::Untrusted),
        1 => nonsense.prop_map(Hop::Nonsense),
    ]
}

/// The expected caller: the last hop that is not trusted; nonsense after it, or too many hops, make
/// it the peer.
fn model(chain: &[Hop]) -> IpAddr {
    let peer = PEER.parse().unwrap();
    let seen = &chain[chain.len().saturating_sub(64)..];
    let last_foreign = seen
        .iter()
        .rev()
        .find(|hop| !matches!(hop, Hop::Trusted(_)));
    match (last_foreign, chain.first()) {
        (Some(Hop::Untrusted(address)), _) => *address,
        (Some(_), _) => peer,
        (None, Some(Hop::Trusted(leftmost))) if chain.len() <= 64 => *leftmost,
        (None, _) => peer,
    }
}

/// How a hop is written. No choice may make a difference.
#[derive(Clone, Copy, Debug)]
struct Spelling {
    port: bool,
    upper_case: bool,
    quoted: bool,
    pairs_before: bool,
    pairs_after: bool,
    new_line: bool,
}

fn spelling() -> impl Strategy<Value = Spelling> {
    any::<[bool; 6]>().prop_map(
        |[
            port,
            upper_case,
            quoted,
            pairs_before,
            pairs_after,
            new_line,
        ]| Spelling {
            port,
            upper_case,
            quoted,
            pairs_before,
            pairs_after,
            new_line,
        },
    )
}

fn node(hop: &Hop, spelling: Spelling) -> String {
    let (Hop::Trusted(address) | Hop::Untrusted(address)) = hop else {
        let Hop::Nonsense(text) = hop else {
            unreachable!("the other two are addresses")
        };
        return (*text).to_owned();
    };
    let text = match (address, spelling.port) {
        (IpAddr::V4(v4), false) => v4.to_string(),
        (IpAddr::V4(v4), true) => format!("{v4}:4711"),
        (IpAddr::V6(v6), false) => format!("[{v6}]"),
        (IpAddr::V6(v6), true) => format!("[{v6}]:4711"),
    };
    if spelling.upper_case {
        text.to_uppercase()
    } else {
        text
    }
}

fn forwarded(hop: &Hop, spelling: Spelling) -> String {
    let name = if spelling.upper_case { "For" } else { "for" };
    let node = node(hop, spelling);
    // A token has no colons and brackets.
    let quoted = spelling.quoted || node.contains([':', '[']);
    let pair = if quoted {
        format!("{name}=\"{node}\"")
    } else {
        format!("{name}={node}")
    };
    let before = if spelling.pairs_before {
        "by=203.0.113.43;host=\"a,b;for=9.9.9.9\"; "
    } else {
        ""
    };
    let after = if spelling.pairs_after {
        ";proto=https"
    } else {
        ""
    };
    format!("{before}{pair}{after}")
}

proptest! {
    #[test]
    fn random_chains_agree_with_the_model(
        chain in prop::collection::vec((hop(), spelling()), 0..80),
        header in prop::sample::select(HEADERS.to_vec()),
    ) {
        let mut lines: Vec<String> = Vec::new();
        for (hop, spelling) in &chain {
            let element = match header {
                ProxyHeader::Forwarded => forwarded(hop, *spelling),
                ProxyHeader::XForwardedFor | ProxyHeader::XRealIp => node(hop, *spelling),
            };
            match lines.last_mut() {
                Some(line) if !spelling.new_line => *line = format!("{line}, {element}"),
                _ => lines.push(element),
            }
        }
        let with_line = |request: http::request::Builder, line| request.header(header.name(), line);
        let request = lines.iter().fold(get(PEER, "/"), with_line);
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let trusted = ["10.0.0.0/8".parse().unwrap(), "2001:db8:ffff::/48".parse().unwrap()];
        let found = extract(&parts, &ClientIp::behind(trusted).header(header)).unwrap().client_ip;
        let hops: Vec<Hop> = chain.into_iter().map(|(hop, _)| hop).collect();
        prop_assert_eq!(found, Some(model(&hops)), "{:?}", lines);
    }
    #[test]
    fn whatever_a_client_writes_left_of_it_the_hop_a_proxy_appends_is_counted(
        spoof in prop::collection::vec(
            prop_oneof![0x20_u8..0x7f, Just(b'"'), Just(b','), Just(b'\\'), 0x80_u8..],
            0..40,
        ),
        quoted in any::<bool>(),
    ) {
        let appended: &[u8] = if quoted {
            b", for=\"[2001:db8:1::1]:80\";by=\"_x\""
        } else {
            b", for=198.51.100.1"
        };
        let line = [spoof.as_slice(), appended].concat();
        let (parts, ()) = get(PEER, "/").header("forwarded", line).body(()).unwrap().into_parts();
        let settings = ClientIp::behind(["10.0.0.0/8".parse().unwrap()])
            .header(ProxyHeader::Forwarded);
        let real: IpAddr = if quoted { "2001:db8:1::1" } else { "198.51.100.1" }.parse().unwrap();
        prop_assert_eq!(extract(&parts, &settings).unwrap().client_ip, Some(real));
    }
}
