//! Who passes unlimited, and who does not pass at all.

use std::collections::HashSet;
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};
use sluicegate_config::{Access, AccessList};

/// The lists of a configuration, made for looking up. Deny comes before allow.
#[derive(Clone, Debug, Default)]
pub struct AccessLists {
    allow: Callers,
    deny: Callers,
}

impl AccessLists {
    /// Takes over the lists. Networks of IPv4-mapped addresses are IPv4; all others of IPv6 hold no IPv4 address.
    pub fn new(access: &Access) -> Self {
        Self {
            allow: Callers::new(&access.allow),
            deny: Callers::new(&access.deny),
        }
    }

    /// What the lists say about an address; IPv4-mapped addresses are IPv4.
    pub fn of_address(&self, address: IpAddr) -> Option<Ruling> {
        let address = address.to_canonical();
        ruling(self.deny.holds(address), self.allow.holds(address))
    }

    /// What the lists say about a principal.
    pub fn of_principal(&self, id: &str) -> Option<Ruling> {
        ruling(
            self.deny.principals.contains(id),
            self.allow.principals.contains(id),
        )
    }

    /// What the lists say about whoever has this address and is this principal.
    pub fn of_caller(&self, address: Option<IpAddr>, principal: Option<&str>) -> Option<Ruling> {
        let by_address = address.and_then(|address| self.of_address(address));
        let by_principal = principal.and_then(|id| self.of_principal(id));
        let is = |wanted| by_address == Some(wanted) || by_principal == Some(wanted);
        ruling(is(Ruling::Deny), is(Ruling::Allow))
    }

    /// True when a whole network is on the allow list.
    pub(crate) fn allows_network(&self, network: IpNet) -> bool {
        self.allow.holds_network(canonical(network))
    }

    /// True when a principal is on the allow list.
    pub(crate) fn allows_principal(&self, id: &str) -> bool {
        self.allow.principals.contains(id)
    }

    /// Whether the lists say nothing about anybody.
    pub fn is_empty(&self) -> bool {
        self.allow.is_empty() && self.deny.is_empty()
    }
}

/// What happens to a caller on a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ruling {
    /// Passes, whatever the limits say.
    Allow,
    /// Does not pass.
    Deny,
}

fn ruling(is_denied: bool, is_allowed: bool) -> Option<Ruling> {
    match (is_denied, is_allowed) {
        (true, _) => Some(Ruling::Deny),
        (false, true) => Some(Ruling::Allow),
        (false, false) => None,
    }
}

/// One list.
#[derive(Clone, Debug, Default)]
struct Callers {
    /// In order, none inside another, so that the last one at or before an address is the only one that can hold it.
    networks: Vec<IpNet>,
    principals: HashSet<String>,
}

impl Callers {
    fn new(list: &AccessList) -> Self {
        let mut networks: Vec<IpNet> = list.cidrs.iter().copied().map(canonical).collect();
        networks.sort_unstable_by_key(|network| (network.network(), network.prefix_len()));
        networks.dedup_by(|network, before| before.contains(&*network));
        Self {
            networks,
            principals: list.keys.iter().cloned().collect(),
        }
    }

    fn holds(&self, address: IpAddr) -> bool {
        let network = nearest(&self.networks, |network| network.network() <= address);
        network.is_some_and(|network| network.contains(&address))
    }

    fn holds_network(&self, wanted: IpNet) -> bool {
        let first = wanted.network();
        let network = nearest(&self.networks, |network| network.network() <= first);
        network.is_some_and(|network| network.contains(&wanted))
    }

    fn is_empty(&self) -> bool {
        self.networks.is_empty() && self.principals.is_empty()
    }
}

/// The last network for which `is_before` is true, found by halving: of a thousand networks, ten are
/// looked at.
fn nearest(networks: &[IpNet], is_before: impl FnMut(&IpNet) -> bool) -> Option<&IpNet> {
    let after = networks.partition_point(is_before);
    networks[..after].last()
}

/// `::ffff:10.0.0.0/104` is `10.0.0.0/8`: addresses are compared as IPv4, so networks must be too.
fn canonical(network: IpNet) -> IpNet {
    let IpNet::V6(v6) = network else {
        return network;
    };
    let v4 = v6
        .network()
        .to_ipv4_mapped()
        .zip(v6.prefix_len().checked_sub(96));
    v4.and_then(|(address, prefix)| Ipv4Net::new(address, prefix).ok())
        .map_or(network, IpNet::V4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lists(allow: &[&str], deny: &[String]) -> AccessLists {
        let net = |text: &str| text.parse().unwrap();
        AccessLists::new(&Access {
            allow: AccessList {
                cidrs: allow.iter().map(|text| net(text)).collect(),
                keys: vec!["ann".to_owned()],
            },
            deny: AccessList {
                cidrs: deny.iter().map(|text| net(text)).collect(),
                keys: Vec::new(),
            },
        })
    }

    /// A linear search would look at half of them.
    #[test]
    fn of_a_thousand_single_addresses_ten_are_looked_at() {
        let addresses = (0..1_000).map(|host| format!("10.{}.{}.7/32", host / 200, host % 200));
        let lists = lists(&[], &addresses.collect::<Vec<_>>());
        assert_eq!(lists.deny.networks.len(), 1_000);
        for text in [
            "10.0.0.7",
            "10.2.100.7",
            "10.4.199.7",
            "10.2.100.8",
            "9.9.9.9",
            "::1",
        ] {
            let (address, mut looks): (IpAddr, _) = (text.parse().unwrap(), 0);
            let found = nearest(&lists.deny.networks, |network| {
                looks += 1;
                network.network() <= address
            });
            assert!(looks <= 11, "{text}: {looks}");
            let is_there = text.starts_with("10.") && text.ends_with(".7");
            assert_eq!(found.is_some_and(|net| net.contains(&address)), is_there);
            assert_eq!(lists.of_address(address).is_some(), is_there, "{text}");
        }
    }

    #[test]
    fn a_network_is_allowed_when_all_of_it_is() {
        let lists = lists(
            &["10.0.0.0/8", "::ffff:192.0.2.0/120", "2001:db8::/48"],
            &[],
        );
        for (network, is_allowed) in [
            ("10.1.2.3/32", true),
            ("10.0.0.0/8", true),
            ("8.0.0.0/5", false),
            ("192.0.2.128/25", true),
            ("2001:db8:0:7::/64", true),
            ("2001:db8::/32", false),
            ("11.0.0.0/32", false),
        ] {
            let network = network.parse().unwrap();
            assert_eq!(lists.allows_network(network), is_allowed, "{network}");
        }
        assert!(lists.allows_principal("ann") && !lists.allows_principal("bob"));
    }
}
