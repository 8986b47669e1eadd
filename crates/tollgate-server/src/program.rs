//! The program around the server: signals, reload, replacement, the end.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Child;
use std::sync::Arc;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tollgate_config::Config;

use crate::handover::{self, Inherited};
use crate::server::Server;

/// What to run.
pub struct Program {
    /// The configuration to begin with.
    pub config: Config,
    /// Where it came from; `None` for the built-in one.
    pub file: Option<PathBuf>,
    /// Reads it again; an error is every mistake, in words.
    pub read_again: Box<dyn Fn() -> Result<Config, String> + Send + Sync>,
}

/// Where everything is, once it is there.
#[derive(Clone, Debug)]
pub struct Ready {
    /// Where the proxy listens.
    pub proxy: Vec<SocketAddr>,
    /// Whether it speaks TLS.
    pub is_tls: bool,
    /// Where operators ask.
    pub admin: Option<SocketAddr>,
    /// What is enforced.
    pub words: Vec<String>,
}

impl Program {
    /// Runs until told to end. `SIGTERM` and `SIGINT` end it after what is under way, `SIGHUP` reads the configuration
    /// again, `SIGUSR2` replaces the process by a new one without refusing a connection.
    pub fn run(self, introduce: impl FnOnce(&Ready)) -> Result<(), Vec<String>> {
        let words = |what: &str| {
            let what = what.to_owned();
            move |error: std::io::Error| vec![format!("{what}: {error}")]
        };
        let inherited = Inherited::from_env().map_err(words("LISTEN_FDS"))?;
        let executable = std::env::current_exe().map_err(words("this program cannot be found"))?;
        let is_tls = self.config.proxy.as_ref().is_some_and(|proxy| proxy.tls.is_some());
        let enforced = self.config.in_words();
        let server = Arc::new(Server::start(self.config, inherited)?);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(words("no runtime"))?;
        runtime
            .block_on(async {
                let mut signals = Signals::new().map_err(words("signals"))?;
                let proxy = server.proxy_addresses().to_vec();
                introduce(&Ready { proxy, is_tls, admin: server.admin_address(), words: enforced });
                handover::end_predecessor();
                let mut successor: Option<Child> = None;
                loop {
                    match signals.next().await {
                        Told::End => return Ok::<(), Vec<String>>(()),
                        Told::Reload => reload(&server, &self.read_again),
                        Told::Replace => replace(&server, &executable, &mut successor),
                    }
                }
            })
            .map(|()| drop(runtime))?;
        if let Some(server) = Arc::into_inner(server) {
            server.drain();
        }
        Ok(())
    }
}

fn reload(server: &Server, read_again: &dyn Fn() -> Result<Config, String>) {
    match read_again().and_then(|config| server.reload(config).map_err(|mistakes| mistakes.join("\n"))) {
        Ok(applied) => {
            tracing::info!(version = applied.version, "the configuration was read again");
            for name in applied.needs_restart {
                tracing::warn!("{name} has changed in the file and stays as it was until a restart");
            }
        }
        Err(mistakes) => tracing::error!("the configuration in force stays: {mistakes}"),
    }
}

fn replace(server: &Server, executable: &PathBuf, successor: &mut Option<Child>) {
    let is_running = successor.as_mut().is_some_and(|child| child.try_wait().is_ok_and(|ended| ended.is_none()));
    if is_running {
        return tracing::warn!("a successor has been started already and is not ready yet");
    }
    match handover::start_successor(executable, &server.sockets()) {
        Ok(child) => {
            tracing::info!(pid = child.id(), "a successor was started");
            *successor = Some(child);
        }
        Err(error) => tracing::error!("no successor can be started: {error}"),
    }
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
    fn new() -> std::io::Result<Self> {
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
