//! Hostile URLs and addresses, and a few good ones.

use super::BackendRefusal::{Host, Malformed, Path, Port, Private, Scheme, UserInfo};
use super::*;

fn policy(change: impl FnOnce(&mut BackendUrlSettings)) -> BackendPolicy {
    let mut settings = BackendUrlSettings::default();
    change(&mut settings);
    BackendPolicy::new(&settings)
}

fn by_default() -> BackendPolicy {
    policy(|_| ())
}

const HOSTILE: &[(&str, BackendRefusal)] = &[
    ("http://127.0.0.1", Private),
    ("http://127.0.0.1:8080/", Private),
    ("http://127.255.255.254", Private),
    ("http://10.0.0.1", Private),
    ("http://172.16.0.1", Private),
    ("http://172.31.255.255", Private),
    ("http://192.168.1.1", Private),
    ("http://169.254.169.254", Private),
    ("http://169.254.169.254/latest/meta-data/", Path),
    ("http://168.63.129.16", Private),
    ("http://100.100.100.200", Private),
    ("http://192.0.0.192", Private),
    ("http://0.0.0.0", Private),
    ("http://0.1.2.3", Private),
    ("http://255.255.255.255", Private),
    ("http://224.0.0.1", Private),
    ("http://198.18.0.1", Private),
    ("http://203.0.113.7", Private),
    ("http://[::1]", Private),
    ("http://[::1]:80", Private),
    ("http://[::]", Private),
    ("http://[0:0:0:0:0:0:0:1]", Private),
    ("http://[::ffff:127.0.0.1]", Private),
    ("http://[::ffff:7f00:1]", Private),
    ("http://[::ffff:10.0.0.1]", Private),
    ("http://[::127.0.0.1]", Private),
    ("http://[64:ff9b::7f00:1]", Private),
    ("http://[64:ff9b::169.254.169.254]", Private),
    ("http://[64:ff9b:1::1]", Private),
    ("http://[2002:7f00:1::]", Private),
    ("http://[2001::1]", Private),
    ("http://[2001:db8::1]", Private),
    ("http://[3fff::1]", Private),
    ("http://[fe80::1]", Private),
    ("http://[fec0::1]", Private),
    ("http://[fc00::1]", Private),
    ("http://[fd00:ec2::254]", Private),
    ("http://[ff02::1]", Private),
    ("http://[100::1]", Private),
    ("http://[fe80::1%25eth0]", Host),
    ("http://[::1", Host),
    ("http://[::1]x", Host),
    ("http://[127.0.0.1]", Host),
    ("http://127.1", Host),
    ("http://127.0.1", Host),
    ("http://2130706433", Host),
    ("http://0x7f000001", Host),
    ("http://0x7f.0.0.1", Host),
    ("http://0X7F.1", Host),
    ("http://0177.0.0.1", Host),
    ("http://127.0.0.01", Host),
    ("http://127.0.0.1.", Host),
    ("http://127.0.0.0x1", Host),
    ("http://127.0.0.256", Host),
    ("http://017700000001", Host),
    ("http://a.example..", Host),
    ("http://.a.example", Host),
    ("http://-a.example", Host),
    ("http://a%2eexample", Host),
    ("http://127.0.0.1%00.example", Host),
    ("http://", Host),
    ("http:///", Host),
    ("http://:80", Host),
    ("http://a.example:", Port),
    ("http://a.example:0", Port),
    ("http://a.example:+80", Port),
    ("http://a.example:65536", Port),
    ("http://a.example:80:80", Port),
    ("http://u@a.example", UserInfo),
    ("http://u:p@a.example", UserInfo),
    ("http://a.example#@127.0.0.1", UserInfo),
    ("http://a.example/@127.0.0.1", UserInfo),
    ("http://a.example#b", Path),
    ("http://a.example?b", Path),
    ("http://a.example/b", Path),
    ("http://a.example//", Path),
    ("http://a.example\\@127.0.0.1", Malformed),
    ("http://a.example\t", Malformed),
    ("http://a.example\r\nHost: b", Malformed),
    ("http://a.example\0", Malformed),
    ("http://１２７.0.0.1", Malformed),
    ("http://ⓛocalhost", Malformed),
    (" http://a.example", Malformed),
    ("a.example", Malformed),
    ("//a.example", Malformed),
    ("http:a.example", Malformed),
    ("http:/a.example", Malformed),
    ("", Malformed),
    ("ftp://a.example", Scheme),
    ("file:///etc/passwd", Scheme),
    ("gopher://a.example", Scheme),
    ("h2c://a.example", Scheme),
    ("unix://a.example", Scheme),
    ("javascript://a.example", Scheme),
    ("://a.example", Scheme),
];

#[test]
fn urls_that_lead_inside_or_mean_two_things_are_refused() {
    for (url, why) in HOSTILE {
        assert_eq!(by_default().parse(url), Err(*why), "{url:?}");
    }
    assert_eq!(
        by_default().parse(&format!("http://{}.example", "a".repeat(600))),
        Err(BackendRefusal::Malformed)
    );
    assert_eq!(
        by_default().parse(&format!("http://{}.example", "a".repeat(64))),
        Err(BackendRefusal::Host)
    );
}

#[test]
fn plain_urls_are_read() {
    let read = |url: &str| {
        let backend = by_default()
            .parse(url)
            .unwrap_or_else(|refused| panic!("{url}: {refused}"));
        (backend.tls, backend.host, backend.port)
    };
    assert_eq!(
        read("http://a.example"),
        (false, "a.example".to_owned(), 80)
    );
    assert_eq!(
        read("HTTPS://A.Example./"),
        (true, "a.example".to_owned(), 443)
    );
    assert_eq!(
        read("https://tenant-7.a_b.example:8443"),
        (true, "tenant-7.a_b.example".to_owned(), 8_443)
    );
    assert_eq!(read("http://8.8.8.8:1"), (false, "8.8.8.8".to_owned(), 1));
    assert_eq!(
        read("http://[2606:4700:0:0::1]"),
        (false, "2606:4700::1".to_owned(), 80)
    );
    // Resolved when it is dialled, and refused then.
    assert_eq!(
        read("http://localhost"),
        (false, "localhost".to_owned(), 80)
    );
}

/// Addresses that lead inside, or nowhere.
const INSIDE: &str = "
    0.0.0.0 0.255.0.1 10.255.255.255 100.64.0.1 100.127.255.255 127.0.0.1 169.254.0.1 172.20.0.1 192.0.0.1
    192.0.2.1 192.88.99.1 192.168.0.1 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255
    240.0.0.1 255.255.255.255 168.63.129.16 :: ::1 ::2 ::10.0.0.1 ::ffff:0.0.0.0 ::ffff:192.168.0.1
    ::ffff:169.254.169.254 ::ffff:0:10.0.0.1 64:ff9b::10.0.0.1 64:ff9b::127.0.0.1 64:ff9b:1::1 100::1 2001::1
    2001:0:1::1 2001:10::1 2001:20::1 2001:1ff::1 2001:db8::1 2002:a00:1::1 2002:808:808::1 3fff:fff::1 4000::1
    5f00::1 fc00::1 fdff::1 fe80::1 febf::1 fec0::1 ff01::1 ff0e::1
";

/// Addresses of the public internet, many of them right beside those above.
const OUTSIDE: &str = "
    1.1.1.1 8.8.8.8 100.63.255.255 100.128.0.1 172.15.0.1 172.32.0.1 192.0.1.1 192.1.0.1 198.17.0.1 198.20.0.1
    223.255.255.255 168.63.129.17 2606:4700::1 2a00::1 2001:200::1 2001:4860:4860::8888 2003::1 3fff:1000::1
    ::ffff:8.8.8.8 64:ff9b::8.8.8.8
";

/// A name is checked again when its addresses are known.
#[test]
fn addresses_are_judged_when_they_are_dialled() {
    for address in INSIDE.split_whitespace() {
        assert!(
            !by_default().may_dial(address.parse().unwrap()),
            "{address}"
        );
    }
    for address in OUTSIDE.split_whitespace() {
        assert!(by_default().may_dial(address.parse().unwrap()), "{address}");
    }
}

#[test]
fn where_private_networks_are_allowed_what_is_no_server_is_still_refused() {
    let policy = policy(|settings| settings.deny_private_networks = false);
    for address in [
        "127.0.0.1",
        "10.0.0.1",
        "169.254.169.254",
        "::1",
        "fd00::1",
        "::ffff:10.0.0.1",
    ] {
        assert!(policy.may_dial(address.parse().unwrap()), "{address}");
    }
    for address in [
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "ff02::1",
        "::ffff:0.0.0.0",
        "64:ff9b::",
    ] {
        assert!(!policy.may_dial(address.parse().unwrap()), "{address}");
    }
    assert!(policy.parse("http://127.0.0.1:1").is_ok());
}

#[test]
fn a_list_of_hosts_is_exclusive() {
    let policy = policy(|settings| {
        settings.allowed_hosts = vec!["a.example".to_owned(), "*.b.example".to_owned()]
    });
    for url in [
        "http://a.example",
        "http://A.example.:81",
        "https://x.b.example",
        "http://y.x.b.example",
    ] {
        assert!(policy.parse(url).is_ok(), "{url}");
    }
    for url in [
        "http://b.example",
        "http://.b.example",
        "http://xb.example",
        "http://a.example.evil.example",
        "http://evila.example",
        "http://8.8.8.8",
    ] {
        assert!(
            matches!(
                policy.parse(url),
                Err(BackendRefusal::NotAllowed | BackendRefusal::Host)
            ),
            "{url}"
        );
    }
}

#[test]
fn a_scheme_that_is_not_on_the_list_is_refused() {
    let policy = policy(|settings| settings.schemes = vec![BackendScheme::Https]);
    assert_eq!(
        policy.parse("http://a.example"),
        Err(BackendRefusal::Scheme)
    );
    assert!(policy.parse("https://a.example").is_ok());
}
