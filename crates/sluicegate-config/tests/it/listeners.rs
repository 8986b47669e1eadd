//! The decision service and the admin API: where they listen, and when they ask for a token.

use sluicegate_config::{Admin, Decisions};

use crate::{good, wrong};

#[test]
fn decisions_are_off_until_an_address_is_named_and_ask_for_a_token_beyond_loopback() {
    let decisions = |text: &str| good(text).decisions;
    assert_eq!(
        [
            decisions(""),
            decisions("decisions:"),
            decisions("decisions: {}")
        ],
        [(); 3].map(|()| Decisions::default())
    );
    let open = decisions("decisions: { http: \"0.0.0.0:1\", token_file: t }");
    assert_eq!(
        (open.http, open.token_file),
        ("0.0.0.0:1".parse().ok(), Some("/etc/sluicegate/t".into()))
    );
    decisions("decisions: { http: \"[::1]:1\" }");
    decisions("decisions: { http: \"[::ffff:127.0.0.1]:1\" }");
    assert!(decisions("decisions: { http: \"0.0.0.0:1\", allow_remote: true }").allow_remote);
    for text in [
        "http: \"0.0.0.0:1\"",
        "http: \"[::]:1\"",
        "http: \"192.0.2.1:1\", allow_remote: false",
    ] {
        let reported = wrong(&format!("decisions: {{ {text} }}"));
        assert!(
            reported.starts_with(
                "decisions.token_file: is missing: an address that is not loopback needs"
            ),
            "{reported}"
        );
    }
    let certified = decisions(
        "decisions: { http: \"0.0.0.0:1\", tls: { cert: a, key: b, client_ca_file: c } }",
    );
    assert_eq!(
        certified.tls.unwrap().client_ca_file,
        Some("/etc/sluicegate/c".into())
    );
    let reported = wrong("decisions: { http: \"0.0.0.0:1\", tls: { cert: a, key: b } }");
    assert!(
        reported.starts_with("decisions.token_file: is missing"),
        "TLS alone lets everybody in: {reported}"
    );
    let all = decisions("decisions: { grpc: \"127.0.0.1:8082\", resp: \"127.0.0.1:8083\" }");
    assert_eq!(
        (all.grpc, all.resp),
        ("127.0.0.1:8082".parse().ok(), "127.0.0.1:8083".parse().ok())
    );
    for protocol in ["grpc", "resp"] {
        let reported = wrong(&format!("decisions: {{ {protocol}: \"0.0.0.0:1\" }}"));
        assert!(
            reported.starts_with("decisions.token_file: is missing"),
            "{reported}"
        );
    }
}

#[test]
fn decisions_do_not_share_a_port_with_another_door() {
    let http = "decisions: { http: \"127.0.0.1:9090\" }";
    assert_eq!(
        wrong(http),
        "decisions: decisions.http and admin listen at the same address and port: change one of them"
    );
    good(&format!("{http}\nadmin: off"));
    let reported = wrong("proxy: { listen: \"0.0.0.0:1\" }\ndecisions: { http: \"127.0.0.1:1\" }");
    assert_eq!(
        reported,
        "decisions: decisions.http and proxy listen at the same address and port: change one of them"
    );
    good("proxy: { listen: \"127.0.0.1:0\" }\ndecisions: { http: \"127.0.0.1:0\" }");
}

#[test]
fn admin_is_on_at_loopback_and_asks_for_a_token_elsewhere() {
    let admin = |text: &str| good(text).admin;
    let loopback = Admin {
        listen: "127.0.0.1:9090".parse().ok(),
        token_file: None,
    };
    assert_eq!(
        [admin(""), admin("admin: {}"), admin("admin:")],
        [(); 3].map(|()| loopback.clone())
    );
    let off = Admin {
        listen: None,
        token_file: None,
    };
    assert_eq!(
        [admin("admin: off"), admin("admin: false")],
        [(); 2].map(|()| off.clone())
    );
    let open = admin("admin: { listen: \"0.0.0.0:1\", token_file: t }");
    assert_eq!(open.token_file, Some("/etc/sluicegate/t".into()));
    admin("admin: { listen: \"[::1]:1\" }");
    admin("admin: { listen: \"[::ffff:127.0.0.1]:1\" }");
    for address in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "[::ffff:10.0.0.1]:1"] {
        assert_eq!(
            wrong(&format!("admin: {{ listen: \"{address}\" }}")),
            "admin.token_file: is missing: an address that is not loopback needs a token"
        );
    }
    for proxy in ["127.0.0.1:9090", "0.0.0.0:9090", "[::]:9090"] {
        let reported = wrong(&format!("proxy: {{ listen: \"{proxy}\" }}"));
        assert_eq!(
            reported,
            "proxy: the proxy and admin listen at the same address and port: change one of them"
        );
    }
    good("proxy: { listen: \"127.0.0.2:9090\" }");
    good("proxy: { listen: \"127.0.0.1:0\" }\nadmin: { listen: \"127.0.0.1:0\" }");
    assert_eq!(wrong("admin: on"), "admin: expected a section (got \"on\")");
    assert_eq!(wrong("admin: true"), "admin: expected a section (got true)");
    assert_eq!(
        wrong("admin: { listen: \"0.0.0.0:1\", token_file: \"\" }"),
        "admin.token_file: must not be empty"
    );
}
