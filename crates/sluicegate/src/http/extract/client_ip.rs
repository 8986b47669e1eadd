//! The caller's address: the peer, or what trusted proxies say about it.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::HeaderMap;
use ipnet::{IpNet, Ipv4Net};
use sluicegate_core::address;

use super::hops::hops_from_the_right;

/// How a caller's address is found.
///
/// By default it is the peer's, and no header is read. Behind proxies, name their networks: the header is then walked from
/// the right, over all its lines, and the first hop outside these networks is the caller. If every hop is inside, the
/// leftmost is. Whatever cannot be read on the way makes the peer the caller; [`ClientIp::counts`] says how often and why.
///
/// ```
/// use sluicegate::http::{ClientIp, ProxyHeader};
///
/// let behind_a_balancer = ClientIp::behind(["10.0.0.0/8".parse()?]).header(ProxyHeader::Forwarded);
/// # let _ = behind_a_balancer;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Clones share their counts.
#[derive(Clone, Debug, Default)]
pub struct ClientIp {
    /// In order, none inside another.
    trusted: Vec<IpNet>,
    header: ProxyHeader,
    counts: Arc<[AtomicU64; ProxyHeaderFault::ALL.len()]>,
}

impl ClientIp {
    /// Beyond so many trusted hops the rest of a chain is not looked at.
    const HOPS_MAX: usize = 64;

    /// Believes `X-Forwarded-For` from peers in these networks; an empty list believes nobody.
    pub fn behind(trusted_proxies: impl IntoIterator<Item = IpNet>) -> Self {
        let mut trusted: Vec<IpNet> = trusted_proxies.into_iter().map(canonical).collect();
        trusted.sort_unstable_by_key(|net| (net.network(), net.prefix_len()));
        trusted.dedup_by(|net, before| before.contains(&*net));
        Self {
            trusted,
            ..Self::default()
        }
    }

    /// Reads this header instead. A proxy that sets one of them may pass on the others as the caller wrote them.
    #[must_use]
    pub fn header(mut self, header: ProxyHeader) -> Self {
        self.header = header;
        self
    }

    /// Counts where the other one counts, so that counts go on under other settings.
    #[must_use]
    pub fn with_counts_of(mut self, other: &Self) -> Self {
        self.counts = Arc::clone(&other.counts);
        self
    }

    /// The caller's address; `None` only when the peer's is not known. IPv4-mapped addresses are IPv4.
    pub fn resolve(&self, peer: Option<IpAddr>, headers: &HeaderMap) -> Option<IpAddr> {
        let peer = peer?.to_canonical();
        if self.trusted.is_empty() {
            return Some(peer);
        }
        let found = self.walk(peer, headers);
        if let Err(reason) = found {
            self.counts[reason as usize].fetch_add(1, Ordering::Relaxed);
        }
        Some(found.unwrap_or(peer))
    }

    /// How many requests were counted as their peer's although trusted proxies are configured, by reason.
    pub fn counts(&self) -> [(ProxyHeaderFault, u64); ProxyHeaderFault::ALL.len()] {
        ProxyHeaderFault::ALL
            .map(|reason| (reason, self.counts[reason as usize].load(Ordering::Relaxed)))
    }

    fn walk(&self, peer: IpAddr, headers: &HeaderMap) -> Result<IpAddr, ProxyHeaderFault> {
        let mut hops = hops_from_the_right(self.header, headers).peekable();
        match (self.trusts(peer), hops.peek().is_some()) {
            (true, true) => {}
            (true, false) => return Err(ProxyHeaderFault::Missing),
            (false, true) => return Err(ProxyHeaderFault::UntrustedPeer),
            (false, false) => return Ok(peer),
        }
        let mut leftmost = peer;
        for (place, hop) in hops.enumerate() {
            if place == Self::HOPS_MAX {
                return Err(ProxyHeaderFault::TooManyHops);
            }
            leftmost = hop
                .and_then(address::parse)
                .ok_or(ProxyHeaderFault::Unparsable)?;
            if !self.trusts(leftmost) {
                break;
            }
        }
        Ok(leftmost)
    }

    fn trusts(&self, address: IpAddr) -> bool {
        let after = self.trusted.partition_point(|net| net.network() <= address);
        self.trusted[..after]
            .last()
            .is_some_and(|net| net.contains(&address))
    }
}

/// Where trusted proxies write the addresses they saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProxyHeader {
    /// `X-Forwarded-For: client, proxy, proxy`.
    #[default]
    XForwardedFor,
    /// `Forwarded: for=client, for="[2001:db8::1]:80"` of RFC 7239. `unknown` and `_names` are no addresses.
    Forwarded,
    /// `X-Real-IP: client`.
    XRealIp,
}

impl ProxyHeader {
    /// The header's name, lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::XForwardedFor => "x-forwarded-for",
            Self::Forwarded => "forwarded",
            Self::XRealIp => "x-real-ip",
        }
    }
}

/// Why the header of the proxies was not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProxyHeaderFault {
    /// It came from a peer outside the trusted networks.
    UntrustedPeer,
    /// A trusted peer did not send it.
    Missing,
    /// A hop on the way is no address.
    Unparsable,
    /// More than 64 trusted hops.
    TooManyHops,
}

impl ProxyHeaderFault {
    /// Every reason, in the order of their counts.
    pub const ALL: [Self; 4] = [
        Self::UntrustedPeer,
        Self::Missing,
        Self::Unparsable,
        Self::TooManyHops,
    ];

    /// As a label: `untrusted_peer`, `missing`, `unparsable`, `too_many_hops`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UntrustedPeer => "untrusted_peer",
            Self::Missing => "missing",
            Self::Unparsable => "unparsable",
            Self::TooManyHops => "too_many_hops",
        }
    }
}

/// `::ffff:10.0.0.0/104` is `10.0.0.0/8`: addresses are compared as IPv4, so networks must be too.
fn canonical(net: IpNet) -> IpNet {
    let IpNet::V6(v6) = net else { return net };
    let (Some(v4), Some(prefix)) = (
        v6.network().to_ipv4_mapped(),
        v6.prefix_len().checked_sub(96),
    ) else {
        return net;
    };
    Ipv4Net::new(v4, prefix).map_or(net, IpNet::V4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trusts(nets: &[&str], address: &str) -> bool {
        let settings = ClientIp::behind(nets.iter().map(|net| net.parse().unwrap()));
        settings.trusts(address.parse().unwrap())
    }

    #[test]
    fn networks_are_found_among_many_that_overlap_and_touch() {
        let nets = [
            "10.1.0.0/16",
            "10.0.0.0/8",
            "10.255.0.0/16",
            "192.0.2.7/32",
            "2001:db8::/32",
            "0.0.0.0/32",
        ];
        for inside in [
            "10.0.0.0",
            "10.1.2.3",
            "10.200.0.1",
            "10.255.255.255",
            "192.0.2.7",
            "2001:db8:ffff::",
            "0.0.0.0",
        ] {
            assert!(trusts(&nets, inside), "{inside}");
        }
        for outside in [
            "9.255.255.255",
            "11.0.0.0",
            "192.0.2.6",
            "192.0.2.8",
            "2001:db7::",
            "2001:db9::",
            "::1",
        ] {
            assert!(!trusts(&nets, outside), "{outside}");
        }
    }

    #[test]
    fn mapped_networks_mean_their_ipv4_addresses() {
        assert!(trusts(&["::ffff:10.0.0.0/104"], "10.1.2.3"));
        assert!(!trusts(&["::ffff:10.0.0.0/104"], "11.1.2.3"));
        assert!(trusts(&["::ffff:0.0.0.0/96"], "203.0.113.7"));
        assert!(!trusts(&["::/0"], "203.0.113.7"));
    }

    #[test]
    fn counts_go_on_under_other_settings() {
        let peer = Some("10.0.0.1".parse().unwrap());
        let before = ClientIp::behind(["10.0.0.0/8".parse().unwrap()]);
        before.resolve(peer, &HeaderMap::new());
        let after = ClientIp::behind(["10.0.0.0/16".parse().unwrap()]).with_counts_of(&before);
        after.resolve(peer, &HeaderMap::new());
        assert_eq!(
            after.counts()[ProxyHeaderFault::Missing as usize],
            (ProxyHeaderFault::Missing, 2)
        );
    }

    #[test]
    fn each_reason_counts_in_its_own_place() {
        for (place, reason) in ProxyHeaderFault::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, place);
        }
    }
}
