//! One client cannot take the connections of all: over real sockets, in every way to hold one.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use sluicegate_config as config;
use sluicegate_testkit::h2_frames::H2Connection;
use sluicegate_testkit::{HttpRequest, TlsFiles, UpstreamRecorder, eventually, raw_socket};

use crate::edge::Edge;

const GET: &[u8] = b"GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n";
/// Connections that one client may have here.
const MOST: usize = 3;

fn edge(upstream: &UpstreamRecorder, set: impl FnOnce(&mut config::Config)) -> Edge {
    Edge::with(upstream.address, Vec::new(), |config| {
        let proxy = config.proxy.as_mut().unwrap();
        proxy.max_connections_per_client = Some(MOST);
        // Nobody here is closed for being slow.
        proxy.timeouts.header = sluicegate_core::Nanos::from_secs(600);
        proxy.timeouts.idle = sluicegate_core::Nanos::from_secs(600);
        set(config);
    })
}

/// A connection that begins with these bytes; `None` when it is closed without an answer.
fn held(address: SocketAddr, bytes: &[u8]) -> Option<TcpStream> {
    answered(raw_socket::connect(address), bytes)
}

fn answered(mut stream: TcpStream, bytes: &[u8]) -> Option<TcpStream> {
    // One that is closed at once may refuse to take a byte.
    stream.write_all(bytes).ok()?;
    let response = raw_socket::read_response(&mut stream);
    (!response.is_empty()).then_some(stream)
}

/// Holds as many connections as one client may, each opened by `hold`, and sees that no other is served
/// until one of them ends.
fn fills(edge: &Edge, hold: impl Fn() -> Box<dyn Send>) {
    let mut holders: Vec<Box<dyn Send>> = (0..MOST).map(|_| hold()).collect();
    eventually("all places are taken", || held(edge.address, GET).is_none());
    let other = HttpRequest::get("/other").from(Ipv4Addr::new(127, 0, 0, 9));
    assert_eq!(other.send(edge.address).status(), 200, "somebody else");
    holders.pop();
    eventually("a place came back", || held(edge.address, GET).is_some());
    drop(holders);
    eventually("all came back", || {
        let all: Vec<_> = (0..MOST).map(|_| held(edge.address, GET)).collect();
        all.iter().all(Option::is_some)
    });
}

#[test]
fn every_way_to_hold_a_connection_counts_and_gives_it_back() {
    let upstream = UpstreamRecorder::start();
    let ways: [(&str, &[u8]); 6] = [
        ("silent", b""),
        ("one byte", b"G"),
        ("half a header", b"GET /a HTTP/1.1\r\nHost: a.ex"),
        (
            "a body that does not come",
            b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n1",
        ),
        ("the preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        (
            "a response that is not read",
            b"GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n",
        ),
    ];
    for (name, bytes) in ways {
        eprintln!("{name}");
        let edge = edge(&upstream, |_| {});
        fills(&edge, || {
            let mut stream = raw_socket::connect(edge.address);
            stream.write_all(bytes).unwrap();
            Box::new(stream)
        });
    }
    eprintln!("keep-alive");
    let one = edge(&upstream, |_| {});
    fills(&one, || Box::new(held(one.address, GET).unwrap()));
    eprintln!("HTTP/2");
    let another = edge(&upstream, |_| {});
    fills(&another, || {
        let mut connection = H2Connection::start(another.address, &[]);
        assert_eq!(connection.get("/a"), 200);
        Box::new(connection)
    });
}

#[test]
fn a_connection_in_another_protocol_holds_its_place() {
    let server = raw_socket::serve_connections_in_parallel(|mut stream| {
        while raw_socket::read_head(&mut stream).is_some_and(|head| !head.contains("websocket")) {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
        let switch = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
        let _ = stream.write_all(switch);
        let _ = raw_socket::read_to_end(stream);
    });
    let edge = Edge::with(server, Vec::new(), |config| {
        let proxy = config.proxy.as_mut().unwrap();
        proxy.max_connections_per_client = Some(MOST);
    });
    fills(&edge, || {
        let mut stream = raw_socket::connect(edge.address);
        let upgrade =
            "GET /a HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
        stream.write_all(upgrade.as_bytes()).unwrap();
        let head = raw_socket::read_head(&mut stream).unwrap();
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        Box::new(stream)
    });
}

#[test]
fn connections_over_tls_count_before_their_handshake() {
    let files = TlsFiles::generate();
    let upstream = UpstreamRecorder::start();
    let edge = edge(&upstream, |config| {
        config.proxy.as_mut().unwrap().tls = Some(config::ServerTls {
            cert: files.server_certificate(),
            key: files.server_key(),
        });
    });
    let mut held: Vec<TcpStream> = (0..MOST)
        .map(|_| raw_socket::connect(edge.address))
        .collect();
    // The beginning of a ClientHello: one that is served waits for the rest.
    let is_refused = || {
        let mut stream = raw_socket::connect(edge.address);
        let _ = stream.write_all(&[22, 3, 1]);
        is_closed(stream)
    };
    eventually("all places are taken", is_refused);
    held.pop();
    eventually("a place came back", || !is_refused());
}

/// Returns true when the peer closes soon.
fn is_closed(mut stream: TcpStream) -> bool {
    use std::io::Read;
    stream
        .set_read_timeout(Some(std::time::Duration::from_millis(300)))
        .unwrap();
    match stream.read(&mut [0; 16]) {
        Ok(length) => length == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn addresses_of_both_families_count_and_trusted_proxies_do_not() {
    let upstream = UpstreamRecorder::start();
    for (listen, source, trusted, is_bounded) in [
        ("127.0.0.1:0", "127.0.0.1", &[][..], true),
        ("127.0.0.1:0", "127.0.0.7", &[], true),
        ("127.0.0.1:0", "127.0.0.1", &["127.0.0.0/8"], false),
        ("127.0.0.1:0", "127.0.0.1", &["127.0.0.2/32"], true),
        ("[::1]:0", "::1", &[], true),
        ("[::1]:0", "::1", &["::1/128"], false),
        // The system shows clients of IPv4 as mapped addresses.
        ("[::]:0", "127.0.0.1", &[], true),
        ("[::]:0", "127.0.0.1", &["127.0.0.1/32"], false),
        ("[::]:0", "::1", &["127.0.0.1/32"], true),
        ("0.0.0.0:0", "127.0.0.3", &["::1/128"], true),
    ] {
        let edge = edge(&upstream, |config| {
            config.proxy.as_mut().unwrap().listen = vec![listen.parse().unwrap()];
            let trusted = trusted.iter().map(|net| net.parse().unwrap());
            config.client_ip.trusted_proxies = trusted.collect();
        });
        let source: std::net::IpAddr = source.parse().unwrap();
        let address = SocketAddr::new(
            match source {
                std::net::IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                std::net::IpAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            },
            edge.address.port(),
        );
        let served: Vec<TcpStream> = (0..MOST + 2)
            .filter_map(|_| answered(raw_socket::connect_from(source, address).unwrap(), GET))
            .collect();
        let expected = if is_bounded { MOST } else { MOST + 2 };
        assert_eq!(served.len(), expected, "{listen} {source} {trusted:?}");
    }
}

#[test]
fn behind_the_proxy_protocol_the_client_is_counted_that_it_names() {
    let upstream = UpstreamRecorder::start();
    let edge = edge(&upstream, |config| {
        let proxy = config.proxy.as_mut().unwrap();
        proxy.proxy_protocol_from = vec!["127.0.0.1/32".parse().unwrap()];
        config.client_ip.trusted_proxies = vec!["198.51.100.0/24".parse().unwrap()];
    });
    let served = |headers: &[Vec<u8>]| {
        let held: Vec<_> = headers
            .iter()
            .map(|header| held(edge.address, &[header, GET].concat()))
            .collect();
        held.iter().filter(|held| held.is_some()).count()
    };
    let local = b"\r\n\r\n\0\r\nQUIT\n\x20\x00\0\0".to_vec();
    // Each has addresses of its own: places come back a moment after a connection has ended.
    assert_eq!(served(&vec![v1("192.0.2.1"); MOST + 2]), MOST, "version 1");
    let both = [vec![v1("192.0.2.11"); MOST], vec![v1("192.0.2.12"); MOST]].concat();
    assert_eq!(served(&both), 2 * MOST, "two clients of one balancer");
    assert_eq!(
        served(&vec![v2([192, 0, 2, 9]); MOST + 2]),
        MOST,
        "version 2"
    );
    let mixed = [vec![v1("192.0.2.21"); 2], vec![v2([192, 0, 2, 21]); MOST]].concat();
    assert_eq!(served(&mixed), MOST, "the same client in both versions");
    let networks: Vec<_> = (0..MOST + 2)
        .map(|host| v1(&format!("2001:db8::{host}")))
        .collect();
    assert_eq!(served(&networks), MOST, "a network of IPv6");
    let networks: Vec<_> = (1..MOST + 3)
        .map(|net| v1(&format!("2001:db8:0:{net}::1")))
        .collect();
    assert_eq!(served(&networks), MOST + 2, "networks of IPv6");
    assert_eq!(
        served(&vec![v1("::ffff:192.0.2.5"); MOST + 2]),
        MOST,
        "mapped"
    );
    assert_eq!(
        served(&vec![v1("198.51.100.7"); MOST + 2]),
        MOST + 2,
        "a trusted proxy"
    );
    assert_eq!(
        served(&vec![b"PROXY UNKNOWN\r\n".to_vec(); MOST + 2]),
        MOST + 2,
        "nobody named"
    );
    assert_eq!(
        served(&vec![local; MOST + 2]),
        MOST + 2,
        "the balancer's own"
    );
    eventually("all places came back", || {
        served(&vec![v1("192.0.2.1"); MOST]) == MOST
    });
}

/// A header of version 1 that names a client.
fn v1(address: &str) -> Vec<u8> {
    let (family, own) = match address.contains(':') {
        true => ("TCP6", "::1"),
        false => ("TCP4", "127.0.0.1"),
    };
    format!("PROXY {family} {address} {own} 4711 80\r\n").into_bytes()
}

/// A header of version 2 that names a client.
fn v2(address: [u8; 4]) -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
    header.extend(address);
    header.extend([127, 0, 0, 1, 1, 1, 0, 80]);
    header
}
