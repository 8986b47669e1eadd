//! A contestant that runs: its own process, its own directory, gone when dropped.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sluicegate_testkit::watchdog;
use tempfile::TempDir;

use crate::callgrind_server::Callgrind;
use crate::process_tree::ProcessTree;

/// A server. Dropping it kills it and its workers.
pub struct RunningServer {
    name: &'static str,
    child: Child,
    address: SocketAddr,
    directory: TempDir,
}

/// The program, arguments and address that a server is started with.
pub struct ServerLaunch<'a> {
    pub name: &'static str,
    pub program: &'a Path,
    pub arguments: Vec<String>,
    /// Where it listens once it is ready.
    pub address: SocketAddr,
    /// Processes it has then.
    pub processes: usize,
    /// Its own.
    pub directory: TempDir,
    /// Counts its instructions.
    pub callgrind: Option<&'a Callgrind>,
}

/// The file with everything the server prints.
const LOG: &str = "log";
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// Under callgrind a program is some fifty times slower.
const START_TIMEOUT_COUNTED: Duration = Duration::from_secs(120);

impl RunningServer {
    /// Returns when it accepts connections and has all its processes.
    pub fn start(launch: ServerLaunch<'_>) -> Result<Self, String> {
        let ServerLaunch {
            name,
            program,
            arguments,
            address,
            processes,
            directory,
            callgrind,
        } = launch;
        let failed = |error: std::io::Error| format!("{name} cannot be started: {error}");
        let log = File::create(directory.path().join(LOG)).map_err(failed)?;
        let mut command = match callgrind {
            Some(callgrind) => callgrind.command(program, directory.path()),
            None => Command::new(program),
        };
        command.args(arguments).current_dir(directory.path());
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(failed)?)
            .stderr(log);
        let child = command.spawn().map_err(failed)?;
        watchdog::watch(child.id());
        let mut running = Self {
            name,
            child,
            address,
            directory,
        };
        let timeout = match callgrind {
            Some(_) => START_TIMEOUT_COUNTED,
            None => START_TIMEOUT,
        };
        running.wait_until_ready(processes, timeout)?;
        Ok(running)
    }

    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub fn tree(&self) -> ProcessTree {
        ProcessTree::of(self.child.id())
    }

    fn wait_until_ready(&mut self, wanted: usize, timeout: Duration) -> Result<(), String> {
        let deadline = Instant::now() + timeout;
        loop {
            let processes = self.tree().processes();
            if processes.len() >= wanted && TcpStream::connect(self.address).is_ok() {
                processes
                    .iter()
                    .skip(1)
                    .for_each(|process| watchdog::watch(*process));
                return Ok(());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!(
                    "{} ended with {status}: {}",
                    self.name,
                    self.last_words()
                ));
            }
            if Instant::now() > deadline {
                return Err(format!(
                    "{} does not listen: {}",
                    self.name,
                    self.last_words()
                ));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The end of what it printed, for a message.
    fn last_words(&self) -> String {
        let text = fs::read(self.directory.path().join(LOG)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        let last = &lines[lines.len().saturating_sub(3)..];
        if last.is_empty() {
            "it says nothing".to_string()
        } else {
            last.join("; ")
        }
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        let tree = self.tree();
        let processes = tree.processes();
        tree.kill();
        processes
            .iter()
            .for_each(|process| watchdog::forget(*process));
        let _nothing_to_learn = self.child.wait();
    }
}

pub fn on_loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

#[cfg(test)]
mod tests {
    use sluicegate_testkit::free_port;

    use super::*;

    #[test]
    fn a_contestant_that_never_listens_is_given_up_and_killed() {
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        let (process, address) = (child.id(), on_loopback(free_port()));
        watchdog::watch(process);
        let directory = watchdog::temporary_directory("bench-");
        let mut running = RunningServer {
            name: "HAProxy",
            child,
            address,
            directory,
        };
        let failure = running
            .wait_until_ready(1, Duration::from_millis(50))
            .unwrap_err();
        assert_eq!(failure, "HAProxy does not listen: it says nothing");
        drop(running);
        assert!(!fs::exists(format!("/proc/{process}")).unwrap());
    }

    #[test]
    fn a_contestant_that_ends_is_reported_with_its_last_words() {
        // A shell does not know this option, and says so.
        let launch = ServerLaunch {
            name: "HAProxy",
            program: Path::new("/bin/sh"),
            arguments: vec!["-db".to_string()],
            address: on_loopback(free_port()),
            processes: 1,
            directory: watchdog::temporary_directory("bench-"),
            callgrind: None,
        };
        let failure = RunningServer::start(launch).map(|_| ()).unwrap_err();
        assert!(
            failure.starts_with("HAProxy ended with exit status: "),
            "{failure}"
        );
        assert!(failure.contains("sh: "), "{failure}");
    }
}
