//! A Sluicegate of the test's own, on free ports, ended with the test.
//!
//! Requests, raw sockets, frames and upstream servers come from the test kit; here is only what needs
//! the program.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sluicegate_testkit::{HttpRequest, HttpResponse, STEP_TIMEOUT, eventually, raw_socket};
use tempfile::TempDir;

/// A running program.
pub struct Sluicegate {
    child: Child,
    directory: TempDir,
    pub proxy: SocketAddr,
    pub decisions: Option<SocketAddr>,
    pub admin: Option<SocketAddr>,
    /// The listener for Envoy's rate limit service.
    pub grpc: Option<SocketAddr>,
    /// The listener for Redis clients.
    pub resp: Option<SocketAddr>,
    /// The lines of its standard output so far.
    pub printed: Arc<Mutex<Vec<String>>>,
    /// The lines of its standard error so far.
    pub logged: Arc<Mutex<Vec<String>>>,
}

/// The directories of programs, with those that only root has on its path.
pub fn system_path() -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{path}:/usr/sbin:/usr/local/sbin")
}

impl Sluicegate {
    /// Starts it with a configuration, which should listen on port 0.
    pub fn start(config: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("sluicegate.yaml"), config).unwrap();
        Self::start_in(directory)
    }

    /// Starts it in front of a server, with a limit that is never reached. Any number of requests may
    /// be refused, because some tests send thousands of them.
    pub fn in_front_of(server: &str) -> Self {
        Self::start(&format!(
            "
proxy: {{ listen: '127.0.0.1:0', upstream: '{server}', refused_requests: {{ enabled: false }} }}
admin: off
limits:
  - {{ name: per-client, key: [client_ip], rate: 100000/s, burst: 100000 }}
"
        ))
    }

    /// Starts it in a directory that holds `sluicegate.yaml`, or `sluicegate.toml`, and whatever that
    /// names.
    pub fn start_in(directory: TempDir) -> Self {
        Self::start_by(Command::new(env!("CARGO_BIN_EXE_sluicegate")), directory)
    }

    /// The same, with a command that runs the program with more arguments.
    pub fn start_by(mut command: Command, directory: TempDir) -> Self {
        let names = ["sluicegate.toml", "sluicegate.yaml"];
        let mut files = names.map(|name| directory.path().join(name)).into_iter();
        let mut child = command
            .args(["serve", "--config"])
            .arg(files.find(|file| file.exists()).expect("a configuration"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (printed, lines) = collect(child.stdout.take().unwrap());
        let (logged, _) = collect(child.stderr.take().unwrap());
        let deadline = Instant::now() + STEP_TIMEOUT;
        let (mut proxy, mut decisions, mut admin, mut grpc, mut resp) =
            (None, None, None, None, None);
        // The line to try comes last.
        loop {
            match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) if line.starts_with("try it:") => break,
                Ok(line) => {
                    let mut words = line.split_whitespace();
                    let (name, url) = (words.next(), words.next());
                    let address = url
                        .and_then(|url| url.split_once("://"))
                        .and_then(|(_, address)| address.parse().ok());
                    match name {
                        Some("proxy") => proxy = proxy.or(address),
                        Some("decisions") => decisions = decisions.or(address),
                        Some("admin") => admin = admin.or(address),
                        Some("grpc") => grpc = grpc.or(address),
                        Some("resp") => resp = resp.or(address),
                        _ => {}
                    }
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    let _ = child.kill();
                    panic!(
                        "it did not start: {:?} {:?}",
                        printed.lock().unwrap(),
                        logged.lock().unwrap()
                    );
                }
            }
        }
        let proxy = proxy.expect("it says where the proxy listens");
        Self {
            child,
            directory,
            proxy,
            decisions,
            admin,
            grpc,
            resp,
            printed,
            logged,
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    /// Waits until it has ended on its own.
    pub fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + STEP_TIMEOUT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "it does not end");
            // bounded wait: the deadline is above
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until a line of its log holds `text`.
    pub fn wait_for_log(&self, text: &str) {
        let found = || {
            self.logged
                .lock()
                .unwrap()
                .iter()
                .any(|line| line.contains(text))
        };
        eventually(&format!("{text:?} in the log"), found);
    }

    /// A connection to the proxy.
    pub fn connect(&self) -> TcpStream {
        raw_socket::connect(self.proxy)
    }

    /// Everything that comes back for these bytes until the proxy closes; the request should ask for that.
    pub fn exchange(&self, request: &[u8]) -> HttpResponse {
        raw_socket::exchange(self.proxy, request)
    }

    /// A GET of a path at the admin API.
    pub fn admin_get(&self, path: &str) -> HttpResponse {
        self.admin_request("GET", path)
    }

    /// A request without a body at the admin API, which wants its own address as the host.
    pub fn admin_request(&self, method: &str, path: &str) -> HttpResponse {
        let address = self.admin.expect("the admin API is on");
        HttpRequest::new(method, path).host(address).send(address)
    }

    /// The value of a series in `/metrics`.
    pub fn metric(&self, series: &str) -> u64 {
        let metrics = self.admin_get("/metrics");
        let value = metrics
            .body()
            .lines()
            .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value
            .and_then(|value| value.parse().ok())
            .unwrap_or_else(|| panic!("no {series} in {metrics}"))
    }

    /// The memory that the process holds.
    pub fn resident_kib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// The descriptors that the process holds.
    pub fn open_files(&self) -> usize {
        let listed = fs::read_dir(format!("/proc/{}/fd", self.pid()));
        listed.unwrap().count()
    }

    /// The time that the process has spent on a processor.
    pub fn cpu_time(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        // After the name, which ends with the last bracket; a hundred ticks are a second on every Linux.
        let fields: Vec<&str> = stat
            .rsplit(')')
            .next()
            .unwrap()
            .split_whitespace()
            .collect();
        let ticks: u64 = fields[11..13]
            .iter()
            .map(|field| field.parse::<u64>().unwrap())
            .sum();
        Duration::from_millis(ticks * 10)
    }

    /// The response to a GET of a path for `a.example`, with more header lines.
    pub fn get(&self, path: &str, headers: &[&str]) -> HttpResponse {
        HttpRequest::get(path).headers(headers).send(self.proxy)
    }
}

impl Drop for Sluicegate {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // A successor runs with the same file.
        let _ = Command::new("pkill")
            .args(["-KILL", "-f"])
            .arg(self.directory.path())
            .status();
        if std::thread::panicking() {
            eprintln!(
                "printed: {:#?}\nlogged: {:#?}",
                self.printed.lock().unwrap(),
                self.logged.lock().unwrap()
            );
        }
    }
}

/// Another program under test conditions: its errors go to the file `log` in its directory, and are printed
/// if the test fails. It ends with this value.
pub struct LoggedProcess {
    child: Child,
    pub directory: TempDir,
}

impl LoggedProcess {
    pub fn start(command: &mut Command, directory: TempDir) -> Self {
        let log = fs::File::create(directory.path().join("log")).unwrap();
        let child = command
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Self { child, directory }
    }
}

impl Drop for LoggedProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = fs::read_to_string(self.directory.path().join("log"));
            eprintln!("{}", log.unwrap_or_default());
        }
    }
}

pub fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill")
        .args(["-s", name, &pid.to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
}

/// How many times something is done: as usual, or as often as `cargo xtask chaos` wants.
pub fn times(usual: u32) -> u32 {
    let wanted = std::env::var("SLUICEGATE_CASES")
        .ok()
        .and_then(|text| text.parse().ok());
    wanted.unwrap_or(usual).max(usual)
}

/// Writes a certificate for a host to `cert.pem` and its key to `key.pem`; returns the certificate, which
/// is its own authority.
pub fn write_certificate(directory: &Path, host: &str) -> String {
    let signed = rcgen::generate_simple_self_signed([host.to_owned()]).unwrap();
    let key = signed.signing_key.serialize_pem();
    fs::write(directory.join("key.pem"), key).unwrap();
    fs::write(directory.join("cert.pem"), signed.cert.pem()).unwrap();
    signed.cert.pem()
}

fn collect(from: impl Read + Send + 'static) -> (Arc<Mutex<Vec<String>>>, Receiver<String>) {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let (sender, receiver) = channel();
    let kept = Arc::clone(&lines);
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            kept.lock().unwrap().push(line.clone());
            let _ = sender.send(line);
        }
    });
    (lines, receiver)
}
