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
        let after = self
            .networks
            .partition_point(|network| network.network() <= address);
        self.networks[..after]
            .last()
            .is_some_and(|network| network.contains(&address))
    }

    fn is_empty(&self) -> bool {
        self.networks.is_empty() && self.principals.is_empty()
    }
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
