//! A Redis server of our own.

mod builder;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::{Connection, ConnectionAddr, RedisResult};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::processes::wait_until;
use crate::watchdog;

pub use builder::RedisBuilder;
use builder::SOCKET;

/// A running (or killed, or stopped) `redis-server` with a directory of its own. Dropping it kills it.
#[derive(Debug)]
pub struct RedisServer {
    builder: RedisBuilder,
    port: u16,
    /// `None` after a kill or a shutdown.
    child: Mutex<Option<Child>>,
    is_stopped: AtomicBool,
    directory: TempDir,
}

impl RedisServer {
    /// A server without options.
    #[track_caller]
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// Options for a server.
    pub fn builder() -> RedisBuilder {
        RedisBuilder::default()
    }

    pub(crate) fn new(builder: RedisBuilder) -> io::Result<Self> {
        let directory = watchdog::temporary_directory("redis-");
        let port = builder.port_or_free();
        builder.write_config(directory.path(), port)?;
        let server = Self {
            builder,
            port,
            child: Mutex::new(None),
            is_stopped: AtomicBool::new(false),
            directory,
        };
        server.try_restart()?;
        Ok(server)
    }

    /// The port; under TLS that of TLS.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The port on loopback.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// The port of the cluster bus, for a cluster node.
    pub(crate) fn bus_port(&self) -> Option<u16> {
        self.builder.bus_port()
    }

    /// `redis://` or `rediss://` with the password if there is one.
    pub fn url(&self) -> String {
        let scheme = if self.builder.uses_tls() {
            "rediss"
        } else {
            "redis"
        };
        let password = self.builder.password_of_default_user();
        let user_info = password
            .map(|password| format!(":{password}@"))
            .unwrap_or_default();
        format!("{scheme}://{user_info}127.0.0.1:{}", self.port)
    }

    /// The socket in the file system: speaks plain text under TLS too, and no fault proxy stands before it.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join(SOCKET)
    }

    /// A connection by the [`socket`](Self::socket), whose commands fail after five seconds without an answer.
    #[track_caller]
    pub fn client(&self) -> Connection {
        self.try_client()
            .unwrap_or_else(|error| panic!("connecting to redis on port {}: {error}", self.port))
    }

    /// As [`client`](Self::client); fails when the server is away.
    pub fn try_client(&self) -> RedisResult<Connection> {
        self.connect(COMMAND_TIMEOUT)
    }

    /// The process id, while it runs.
    pub fn process_id(&self) -> Option<u32> {
        self.child().as_ref().map(Child::id)
    }

    /// True while it was neither killed, shut down nor stopped by us.
    pub fn is_running(&self) -> bool {
        !self.is_stopped.load(Ordering::Relaxed) && self.child().is_some()
    }

    /// Kills it without warning (SIGKILL) and returns when it is gone.
    pub fn kill(&self) {
        let Some(mut child) = self.child().take() else {
            return;
        };
        let _already_dead = child.kill();
        // Until it is waited for, its number belongs to no other process.
        watchdog::forget(child.id());
        child
            .wait()
            .expect("a child of ours that nobody else waits for");
        self.is_stopped.store(false, Ordering::Relaxed);
    }

    /// Freezes it (SIGSTOP): connections stay open and are still accepted by the kernel, but nothing is answered.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        self.signal(Signal::STOP);
    }

    /// Lets it go on after [`stop`](Self::stop).
    pub fn resume(&self) {
        self.signal(Signal::CONT);
        self.is_stopped.store(false, Ordering::Relaxed);
    }

    /// Ends it in good order, connections closed, and returns when it is gone.
    pub fn shutdown(&self) {
        self.signal(Signal::TERM);
        wait_until(Duration::from_secs(10), "redis shuts down", || {
            let mut child = self.child();
            child
                .as_mut()
                .is_none_or(|child| child.try_wait().is_ok_and(|status| status.is_some()))
        });
        self.kill();
    }

    /// Starts it again on the same port with the same configuration, killing it first if it runs. Its data are gone.
    #[track_caller]
    pub fn restart(&self) {
        self.try_restart().unwrap_or_else(|error| panic!("{error}"));
    }

    fn try_restart(&self) -> io::Result<()> {
        self.kill();
        let answers_ping = || {
            self.connect(PING_TIMEOUT)
                .is_ok_and(|mut client| ping(&mut client))
        };
        let child = self.builder.spawn(self.directory.path(), answers_ping)?;
        *self.child() = Some(child);
        Ok(())
    }

    /// The handshake of the client library has no timeout, so the connection is opened without one, and AUTH follows.
    fn connect(&self, timeout: Duration) -> RedisResult<Connection> {
        let settings = redis::RedisConnectionInfo::default().set_skip_set_lib_name();
        let address =
            redis::IntoConnectionInfo::into_connection_info(ConnectionAddr::Unix(self.socket()))?;
        let mut client =
            redis::Client::open(address.set_redis_settings(settings))?.get_connection()?;
        client.set_read_timeout(Some(timeout))?;
        client.set_write_timeout(Some(timeout))?;
        if let Some(password) = self.builder.password_of_default_user() {
            redis::cmd("AUTH").arg(password).exec(&mut client)?;
        }
        Ok(client)
    }

    fn signal(&self, signal: Signal) {
        if let Some(child) = self.child().as_ref() {
            kill_process(Pid::from_child(child), signal)
                .expect("a child of ours that nobody has waited for");
        }
    }

    /// A panic elsewhere must not keep `drop` from killing the server.
    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

const COMMAND_TIMEOUT: Duration = Duration::from_secs(5);
const PING_TIMEOUT: Duration = Duration::from_millis(500);

fn ping(client: &mut Connection) -> bool {
    redis::cmd("PING").query::<String>(client).is_ok()
}
