//! A running server: starts everything that a configuration turns on, and drains it at the end.
//!
//! Requests are served by threads of `sluicegate_net::Cores`; everything else (connections to
//! Redis, shared lists, admin API) runs on one background runtime.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use sluicegate_config::{self as config, Config, Upstream};
use sluicegate_gate::gate::Gate;
use sluicegate_gate::scrape;
use sluicegate_gate::store::AnyStore;
use sluicegate_gate::telemetry::metrics::CollectedCounts;
use sluicegate_net::{CoreSettings, Cores, InheritedSockets, OverloadStage, listen};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::admin::{self, AdminState, AdminToken, Readiness};
use crate::configuration::Configuration;
use crate::decisions;
use crate::echo;
use crate::operator::Operator;
use crate::overload::UsedMemory;
use crate::proxy;
use crate::reload::{ConfigReader, InitialConfig, LoadedConfig, ReloadOutcome, Reloader};

/// A running Sluicegate.
pub(crate) struct Server {
    gate: Arc<Gate>,
    cores: Cores,
    admin: Option<AdminEndpoint>,
    reloader: Arc<Reloader>,
    operator: Arc<Operator>,
    /// Becomes true when the process is told to end.
    ending: watch::Sender<bool>,
    /// Drives what is not tied to a request, such as connections to Redis.
    background: Runtime,
}

/// The admin API of a running server.
struct AdminEndpoint {
    /// A copy of its socket, for the process that replaces this one.
    socket: TcpListener,
    /// Serves it; ends when the process ends and its requests are answered.
    task: JoinHandle<()>,
}

impl Server {
    /// Starts everything, or returns all mistakes.
    pub(crate) fn start(
        loaded: LoadedConfig,
        file: Option<PathBuf>,
        read_again: ConfigReader,
        mut inherited: InheritedSockets,
        used_memory: Box<UsedMemory>,
    ) -> Result<Self, Vec<String>> {
        let one = |mistake: String| vec![mistake];
        let initial = InitialConfig::with(&loaded);
        let config = loaded.config;
        let echo = if wants_echo(&config) {
            Some(echo::start().map_err(one)?)
        } else {
            None
        };
        let background = background_runtime().map_err(one)?;
        let configuration = Configuration::start(&config, echo, background.handle().clone())?;
        let configuration = Arc::new(configuration);
        let gate = Arc::clone(&configuration.gate);
        if let AnyStore::Redis(store) = gate.engine.store() {
            let _entered = background.enter();
            store.start();
        }
        collect_metrics(&gate);
        background.spawn(Arc::clone(&configuration.overload).follow(used_memory));
        let reloader = Reloader::new(Arc::clone(&configuration), initial, file, read_again);
        let reloader = Arc::new(reloader);
        let operator = Arc::new(Operator::new(Arc::clone(&gate), Arc::clone(&reloader)));
        background.spawn(Operator::follow(Arc::downgrade(&operator)));
        let (ending, is_ending) = watch::channel(false);
        let cores =
            start_cores(&config, &configuration, &is_ending, &mut inherited).map_err(one)?;
        let admin = start_admin(
            &config.admin,
            &gate,
            &reloader,
            &operator,
            &background,
            is_ending,
            &mut inherited,
        )
        .map_err(one)?;
        reloader
            .watch()
            .map_err(|error| vec![format!("the configuration cannot be followed: {error}")])?;
        for address in inherited.addresses() {
            tracing::warn!("a socket was inherited on which nothing listens: {address}");
        }
        Ok(Self {
            gate,
            cores,
            admin,
            reloader,
            operator,
            ending,
            background,
        })
    }

    pub(crate) fn background(&self) -> &Runtime {
        &self.background
    }

    /// The addresses of the proxy.
    pub(crate) fn proxy_addresses(&self) -> Vec<SocketAddr> {
        self.cores.addresses(proxy::NAME)
    }

    /// The HTTP address of the decision service.
    pub(crate) fn decisions_address(&self) -> Option<SocketAddr> {
        self.cores.addresses(decisions::HTTP).pop()
    }

    /// The gRPC address of the decision service.
    pub(crate) fn grpc_address(&self) -> Option<SocketAddr> {
        self.cores.addresses(decisions::GRPC).pop()
    }

    /// The address of the decision service in the protocol of Redis.
    pub(crate) fn resp_address(&self) -> Option<SocketAddr> {
        self.cores.addresses(decisions::RESP).pop()
    }

    /// The address of the admin API.
    pub(crate) fn admin_address(&self) -> Option<SocketAddr> {
        self.admin
            .as_ref()
            .and_then(|admin| admin.socket.local_addr().ok())
    }

    /// All listening sockets.
    pub(crate) fn sockets(&self) -> Vec<TcpListener> {
        let admin = self.admin.iter().map(|admin| &admin.socket);
        let own = self.cores.sockets().iter().chain(admin);
        own.filter_map(|socket| socket.try_clone().ok()).collect()
    }

    /// Puts another configuration in force, or returns the reason why not and changes nothing.
    pub(crate) fn reload(&self) -> Result<ReloadOutcome, String> {
        self.reloader.reload()
    }

    /// Ends when every request is answered, or the time for that is over.
    pub(crate) fn drain(self) {
        self.ending.send_replace(true);
        let admin = self.admin.map(|admin| admin.task);
        self.cores.join();
        if let Some(admin) = admin {
            // It bounds its own time.
            let _ = self.background.block_on(admin);
        }
        let left = async { tokio::time::timeout(LEAVE_TIMEOUT, self.operator.leave()).await };
        // After a failure the entry of this replica gets old and the others remove it.
        let _ = self.background.block_on(left);
        self.gate.access_log.clone().close();
        if let Some(traces) = &self.gate.traces {
            traces.close();
        }
        self.background.shutdown_background();
    }
}

/// Time for removing this replica from the shared list.
const LEAVE_TIMEOUT: Duration = Duration::from_millis(200);

/// The runtime for what is not tied to a request: connections to Redis, the limits service, admin.
fn background_runtime() -> Result<Runtime, String> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("background")
        .enable_all()
        .build()
        .map_err(|error| format!("no runtime: {error}"))
}

fn wants_echo(config: &Config) -> bool {
    let routes = config.proxy.iter().flat_map(|proxy| &proxy.routes);
    routes
        .flat_map(|route| &route.upstreams)
        .any(|upstream| *upstream == Upstream::Echo)
}

/// Lets the metrics read, at each scrape, the counts that the store and the extraction of addresses
/// keep themselves.
fn collect_metrics(gate: &Arc<Gate>) {
    let weak = Arc::downgrade(gate);
    gate.metrics.collect_from(move || match weak.upgrade() {
        None => CollectedCounts::default(),
        Some(gate) => scrape::collect_counts(&gate),
    });
}

fn start_cores(
    config: &Config,
    configuration: &Configuration,
    ending: &watch::Receiver<bool>,
    inherited: &mut InheritedSockets,
) -> Result<Cores, String> {
    /// The drain timeout without a proxy, whose settings would have it.
    const DRAIN: Duration = Duration::from_secs(30);
    let proxy = config.proxy.as_ref();
    let threads = proxy.and_then(|proxy| proxy.workers);
    let threads = threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
    let Configuration {
        gate,
        decisions_tls,
        ..
    } = configuration;
    let settings = CoreSettings {
        counters: Arc::clone(gate.metrics.connection_counters()),
        ending: ending.clone(),
        drain: proxy.map_or(DRAIN, |proxy| proxy.timeouts.drain.into()),
    };
    let mut endpoints = decisions::endpoints(&config.decisions, gate, decisions_tls, ending)?;
    let proxy = proxy.zip(configuration.proxy.as_ref());
    endpoints.extend(proxy.map(|(config, state)| proxy::endpoint(config, state, ending)));
    Cores::start(threads, endpoints, &settings, inherited)
}

fn start_admin(
    config: &config::Admin,
    gate: &Arc<Gate>,
    reloader: &Arc<Reloader>,
    operator: &Arc<Operator>,
    background: &Runtime,
    mut is_ending: watch::Receiver<bool>,
    inherited: &mut InheritedSockets,
) -> Result<Option<AdminEndpoint>, String> {
    let Some(address) = config.listen else {
        return Ok(None);
    };
    let words = |error: std::io::Error| format!("admin.listen: {address}: {error}");
    let socket = match inherited.take(address).pop() {
        Some(socket) => socket,
        None => listen::bind_one(address, false).map_err(words)?,
    };
    let token = match &config.token_file {
        None => None,
        Some(file) => Some(
            AdminToken::from_file(file).map_err(|error| format!("admin.token_file: {error}"))?,
        ),
    };
    let _entered = background.enter();
    let listener =
        tokio::net::TcpListener::from_std(socket.try_clone().map_err(words)?).map_err(words)?;
    let state = Arc::new(AdminState {
        metrics: Arc::clone(&gate.metrics),
        ready: Box::new({
            let (gate, is_ending) = (Arc::clone(gate), is_ending.clone());
            move || readiness(&gate, *is_ending.borrow())
        }),
        reload: Box::new({
            let reloader = Arc::clone(reloader);
            move || reloader.reload().map(|reloaded| reloaded.to_string())
        }),
        version: Box::new({
            let reloader = Arc::clone(reloader);
            move || reloader.version()
        }),
        operator: Some(Arc::clone(operator)),
    });
    let task = background.spawn(async move {
        let ended = async move {
            let _ = is_ending.wait_for(|ending| *ending).await;
        };
        if let Err(error) = admin::serve(listener, token, state, ended).await {
            tracing::error!("the admin API is off: {error}");
        }
    });
    Ok(Some(AdminEndpoint { socket, task }))
}

/// The process is ready until it ends, and while it takes new connections. A store that is away is only a reason to report: requests
/// are still answered, as the failure policy says. So are keys of tokens that are missing: requests
/// without a token are served.
fn readiness(gate: &Gate, is_ending: bool) -> Readiness {
    let mut reasons = Vec::new();
    if is_ending {
        reasons.push("the process is about to end".to_owned());
    }
    if gate.is_degraded() {
        reasons.push("the store is away: its failure policy decides".to_owned());
    }
    let keys = gate.snapshot().auth.keys_status();
    if let Some(gap) = keys.and_then(|status| status.gap) {
        let gap = gap.as_str();
        reasons.push(format!("requests with a token get 503: {gap}"));
    }
    let stage = gate.metrics.connection_counters().overload().stage();
    let is_overloaded = stage > OverloadStage::Normal;
    if is_overloaded {
        reasons.push(format!("memory is short: {}", stage.as_str()));
    }
    Readiness {
        is_ready: !is_ending && !is_overloaded,
        reasons,
    }
}
