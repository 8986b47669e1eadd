//! A Sluicegate of the test's own, on free ports, ended with the test.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// No step of a test takes longer than this, also on a busy machine.
pub const LONGEST: Duration = Duration::from_secs(20);

/// A running program.
pub struct Sluicegate {
    child: Child,
    directory: TempDir,
    pub proxy: SocketAddr,
    pub decisions: Option<SocketAddr>,
    pub admin: Option<SocketAddr>,
    /// Where Envoy asks for decisions, and clients of Redis.
    pub grpc: Option<SocketAddr>,
    pub resp: Option<SocketAddr>,
    /// Everything it has printed so far, by line.
    pub printed: Arc<Mutex<Vec<String>>>,
    pub logged: Arc<Mutex<Vec<String>>>,
}

impl Sluicegate {
    /// Starts it with a configuration, which should listen on port 0.
    pub fn start(config: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("sluicegate.yaml"), config).unwrap();
        Self::start_in(directory)
    }

    /// Starts it in front of a server, with a limit that nobody meets.
    pub fn in_front_of(server: &str) -> Self {
        Self::start(&format!(
            "
proxy: {{ listen: '127.0.0.1:0', upstream: '{server}' }}
admin: off
limits:
  - {{ name: per-client, key: [client_ip], rate: 100000/s, burst: 100000 }}
"
        ))
    }

    /// Starts it in a directory that holds `sluicegate.yaml` and whatever that names.
    pub fn start_in(directory: TempDir) -> Self {
        Self::start_by(Command::new(env!("CARGO_BIN_EXE_sluicegate")), directory)
    }

    /// The same, with a command that runs the program with more arguments.
    pub fn start_by(mut command: Command, directory: TempDir) -> Self {
        let mut child = command
            .args(["serve", "--config"])
            .arg(directory.path().join("sluicegate.yaml"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (printed, lines) = collect(child.stdout.take().unwrap());
        let (logged, _) = collect(child.stderr.take().unwrap());
        let deadline = Instant::now() + LONGEST;
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
        let deadline = Instant::now() + LONGEST;
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
        let stream = TcpStream::connect(self.proxy).unwrap();
        stream.set_read_timeout(Some(LONGEST)).unwrap();
        stream.set_write_timeout(Some(LONGEST)).unwrap();
        stream
    }

    /// Everything that comes back for these bytes until the proxy closes; the request should ask for that.
    pub fn exchange(&self, request: &[u8]) -> String {
        let mut stream = self.connect();
        stream.write_all(request).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// What the operator's door says about a path.
    pub fn ask_admin(&self, path: &str) -> String {
        self.tell_admin("GET", path)
    }

    /// The same, with another method.
    pub fn tell_admin(&self, method: &str, path: &str) -> String {
        let address = self.admin.expect("the admin door is open");
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LONGEST)).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    /// The value of a series, as the operator's door tells it.
    pub fn metric(&self, series: &str) -> u64 {
        let metrics = self.ask_admin("/metrics");
        let value = metrics
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

    /// The answer to a GET of a path, with more header lines.
    pub fn get(&self, path: &str, headers: &[&str]) -> String {
        let lines: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
        self.exchange(
            format!("GET {path} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n{lines}\r\n")
                .as_bytes(),
        )
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

pub fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill")
        .args(["-s", name, &pid.to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
}

/// A free port for a program that must be told one, below those that the system hands out: nobody is given it before the
/// program listens there, or while it is started again.
pub fn port_to_listen_at() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    // Other processes begin elsewhere.
    let first = std::process::id().wrapping_mul(101);
    let numbers =
        std::iter::repeat_with(|| first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)));
    let ports = numbers.map(|number| 12_000 + (number % 18_000) as u16);
    ports
        .take(1_000)
        .find(is_free)
        .expect("one of a thousand ports is free")
}

/// How many times something is done: as usual, or as often as `cargo xtask chaos` wants.
pub fn times(usual: u32) -> u32 {
    let wanted = std::env::var("SLUICEGATE_CASES")
        .ok()
        .and_then(|text| text.parse().ok());
    wanted.unwrap_or(usual).max(usual)
}

/// Waits until something holds.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONGEST;
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        // bounded wait: the deadline is above
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The status of an answer, 0 if there is none.
pub fn status(answer: &str) -> u16 {
    answer
        .split(' ')
        .nth(1)
        .and_then(|word| word.parse().ok())
        .unwrap_or(0)
}

/// The value of a header of an answer.
pub fn header<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    let head = answer.split("\r\n\r\n").next()?;
    head.split("\r\n").skip(1).find_map(|line| {
        let (own, value) = line.split_once(':')?;
        own.eq_ignore_ascii_case(name).then(|| value.trim())
    })
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
