//! The program around the server: signals, reload, replacement, the end.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Child;

use sluicegate_net::InheritedSockets;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::handover;
use crate::reloading::{Loaded, ReadAgain};
use crate::server::Server;
use crate::{supervisor, telemetry};

/// What to run.
pub struct Program {
    /// The configuration to begin with.
    pub loaded: Loaded,
    /// Where it came from; `None` for the built-in one.
    pub file: Option<PathBuf>,
    /// Reads it again.
    pub read_again: ReadAgain,
    /// What the process says about itself, such as `info` or `sluicegate=debug`.
    pub log_filter: Option<String>,
}

/// Where everything is, once it is there.
#[derive(Clone, Debug)]
pub struct Ready {
    /// Where the proxy listens.
    pub proxy: Vec<SocketAddr>,
    /// Whether it speaks TLS.
    pub is_tls: bool,
    /// Where other proxies ask over HTTP.
    pub decisions: Option<SocketAddr>,
    /// Where Envoy asks for decisions.
    pub grpc: Option<SocketAddr>,
    /// Where clients of Redis ask for decisions.
    pub resp: Option<SocketAddr>,
    /// Whether the last three speak TLS.
    pub is_decisions_tls: bool,
    /// Where operators ask.
    pub admin: Option<SocketAddr>,
    /// What is enforced.
    pub words: Vec<String>,
}

impl Program {
    /// Runs until told to end. `SIGTERM` and `SIGINT` end it after what is under way, `SIGHUP` reads the configuration
    /// again, `SIGUSR2` replaces the process by a new one without refusing a connection.
    pub fn run(self, introduce: impl FnOnce(&Ready)) -> Result<(), Vec<String>> {
        let inherited =
            InheritedSockets::from_env().map_err(|error| vec![format!("LISTEN_FDS: {error}")])?;
        let config = &self.loaded.config;
        telemetry::init_tracing(config.log.format, self.log_filter.as_deref())
            .map_err(|error| vec![error.to_string()])?;
        // Asked for now: later another file may stand in its place. Only a successor needs it.
        let executable = std::env::current_exe();
        let is_tls = config
            .proxy
            .as_ref()
            .is_some_and(|proxy| proxy.tls.is_some());
        let is_decisions_tls = config.decisions.tls.is_some();
        let words = config.in_words();
        let server = Server::start(self.loaded, self.file, self.read_again, inherited)?;
        let told = server.background().block_on(async {
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
                    Told::End => {
                        // With a successor the service goes on.
                        if !is_running(&mut successor) {
                            supervisor::stopping();
                        }
                        return Ok::<(), io::Error>(());
                    }
                    Told::Reload => {
                        supervisor::reloading();
                        // The log says how it went.
                        supervisor::reloaded(server.reload().is_err());
                    }
                    Told::Replace => replace(&server, &executable, &mut successor),
                }
            }
        });
        told.map_err(|error| vec![format!("signals: {error}")])?;
        server.drain();
        Ok(())
    }
}

fn replace(server: &Server, executable: &io::Result<PathBuf>, successor: &mut Option<Child>) {
    if is_running(successor) {
        return tracing::warn!("a successor has been started already and is not ready yet");
    }
    let executable = match executable {
        Ok(executable) => executable,
        Err(error) => {
            return tracing::error!(
                "no successor can be started: this program cannot find itself: {error}"
            );
        }
    };
    match handover::start_successor(executable, &server.sockets()) {
        Ok(child) => {
            tracing::info!(pid = child.id(), "a successor was started");
            *successor = Some(child);
        }
        Err(error) => tracing::error!("no successor can be started: {error}"),
    }
}

fn is_running(child: &mut Option<Child>) -> bool {
    child
        .as_mut()
        .is_some_and(|child| child.try_wait().is_ok_and(|ended| ended.is_none()))
}

/// What the operator says.
enum Told {
    End,
    Reload,
    Replace,
}

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

    async fn next(&mut self) -> Told {
        tokio::select! {
            _ = self.terminate.recv() => Told::End,
            _ = self.interrupt.recv() => Told::End,
            _ = self.hang_up.recv() => Told::Reload,
            _ = self.user.recv() => Told::Replace,
        }
    }
}
