//! The process around the server: signals, reload, replacement by a new process, and the end.
//!
//! Everything that belongs to a process and not to a server is here and in `supervisor.rs`; a
//! server inside another program (`embedded.rs`) has none of it.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Child;

use sluicegate_gate::telemetry;
use sluicegate_net::InheritedSockets;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::handover;
use crate::reload::{ConfigReader, LoadedConfig};
use crate::server::Server;
use crate::supervisor;

/// A process to run, with everything it needs from the command line.
pub struct Program {
    /// The configuration to start with.
    pub loaded: LoadedConfig,
    /// Its file; `None` for the built-in configuration.
    pub file: Option<PathBuf>,
    /// Reads it anew, for reloads.
    pub read_again: ConfigReader,
    /// The filter of the process log, such as `info` or `sluicegate=debug`.
    pub log_filter: Option<String>,
}

/// The addresses of a process that is ready, for the message at the start.
#[derive(Clone, Debug)]
pub struct Ready {
    /// The addresses of the proxy.
    pub proxy: Vec<SocketAddr>,
    /// True when the proxy uses TLS.
    pub is_tls: bool,
    /// The HTTP address of the decision service.
    pub decisions: Option<SocketAddr>,
    /// The gRPC address of the decision service.
    pub grpc: Option<SocketAddr>,
    /// The address of the decision service in the protocol of Redis.
    pub resp: Option<SocketAddr>,
    /// True when these three use TLS.
    pub is_decisions_tls: bool,
    /// The address of the admin API.
    pub admin: Option<SocketAddr>,
    /// The limits in words.
    pub words: Vec<String>,
}

impl Program {
    /// Runs until a signal ends it. `SIGTERM` and `SIGINT` end it after the requests in progress,
    /// `SIGHUP` reloads the configuration, `SIGUSR2` starts a new process that takes over the
    /// listening sockets, so that no connection is refused. `introduce` is called once, when all
    /// sockets are open.
    pub fn run(self, introduce: impl FnOnce(&Ready)) -> Result<(), Vec<String>> {
        handover::reserve_descriptors();
        let inherited =
            InheritedSockets::from_env().map_err(|error| vec![format!("LISTEN_FDS: {error}")])?;
        let config = &self.loaded.config;
        telemetry::init_tracing(config.log.format, self.log_filter.as_deref())
            .map_err(|error| vec![error.to_string()])?;
        for warning in &config.warnings {
            tracing::warn!("{warning}");
        }
        // Asked for now, because the file may be replaced later; only a successor needs it.
        let executable = std::env::current_exe();
        let is_tls = config
            .proxy
            .as_ref()
            .is_some_and(|proxy| proxy.tls.is_some());
        let is_decisions_tls = config.decisions.tls.is_some();
        let words = config.in_words();
        let memory = Box::new(telemetry::metrics::resident_bytes);
        let server = Server::start(self.loaded, self.file, self.read_again, inherited, memory)?;
        let stopped = server.background().block_on(async {
            let mut signals = Signals::new()?;
            introduce(&Ready {
                proxy: server.proxy_addresses(),
                is_tls,
                decisions: server.decisions_address(),
                grpc: server.grpc_address(),
                resp: server.resp_address(),
                is_decisions_tls,
                admin: server.admin_address(),
                words,
            });
            supervisor::ready();
            handover::end_predecessor();
            let mut successor: Option<Child> = None;
            loop {
                match signals.next().await {
                    SignalAction::Stop => {
                        // With a successor the service as a whole does not stop.
                        if !is_running(&mut successor) {
                            supervisor::stopping();
                        }
                        return Ok::<(), io::Error>(());
                    }
                    SignalAction::Reload => {
                        supervisor::reloading();
                        // `reload` logs its result itself.
                        supervisor::reloaded(server.reload().is_err());
                    }
                    SignalAction::Replace => replace(&server, &executable, &mut successor),
                }
            }
        });
        stopped.map_err(|error| vec![format!("signals: {error}")])?;
        server.drain();
        Ok(())
    }
}

/// Starts a successor with the listening sockets. It ends this process when it is ready.
fn replace(server: &Server, executable: &io::Result<PathBuf>, successor: &mut Option<Child>) {
    if is_running(successor) {
        return tracing::warn!(
            "a successor was started already and is not ready yet, this signal is ignored"
        );
    }
    let executable = match executable {
        Ok(executable) => executable,
        Err(error) => {
            return tracing::error!(
                "cannot start a successor: the path of this program is unknown: {error}"
            );
        }
    };
    match handover::start_successor(executable, &server.sockets()) {
        Ok(child) => {
            tracing::info!(pid = child.id(), "a successor was started");
            *successor = Some(child);
        }
        Err(error) => tracing::error!("cannot start a successor: {error}"),
    }
}

/// Returns true while the child lives.
fn is_running(child: &mut Option<Child>) -> bool {
    child
        .as_mut()
        .is_some_and(|child| child.try_wait().is_ok_and(|ended| ended.is_none()))
}

/// The meaning of a signal.
enum SignalAction {
    Stop,
    Reload,
    Replace,
}

/// The signals that the process handles.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
    user: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
            user: signal(SignalKind::user_defined2())?,
        })
    }

    /// Waits for the next signal.
    async fn next(&mut self) -> SignalAction {
        tokio::select! {
            _ = self.terminate.recv() => SignalAction::Stop,
            _ = self.interrupt.recv() => SignalAction::Stop,
            _ = self.hang_up.recv() => SignalAction::Reload,
            _ = self.user.recv() => SignalAction::Replace,
        }
    }
}
