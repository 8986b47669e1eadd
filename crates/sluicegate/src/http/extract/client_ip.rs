//! The caller's address: the peer's, or the one that trusted proxies report.
//!
//! The idea: a proxy appends the address it sees to the end of a header, so the right end of the
//! chain was written by the proxy next to us, and each hop further left by the one before it. We
//! walk from the right for as long as hops are trusted proxies; the first that is not is the
//! caller. Everything left of it was written by the caller and is never looked at.
//!
//! **Invariant:** the result is an address that the peer has, or that a trusted proxy saw. No byte
//! of a header from outside the trusted networks changes it. So whatever cannot be read on the way
//! (a malformed hop, too many hops) makes the peer the caller: it is the one address that we know
//! ourselves, and being counted together is safer than being counted as anybody.
//!
//! Why it is not simpler: the leftmost address is whatever the caller claims, and a fixed number of
//! hops from the right is wrong as soon as somebody reaches a proxy directly.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::HeaderMap;
use ipnet::{IpNet, Ipv4Net};
use sluicegate_core::{ProxyHeader, address};

use super::hops::hops_from_the_right;

/// How a caller's address is found.
///
/// By default it is the peer's, and no header is read. Behind proxies, name their networks: the
/// header is then walked from the right, over all its lines, and the first hop outside these
/// networks is the caller. If every hop is inside, the leftmost is. A chain that cannot be read
/// makes the peer the caller; [`ClientIp::counts`] tells how often and why.
///
/// ```
/// use http::{HeaderMap, HeaderValue};
/// use sluicegate::http::{ClientIp, ProxyHeader};
///
/// let behind_a_balancer = ClientIp::behind(["10.0.0.0/8".parse()?])
///     .header(ProxyHeader::XForwardedFor);
///
/// let mut headers = HeaderMap::new();
/// headers.insert("x-forwarded-for", HeaderValue::from_static("9.9.9.9, 198.51.100.1, 10.0.0.2"));
/// let peer = "10.0.0.1".parse()?;
/// // 9.9.9.9 is what the caller claims; 198.51.100.1 is the address our proxy saw.
/// assert_eq!(behind_a_balancer.resolve(Some(peer), &headers), Some("198.51.100.1".parse()?));
/// assert_eq!(ClientIp::default().resolve(Some(peer), &headers), Some(peer));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Clones share their counts.
#[derive(Clone, Debug, Default)]
pub struct ClientIp {
    /// The networks of trusted proxies, in order of their first address, none inside another: so
    /// one binary search finds the only network that an address can be in.
    trusted: Vec<IpNet>,
    header: ProxyHeader,
    /// One count for each [`ProxyHeaderFault`], in the order of [`ProxyHeaderFault::ALL`].
    counts: Arc<[AtomicU64; ProxyHeaderFault::ALL.len()]>,
}

impl ClientIp {
    /// Trusted hops after which a chain is given up: no real one is so long, and a walk must not
    /// cost more than a caller pays for it.
    const HOPS_MAX: usize = 64;

    /// Trusts `X-Forwarded-For` from peers in these networks; an empty list trusts no peer.
    pub fn behind(trusted_proxies: impl IntoIterator<Item = IpNet>) -> Self {
        let mut trusted: Vec<IpNet> = trusted_proxies.into_iter().map(canonical).collect();
        trusted.sort_unstable_by_key(|net| (net.network(), net.prefix_len()));
        trusted.dedup_by(|net, before| before.contains(&*net));
        Self {
            trusted,
            ..Self::default()
        }
    }

    /// Reads this header instead. Only one is read, because a proxy that sets one of them may pass
    /// on the others as the caller wrote them.
    #[must_use]
    pub fn header(mut self, header: ProxyHeader) -> Self {
        self.header = header;
        self
    }

    /// Continues the counts of another `ClientIp`. For programs that reload their settings: metrics
    /// made from the counts do not start again at zero.
    #[must_use]
    pub fn with_counts_of(mut self, other: &Self) -> Self {
        self.counts = Arc::clone(&other.counts);
        self
    }

    /// The caller's address; `None` only when the peer's is not known. IPv4-mapped IPv6 addresses
    /// become IPv4.
    pub fn resolve(&self, peer: Option<IpAddr>, headers: &HeaderMap) -> Option<IpAddr> {
        let peer = peer?.to_canonical();
        if self.trusted.is_empty() {
            return Some(peer);
        }
        let found = self.walk(peer, headers);
        if let Err(fault) = found {
            self.counts[fault as usize].fetch_add(1, Ordering::Relaxed);
        }
        Some(found.unwrap_or(peer))
    }

    /// How many requests were counted by their peer although trusted proxies are configured, by
    /// reason.
    pub fn counts(&self) -> [(ProxyHeaderFault, u64); ProxyHeaderFault::ALL.len()] {
        ProxyHeaderFault::ALL
            .map(|fault| (fault, self.counts[fault as usize].load(Ordering::Relaxed)))
    }

    /// Walks the chain; an error means that the peer counts as the caller.
    fn walk(&self, peer: IpAddr, headers: &HeaderMap) -> Result<IpAddr, ProxyHeaderFault> {
        let mut hops = hops_from_the_right(self.header, headers).peekable();
        match (self.trusts(peer), hops.peek().is_some()) {
            (true, true) => {}
            (true, false) => return Err(ProxyHeaderFault::Missing),
            (false, true) => return Err(ProxyHeaderFault::UntrustedPeer),
            // A caller who reaches us directly and claims nothing.
            (false, false) => return Ok(peer),
        }
        let mut leftmost = peer;
        for (walked, hop) in hops.enumerate() {
            if walked == Self::HOPS_MAX {
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

    /// Returns true when an address is in a trusted network.
    fn trusts(&self, address: IpAddr) -> bool {
        let after = self.trusted.partition_point(|net| net.network() <= address);
        self.trusted[..after]
            .last()
            .is_some_and(|net| net.contains(&address))
    }
}

/// The reason why the header of the proxies was not used for a request.
///
/// ```
/// use http::HeaderMap;
/// use sluicegate::http::{ClientIp, ProxyHeaderFault};
///
/// let client_ip = ClientIp::behind(["10.0.0.0/8".parse()?]);
/// client_ip.resolve(Some("10.0.0.1".parse()?), &HeaderMap::new());
/// assert!(client_ip.counts().contains(&(ProxyHeaderFault::Missing, 1)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProxyHeaderFault {
    /// It came from a peer outside the trusted networks.
    UntrustedPeer,
    /// A trusted peer did not send it.
    Missing,
    /// A hop on the way is not an address.
    Unparsable,
    /// More than 64 trusted hops.
    TooManyHops,
}

impl ProxyHeaderFault {
    /// Every reason, in the order of [`ClientIp::counts`].
    pub const ALL: [Self; 4] = [
        Self::UntrustedPeer,
        Self::Missing,
        Self::Unparsable,
        Self::TooManyHops,
    ];

    /// The reason as the label of a metric: `untrusted_peer`, `missing`, `unparsable`,
    /// `too_many_hops`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UntrustedPeer => "untrusted_peer",
            Self::Missing => "missing",
            Self::Unparsable => "unparsable",
            Self::TooManyHops => "too_many_hops",
        }
    }
}

/// Converts a network of IPv4-mapped addresses to IPv4: `::ffff:10.0.0.0/104` is `10.0.0.0/8`.
/// Addresses are compared as IPv4, so networks must be too.
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
