//! Limits on descriptors, and quotas that come with the request.

use sluicegate_core::{AdHoc, KeyPart, Limit, Match, Policy, Quota, Subject};

fn limit(name: &str) -> Limit {
    Limit::new(name, Quota::per_second(1))
}

fn by(name: &str) -> KeyPart {
    KeyPart::Descriptor(name.to_owned())
}

/// The keys that a descriptor is charged to.
fn charged(policy: &Policy, domain: &str, descriptors: &[(&str, &str)]) -> Vec<String> {
    let subject = Subject {
        domain: Some(domain),
        descriptors,
        ..Subject::ANONYMOUS
    };
    policy
        .charges_for_descriptor(&subject, 1)
        .unwrap()
        .iter()
        .map(|charge| charge.key.to_string())
        .collect()
}

#[test]
fn a_limit_covers_the_descriptors_that_have_exactly_its_entries() {
    let any_user = Match {
        descriptors: vec![any("user")],
        ..Match::default()
    };
    let policy = Policy::new([
        limit("per-user").key([by("user")]),
        limit("all-users").matching(any_user),
        limit("slow-path")
            .key([by("user")])
            .matching(Match::default().descriptor("path", "/slow")),
        Limit::per_client("per-ip", Quota::per_second(1)),
    ])
    .unwrap();
    assert_eq!(
        charged(&policy, "a", &[("user", "ann")]),
        ["per-user:ann", "all-users:!all"]
    );
    let slow = ["slow-path:ann"];
    assert_eq!(
        charged(&policy, "a", &[("path", "/slow"), ("user", "ann")]),
        slow
    );
    assert_eq!(
        charged(&policy, "a", &[("user", "ann"), ("path", "/slow")]),
        slow,
        "in any order"
    );
    for other in [
        &[][..],
        &[("path", "/slow")],
        &[("path", "/fast"), ("user", "ann")],
        &[("user", "ann"), ("user", "bob")],
        &[("user", "ann"), ("path", "/slow"), ("more", "x")],
    ] {
        assert_eq!(
            charged(&policy, "a", other),
            Vec::<String>::new(),
            "{other:?}"
        );
    }
}

fn any(name: &str) -> sluicegate_core::DescriptorMatch {
    sluicegate_core::DescriptorMatch {
        name: name.to_owned(),
        value: None,
    }
}

#[test]
fn a_limit_for_one_value_takes_the_place_of_the_one_for_all() {
    let vip = limit("vip")
        .key([by("user")])
        .matching(Match::default().descriptor("user", "vip"))
        .replaces("per-user");
    let policy = Policy::new([limit("per-user").key([by("user")]), vip]).unwrap();
    assert_eq!(charged(&policy, "a", &[("user", "ann")]), ["per-user:ann"]);
    assert_eq!(charged(&policy, "a", &[("user", "vip")]), ["vip:vip"]);
}

#[test]
fn a_limit_may_be_for_one_domain() {
    let of_a = Match {
        domain: Some("a".to_owned()),
        ..Match::default()
    };
    let policy = Policy::new([limit("of-a").key([by("user")]).matching(of_a)]).unwrap();
    assert_eq!(charged(&policy, "a", &[("user", "ann")]), ["of-a:ann"]);
    assert_eq!(
        charged(&policy, "b", &[("user", "ann")]),
        Vec::<String>::new()
    );
}

#[test]
fn requests_meet_no_limit_that_asks_for_an_entry() {
    let policy =
        Policy::new([limit("x").matching(Match::default().descriptor("user", "ann"))]).unwrap();
    assert!(policy.covering(&Subject::ANONYMOUS).is_empty());
}

#[test]
fn a_quota_that_came_with_the_request_has_counters_of_its_own() {
    let policy = Policy::new([limit("throttle").key([by("key")])]).unwrap();
    let quota = Quota::from(Quota::per_second(3));
    let parts: [&[u8]; 2] = [b"a:b\xff", b""];
    let charges = [AdHoc::Throttle, AdHoc::Override]
        .map(|purpose| policy.charge_ad_hoc(purpose, &parts, quota, 2));
    let keys = charges.map(|charge| {
        (
            charge.key.to_string(),
            policy.limit_at(charge.limit_index).name.clone(),
        )
    });
    let expected =
        ["!throttle", "!override"].map(|name| (format!("{name}:a%3Ab%FF:"), name.to_owned()));
    assert_eq!(keys, expected);
    assert!(
        Policy::new([limit("!throttle")]).is_err(),
        "no limit has such a name"
    );
}
