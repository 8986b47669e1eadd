//! Names with a hash tag, and the cluster slots they fall on.

use std::collections::{HashMap, HashSet};

use sluicegate_core::{Limit, OnMissingKey, Policy, Quota, Subject};

use super::*;
use crate::redis::slot::slot;

const TAGGED: [KeyLayout; 2] = [KeyLayout::Readable, KeyLayout::Compact];

fn limit(name: &str, key: impl IntoIterator<Item = KeyPart>) -> Limit {
    Limit::new(name, Quota::per_second(1)).key(key)
}

fn slot_of(layout: KeyLayout, limit: &Limit, subject: &Subject<'_>) -> u16 {
    slot(
        layout
            .stored_with_tag("sluicegate", &Key::of_subject(limit, subject).unwrap())
            .as_bytes(),
    )
}

fn caller(number: u32) -> Subject<'static> {
    Subject {
        client_ip: Some(IpAddr::from(number.to_be_bytes())),
        path: "/a/b",
        ..Subject::ANONYMOUS
    }
}

#[test]
fn all_limits_of_one_caller_share_a_slot() {
    let limits = [
        limit("per-ip", [KeyPart::ClientIp]),
        limit("api", [KeyPart::ClientIp, KeyPart::Path]),
        limit(
            "with-global",
            [KeyPart::Global, KeyPart::ClientIp, KeyPart::Method],
        ),
    ];
    for layout in TAGGED {
        for number in 0..500 {
            let slots: HashSet<u16> = limits
                .iter()
                .map(|limit| slot_of(layout, limit, &caller(number)))
                .collect();
            assert_eq!(slots.len(), 1, "caller {number} under {layout:?}");
        }
    }
}

#[test]
fn an_address_in_place_of_a_missing_part_is_the_same_owner() {
    let per_ip = limit("per-ip", [KeyPart::ClientIp]);
    let tenant =
        limit("tenant", [KeyPart::Host, KeyPart::Path]).on_missing_key(OnMissingKey::ClientIp);
    let policy = Policy::new([per_ip, tenant]).unwrap();
    let subject = caller(7);
    let charges = policy.charges_for(&subject, 1).unwrap();
    let keys: Vec<String> = charges
        .iter()
        .map(|charge| KeyLayout::Readable.stored_with_tag("sluicegate", &charge.key))
        .collect();
    assert!(keys[1].contains("!client:"), "{keys:?}");
    assert_eq!(
        slot(keys[0].as_bytes()),
        slot(keys[1].as_bytes()),
        "{keys:?}"
    );
}

#[test]
fn two_thousand_callers_spread_over_the_slots() {
    let per_ip = limit("per-ip", [KeyPart::ClientIp]);
    for layout in TAGGED {
        let slots: HashSet<u16> = (0..2_000)
            .map(|number| slot_of(layout, &per_ip, &caller(number)))
            .collect();
        assert!(
            slots.len() > 1_800,
            "2,000 callers fell into {} slots",
            slots.len()
        );
    }
}

#[test]
fn limits_without_an_owner_do_not_meet_on_one_slot() {
    let slots: HashSet<u16> = (0..200)
        .map(|number| {
            limit(
                &format!("all-{number}"),
                (number % 2 == 0).then_some(KeyPart::Global),
            )
        })
        .map(|limit| slot_of(KeyLayout::Readable, &limit, &caller(1)))
        .collect();
    assert!(
        slots.len() > 190,
        "200 limits fell into {} slots",
        slots.len()
    );
}

#[test]
fn equal_values_of_different_kinds_have_different_owners() {
    let subject = Subject {
        host: Some("/a/b"),
        ..caller(1)
    };
    let [by_path, by_host] = [KeyPart::Path, KeyPart::Host].map(|part| limit("l", [part]));
    let [path, host] =
        [by_path, by_host].map(|limit| slot_of(KeyLayout::Readable, &limit, &subject));
    assert_ne!(path, host);
}

#[test]
fn tags_reach_every_slot_evenly() {
    let mut tags_of_slot: HashMap<u16, u32> = HashMap::new();
    for bits in 0..1_u32 << 18 {
        let mut digest = [0; 32];
        digest[..4].copy_from_slice(&(bits << 14).to_be_bytes());
        *tags_of_slot
            .entry(slot(letters(&digest, 3).as_bytes()))
            .or_default() += 1;
    }
    assert_eq!(tags_of_slot.len(), 16_384);
    assert!(
        tags_of_slot.values().all(|tags| (8..=32).contains(tags)),
        "{:?}",
        tags_of_slot.values().max()
    );
}

#[test]
fn callers_cannot_aim_at_a_cluster_slot() {
    // Keys that would all carry one hash tag if braces were let through.
    let tenant = limit("tenant", [KeyPart::Descriptor("t".into())]);
    let names = (0..2_000).map(|number| format!("{{aim}}{number}"));
    let keys: Vec<[String; 3]> = names
        .map(|name| {
            let descriptors = [("t", name.as_str())];
            let subject = Subject {
                descriptors: &descriptors,
                ..Subject::ANONYMOUS
            };
            let key = Key::of_subject(&tenant, &subject).unwrap();
            [
                KeyLayout::Readable.stored("sluicegate", &key),
                KeyLayout::Readable.stored_with_tag("sluicegate", &key),
                KeyLayout::Compact.stored_with_tag("sluicegate", &key),
            ]
        })
        .collect();
    for form in 0..3 {
        let slots: HashSet<u16> = keys
            .iter()
            .map(|forms| slot(forms[form].as_bytes()))
            .collect();
        assert!(
            slots.len() > 1_800,
            "2,000 keys fell into {} slots",
            slots.len()
        );
    }
}

#[test]
fn any_bytes_give_a_short_key_with_our_tag_and_no_other_brace() {
    let tenant = limit("tenant", [KeyPart::Descriptor("t".into())]);
    let odd = (0..=127_u8).map(char::from).map(String::from);
    let long = [60, 120, 200, 4_000].map(|length| "{x}".repeat(length));
    let prefix = "p".repeat(KeyLayout::PREFIX_MAX);
    let mut seen = HashSet::new();
    for text in odd
        .chain(long)
        .chain(["}{", "é{é}", "{}"].map(String::from))
    {
        let descriptors = [("t", text.as_str())];
        let subject = Subject {
            descriptors: &descriptors,
            ..Subject::ANONYMOUS
        };
        let key = Key::of_subject(&tenant, &subject).unwrap();
        for layout in TAGGED {
            let stored = layout.stored_with_tag(&prefix, &key);
            assert!(stored.len() <= KeyLayout::LENGTH_MAX, "{stored}");
            assert!(
                stored.bytes().all(|byte| byte.is_ascii_graphic()),
                "{stored}"
            );
            assert!(
                stored.contains(&format!("{{{}}}", tag_of_owner(&prefix, &key))),
                "{stored}"
            );
            assert_eq!(stored.matches(['{', '}']).count(), 2, "{stored}");
            assert!(seen.insert(stored), "{text:?} shares a key");
        }
    }
}
