//! How many connections one client may have to the proxy, and behind it while those are scarce.
//!
//! A client is what keys by `client_ip` call one: an address, or a network of IPv6. Trusted proxies
//! are not counted, because many clients share their connections; nor are balancers that speak the
//! PROXY protocol, where the client that they name is counted.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use sluicegate_config::{Config, Proxy};
use sluicegate_core::address::Prefixes;
use sluicegate_net::{ClientConnections, ClientPermit};

/// The bound in force; a reload replaces it, and open connections stay counted.
pub(super) struct ClientBound {
    /// `None` is any number.
    most: Option<usize>,
    prefixes: Prefixes,
    trusted_proxies: Vec<IpNet>,
}

impl ClientBound {
    pub(super) fn new(config: &Config, proxy: &Proxy) -> Self {
        Self {
            most: proxy.max_connections_per_client,
            prefixes: config.client_ip.prefixes,
            trusted_proxies: config.client_ip.trusted_proxies.clone(),
        }
    }

    /// Counts a connection of `client`; `None` when it has too many already.
    pub(super) fn admit(
        &self,
        clients: &Arc<ClientConnections>,
        client: IpAddr,
    ) -> Option<ClientPermit> {
        match self.most {
            Some(most) => self.admit_at_most(most, clients, client),
            None => Some(ClientPermit::uncounted()),
        }
    }

    /// Counts a request of `client` to a server whose connections are scarce, of which a client may
    /// have `most`; `None` when it has them already. Where a client may have any number of
    /// connections to the proxy, it may have any number behind it.
    pub(super) fn admit_to_server(
        &self,
        most: usize,
        clients: &Arc<ClientConnections>,
        client: IpAddr,
    ) -> Option<ClientPermit> {
        match self.most {
            Some(_) => self.admit_at_most(most, clients, client),
            None => Some(ClientPermit::uncounted()),
        }
    }

    fn admit_at_most(
        &self,
        most: usize,
        clients: &Arc<ClientConnections>,
        client: IpAddr,
    ) -> Option<ClientPermit> {
        let address = client.to_canonical();
        if self
            .trusted_proxies
            .iter()
            .any(|net| net.contains(&address))
        {
            return Some(ClientPermit::uncounted());
        }
        clients.take(self.prefixes.mask(address), most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_counted_as_keys_by_address_are() {
        let bound = |prefixes| ClientBound {
            most: Some(1),
            prefixes,
            trusted_proxies: vec!["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()],
        };
        let second_passes = |bound: &ClientBound, first: &str, second: &str| {
            let clients = Arc::<ClientConnections>::default();
            let admit = |text: &str| bound.admit(&clients, text.parse().unwrap());
            let first = admit(first);
            assert!(first.is_some());
            admit(second).is_some()
        };
        let usual = bound(Prefixes::default());
        for (first, second, passes) in [
            ("192.0.2.1", "192.0.2.1", false),
            ("192.0.2.1", "192.0.2.2", true),
            ("192.0.2.1", "::ffff:192.0.2.1", false),
            ("::ffff:192.0.2.1", "::ffff:192.0.2.2", true),
            ("2001:db8::1", "2001:db8::1", false),
            ("2001:db8::1", "2001:db8:0:0:ffff::", false),
            ("2001:db8::1", "2001:db8:0:1::1", true),
            ("10.1.2.3", "10.1.2.3", true),
            ("::ffff:10.1.2.3", "10.1.2.3", true),
            ("fd00::1", "fd00::1", true),
        ] {
            let message = format!("{first} and {second}");
            assert_eq!(second_passes(&usual, first, second), passes, "{message}");
        }
        let wide = bound(Prefixes::new(24, 48).unwrap());
        assert!(!second_passes(&wide, "192.0.2.1", "192.0.2.2"));
        assert!(!second_passes(&wide, "2001:db8::1", "2001:db8:0:1::1"));
        let any = ClientBound {
            most: None,
            ..usual
        };
        assert!(second_passes(&any, "192.0.2.1", "192.0.2.1"));
    }
}
