//! The PROXY protocol in both versions.

use std::net::{IpAddr, SocketAddr};

use sluicegate_net::fuzz_internals::{ProxyHeader, parse_proxy_header};

/// The first byte is where the header is cut; the rest is the beginning of a connection.
pub fn run(data: &[u8]) {
    let Some((cut, bytes)) = data.split_first() else {
        return;
    };
    let Ok(ProxyHeader::Complete { source, used }) = parse_proxy_header(bytes) else {
        return check_beginning(bytes);
    };
    assert!(used > 0 && used <= bytes.len());
    let whole = ProxyHeader::Complete { source, used };
    // The client's own bytes change nothing.
    assert_eq!(parse_proxy_header(&bytes[..used]), Ok(whole));
    // A beginning of it is incomplete, and asks for no byte of the client's.
    for part in [used - 1, usize::from(*cut) % used] {
        match parse_proxy_header(&bytes[..part]) {
            Ok(ProxyHeader::Incomplete(more)) => {
                assert!(more > 0);
                assert!(part + more <= used);
            }
            other => panic!("{other:?} after {part} of {used} bytes"),
        }
    }
    if let Some(source) = source {
        for header in [version_1(source), version_2(source)] {
            let used = header.len();
            let source = Some(source);
            assert_eq!(
                parse_proxy_header(&header),
                Ok(ProxyHeader::Complete { source, used })
            );
        }
    }
}

/// An incomplete header does not become complete before as many bytes as it asked for have come.
fn check_beginning(bytes: &[u8]) {
    let Ok(ProxyHeader::Incomplete(more)) = parse_proxy_header(bytes) else {
        return;
    };
    assert!(more > 0);
    let mut longer = bytes.to_vec();
    longer.resize(bytes.len() + more - 1, b'\n');
    let parsed = parse_proxy_header(&longer);
    assert!(
        !matches!(parsed, Ok(ProxyHeader::Complete { .. })),
        "{parsed:?}"
    );
}

fn version_1(source: SocketAddr) -> Vec<u8> {
    let family = if source.is_ipv4() { "TCP4" } else { "TCP6" };
    let (ip, port) = (source.ip(), source.port());
    format!("PROXY {family} {ip} {ip} {port} 443\r\n").into_bytes()
}

fn version_2(source: SocketAddr) -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21".to_vec();
    match source.ip() {
        IpAddr::V4(ip) => {
            header.extend_from_slice(&[0x11, 0, 12]);
            header.extend_from_slice(&ip.octets());
            header.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            header.extend_from_slice(&[0x21, 0, 36]);
            header.extend_from_slice(&ip.octets());
            header.extend_from_slice(&ip.octets());
        }
    }
    header.extend_from_slice(&source.port().to_be_bytes());
    header.extend_from_slice(&443_u16.to_be_bytes());
    header
}
