//! The configuration of the whole process: every part of it is replaced together, or none is.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use arc_swap::ArcSwapOption;
use ipnet::IpNet;
use sluicegate_config::{self as config, Config};
use sluicegate_gate::gate::Gate;
use tokio::runtime::Handle;

use crate::decisions::EndpointTls;
use crate::file_permissions::{self, PermissionReport};
use crate::named_files::{followed_files, named_files};
use crate::overload::OverloadManager;
use crate::proxy::ProxyState;

/// The parts that a reload replaces, and the settings that it cannot.
pub(crate) struct Configuration {
    pub(crate) gate: Arc<Gate>,
    /// The proxy, if the process was started with one.
    pub(crate) proxy: Option<Arc<ProxyState>>,
    /// The certificates of the decision service, if it has any.
    pub(crate) decisions_tls: Arc<ArcSwapOption<EndpointTls>>,
    /// Gives connections up when memory is short.
    pub(crate) overload: Arc<OverloadManager>,
    started_with: FixedSettings,
    /// The files that the configuration in force names, and whose change is a reason to reload.
    files: Mutex<Vec<PathBuf>>,
    /// The warnings about permissions that the log has, so that a reload does not repeat them.
    warnings: Mutex<Vec<String>>,
}

/// A configuration that was put in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AppliedConfig {
    pub(crate) version: u64,
    /// Settings that changed in the file and stay as they were until a restart.
    pub(crate) needs_restart: Vec<&'static str>,
}

/// The version of the configuration in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigVersion {
    /// One more for each configuration that was put in force.
    pub number: u64,
    /// The SHA-256 of the configuration's text, in hex digits.
    pub hash: String,
    /// The time at which it was put in force.
    pub loaded_at: SystemTime,
}

impl fmt::Display for AppliedConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "version {} is in force", self.version)?;
        if !self.needs_restart.is_empty() {
            let unchanged = self.needs_restart.join(", ");
            write!(f, "; these stay as they were until a restart: {unchanged}")?;
        }
        Ok(())
    }
}

impl Configuration {
    /// Puts a first configuration in force, or says everything that is wrong with it. `echo` is the
    /// port of the built-in server, if it runs; `background` drives what is not tied to a request.
    pub(crate) fn start(
        config: &Config,
        echo: Option<u16>,
        background: Handle,
    ) -> Result<Self, Vec<String>> {
        let warnings = check_permissions(config)?;
        let gate = Arc::new(Gate::new(config, background)?);
        let proxy = config.proxy.as_ref();
        let proxy = proxy.map(|proxy| ProxyState::new(&gate, config, proxy, echo));
        let (proxy, tls) = match (proxy.transpose(), decisions_tls(config)) {
            (Ok(proxy), Ok(tls)) => (proxy.map(Arc::new), tls),
            (proxy, tls) => {
                let mistakes = proxy.err().into_iter().chain(tls.err());
                return Err(mistakes.flatten().collect());
            }
        };
        let counters = gate.metrics.connection_counters();
        let overload = Arc::new(OverloadManager::new(counters, config.overload.memory));
        let configuration = Self {
            gate,
            overload,
            proxy,
            decisions_tls: Arc::new(ArcSwapOption::new(tls.map(Arc::new))),
            started_with: FixedSettings::of(config),
            files: Mutex::new(followed_files(config)),
            warnings: Mutex::default(),
        };
        configuration.tell(warnings);
        Ok(configuration)
    }

    /// Puts another configuration in force for the next request, or says everything that is wrong
    /// with it and changes nothing.
    pub(crate) fn apply(&self, config: &Config) -> Result<AppliedConfig, Vec<String>> {
        let warnings = check_permissions(config)?;
        let snapshot = self.gate.prepare(config);
        let proxy = self.proxy.as_ref().map(|proxy| proxy.prepare(config));
        let proxy = proxy.transpose();
        let tls = decisions_tls(config);
        let (snapshot, proxy_settings, tls) = match (snapshot, proxy, tls) {
            (Ok(snapshot), Ok(proxy), Ok(tls)) => (Arc::new(snapshot), proxy, tls),
            (snapshot, proxy, tls) => {
                let mistakes = snapshot.err().into_iter().chain(proxy.err());
                return Err(mistakes.chain(tls.err()).flatten().collect());
            }
        };
        if let (Some(proxy), Some(settings)) = (&self.proxy, proxy_settings) {
            proxy.publish(Arc::clone(&snapshot), settings);
        }
        self.decisions_tls.store(tls.map(Arc::new));
        self.overload.set_budget(config.overload.memory);
        *self.files.lock().expect("no holder of this lock panics") = followed_files(config);
        self.tell(warnings);
        let version = snapshot.version;
        self.gate.publish(snapshot);
        Ok(AppliedConfig {
            version,
            needs_restart: self.started_with.differences(&FixedSettings::of(config)),
        })
    }

    /// Logs warnings about permissions, each once until it is gone.
    fn tell(&self, warnings: Vec<String>) {
        let mut told = self.warnings.lock().expect("no holder of this lock panics");
        for warning in warnings.iter().filter(|warning| !told.contains(warning)) {
            tracing::warn!("{warning}");
        }
        *told = warnings;
    }

    /// The files that the configuration in force names.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let files = self.files.lock().expect("no holder of this lock panics");
        files.clone()
    }
}

/// Refuses secrets that others may write; returns warnings about those that they may read.
fn check_permissions(config: &Config) -> Result<Vec<String>, Vec<String>> {
    let PermissionReport { mistakes, warnings } = file_permissions::check(&named_files(config));
    if mistakes.is_empty() {
        return Ok(warnings);
    }
    let line = |(place, message)| format!("{place}: {message}");
    Err(mistakes.into_iter().map(line).collect())
}

/// The certificates of the decision service.
fn decisions_tls(config: &Config) -> Result<Option<EndpointTls>, Vec<String>> {
    let tls = config.decisions.tls.as_ref().map(EndpointTls::new);
    tls.transpose().map_err(|mistake| vec![mistake])
}

/// The settings that differ between two configurations and that a running process keeps until it
/// is restarted, by their names in the file.
///
/// ```
/// use sluicegate_config::{Source, load};
///
/// let old = load(&Source::embedded(), &|_| None).unwrap();
/// let mut source = Source::embedded();
/// source.text = source.text.replace(":8080", ":8000");
/// let new = load(&source, &|_| None).unwrap();
/// assert_eq!(sluicegate_server::needs_restart(&old, &new), ["proxy.listen"]);
/// ```
pub fn needs_restart(old: &Config, new: &Config) -> Vec<&'static str> {
    FixedSettings::of(old).differences(&FixedSettings::of(new))
}

/// Settings that a running process keeps until it is restarted.
#[derive(Debug, PartialEq)]
struct FixedSettings {
    listen: Vec<std::net::SocketAddr>,
    decisions: config::Decisions,
    admin: config::Admin,
    store: config::StoreKind,
    max_connections: usize,
    workers: Option<usize>,
    proxy_protocol_from: Vec<IpNet>,
    traces: Option<config::Traces>,
}

impl FixedSettings {
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

    /// The settings that differ, by their names in the configuration.
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

#[cfg(test)]
mod tests {
    use sluicegate_config::{Source, load};

    use super::*;

    fn fixed(text: &str) -> FixedSettings {
        let source = Source {
            name: "test".to_owned(),
            text: text.to_owned(),
            ..Source::embedded()
        };
        FixedSettings::of(&load(&source, &|_| None).unwrap_or_else(|mistakes| panic!("{mistakes}")))
    }

    const BEFORE: &str = "
proxy: { listen: '127.0.0.1:1', max_connections: 5, max_connections_per_client: 7, workers: 2, proxy_protocol_from: [10.0.0.0/8], upstream: 'http://a' }
decisions: { http: '127.0.0.1:2', tls: { cert: a, key: b } }
admin: { listen: '127.0.0.1:3' }
store: { kind: local }
overload: { memory: 1GiB }
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
            ("per_client: 7", "per_client: 8", &[]),
            ("memory: 1GiB", "memory: 2GiB", &[]),
            ("cert: a", "cert: c", &[]),
            ("rate: 1/s", "rate: 2/s", &[]),
        ] {
            let after = BEFORE.replace(from, to);
            assert_ne!(after, BEFORE, "{from}");
            assert_eq!(fixed(BEFORE).differences(&fixed(&after)), named, "{to}");
        }
    }
}
