//! Keys: the parts that make one, and requests that lack a part.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv6Addr};

use sluicegate_core::address::Prefixes;
use sluicegate_core::{
    Factor, FactorRule, Headers, Key, KeyPart, Limit, MissingReason, NoHeaders, OnMissingKey,
    Policy, Principal, Quota, Subject,
};

fn keyed(parts: impl IntoIterator<Item = KeyPart>) -> Limit {
    Limit::new("limit", Quota::per_second(1)).key(parts)
}

/// The key that a request is charged to; `None` when the limit does not apply.
fn key_of(limit: &Limit, subject: &Subject<'_>) -> Result<Option<String>, MissingReason> {
    let policy = Policy::new([limit.clone()]).unwrap();
    let charges = policy
        .charges_for(subject, 1)
        .map_err(|missing| missing.reason)?;
    Ok(charges.first().map(|charge| charge.key.to_string()))
}

fn key(limit: &Limit, subject: &Subject<'_>) -> String {
    key_of(limit, subject).unwrap().expect("the limit applies")
}

const CLIENT: &str = "203.0.113.7";

fn client() -> Option<IpAddr> {
    Some(CLIENT.parse().unwrap())
}

#[test]
fn a_hundred_thousand_addresses_of_one_64_are_one_caller() {
    let keys = |prefix: u8, step: u128| {
        let limit = keyed([KeyPart::ClientIp]).prefixes(Prefixes::new(32, prefix).unwrap());
        let policy = Policy::new([limit]).unwrap();
        let start = u128::from_be_bytes([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let addresses = (0..100_000).map(|n| Ipv6Addr::from(start + n * step));
        let key = |address: Ipv6Addr| {
            let subject = Subject {
                client_ip: Some(address.into()),
                ..Subject::ANONYMOUS
            };
            policy.charges_for(&subject, 1).unwrap()[0].key.to_string()
        };
        addresses.map(key).collect::<HashSet<_>>()
    };
    let spread_over_64 = (1_u128 << 64) / 100_000;
    assert_eq!(
        keys(64, spread_over_64),
        HashSet::from(["limit:[2001:db8::]".to_owned()])
    );
    assert_eq!(keys(64, 1 << 64).len(), 100_000, "each in a /64 of its own");
    let spread_over_56 = (1_u128 << 72) / 100_000;
    assert_eq!(
        (
            keys(56, spread_over_56).len(),
            keys(64, spread_over_56).len()
        ),
        (1, 256)
    );
    let spread_over_48 = (1_u128 << 80) / 100_000;
    assert_eq!(
        (
            keys(48, spread_over_48).len(),
            keys(56, spread_over_48).len()
        ),
        (1, 256)
    );
    assert_eq!(keys(128, 1).len(), 100_000);
}

#[test]
fn an_ipv4_caller_is_one_address_in_every_spelling() {
    let limit = keyed([KeyPart::ClientIp]);
    let of = |ip: &str| {
        key(
            &limit,
            &Subject {
                client_ip: Some(ip.parse().unwrap()),
                ..Subject::ANONYMOUS
            },
        )
    };
    assert_eq!(of("203.0.113.7"), "limit:203.0.113.7");
    assert_eq!(of("::ffff:203.0.113.7"), "limit:203.0.113.7");
    assert_ne!(of("203.0.113.8"), of("203.0.113.7"));
    let by_24 = keyed([KeyPart::ClientIp]).prefixes(Prefixes::new(24, 64).unwrap());
    assert_eq!(
        key(
            &by_24,
            &Subject {
                client_ip: client(),
                ..Subject::ANONYMOUS
            }
        ),
        "limit:203.0.113.0"
    );
}

#[test]
fn a_tenant_header_and_the_first_segment_make_one_key() {
    let limit = keyed([KeyPart::header("X-Tenant-Id"), KeyPart::PathSegment(1)]);
    let headers = &[("x-tenant-id", "acme-corp")];
    let on = |path| {
        key(
            &limit,
            &Subject {
                path,
                headers,
                ..Subject::ANONYMOUS
            },
        )
    };
    assert_eq!(on("/api/v1/users"), "limit:acme-corp:api");
    assert_eq!(on("/api"), "limit:acme-corp:api");
    assert_eq!(on("/"), "limit:acme-corp:root");
    let second = keyed([KeyPart::PathSegment(2)]);
    assert_eq!(
        key(
            &second,
            &Subject {
                path: "/api/v1/users",
                ..Subject::ANONYMOUS
            }
        ),
        "limit:v1"
    );
    assert_eq!(
        key_of(
            &second,
            &Subject {
                path: "/api",
                ..Subject::ANONYMOUS
            }
        ),
        Err(MissingReason::Missing)
    );
}

#[test]
fn every_part_of_a_request_can_name_a_caller() {
    let principal = Principal::new("ann").claim("team", "blue");
    let subject = Subject {
        client_ip: client(),
        method: "PUT",
        host: Some("a.example"),
        path: "/x/y/",
        query: Some("user=ann%20b"),
        headers: &[("x-id", " 7 "), ("cookie", "sid=8")],
        sni: Some("tls.example"),
        principal: Some(&principal),
        domain: None,
        descriptors: &[("plan", "gold")],
    };
    let of = |part: &str| key(&keyed([part.parse().unwrap()]), &subject);
    assert_eq!(of("client_ip"), "limit:203.0.113.7");
    assert_eq!(of("method"), "limit:PUT");
    assert_eq!(of("host"), "limit:a.example");
    assert_eq!(of("path"), "limit:/x/y");
    assert_eq!(of("path_segment:2"), "limit:y");
    assert_eq!(of("header:X-Id"), "limit:7");
    assert_eq!(of("query:user"), "limit:ann%20b");
    assert_eq!(of("cookie:sid"), "limit:8");
    assert_eq!(of("sni"), "limit:tls.example");
    assert_eq!(of("principal"), "limit:ann");
    assert_eq!(of("claim:team"), "limit:blue");
    assert_eq!(of("descriptor:plan"), "limit:gold");
    assert_eq!(of("global"), "limit:!all");
}

#[test]
fn a_header_names_a_caller_only_if_it_says_one_plain_thing_once() {
    let limit = keyed([KeyPart::header("x-id")]);
    let with = |headers: &dyn Headers| {
        key_of(
            &limit,
            &Subject {
                headers,
                ..Subject::ANONYMOUS
            },
        )
    };
    assert_eq!(with(&NoHeaders), Err(MissingReason::Missing));
    assert_eq!(
        with(&[("x-id", "a"), ("X-Id", "a")]),
        Err(MissingReason::Repeated)
    );
    assert_eq!(with(&[("x-id", "a,b")]), Err(MissingReason::Repeated));
    for blank in ["", " ", "\t \t"] {
        assert_eq!(with(&[("x-id", blank)]), Err(MissingReason::Empty));
    }
    for not_text in [
        &b"caf\xc3\xa9"[..],
        b"a\0b",
        b"a\rb",
        b"a\nb",
        b"\x7f",
        b"\xff",
    ] {
        assert_eq!(
            with(&[("x-id", not_text)]),
            Err(MissingReason::NotText),
            "{not_text:?}"
        );
    }
    assert_eq!(
        with(&[("x-id", "x".repeat(8_192))]),
        Err(MissingReason::TooLong)
    );
    assert!(with(&[("x-id", "x".repeat(4_096))]).is_ok());
}

#[test]
fn a_missing_key_meets_the_configured_choice_and_no_other() {
    let of = |rule: Option<OnMissingKey>, subject: &Subject<'_>| {
        let limit = keyed([KeyPart::header("x-id")]);
        key_of(
            &Limit {
                on_missing_key: rule,
                ..limit
            },
            subject,
        )
    };
    let somebody = Subject {
        client_ip: client(),
        ..Subject::ANONYMOUS
    };
    let nobody = Subject::ANONYMOUS;
    assert_eq!(
        of(None, &somebody),
        Err(MissingReason::Missing),
        "to reject is the default"
    );
    assert_eq!(
        of(Some(OnMissingKey::Reject), &somebody),
        Err(MissingReason::Missing)
    );
    assert_eq!(of(Some(OnMissingKey::Skip), &somebody), Ok(None));
    assert_eq!(
        of(Some(OnMissingKey::Shared), &somebody),
        Ok(Some("limit:!missing".to_owned()))
    );
    assert_eq!(
        of(Some(OnMissingKey::Shared), &nobody),
        Ok(Some("limit:!missing".to_owned()))
    );
    assert_eq!(
        of(Some(OnMissingKey::ClientIp), &somebody),
        Ok(Some("limit:!client:203.0.113.7".to_owned()))
    );
    assert_eq!(
        of(Some(OnMissingKey::ClientIp), &nobody),
        Err(MissingReason::Missing),
        "never unlimited"
    );
}

#[test]
fn a_limit_per_principal_does_not_apply_to_requests_without_one() {
    for part in [
        KeyPart::Principal,
        KeyPart::Claim("team".into()),
        KeyPart::Descriptor("plan".into()),
    ] {
        let limit = keyed([part.clone()]);
        assert_eq!(key_of(&limit, &Subject::ANONYMOUS), Ok(None), "{part}");
        let strict = limit.on_missing_key(OnMissingKey::Reject);
        assert_eq!(
            key_of(&strict, &Subject::ANONYMOUS),
            Err(MissingReason::Missing),
            "{part}"
        );
    }
    let needs = |part| keyed([part]).needs_principal();
    assert_eq!(
        [
            needs(KeyPart::Principal),
            needs(KeyPart::Claim("a".into())),
            needs(KeyPart::ClientIp)
        ],
        [true, true, false]
    );
}

#[test]
fn a_missing_caller_is_never_taken_for_a_real_one() {
    let limit = keyed([KeyPart::header("x-id")]).on_missing_key(OnMissingKey::ClientIp);
    let real = |value: &str| {
        let headers = &[("x-id", value)];
        key(
            &limit,
            &Subject {
                client_ip: client(),
                headers,
                ..Subject::ANONYMOUS
            },
        )
    };
    let instead = key(
        &limit,
        &Subject {
            client_ip: client(),
            ..Subject::ANONYMOUS
        },
    );
    let shared = key(
        &limit.clone().on_missing_key(OnMissingKey::Shared),
        &Subject::ANONYMOUS,
    );
    for imitation in [
        CLIENT,
        "!client:203.0.113.7",
        "!missing",
        "!all",
        "client:203.0.113.7",
        "%21missing",
    ] {
        assert!(
            ![&instead, &shared].contains(&&real(imitation)),
            "{imitation}"
        );
    }
}

#[test]
fn a_tenant_has_a_counter_that_no_request_can_name() {
    let limit = keyed([KeyPart::header("x-id")]);
    let of_tenant = |tenant: &str| {
        let subject = Subject {
            headers: &[("x-id", "7")],
            ..Subject::ANONYMOUS
        };
        Key::of_subject(&limit, &subject)
            .unwrap()
            .of_tenant(tenant)
            .to_string()
    };
    assert_eq!(of_tenant("acme:eu"), "limit:!tenant:acme%3Aeu");
    assert_ne!(of_tenant("acme"), of_tenant("acme:"));
    for imitation in ["acme", "!tenant:acme", "tenant:acme", "%21tenant:acme"] {
        let subject = Subject {
            headers: &[("x-id", imitation)],
            ..Subject::ANONYMOUS
        };
        assert_ne!(key(&limit, &subject), of_tenant("acme"), "{imitation}");
    }
}

#[test]
fn a_caller_is_the_values_of_a_key_without_the_limit() {
    let limit = keyed([KeyPart::header("x-id"), KeyPart::Method]);
    let subject = Subject {
        headers: &[("x-id", "a:b")],
        method: "PUT",
        ..Subject::ANONYMOUS
    };
    assert_eq!(
        Key::of_subject(&limit, &subject).unwrap().caller(),
        "a%3Ab:PUT"
    );
    let of_parts = |parts: &[&str]| Key::of_parts(&limit, parts).unwrap().caller();
    assert_eq!([of_parts(&["", "PUT"]), of_parts(&["", ""])], [":PUT", ":"]);
}

#[test]
fn the_factor_of_a_principal_scales_its_quota() {
    let rule = FactorRule::new("rate_factor", Factor::new(2.0).unwrap());
    let limit = Limit::new("limit", Quota::per_second(10)).factor(rule);
    let policy = Policy::new([limit]).unwrap();
    let sizes = |claim: Option<&str>| {
        let principal = claim.map(|claim| Principal::new("ann").claim("rate_factor", claim));
        let headers = &[("rate_factor", "0"), ("x-rate-factor", "0")];
        let subject = Subject {
            principal: principal.as_ref(),
            headers,
            ..Subject::ANONYMOUS
        };
        let charges = policy.charges_for(&subject, 1).unwrap();
        charges.first().map(|charge| charge.quota.limit())
    };
    assert_eq!(
        sizes(None),
        Some(5),
        "the default, whatever the caller's headers say"
    );
    assert_eq!(sizes(Some("4")), Some(3));
    assert_eq!(sizes(Some("0.5")), Some(20));
    assert_eq!(sizes(Some("0")), None, "unlimited");
    assert_eq!(sizes(Some("-1")), Some(5), "no factor: the default");
}

#[test]
fn the_text_of_a_key_tells_the_parts_it_is_made_of() {
    let limit = keyed([
        KeyPart::ClientIp,
        KeyPart::Descriptor("t".into()),
        KeyPart::Global,
        KeyPart::Path,
    ]);
    let of = |address: &str, tenant: &str, path: &str| {
        let parts = [address, tenant, "", path];
        let text = Key::of_parts(&limit, &parts).unwrap().to_string();
        let parts = Key::parts_in(&limit, &text).unwrap_or_else(|| panic!("{text}"));
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        assert_eq!(Key::of_parts(&limit, &parts).unwrap().to_string(), text);
        parts[1].to_owned()
    };
    for tenant in [
        "",
        "acme",
        "a:b",
        "!all",
        "!missing",
        "[::1]",
        "a]b",
        "%",
        "%41",
        "é\u{202e}\r\n\0",
        "a#b",
    ] {
        for (address, path) in [
            ("203.0.113.7", "/"),
            ("2001:db8::1", "/x/y"),
            ("::ffff:203.0.113.7", "/:/"),
        ] {
            assert_eq!(of(address, tenant, path), tenant);
        }
    }
}

#[test]
fn a_text_that_no_parts_make_tells_none() {
    let limit = keyed([KeyPart::header("x-tenant")]);
    let texts = [
        "",
        "limit",
        "limits:acme",
        "other:acme",
        "limit:acme:more",
        "limit:!all",
        "limit:!missing",
        "limit:!client:203.0.113.7",
        "limit:!tenant:acme",
        "limit:%ff",
        "limit:%",
        "limit:%61cme",
        "limit:a#0123456789abcdef",
        "limit:[a",
    ];
    for text in texts {
        assert_eq!(Key::parts_in(&limit, text), None, "{text}");
    }
    assert_eq!(
        Key::parts_in(&limit, "limit:acme"),
        Some(vec!["acme".to_owned()])
    );
}
