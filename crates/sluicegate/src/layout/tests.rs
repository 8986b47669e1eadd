//! Names in every layout: readable, compact, and those of the two older programs.

use super::*;
use sluicegate_core::{
    AdHoc, Limit, Match, OnMissingKey, Policy, Principal, Quota, QuotaSource, Subject,
};
use std::collections::{HashMap, HashSet};

fn quota() -> Quota {
    Quota::from(Quota::per_second(1))
}

fn caller(address: &str) -> Subject<'static> {
    Subject {
        client_ip: Some(address.parse().unwrap()),
        ..Subject::ANONYMOUS
    }
}

#[test]
fn readable_keys_are_what_prefix_and_key_display() {
    let mixed =
        Limit::new("mixed", quota()).key([KeyPart::ClientIp, KeyPart::Path, KeyPart::Global]);
    for limit in [mixed, Limit::per_client("per-ip", quota())] {
        for address in [
            "0.0.0.0",
            "9.10.99.100",
            "255.249.205.1",
            "203.0.113.7",
            "2001:db8::1",
        ] {
            let subject = Subject {
                path: "/a b/:c",
                ..caller(address)
            };
            let key = Key::of_subject(&limit, &subject).unwrap();
            assert_eq!(
                KeyLayout::Readable.stored("sluicegate", &key),
                format!("sluicegate:{key}")
            );
        }
    }
}

#[test]
fn a_readable_name_tells_its_key_and_others_tell_nothing() {
    let limit = Limit::new("mixed", quota()).key([KeyPart::ClientIp, KeyPart::Path]);
    let long = format!("/{}", "a/".repeat(200));
    for path in ["/", "/a b/:c", "/!#{x}", long.as_str()] {
        let subject = Subject {
            path,
            ..caller("2001:db8::1")
        };
        let key = Key::of_subject(&limit, &subject).unwrap();
        let (plain, tagged) = (
            KeyLayout::Readable.stored("t", &key),
            KeyLayout::Readable.stored_with_tag("t", &key),
        );
        let is_long = path.len() > KeyLayout::LENGTH_MAX;
        for (stored, is_tagged) in [(&plain, false), (&tagged, true)] {
            let text = KeyLayout::Readable.text_of("t", is_tagged, stored).unwrap();
            assert_eq!(text == key.to_string(), !is_long, "{stored}");
            assert_eq!(
                Key::parts_in(&limit, text).is_some(),
                !is_long,
                "a digest names nobody: {text}"
            );
        }
        assert_eq!(KeyLayout::Readable.text_of("t", true, &plain), None);
        assert_eq!(KeyLayout::Readable.text_of("other", false, &plain), None);
        let compact = KeyLayout::Compact.stored("t", &key);
        assert_eq!(KeyLayout::Compact.text_of("t", false, &compact), None);
    }
}

#[test]
fn older_layouts_are_written_as_their_programs_wrote_them() {
    let per_ip = Limit::per_client("per-ip", quota());
    let route = Limit::per_client("api", quota())
        .matching(Match::path("/api/login").unwrap())
        .replaces("per-ip");
    let principal = Limit::new("plan", quota()).key([KeyPart::Principal]);
    let (v4, v6) = (caller("203.0.113.7"), caller("2001:db8::1"));
    let ann = Principal::new("ann");
    let known = Subject {
        principal: Some(&ann),
        ..v4
    };
    let stored = |layout: KeyLayout, limit: &Limit, subject: &Subject<'_>| {
        layout.stored("eg", &Key::of_subject(limit, subject).unwrap())
    };
    assert_eq!(
        stored(KeyLayout::EdgeGuard, &per_ip, &v4),
        "eg:ip:203.0.113.7"
    );
    assert_eq!(
        stored(KeyLayout::EdgeGuard, &per_ip, &v6),
        "eg:ip:2001:db8::"
    );
    assert_eq!(
        stored(KeyLayout::EdgeGuard, &route, &v4),
        "eg:route:/api/login:203.0.113.7"
    );
    assert_eq!(
        stored(KeyLayout::EdgeGuard, &principal, &known),
        "eg:key:ann"
    );
    assert_eq!(
        stored(
            KeyLayout::EdgeGuard,
            &route.clone().matching(Match::path("/api/").unwrap()),
            &v6
        ),
        "eg:route:/api/:2001:db8::"
    );
    assert_eq!(
        stored(KeyLayout::EdgeQuota, &per_ip, &v4),
        "rl:edgequota:203.0.113.7"
    );
    assert_eq!(
        stored(KeyLayout::EdgeQuota, &Limit::new("global", quota()), &v4),
        "rl:edgequota:global"
    );
    let tenant = |tenant: &str| {
        let key = Key::of_subject(&per_ip, &v4).unwrap();
        KeyLayout::EdgeQuota.stored("eg", &key.of_tenant(tenant))
    };
    assert_eq!(tenant("acme"), "rl:edgequota:t:acme");
    assert_eq!(tenant("a:b-c._9"), "rl:edgequota:t:a:b-c._9");
    assert_eq!(
        stored(KeyLayout::Readable, &per_ip, &v6),
        "eg:per-ip:[2001:db8::]"
    );
}

#[test]
fn any_bytes_give_a_short_plain_key_of_their_own() {
    let limit = Limit::new("tenant", quota()).key([KeyPart::Descriptor("t".into()), KeyPart::Host]);
    let odd = (0..=127_u8).map(char::from).map(String::from);
    let long = [120, 200, 4_000].map(|length| "x".repeat(length));
    let tails = ["a", "b"].map(|tail| "x".repeat(500) + tail);
    let texts: Vec<String> = odd
        .chain(long)
        .chain(tails)
        .chain(["{a}", "é", "a:b", "a%3Ab"].map(String::from))
        .collect();
    let mut seen = HashSet::new();
    for first in &texts {
        for second in ["", "h", "h:1"] {
            let descriptors = [("t", first.as_str())];
            let subject = Subject {
                descriptors: &descriptors,
                host: Some(second),
                ..Subject::ANONYMOUS
            };
            let stored = KeyLayout::Readable
                .stored("sluicegate", &Key::of_subject(&limit, &subject).unwrap());
            assert!(stored.len() <= KeyLayout::LENGTH_MAX, "{stored}");
            assert!(
                stored
                    .bytes()
                    .all(|byte| byte.is_ascii_graphic() && byte != b'{' && byte != b'}'),
                "{stored}"
            );
            assert!(seen.insert(stored), "{first:?} and {second:?} share a key");
        }
    }
}

#[test]
fn compact_keys_have_fourteen_bytes_and_stay_apart() {
    let limits =
        ["a", "b"].map(|name| Limit::new(name, quota()).key([KeyPart::Principal, KeyPart::Host]));
    let mut seen = HashSet::new();
    for number in 0..5_000 {
        let id = format!("{number}{}", "x".repeat(number % 300));
        let principal = Principal::new(&id);
        for (limit, host) in limits.iter().zip(["h", "h:1"]) {
            let subject = Subject {
                principal: Some(&principal),
                host: Some(host),
                ..Subject::ANONYMOUS
            };
            let key = Key::of_subject(limit, &subject).unwrap();
            for prefix in ["sluicegate", "other"] {
                let stored = KeyLayout::Compact.stored(prefix, &key);
                assert_eq!(stored.len(), 14, "{stored}");
                assert!(stored.starts_with("sg"), "{stored}");
                assert!(seen.insert(stored), "{key:?} with {prefix} shares a key");
            }
        }
    }
}

/// Counters are found again after an upgrade only if these never change.
#[test]
fn digests_in_keys_are_the_same_in_every_process_and_version() {
    let per_ip = Limit::per_client("per-ip", quota());
    let all = Limit::new("all", quota()).key([KeyPart::Global]);
    let (v4, v6) = (caller("203.0.113.7"), caller("2001:db8::1"));
    let both = |limit: &Limit, subject: &Subject<'_>| {
        let key = Key::of_subject(limit, subject).unwrap();
        [KeyLayout::Readable, KeyLayout::Compact]
            .map(|layout| layout.stored_with_tag("sluicegate", &key))
    };
    assert_eq!(
        both(&per_ip, &v4),
        ["sluicegate:{E-n}:per-ip:203.0.113.7", "sg{E-n}UI9sQvbMLhyC"]
    );
    assert_eq!(
        both(&per_ip, &v6),
        [
            "sluicegate:{sdn}:per-ip:[2001:db8::]",
            "sg{sdn}M7KiGlvdvzyl"
        ]
    );
    assert_eq!(
        both(&all, &v4),
        ["sluicegate:{xZC}:all:!all", "sg{xZC}6oU4NTZ_WfP4"]
    );
    let untagged = KeyLayout::Compact.stored("sluicegate", &Key::of_subject(&per_ip, &v4).unwrap());
    assert_eq!(untagged, "sgUI9sQvbMLhyC");
}

#[test]
fn keys_that_came_with_the_request_never_meet_those_of_a_limit() {
    let parts = [
        KeyPart::Global,
        KeyPart::Descriptor("d".into()),
        KeyPart::ClientIp,
    ];
    let limits = parts
        .iter()
        .enumerate()
        .map(|(place, part)| Limit::new(place.to_string(), quota()).key([part.clone()]));
    let policy =
        Policy::new(limits.chain([Limit::new("pair", quota()).key(parts.clone())])).unwrap();
    for layout in [
        KeyLayout::Readable,
        KeyLayout::Compact,
        KeyLayout::EdgeQuota,
        KeyLayout::EdgeGuard,
    ] {
        let mut seen = HashSet::new();
        for text in ["a", "!all", "!missing", "!throttle", "203.0.113.7", "a:b"] {
            let descriptors = [("d", text)];
            let subject = Subject {
                descriptors: &descriptors,
                ..caller("203.0.113.7")
            };
            for limit in policy.limits() {
                seen.insert(layout.stored("p", &Key::of_subject(limit, &subject).unwrap()));
            }
        }
        for text in ["a", "!all", "!missing", "!throttle", "203.0.113.7", "a:b"] {
            for purpose in [AdHoc::Throttle, AdHoc::Override] {
                let bytes = [text.as_bytes()];
                let charge = policy.charge_ad_hoc(purpose, &bytes, quota(), 1);
                assert!(
                    seen.insert(layout.stored("p", &charge.key)),
                    "{layout:?} {text}"
                );
            }
        }
    }
}

#[test]
fn older_layouts_carry_no_tag() {
    let per_ip = Limit::per_client("per-ip", quota());
    let subject = caller("203.0.113.7");
    let key = Key::of_subject(&per_ip, &subject).unwrap();
    for layout in [KeyLayout::EdgeQuota, KeyLayout::EdgeGuard] {
        assert_eq!(
            layout.stored_with_tag("eg", &key),
            layout.stored("eg", &key)
        );
    }
}

/// Limits of every kind that the older layouts write in their own way.
fn limits_of_every_kind() -> Vec<Limit> {
    let key = |name: &str, parts: &[&str]| {
        Limit::new(name, quota()).key(parts.iter().map(|part| part.parse().unwrap()))
    };
    let route = |name: &str, path: &str| {
        Limit::per_client(name, quota())
            .matching(Match::path(path).unwrap())
            .replaces("per-ip")
    };
    let mut limits = vec![
        Limit::new("all", quota()),
        Limit::new("t", quota()),
        Limit::new("203.0.113.7", quota()),
        Limit::per_client("per-ip", quota()),
        Limit::per_client("ip", quota()),
        route("api", "/api"),
        route("folder", "/api/"),
        route("colon", "/api:b"),
        route("template", "/a/{x}"),
        key("plan", &["principal"]),
        key("key", &["descriptor:a"]),
        key("route", &["descriptor:a", "descriptor:b"]),
        key("pair", &["descriptor:a", "client_ip"]),
        key("triple", &["descriptor:a", "descriptor:b", "global"]),
    ];
    let shared = limits
        .iter()
        .map(|limit| limit.clone().on_missing_key(OnMissingKey::Shared));
    let external = limits.iter().map(|limit| Limit {
        quota_from: QuotaSource::External,
        ..limit.clone()
    });
    let more: Vec<Limit> = shared.chain(external).collect();
    limits.extend(more);
    limits
}

/// Every name that a limit writes for some nasty callers, each with what it stands for.
fn names(layout: KeyLayout, limit: &Limit) -> HashMap<String, String> {
    const VALUES: [&str; 9] = [
        "",
        "t",
        "all",
        "b",
        "2001",
        "203.0.113.7",
        "/api",
        "a:b",
        "%74",
    ];
    let mut names = HashMap::new();
    let mut add = |key: &Key<'_>| {
        let (name, text) = (layout.stored("rl", key), key.to_string());
        let before = names.insert(name.clone(), text.clone());
        assert!(before.is_none_or(|before| before == text), "{name}");
    };
    for first in VALUES {
        for second in VALUES {
            let descriptors = [("a", first), ("b", second)];
            let principal = Principal::new(first);
            for address in ["203.0.113.7", "2001:db8::1", "b:c::1", "c::1"] {
                let subject = Subject {
                    descriptors: &descriptors,
                    principal: Some(&principal),
                    ..caller(address)
                };
                let key = Key::of_subject(limit, &subject).unwrap();
                add(&key);
                if limit.quota_from == QuotaSource::External {
                    for tenant in ["acme", "a:b", "t", "b"] {
                        add(&key.of_tenant(tenant));
                    }
                }
            }
        }
    }
    let nobody = Policy::new([limit.clone()]);
    if let Ok(policy) = nobody
        && let Ok(charges) = policy.charges_for(&Subject::ANONYMOUS, 1)
    {
        charges.iter().for_each(|charge| add(&charge.key));
    }
    names
}

/// The rules that refuse a configuration and the names that are written belong together.
#[test]
fn limits_that_may_not_share_a_counter_never_write_the_same_name() {
    let limits = limits_of_every_kind();
    for layout in [
        KeyLayout::Readable,
        KeyLayout::Compact,
        KeyLayout::EdgeQuota,
        KeyLayout::EdgeGuard,
    ] {
        let named: Vec<_> = limits.iter().map(|limit| names(layout, limit)).collect();
        let mut told_apart = 0;
        for (index, one) in limits.iter().enumerate() {
            for (other_index, other) in limits.iter().enumerate().skip(index + 1) {
                if one.name == other.name || layout.may_share(one, other) {
                    continue;
                }
                told_apart += 1;
                let met = named[index]
                    .keys()
                    .find(|name| named[other_index].contains_key(*name));
                assert_eq!(met, None, "{layout:?}: {} and {}", one.name, other.name);
            }
        }
        assert!(told_apart > 100, "{layout:?}: {told_apart} pairs");
    }
}
