//! The stages of the overload manager over real sockets, with the used memory told by the test.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sluicegate_config as config;
use sluicegate_core::Nanos;
use sluicegate_testkit::h2_frames::H2Connection;
use sluicegate_testkit::{HttpRequest, STEP_TIMEOUT, UpstreamRecorder, eventually, raw_socket};

use crate::edge::Edge;

const GET: &[u8] = b"GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n";
const BUDGET: u64 = 1_000;

/// A proxy with an admin API whose memory is what the test says, in thousandths of its budget.
struct Overloaded {
    edge: Edge,
    used: Arc<AtomicU64>,
}

impl Overloaded {
    fn start(upstream: SocketAddr) -> Self {
        let used = Arc::new(AtomicU64::new(0));
        let told = Arc::clone(&used);
        let set = |config: &mut config::Config| {
            config.overload.memory = config::MemoryBudget::Bytes(BUDGET);
            config.admin.listen = Some("127.0.0.1:0".parse().unwrap());
            let timeouts = &mut config.proxy.as_mut().unwrap().timeouts;
            // A tick is a quarter of the shortest, and nobody is closed for being idle otherwise.
            timeouts.header = Nanos::from_secs(2);
            timeouts.idle = Nanos::from_secs(600);
        };
        let source = move || Some(told.load(Ordering::Relaxed));
        let edge = Edge::with_used_memory(upstream, set, Box::new(source));
        Self { edge, used }
    }

    fn use_memory(&self, thousandths: u64, stage: &str) {
        self.used.store(thousandths, Ordering::Relaxed);
        eventually("the stage is in force", || {
            self.metric("sluicegate_overload_stage") == stage
        });
    }

    fn admin(&self, path: &str) -> sluicegate_testkit::HttpResponse {
        let address = self.edge.admin().unwrap();
        HttpRequest::get(path).host(address).send(address)
    }

    fn metric(&self, series: &str) -> String {
        let metrics = self.admin("/metrics");
        let value = metrics
            .body()
            .lines()
            .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value
            .unwrap_or_else(|| panic!("no {series} in {metrics}"))
            .to_owned()
    }

    fn shed(&self, kind: &str) -> u64 {
        let series = format!("sluicegate_overload_shed_total{{connection=\"{kind}\"}}");
        self.metric(&series).parse().unwrap()
    }

    /// A connection with an answered request; `None` when it is closed instead.
    fn keep_alive(&self) -> Option<TcpStream> {
        let mut stream = raw_socket::connect(self.edge.address);
        stream.write_all(GET).ok()?;
        let response = raw_socket::read_response(&mut stream);
        (response.is_empty() || response.status() == 200).then_some(())?;
        (!response.is_empty()).then_some(stream)
    }

    /// As many connections as are served in any stage.
    fn few(&self) -> Vec<TcpStream> {
        let few = (0..sluicegate_net::OverloadState::CONNECTIONS_MIN).map(|_| self.keep_alive());
        few.map(Option::unwrap).collect()
    }
}

/// Returns true when the connection is closed; false when it is still open after a moment.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream
        .set_read_timeout(Some(Duration::from_millis(10)))
        .unwrap();
    match stream.read(&mut [0; 64]) {
        Ok(length) => length == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn above_nine_tenths_new_connections_are_closed_and_open_ones_served() {
    let upstream = UpstreamRecorder::start();
    let process = Overloaded::start(upstream.address);
    let mut open = process.few();
    process.use_memory(900, "0");
    assert!(process.keep_alive().is_some(), "at nine tenths");
    process.use_memory(901, "1");
    for _ in 0..5 {
        assert!(process.keep_alive().is_none(), "a new one");
    }
    for stream in &mut open {
        stream.write_all(GET).unwrap();
        assert_eq!(raw_socket::read_response(stream).status(), 200);
    }
    assert!(process.shed("new") >= 5 && process.shed("idle") == 0);
    let refused = "sluicegate_connections_refused_total{reason=\"overload\"}";
    assert_eq!(process.metric(refused), process.shed("new").to_string());
    assert_eq!(process.metric("sluicegate_memory_used_bytes"), "901");
    assert_eq!(process.metric("sluicegate_memory_budget_bytes"), "1000");
    assert_eq!(process.admin("/healthz").status(), 200);
    let ready = process.admin("/readyz");
    assert_eq!(ready.status(), 503);
    assert!(
        ready.contains("memory is short: new connections are closed"),
        "{ready}"
    );
    process.use_memory(851, "1");
    assert!(process.keep_alive().is_none(), "it ends five percent lower");
    process.use_memory(850, "0");
    assert!(process.keep_alive().is_some());
    assert_eq!(process.admin("/readyz").status(), 200);
}

#[test]
fn a_few_connections_are_served_in_any_stage() {
    let upstream = UpstreamRecorder::start();
    let process = Overloaded::start(upstream.address);
    process.use_memory(949, "1");
    let mut open = process.few();
    assert!(process.keep_alive().is_none());
    open.pop();
    eventually("there is room again", || process.keep_alive().is_some());
}

#[test]
fn above_95_percent_idle_connections_are_closed_and_requests_answered() {
    let slow = raw_socket::serve_connections_in_parallel(|mut stream| {
        while let Some(head) = raw_socket::read_head(&mut stream) {
            if head.starts_with("GET /slow") {
                // bounded wait: longer than every idle connection lives
                std::thread::sleep(Duration::from_secs(9));
            }
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let process = Overloaded::start(slow);
    let mut idle = process.few();
    let mut frames = H2Connection::start(process.edge.address, &[]);
    assert_eq!(frames.get("/a"), 200);
    let mut busy = raw_socket::connect(process.edge.address);
    busy.write_all(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
        .unwrap();
    process.use_memory(960, "2");
    eventually("all idle ones are closed", || {
        idle.iter_mut().all(is_closed)
    });
    frames.wait_for_end();
    assert_eq!(raw_socket::read_response(&mut busy).status(), 200);
    assert_eq!(process.shed("large"), 0);
    assert!(process.shed("idle") >= 17, "{}", process.shed("idle"));
    process.use_memory(1, "0");
    let mut again = process.few();
    assert!(!again.iter_mut().any(is_closed));
}

#[test]
fn above_the_budget_connections_that_hold_most_are_reset_first() {
    let server = raw_socket::serve_connections_in_parallel(|mut stream| {
        let _ = raw_socket::read_head(&mut stream);
        // The head of a response whose body never comes.
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n1");
        let _ = raw_socket::read_to_end(stream);
    });
    let process = Overloaded::start(server);
    let mut small = raw_socket::connect(process.edge.address);
    small.write_all(GET).unwrap();
    let mut large = H2Connection::start(process.edge.address, &[]);
    for _ in 0..64 {
        let stream = large.next_stream();
        let fields = sluicegate_testkit::h2_frames::get_fields("/a");
        let flags =
            sluicegate_testkit::h2_frames::END_HEADERS | sluicegate_testkit::h2_frames::END_STREAM;
        let kind = sluicegate_testkit::h2_frames::HEADERS;
        large.send(&sluicegate_testkit::h2_frames::frame(
            kind, flags, stream, &fields,
        ));
    }
    eventually("all are under way", || {
        large.received().statuses.len() == 64
    });
    assert!(raw_socket::read_head(&mut small).is_some());
    process.use_memory(1_001, "3");
    let began = Instant::now();
    large.wait_for_end();
    let large_took = began.elapsed();
    let deadline = Instant::now() + STEP_TIMEOUT;
    small.set_read_timeout(Some(STEP_TIMEOUT)).unwrap();
    let mut rest = Vec::new();
    // It has the first byte of its body, and then a reset: no end that looks like one.
    let end = small.read_to_end(&mut rest).unwrap_err();
    assert_eq!(end.kind(), std::io::ErrorKind::ConnectionReset);
    assert!(began.elapsed() > large_took && Instant::now() < deadline);
    assert_eq!(process.shed("large"), 2);
    assert_eq!(process.admin("/healthz").status(), 200);
}

#[test]
fn without_a_budget_nothing_is_given_up() {
    let upstream = UpstreamRecorder::start();
    let set = |config: &mut config::Config| {
        config.overload.memory = config::MemoryBudget::Unlimited;
    };
    let source = Box::new(|| Some(u64::MAX));
    let edge = Edge::with_used_memory(upstream.address, set, source);
    let held: Vec<TcpStream> = (0..32).map(|_| raw_socket::connect(edge.address)).collect();
    assert_eq!(HttpRequest::get("/a").send(edge.address).status(), 200);
    drop(held);
}
