//! The configuration in force, as requests read it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use ipnet::IpNet;
use sluicegate::http::{ClientIp, KeyHeaders, ResponseHeaders};
use sluicegate_config::{BodyStyle, Config};
use sluicegate_core::{Mode, Policy};

use crate::access::{AccessLists, Ruling};
use crate::auth::Authenticator;
use crate::external::{External, Externals};
use crate::overrides::BanTarget;
use crate::telemetry::Metrics;
use crate::telemetry::metrics::LimitCounts;

/// One version of the configuration, made for looking things up. It never changes: a reload makes
/// another one and swaps it in.
pub struct Snapshot {
    /// Counts from 1; every reload that is accepted adds one.
    pub version: u64,
    /// The limits, indexed for looking up those of a request.
    pub policy: Arc<Policy>,
    /// The headers that limits are keyed by, for finding their twins.
    pub(crate) key_headers: KeyHeaders,
    /// The counters of each limit's decisions.
    pub counts: LimitCounts,
    /// How the client's address is found.
    pub client_ip: ClientIp,
    trusted_proxies: Vec<IpNet>,
    /// The limits service, where limits take their quota from one.
    pub external: Option<External>,
    /// Verifies API keys and tokens.
    pub auth: Authenticator,
    /// The lists of clients who pass unlimited, and of those who do not pass.
    pub access: AccessLists,
    /// The styles of rate limit headers.
    pub headers: ResponseHeaders,
    /// The form of refusals.
    pub(crate) body: BodyStyle,
    /// Write a line of the access log for every request.
    pub log_access: bool,
    /// Write the `RATE_LIMIT` line for every denial.
    pub(crate) log_rejections: bool,
    /// A limit bans callers that it denies.
    pub(crate) has_bans: bool,
}

impl Snapshot {
    /// Makes the snapshot of a configuration, or says everything that is wrong with the files it
    /// names.
    pub(crate) fn new(
        config: &Config,
        version: u64,
        externals: &Externals,
        metrics: &Arc<Metrics>,
    ) -> Result<Self, Vec<String>> {
        let auth = Authenticator::load(&config.principals);
        let external = externals.service(config.external.as_ref());
        let (auth, external) = match (auth, external) {
            (Ok(auth), Ok(external)) => (auth, external),
            (auth, external) => {
                let mistakes = auth.err().into_iter().chain(external.err());
                return Err(mistakes.flatten().collect());
            }
        };
        let policy = Arc::clone(&config.policy);
        let mut limits = policy.limits().iter();
        Ok(Self {
            version,
            has_bans: limits.any(|limit| limit.ban.is_some() && limit.mode == Mode::Enforce),
            key_headers: KeyHeaders::of(Arc::clone(&policy)),
            counts: metrics.limits(&policy),
            headers: ResponseHeaders::new(config.response.headers.iter().copied())
                .prepared_for(&policy),
            policy,
            client_ip: ClientIp::behind(config.client_ip.trusted_proxies.iter().copied())
                .header(config.client_ip.header),
            trusted_proxies: config.client_ip.trusted_proxies.clone(),
            auth: auth.counted_in(Arc::clone(metrics)),
            access: AccessLists::new(&config.access),
            body: config.response.body,
            external: external.map(|service| service.for_store(config.store.on_failure)),
            log_access: config.log.access,
            log_rejections: config.log.rate_limit_line,
        })
    }

    /// True for a client on the allow list.
    pub fn is_exempt(&self, client: IpAddr) -> bool {
        self.access.of_address(client) == Some(Ruling::Allow)
    }

    /// True for a peer whose forwarding headers are believed.
    pub fn trusts(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        self.trusted_proxies.iter().any(|net| net.contains(&peer))
    }

    /// True for an address that no limit bans: loopback, where this machine's own programs are, and
    /// trusted proxies, behind which everybody else is.
    pub(crate) fn spares(&self, address: IpAddr) -> bool {
        address.to_canonical().is_loopback() || self.trusts(address)
    }

    /// True for a caller that no limit bans, because all of it is spared or on the allow list.
    pub(crate) fn never_bans(&self, target: &BanTarget) -> bool {
        match target {
            BanTarget::Principal(id) => self.access.allows_principal(id),
            BanTarget::Clients(network) => {
                let mut trusted = self.trusted_proxies.iter();
                let own = [
                    IpAddr::V4(Ipv4Addr::LOCALHOST),
                    IpAddr::V6(Ipv6Addr::LOCALHOST),
                ];
                self.access.allows_network(*network)
                    || network.network().is_loopback()
                    || own.iter().any(|own| network.contains(own))
                    || trusted.any(|proxies| proxies.contains(network))
            }
        }
    }
}
