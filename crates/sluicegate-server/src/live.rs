//! What a request needs to know, changed as one.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use http::HeaderName;
use ipnet::IpNet;
use rustls::ServerConfig;
use sluicegate::http::{ClientIp, HeaderStyle, KeyHeaders, ProxyHeader, ResponseHeaders};
use sluicegate::{Limiter, MonotonicClock};
use sluicegate_config::{self as config, BodyStyle, Bounds, Config, Timeouts, Upstream};
use sluicegate_core::Policy;
use sluicegate_net::tls;
use tokio::runtime::Handle;

use crate::access::AccessLists;
use crate::auth::Authenticator;
use crate::decisions::DoorTls;
use crate::external::{Backend, External};
use crate::operator::{Crowd, Feed, Standing};
use crate::outside::Outside;
use crate::proxy::rewrite;
use crate::proxy::upstream::{Routes, Server, Servers};
use crate::store::AnyStore;
use crate::telemetry::metrics::LimitCounts;
use crate::telemetry::{AccessLog, Metrics, Traces};

/// A configuration in force.
pub(crate) struct Live {
    /// Counts from 1; every reload that is accepted adds one.
    pub(crate) version: u64,
    pub(crate) policy: Arc<Policy>,
    pub(crate) key_headers: KeyHeaders,
    /// The same and those that credentials come in, by name.
    pub(crate) header_names: Vec<HeaderName>,
    pub(crate) counts: LimitCounts,
    pub(crate) client_ip: ClientIp,
    /// Whom limits with a quota from outside ask.
    pub(crate) external: Option<External>,
    trusted_proxies: Vec<IpNet>,
    pub(crate) auth: Authenticator,
    pub(crate) access: AccessLists,
    pub(crate) headers: ResponseHeaders,
    pub(crate) body: BodyStyle,
    pub(crate) routes: Routes,
    pub(crate) tls: Option<Arc<ServerConfig>>,
    /// Of the decision service.
    pub(crate) decisions_tls: Option<DoorTls>,
    pub(crate) bounds: Bounds,
    pub(crate) timeouts: Timeouts,
    pub(crate) log_access: bool,
    pub(crate) log_rejections: bool,
    /// Files that were read, besides the configuration itself.
    pub(crate) files: Vec<PathBuf>,
}

impl Live {
    pub(crate) fn trusts(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        self.trusted_proxies.iter().any(|net| net.contains(&peer))
    }

    pub(crate) fn request_timeout(&self) -> Duration {
        self.timeouts.request.into()
    }

    pub(crate) fn header_timeout(&self) -> Duration {
        self.timeouts.header.into()
    }

    pub(crate) fn connect_timeout(&self) -> Duration {
        self.timeouts.connect.into()
    }
}

/// The live configuration, and what outlives it: counters, connections, health.
pub(crate) struct Gate {
    live: ArcSwap<Live>,
    pub(crate) limiter: Limiter<AnyStore, MonotonicClock>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) access_log: AccessLog,
    /// What operators have ordered.
    pub(crate) standing: Standing,
    /// Who asks most.
    pub(crate) crowd: Crowd,
    /// Decisions for those who watch.
    pub(crate) feed: Feed,
    /// Spans for a collector, if there is one.
    pub(crate) traces: Option<Traces>,
    servers: Servers,
    outside: Outside,
    echo: Option<u16>,
    versions: AtomicU64,
    started_with: Fixed,
}

/// Settings that a running process keeps.
#[derive(Debug, PartialEq)]
struct Fixed {
    listen: Vec<std::net::SocketAddr>,
    decisions: config::Decisions,
    admin: config::Admin,
    store: config::StoreKind,
    max_connections: usize,
    workers: Option<usize>,
    proxy_protocol_from: Vec<IpNet>,
    traces: Option<config::Traces>,
}

impl Fixed {
    fn of(config: &Config) -> Self {
        let proxy = config.proxy.as_ref();
        Self {
            listen: proxy.map(|proxy| proxy.listen.clone()).unwrap_or_default(),
            // Certificates are read again.
            decisions: config::Decisions {
                tls: None,
                ..config.decisions.clone()
            },
            admin: config.admin.clone(),
            store: config.store.kind.clone(),
            max_connections: proxy.map_or(0, |proxy| proxy.max_connections),
            workers: proxy.and_then(|proxy| proxy.workers),
            proxy_protocol_from: proxy
                .map(|proxy| proxy.proxy_protocol_from.clone())
                .unwrap_or_default(),
            traces: config.traces.clone(),
        }
    }

    /// What differs, by its name in the configuration.
    fn differences(&self, other: &Self) -> Vec<&'static str> {
        let pairs = [
            ("proxy.listen", self.listen != other.listen),
            ("decisions", self.decisions != other.decisions),
            ("admin", self.admin != other.admin),
            ("store", self.store != other.store),
            (
                "proxy.max_connections",
                self.max_connections != other.max_connections,
            ),
            ("proxy.workers", self.workers != other.workers),
            (
                "proxy.proxy_protocol_from",
                self.proxy_protocol_from != other.proxy_protocol_from,
            ),
            ("traces", self.traces != other.traces),
        ];
        pairs
            .into_iter()
            .filter(|(_, differs)| *differs)
            .map(|(name, _)| name)
            .collect()
    }
}

/// A configuration that was put in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Applied {
    /// Its version.
    pub(crate) version: u64,
    /// Settings that changed in the file and stay as they were until a restart.
    pub(crate) needs_restart: Vec<&'static str>,
}

impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "version {} is in force", self.version)?;
        if !self.needs_restart.is_empty() {
            write!(
                f,
                "; these stay as they were until a restart: {}",
                self.needs_restart.join(", ")
            )?;
        }
        Ok(())
    }
}

impl Gate {
    /// Puts a first configuration in force; `echo` is the port of the built-in upstream, if it runs, and `background` drives
    /// what is not tied to a request.
    pub(crate) fn new(
        config: Config,
        echo: Option<u16>,
        background: Handle,
    ) -> Result<Self, Vec<String>> {
        let metrics = Metrics::new();
        let access_log = AccessLog::start(config.log.format, Arc::clone(&metrics))
            .map_err(|error| vec![format!("log: {error}")])?;
        let store = AnyStore::new(&config.store.kind)?;
        let servers = Servers::default();
        let traces = config
            .traces
            .as_ref()
            .map(|settings| Traces::new(settings, &background));
        let traces = traces.transpose().map_err(|mistake| vec![mistake])?;
        let outside = Outside::new(background, &store);
        let started_with = Fixed::of(&config);
        let on_failure = config.store.on_failure;
        let live = live(config, 1, &servers, &outside, echo, &metrics)?;
        metrics.set_config_version(1);
        let policy =
            Policy::new(live.policy.limits().to_vec()).map_err(|error| vec![error.to_string()])?;
        let limiter =
            Limiter::with_failure_policy(policy, store, MonotonicClock::new(), on_failure);
        let live = ArcSwap::from_pointee(live);
        Ok(Self {
            live,
            limiter,
            metrics,
            access_log,
            standing: Standing::new(),
            crowd: Crowd::new(),
            feed: Feed::default(),
            traces,
            servers,
            outside,
            echo,
            versions: AtomicU64::new(1),
            started_with,
        })
    }

    /// The server that the limits service sends a caller to, if the configuration in force still asks that service.
    pub(crate) fn server_of(&self, live: &Live, backend: &Backend) -> Result<Arc<Server>, String> {
        let external = live
            .external
            .as_ref()
            .ok_or("there is no limits service any more")?;
        self.servers.told(backend, external.backends())
    }

    /// What is in force now; a request looks once and keeps what it saw.
    pub(crate) fn live(&self) -> Guard<Arc<Live>> {
        self.live.load()
    }

    /// Puts another configuration in force for the next request, or says why not and changes nothing.
    pub(crate) fn apply(&self, config: Config) -> Result<Applied, Vec<String>> {
        let needs_restart = self.started_with.differences(&Fixed::of(&config));
        let version = self.versions.load(Ordering::Relaxed) + 1;
        let mut live = live(
            config,
            version,
            &self.servers,
            &self.outside,
            self.echo,
            &self.metrics,
        )?;
        live.client_ip = live.client_ip.counting_on_from(&self.live().client_ip);
        self.metrics.set_config_version(version);
        self.versions.store(version, Ordering::Relaxed);
        self.live.store(Arc::new(live));
        Ok(Applied {
            version,
            needs_restart,
        })
    }
}

fn live(
    config: Config,
    version: u64,
    servers: &Servers,
    outside: &Outside,
    echo: Option<u16>,
    metrics: &Arc<Metrics>,
) -> Result<Live, Vec<String>> {
    let mut mistakes = Vec::new();
    let auth = noted(Authenticator::load(&config.principals), &mut mistakes);
    let proxy = config.proxy.as_ref();
    let routes = noted(
        servers.routes(proxy.map_or(&[], |proxy| &proxy.routes), echo),
        &mut mistakes,
    );
    let (bounds, timeouts) =
        proxy.map_or((BOUNDS, TIMEOUTS), |proxy| (proxy.bounds, proxy.timeouts));
    let tls = proxy.and_then(|proxy| proxy.tls.as_ref());
    let tls = tls.map(|files| tls::server_config(files, None, "proxy.tls", &["h2", "http/1.1"]));
    let tls = noted(one(tls.transpose()), &mut mistakes);
    let external = noted(outside.external(config.external.as_ref()), &mut mistakes);
    let decisions_tls = noted(
        one(config.decisions.tls.as_ref().map(DoorTls::new).transpose()),
        &mut mistakes,
    );
    let (Some(auth), Some(routes), Some(tls), Some(external), Some(decisions_tls)) =
        (auth, routes, tls, external, decisions_tls)
    else {
        return Err(mistakes);
    };
    let files = files_of(&config);
    let header = match config.client_ip.header {
        config::ProxyHeader::XForwardedFor => ProxyHeader::XForwardedFor,
        config::ProxyHeader::Forwarded => ProxyHeader::Forwarded,
        config::ProxyHeader::XRealIp => ProxyHeader::XRealIp,
    };
    let styles = config.response.headers.iter().map(|style| match style {
        config::HeaderStyle::Ietf => HeaderStyle::Ietf,
        config::HeaderStyle::XRateLimit => HeaderStyle::XRateLimit,
        config::HeaderStyle::Clear => HeaderStyle::Clear,
    });
    let policy = Arc::new(config.policy);
    Ok(Live {
        version,
        key_headers: KeyHeaders::of(Arc::clone(&policy)),
        header_names: rewrite::key_headers(&policy, &config.principals),
        counts: metrics.limits(&policy),
        policy,
        client_ip: ClientIp::behind(config.client_ip.trusted_proxies.iter().copied())
            .header(header),
        trusted_proxies: config.client_ip.trusted_proxies,
        auth: auth.counted_in(Arc::clone(metrics)),
        access: AccessLists::new(&config.access),
        headers: ResponseHeaders::new(styles),
        body: config.response.body,
        external,
        routes,
        tls,
        decisions_tls,
        bounds,
        timeouts,
        log_access: config.log.access,
        log_rejections: config.log.rate_limit_line,
        files,
    })
}

/// The files that a configuration names and that are read with it.
pub(crate) fn files_of(config: &Config) -> Vec<PathBuf> {
    let tls = config.proxy.iter().filter_map(|proxy| proxy.tls.as_ref());
    let of_decisions = config.decisions.tls.as_ref();
    let tls = tls.chain(of_decisions.map(|tls| &tls.server));
    let certificates = tls.flat_map(|tls| [tls.cert.clone(), tls.key.clone()]);
    let certificates = certificates.chain(of_decisions.and_then(|tls| tls.client_ca_file.clone()));
    let upstreams = config
        .proxy
        .iter()
        .flat_map(|proxy| &proxy.routes)
        .flat_map(|route| &route.upstreams);
    let authorities = upstreams.filter_map(|upstream| match upstream {
        Upstream::Server { ca_file, .. } => ca_file.clone(),
        Upstream::Echo => None,
    });
    let api_keys = config
        .principals
        .api_keys
        .iter()
        .map(|settings| settings.file.clone());
    let tokens = config
        .principals
        .jwt
        .iter()
        .map(|settings| settings.jwks_file.clone());
    let service = config
        .external
        .iter()
        .filter_map(|external| external.service.at().ca_file.clone());
    let mut files: Vec<PathBuf> = certificates
        .chain(authorities)
        .chain(api_keys)
        .chain(tokens)
        .chain(service)
        .collect();
    files.dedup();
    files
}

/// Of a process without a proxy: nobody asks for them.
const BOUNDS: Bounds = Bounds {
    header_bytes: 0,
    headers: 0,
    target_bytes: 0,
    body_bytes: None,
};
const TIMEOUTS: Timeouts = {
    let none = sluicegate_core::Nanos::SECOND;
    Timeouts {
        header: none,
        idle: none,
        connect: none,
        request: none,
        drain: none,
    }
};

fn one<T>(result: Result<T, String>) -> Result<T, Vec<String>> {
    result.map_err(|mistake| vec![mistake])
}

fn noted<T>(result: Result<T, Vec<String>>, mistakes: &mut Vec<String>) -> Option<T> {
    result.map_err(|more| mistakes.extend(more)).ok()
}

#[cfg(test)]
mod tests {
    use sluicegate_config::{Source, load};

    use super::*;

    fn fixed(text: &str) -> Fixed {
        let source = Source {
            name: "test".to_owned(),
            text: text.to_owned(),
            base_dir: PathBuf::new(),
        };
        Fixed::of(&load(&source, &|_| None).unwrap_or_else(|mistakes| panic!("{mistakes}")))
    }

    const BEFORE: &str = "
proxy: { listen: '127.0.0.1:1', max_connections: 5, workers: 2, proxy_protocol_from: [10.0.0.0/8], upstream: 'http://a' }
decisions: { http: '127.0.0.1:2', tls: { cert: a, key: b } }
admin: { listen: '127.0.0.1:3' }
store: { kind: local }
traces: { otlp: 'http://c:4317' }
limits: [{ name: a, key: client_ip, rate: 1/s }]
";

    #[test]
    fn what_a_running_process_keeps_is_named_and_nothing_else() {
        for (from, to, named) in [
            ("127.0.0.1:1", "127.0.0.1:9", &["proxy.listen"][..]),
            ("127.0.0.1:2", "127.0.0.1:9", &["decisions"]),
            (
                "http: '127.0.0.1:2'",
                "http: '127.0.0.1:2', resp: '127.0.0.1:9'",
                &["decisions"],
            ),
            ("127.0.0.1:3", "127.0.0.1:9", &["admin"]),
            (
                "{ kind: local }",
                "{ kind: redis, redis: { endpoints: [a] } }",
                &["store"],
            ),
            (
                "max_connections: 5",
                "max_connections: 6",
                &["proxy.max_connections"],
            ),
            ("workers: 2", "workers: 3", &["proxy.workers"]),
            ("10.0.0.0/8", "10.0.0.0/9", &["proxy.proxy_protocol_from"]),
            ("http://c:4317", "http://d:4317", &["traces"]),
            ("http://a", "http://b", &[]),
            ("cert: a", "cert: c", &[]),
            ("rate: 1/s", "rate: 2/s", &[]),
        ] {
            let after = BEFORE.replace(from, to);
            assert_ne!(after, BEFORE, "{from}");
            assert_eq!(fixed(BEFORE).differences(&fixed(&after)), named, "{to}");
        }
    }
}
