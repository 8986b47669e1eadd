//! How a Redis server is to be started.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, io};

use super::RedisServer;
use crate::processes::free_port;
use crate::watchdog;
use crate::{ClientAuth, ShimClock, TlsFiles};

/// Options of a server, started by [`start`](Self::start). Without any it listens on loopback and persists nothing.
#[derive(Clone, Debug, Default)]
pub struct RedisBuilder {
    port: Option<u16>,
    lines: Vec<String>,
    password: Option<String>,
    cluster_bus_port: Option<u16>,
    tls: Option<(TlsFiles, ClientAuth)>,
    environment: Vec<(String, String)>,
    is_sentinel: bool,
}

impl RedisBuilder {
    /// Listens on this port instead of a free one.
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Adds a line to the configuration file, after our own, so that it wins.
    pub fn config(mut self, line: impl Into<String>) -> Self {
        self.lines.push(line.into());
        self
    }

    /// Follows this primary. The link comes up some time after the start.
    pub fn replica_of(self, primary: &RedisServer) -> Self {
        self.config(format!("replicaof 127.0.0.1 {}", primary.port()))
    }

    /// Demands this password of the default user; our own connections give it.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// Adds an ACL user by a rule such as `limited on >secret ~sluicegate:* +evalsha`.
    pub fn acl_user(self, rule: &str) -> Self {
        self.config(format!("user {rule}"))
    }

    /// Speaks TLS, and only TLS, on its port.
    pub fn tls(mut self, files: &TlsFiles, client_auth: ClientAuth) -> Self {
        self.tls = Some((files.clone(), client_auth));
        self
    }

    /// Lives by this clock, which the test can step while the server runs.
    pub fn clock(mut self, clock: &ShimClock) -> Self {
        self.environment.extend(clock.env());
        self
    }

    /// Is a node of a cluster, without slots and without knowing others. The bus has a port of its own.
    pub fn cluster_node(mut self) -> Self {
        self.cluster_bus_port = Some(free_port());
        self
    }

    /// Is a sentinel; what it watches is told by [`config`](Self::config) lines.
    pub(crate) fn sentinel(mut self) -> Self {
        self.is_sentinel = true;
        self
    }

    /// Starts the server and returns when it answers PING.
    #[track_caller]
    pub fn start(self) -> RedisServer {
        self.try_start().unwrap_or_else(|error| panic!("{error}"))
    }

    /// Starts the server and returns when it answers PING; the error holds the end of its log.
    pub fn try_start(self) -> io::Result<RedisServer> {
        RedisServer::new(self)
    }

    pub(crate) fn port_or_free(&self) -> u16 {
        self.port.unwrap_or_else(free_port)
    }

    pub(crate) fn password_of_default_user(&self) -> Option<&str> {
        self.password.as_deref()
    }

    pub(crate) fn bus_port(&self) -> Option<u16> {
        self.cluster_bus_port
    }

    pub(crate) fn uses_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Writes the configuration file. Redis changes it later when told to (sentinels always do), so it is written once.
    pub(crate) fn write_config(&self, directory: &Path, port: u16) -> io::Result<()> {
        let mut lines = vec![
            "bind 127.0.0.1".to_owned(),
            format!("dir {}", directory.display()),
            format!("logfile {}", directory.join(LOG).display()),
            format!("unixsocket {}", directory.join(SOCKET).display()),
            "daemonize no".to_owned(),
        ];
        if !self.is_sentinel {
            // Nothing is written to disk in the middle of a measurement, and a replica need not wait for others.
            lines.extend(
                ["save \"\"", "appendonly no", "repl-diskless-sync-delay 0"].map(str::to_owned),
            );
            // For tests that make Redis hang or crash by DEBUG.
            lines.push("enable-debug-command local".to_owned());
        }
        match &self.tls {
            None => lines.push(format!("port {port}")),
            Some((files, client_auth)) => lines.extend(files.redis_config(port, *client_auth)),
        }
        if let Some(password) = &self.password {
            let quoted = format!(
                "\"{}\"",
                password.replace('\\', r"\\").replace('"', r#"\""#)
            );
            lines.extend([
                format!("requirepass {quoted}"),
                format!("masterauth {quoted}"),
            ]);
        }
        if let Some(bus_port) = self.cluster_bus_port {
            lines.extend([
                "cluster-enabled yes".to_owned(),
                format!("cluster-port {bus_port}"),
            ]);
        }
        lines.extend(self.lines.iter().cloned());
        fs::write(directory.join(CONFIG), lines.join("\n") + "\n")
    }

    /// Starts the program on the written configuration and waits until it answers.
    pub(crate) fn spawn(
        &self,
        directory: &Path,
        answers_ping: impl Fn() -> bool,
    ) -> io::Result<Child> {
        let mut command = Command::new(program());
        command.arg(directory.join(CONFIG));
        if self.is_sentinel {
            command.arg("--sentinel");
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(directory.join("stderr"))?);
        let mut child = command
            .spawn()
            .map_err(|error| io::Error::other(format!("redis-server: {error}")))?;
        watchdog::watch(child.id());
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            if answers_ping() {
                return Ok(child);
            }
            let ended = child.try_wait()?;
            if ended.is_some() || Instant::now() > deadline {
                let _already_dead = child.kill();
                watchdog::forget(child.id());
                child.wait()?;
                let what = ended.map_or("does not answer PING".to_owned(), |status| {
                    format!("ended with {status}")
                });
                return Err(io::Error::other(format!(
                    "redis-server {what}; its last words:\n{}",
                    last_words(directory)
                )));
            }
            // bounded wait: until the deadline above
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The name of the socket besides the port, by which the kit itself talks to the server.
pub(crate) const SOCKET: &str = "redis.sock";

const CONFIG: &str = "redis.conf";
const LOG: &str = "redis.log";

/// `redis-server`, or another program that speaks its language, such as Valkey's: its path in `SLUICEGATE_REDIS_SERVER`.
fn program() -> OsString {
    env::var_os("SLUICEGATE_REDIS_SERVER").unwrap_or_else(|| "redis-server".into())
}

/// Long enough for a machine that compiles at the same time.
const START_TIMEOUT: Duration = Duration::from_secs(10);

fn last_words(directory: &Path) -> String {
    let read = |name: &str| fs::read_to_string(directory.join(name)).unwrap_or_default();
    let text = read("stderr") + &read(LOG);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}
