use sluicegate_core::address::Prefixes;
use sluicegate_core::{Limit, OnMissingKey, Policy, Principal, Quota, Subject};

use super::*;

const MINUTE_MS: u64 = 60_000;

fn rule() -> BanRule {
    BanRule {
        after: 100,
        within: Nanos::MINUTE,
        lasts: Nanos::from_secs(600),
        grow: 2,
        max: Nanos::HOUR,
    }
}

fn clients(network: &str) -> BanTarget {
    BanTarget::Clients(network.parse().unwrap())
}

fn request(target: BanTarget) -> BanRequest {
    BanRequest {
        target,
        limit: "per-ip".to_owned(),
        rule: rule(),
    }
}

fn minutes(record: Option<BanRecord>) -> Option<u64> {
    record.map(|record| (record.until_ms - record.since_ms) / MINUTE_MS)
}

#[test]
fn each_further_ban_is_longer_up_to_the_maximum() {
    let (wanted, mut records) = (request(clients("203.0.113.7/32")), Vec::new());
    let mut now_ms = 1_000;
    for (earlier, expected) in [10, 20, 40, 60, 60].into_iter().enumerate() {
        let record = add_ban(&mut records, &wanted, now_ms).unwrap();
        assert_eq!(record.earlier as usize, earlier);
        assert_eq!(minutes(Some(record.clone())), Some(expected));
        assert_eq!(
            records,
            std::slice::from_ref(&record),
            "one record of a caller"
        );
        // An hour after its end it is still remembered, but for a millisecond.
        now_ms = record.until_ms + 60 * MINUTE_MS - 1;
    }
}

#[test]
fn a_ban_that_is_forgotten_makes_the_next_no_longer() {
    let (wanted, mut records) = (request(clients("203.0.113.7/32")), Vec::new());
    let first = add_ban(&mut records, &wanted, 0).unwrap();
    assert_eq!(first.forget_ms, first.until_ms + 60 * MINUTE_MS);
    let again = add_ban(&mut records, &wanted, first.forget_ms);
    assert_eq!(again.as_ref().map(|record| record.earlier), Some(0));
    assert_eq!(minutes(again), Some(10));
}

#[test]
fn a_caller_that_is_banned_already_is_not_banned_again() {
    let (wanted, mut records) = (request(clients("203.0.113.7/32")), Vec::new());
    let first = add_ban(&mut records, &wanted, 5).unwrap();
    let by_another = BanRequest {
        limit: "other".to_owned(),
        ..wanted.clone()
    };
    for at_ms in [0, 5, first.until_ms - 1] {
        assert_eq!(add_ban(&mut records, &wanted, at_ms), None);
        assert_eq!(add_ban(&mut records, &by_another, at_ms), None);
    }
    assert_eq!(records, [first]);
    let other = request(clients("203.0.113.8/32"));
    assert!(add_ban(&mut records, &other, 5).is_some());
}

#[test]
fn the_list_is_bounded_and_what_is_over_or_the_soonest_to_end_makes_room() {
    let mut records = Vec::new();
    let number = |number: u32| {
        let address = std::net::Ipv4Addr::from_bits(0x0a00_0000 + number);
        request(BanTarget::Clients(IpNet::from(std::net::IpAddr::V4(
            address,
        ))))
    };
    for host in 0..BANS_MAX as u32 {
        add_ban(&mut records, &number(host), u64::from(host));
    }
    assert_eq!(make_room(&mut records, 1_000), 0);
    assert_eq!(records.len(), BANS_MAX);
    add_ban(&mut records, &number(5_000), 2_000);
    assert_eq!(make_room(&mut records, 2_000), 1, "one was in force");
    assert_eq!(records.len(), BANS_MAX);
    let has = |records: &[BanRecord], host: u32| {
        records
            .iter()
            .any(|record| record.target == number(host).target)
    };
    assert!(!has(&records, 0) && has(&records, 1) && has(&records, 5_000));
    // Ten minutes later, those who ended first go first, and nobody in force does.
    let now_ms = 10 * MINUTE_MS + 500;
    add_ban(&mut records, &number(6_000), now_ms);
    assert_eq!(make_room(&mut records, now_ms), 0);
    assert!(!has(&records, 1) && has(&records, 6_000) && has(&records, 999));
    assert_eq!(make_room(&mut records, 200 * MINUTE_MS), 0);
    assert!(records.is_empty(), "all are forgotten");
}

#[test]
fn a_record_is_written_and_read_and_says_why() {
    let mut records = Vec::new();
    let wanted = request(BanTarget::Principal("ann".to_owned()));
    let record = add_ban(&mut records, &wanted, 0).unwrap();
    assert_eq!(record.reason(), "denied 100 times within 1m by per-ip");
    let text = serde_json::to_string(&records).unwrap();
    assert_eq!(
        serde_json::from_str::<Vec<BanRecord>>(&text).unwrap(),
        records
    );
    let again = add_ban(&mut records, &wanted, record.until_ms).unwrap();
    assert_eq!(
        again.reason(),
        "denied 100 times within 1m by per-ip, banned once before"
    );
}

#[test]
fn the_id_of_a_ban_is_the_same_wherever_it_is_made_and_another_for_every_caller() {
    let ids = [
        clients("203.0.113.7/32").id(),
        clients("203.0.113.0/24").id(),
        BanTarget::Principal("203.0.113.7/32".to_owned()).id(),
    ];
    assert_eq!(ids[0], clients("203.0.113.7/32").id());
    assert!(ids[0] != ids[1] && ids[0] != ids[2] && ids[1] != ids[2]);
    for id in ids {
        let digits = id.strip_prefix(AUTOMATIC_ID).unwrap();
        assert!(digits.len() == 12 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    }
}

/// The caller that a denial of this limit bans.
fn target(limit: Limit, client_ip: &str, principal: Option<&str>) -> Option<BanTarget> {
    let policy = Policy::new([limit]).unwrap();
    let principal = principal.map(Principal::new);
    let subject = Subject {
        client_ip: client_ip.parse().ok(),
        principal: principal.as_ref(),
        path: "/a",
        ..Subject::ANONYMOUS
    };
    let charges = policy.charges_for(&subject, 1).unwrap();
    BanTarget::of_key(&charges.first()?.key)
}

#[test]
fn the_principal_is_banned_before_the_network_as_the_limit_counts_it() {
    let limit = |key: &[KeyPart]| Limit::new("a", Quota::per_second(1)).key(key.iter().cloned());
    let address = [KeyPart::Path, KeyPart::ClientIp];
    assert_eq!(
        target(limit(&address), "::ffff:203.0.113.7", None),
        Some(clients("203.0.113.7/32"))
    );
    assert_eq!(
        target(limit(&address), "2001:db8:1:2:3::4", None),
        Some(clients("2001:db8:1:2::/64")),
        "an IPv6 /64 is banned as a /64"
    );
    let wide = limit(&address).prefixes(Prefixes::new(24, 48).unwrap());
    assert_eq!(
        target(wide.clone(), "203.0.113.7", None),
        Some(clients("203.0.113.0/24"))
    );
    let both = [KeyPart::ClientIp, KeyPart::Principal];
    assert_eq!(
        target(limit(&both), "203.0.113.7", Some("ann")),
        Some(BanTarget::Principal("ann".to_owned()))
    );
    let everybody = limit(&address).prefixes(Prefixes::new(0, 64).unwrap());
    assert_eq!(target(everybody, "203.0.113.7", None), None);
    let long = "x".repeat(257);
    assert_eq!(target(limit(&both), "203.0.113.7", Some(&long)), None);
}

#[test]
fn who_lacks_the_principal_is_banned_by_address_or_not_at_all() {
    let limit = |rule| {
        Limit::new("a", Quota::per_second(1))
            .key([KeyPart::Principal])
            .on_missing_key(rule)
    };
    assert_eq!(
        target(limit(OnMissingKey::ClientIp), "203.0.113.7", None),
        Some(clients("203.0.113.7/32"))
    );
    assert_eq!(
        target(limit(OnMissingKey::Shared), "203.0.113.7", None),
        None
    );
}
