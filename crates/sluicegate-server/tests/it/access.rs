//! Lists of callers that are never limited or never pass.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::{IpNet, Ipv4Net};
use proptest::prelude::*;
use sluicegate_config::{Access, AccessList};
use sluicegate_gate::access::{AccessLists, Ruling};

fn list(cidrs: &[&str], keys: &[&str]) -> AccessList {
    let cidrs = cidrs.iter().map(|cidr| cidr.parse().unwrap()).collect();
    AccessList {
        cidrs,
        keys: keys.iter().map(|key| key.to_string()).collect(),
    }
}

fn lists(allow: AccessList, deny: AccessList) -> AccessLists {
    AccessLists::new(&Access { allow, deny })
}

fn of(lists: &AccessLists, address: &str) -> Option<Ruling> {
    lists.of_address(address.parse().unwrap())
}

#[test]
fn deny_comes_before_allow() {
    let lists = lists(
        list(&["10.0.0.0/8"], &["ann", "bob"]),
        list(&["10.1.0.0/16"], &["bob"]),
    );
    assert_eq!(of(&lists, "10.0.0.1"), Some(Ruling::Allow));
    assert_eq!(of(&lists, "10.1.0.1"), Some(Ruling::Deny));
    assert_eq!(of(&lists, "11.0.0.1"), None);
    assert_eq!(lists.of_principal("ann"), Some(Ruling::Allow));
    assert_eq!(lists.of_principal("bob"), Some(Ruling::Deny));
    assert_eq!(lists.of_principal("Bob"), None);
}

#[test]
fn an_allowed_network_inside_a_denied_one_stays_denied() {
    let lists = lists(list(&["10.1.0.0/16"], &[]), list(&["10.0.0.0/8"], &[]));
    assert_eq!(of(&lists, "10.1.0.1"), Some(Ruling::Deny));
}

#[test]
fn both_families_are_looked_up_to_the_last_bit() {
    let lists = lists(
        list(
            &["192.0.2.8/29", "2001:db8:1::/48", "2001:db8:2::7/128"],
            &[],
        ),
        AccessList::default(),
    );
    for inside in [
        "192.0.2.8",
        "192.0.2.15",
        "2001:db8:1::",
        "2001:db8:1:ffff:ffff:ffff:ffff:ffff",
        "2001:db8:2::7",
    ] {
        assert_eq!(of(&lists, inside), Some(Ruling::Allow), "{inside}");
    }
    for outside in [
        "192.0.2.7",
        "192.0.2.16",
        "2001:db8:0:ffff::",
        "2001:db8:2::",
        "2001:db8:2::6",
        "2001:db8:2::8",
    ] {
        assert_eq!(of(&lists, outside), None, "{outside}");
    }
}

#[test]
fn mapped_addresses_and_networks_are_ipv4() {
    let plain = lists(AccessList::default(), list(&["203.0.113.0/24"], &[]));
    assert_eq!(of(&plain, "::ffff:203.0.113.7"), Some(Ruling::Deny));
    let mapped = lists(
        AccessList::default(),
        list(&["::ffff:203.0.113.0/120"], &[]),
    );
    for address in ["203.0.113.7", "::ffff:203.0.113.7"] {
        assert_eq!(of(&mapped, address), Some(Ruling::Deny), "{address}");
    }
    assert_eq!(of(&mapped, "203.0.114.7"), None);
    let all_of_ipv6 = lists(AccessList::default(), list(&["::/0"], &[]));
    assert_eq!(of(&all_of_ipv6, "::ffff:203.0.113.7"), None);
    assert_eq!(of(&all_of_ipv6, "2001:db8::1"), Some(Ruling::Deny));
}

#[test]
fn a_network_may_be_written_with_bits_behind_its_prefix() {
    let lists = lists(
        list(&["10.1.2.3/8", "10.0.0.0/16"], &[]),
        AccessList::default(),
    );
    assert_eq!(of(&lists, "10.255.0.1"), Some(Ruling::Allow));
}

#[test]
fn empty_lists_say_nothing() {
    let empty = AccessLists::default();
    assert!(empty.is_empty());
    assert_eq!(of(&empty, "127.0.0.1"), None);
    assert_eq!(empty.of_principal(""), None);
    assert!(!lists(list(&["10.0.0.0/8"], &[]), AccessList::default()).is_empty());
    assert!(!lists(AccessList::default(), list(&[], &["ann"])).is_empty());
}

#[test]
fn a_million_addresses_are_looked_up_in_ten_thousand_networks() {
    let network =
        |index: u32| IpNet::V4(Ipv4Net::new(Ipv4Addr::from_bits(index << 16), 24).unwrap());
    let cidrs = (0..10_000).map(network).collect();
    let lists = lists(
        AccessList::default(),
        AccessList {
            cidrs,
            keys: Vec::new(),
        },
    );
    // A walk over all networks would be ten thousand million steps, which no test runner waits for.
    let denied = (0..1_000_000_u32).filter(|index| {
        lists.of_address(IpAddr::V4(Ipv4Addr::from_bits(index << 10))) == Some(Ruling::Deny)
    });
    assert_eq!(denied.count(), 10_000);
}

proptest! {
    #[test]
    fn a_list_holds_what_any_of_its_networks_holds(
        networks in prop::collection::vec((any::<u32>(), 0_u8..=32), 0..40),
        address in any::<u32>(),
    ) {
        let cidrs: Vec<IpNet> =
            networks.iter().map(|(bits, prefix)| Ipv4Net::new(Ipv4Addr::from_bits(*bits), *prefix).unwrap().into()).collect();
        // Half of the addresses lie near a network, where mistakes would be.
        let near = networks.first().map_or(address, |(bits, _)| bits ^ (address >> 24));
        for bits in [address, near] {
            let address = IpAddr::V4(Ipv4Addr::from_bits(bits));
            let expected = cidrs.iter().any(|network| network.contains(&address)).then_some(Ruling::Allow);
            let lists = lists(AccessList { cidrs: cidrs.clone(), keys: Vec::new() }, AccessList::default());
            prop_assert_eq!(lists.of_address(address), expected);
        }
    }
}
