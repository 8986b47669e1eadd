use proptest::prelude::*;

use super::*;

fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
    [V2_START, &[command, family], &length, rest].concat()
}

fn done(source: Option<&str>, used: usize) -> Result<ProxyHeader, MalformedProxyHeader> {
    Ok(ProxyHeader::Complete {
        source: source.map(|source| source.parse().unwrap()),
        used,
    })
}

#[test]
fn lines_of_version_1_name_the_source() {
    let line = "PROXY TCP4 192.0.2.1 198.51.100.9 56324 443\r\n";
    assert_eq!(
        parse(line.as_bytes()),
        done(Some("192.0.2.1:56324"), line.len())
    );
    let with_more = [line, "GET / HTTP/1.1\r\n"].concat();
    assert_eq!(
        parse(with_more.as_bytes()),
        done(Some("192.0.2.1:56324"), line.len())
    );
    let line = "PROXY TCP6 2001:db8::1 ::1 0 65535\r\n";
    assert_eq!(
        parse(line.as_bytes()),
        done(Some("[2001:db8::1]:0"), line.len())
    );
    for line in [
        "PROXY UNKNOWN\r\n",
        "PROXY UNKNOWN ffff::1 whatever 1 x\r\n",
    ] {
        assert_eq!(parse(line.as_bytes()), done(None, line.len()), "{line}");
    }
}

#[test]
fn longest_line_of_version_1_is_taken_and_no_longer_one() {
    let fill = |bytes: usize| format!("PROXY UNKNOWN {}\r\n", "x".repeat(bytes - 16));
    assert_eq!(
        parse(fill(V1_BYTES_MAX).as_bytes()),
        done(None, V1_BYTES_MAX)
    );
    assert!(parse(fill(V1_BYTES_MAX + 1).as_bytes()).is_err());
    assert!(parse(&[b"PROXY UNKNOWN ", &[b'x'; 500][..]].concat()).is_err());
}

#[test]
fn broken_lines_of_version_1_are_refused() {
    for line in [
        "PROXY\r\n",
        "PROXY \r\n",
        "PROXY UNKNOWNX\r\n",
        "PROXY UNKNOWN\n",
        "PROXY TCP4\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 2 3\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 2 \r\n",
        "PROXY TCP4  192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY TCP4 192.0.2.01 192.0.2.2 1 2\r\n",
        "PROXY TCP4 192.0.2.256 192.0.2.2 1 2\r\n",
        "PROXY TCP4 ::1 192.0.2.2 1 2\r\n",
        "PROXY TCP4 192.0.2.1 x 1 2\r\n",
        "PROXY TCP6 192.0.2.1 ::1 1 2\r\n",
        "PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n",
        "PROXY UDP4 192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY tcp4 192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 65536 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 +1 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 01 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 \r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\n",
        "PROXY TCP4 192.0.2.1\r192.0.2.2 1 2\r\n",
        "POST / HTTP/1.1\r\n",
        "proxy TCP4 192.0.2.1 192.0.2.2 1 2\r\n",
        "GET / HTTP/1.1\r\n",
        " PROXY UNKNOWN\r\n",
        "\r\nPROXY UNKNOWN\r\n",
    ] {
        assert!(parse(line.as_bytes()).is_err(), "{line:?}");
    }
}

#[test]
fn headers_of_version_2_name_the_source() {
    let four = v2(
        0x21,
        0x11,
        &[192, 0, 2, 1, 198, 51, 100, 9, 0xdc, 4, 1, 187],
    );
    assert_eq!(parse(&four), done(Some("192.0.2.1:56324"), 28));
    let mut six = [0; 36];
    six[..4].copy_from_slice(&[0x20, 1, 0xd, 0xb8]);
    six[15] = 1;
    six[32..34].copy_from_slice(&[0, 80]);
    assert_eq!(
        parse(&v2(0x21, 0x21, &six)),
        done(Some("[2001:db8::1]:80"), 52)
    );
}

#[test]
fn additions_are_skipped_up_to_the_bound() {
    let address = [192, 0, 2, 1, 198, 51, 100, 9, 0, 80, 1, 187];
    let with_additions = |bytes: usize| v2(0x21, 0x11, &[&address[..], &vec![4; bytes]].concat());
    assert_eq!(
        parse(&with_additions(508)),
        done(Some("192.0.2.1:80"), V2_BYTES_MAX)
    );
    assert!(parse(&with_additions(509)).is_err());
    // The bound is known from the length, before the bytes come.
    assert!(parse(&v2(0x21, 0x11, &[0; 600])[..16]).is_err());
}

#[test]
fn connections_without_a_named_source_are_the_peers() {
    assert_eq!(parse(&v2(0x20, 0x00, &[])), done(None, 16));
    assert_eq!(
        parse(&v2(
            0x20,
            0x11,
            &[192, 0, 2, 1, 198, 51, 100, 9, 0, 80, 1, 187]
        )),
        done(None, 28)
    );
    assert_eq!(parse(&v2(0x21, 0x00, &[1, 2, 3])), done(None, 19));
    assert_eq!(parse(&v2(0x21, 0x31, &[0; 216])), done(None, 232));
}

#[test]
fn broken_headers_of_version_2_are_refused() {
    assert!(parse(&v2(0x11, 0x11, &[0; 12])).is_err(), "version 1");
    assert!(
        parse(&v2(0x22, 0x11, &[0; 12])).is_err(),
        "an unknown command"
    );
    assert!(parse(&v2(0x21, 0x12, &[0; 12])).is_err(), "datagrams");
    assert!(
        parse(&v2(0x21, 0x41, &[0; 12])).is_err(),
        "an unknown family"
    );
    assert!(
        parse(&v2(0x21, 0x11, &[0; 11])).is_err(),
        "too short for IPv4"
    );
    assert!(
        parse(&v2(0x21, 0x21, &[0; 35])).is_err(),
        "too short for IPv6"
    );
    assert!(
        parse(&v2(0x21, 0x31, &[0; 215])).is_err(),
        "too short for a path"
    );
    assert!(parse(b"\r\n\r\n\0\r\nQUIX").is_err(), "another start");
}

proptest! {
    #[test]
    fn any_bytes_are_judged_within_bounds(
        start in prop_oneof![Just(&b""[..]), Just(V1_START), Just(V2_START)],
        rest in proptest::collection::vec(any::<u8>(), 0..600),
    ) {
        let bytes = [start, &rest].concat();
        match parse(&bytes) {
            Ok(ProxyHeader::Complete { used, .. }) => prop_assert!(used <= bytes.len().min(V2_BYTES_MAX)),
            Ok(ProxyHeader::Incomplete(more)) => prop_assert!(more > 0 && bytes.len() + more <= V2_BYTES_MAX),
            Err(_) => {}
        }
    }

    #[test]
    fn a_header_in_pieces_is_the_same_header(
        ip: [u8; 16],
        port: u16,
        is_v1: bool,
        additions in proptest::collection::vec(any::<u8>(), 0..100),
    ) {
        let header = if is_v1 {
            format!("PROXY TCP6 {} ::1 {port} 80\r\n", Ipv6Addr::from(ip)).into_bytes()
        } else {
            v2(0x21, 0x21, &[&ip[..], &[0; 16], &port.to_be_bytes(), &[0, 80], &additions].concat())
        };
        let mut had = 0;
        while let ProxyHeader::Incomplete(more) = parse(&header[..had]).unwrap() {
            had += more;
            prop_assert!(had <= header.len());
        }
        let source = Some(SocketAddr::new(Ipv6Addr::from(ip).into(), port));
        prop_assert_eq!(parse(&header[..had]), Ok(ProxyHeader::Complete { source, used: header.len() }));
    }
}
