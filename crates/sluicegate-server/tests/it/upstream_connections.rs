//! Connections to servers: how many there may be, who gets the next, and those that nobody uses.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use sluicegate_config::{Proxy, Upstream, UpstreamHttp};
use sluicegate_core::Nanos;
use sluicegate_testkit::raw_socket::{
    connect, read_head, read_response, serve_connections_in_parallel,
};
use sluicegate_testkit::{
    HttpRequest, HttpResponse, STEP_TIMEOUT, TcpState, UpstreamRecorder, count_sockets, eventually,
    free_port, watchdog,
};

use super::edge::Edge;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A server that answers when it is told to.
#[derive(Clone)]
struct HeldServer {
    address: SocketAddr,
    state: Arc<ServerState>,
}

#[derive(Default)]
struct ServerState {
    /// Connections so far.
    accepted: AtomicUsize,
    /// Requests that have come.
    requests: AtomicUsize,
    is_released: Mutex<bool>,
    released: Condvar,
    streams: Mutex<Vec<TcpStream>>,
}

impl HeldServer {
    fn start() -> Self {
        let state = Arc::new(ServerState::default());
        let shared = Arc::clone(&state);
        let address = serve_connections_in_parallel(move |stream| shared.serve(stream));
        Self { address, state }
    }

    fn release(&self) {
        *self.state.is_released.lock().unwrap() = true;
        self.state.released.notify_all();
    }

    /// Closes its side of all connections.
    fn close(&self) {
        for stream in self.state.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn wait_for_requests(&self, count: usize) {
        let has_come = || self.state.requests.load(SeqCst) >= count;
        eventually("the requests have reached the server", has_come);
    }
}

impl ServerState {
    fn serve(&self, mut stream: TcpStream) {
        self.accepted.fetch_add(1, SeqCst);
        let handle = stream.try_clone().unwrap();
        self.streams.lock().unwrap().push(handle);
        while read_head(&mut stream).is_some() {
            self.requests.fetch_add(1, SeqCst);
            let is_released = self.is_released.lock().unwrap();
            let waited =
                self.released
                    .wait_timeout_while(is_released, STEP_TIMEOUT, |is_released| !*is_released);
            drop(waited.unwrap());
            if stream.write_all(OK).is_err() {
                break;
            }
        }
    }
}

/// A proxy with so many threads, connections for each server, and time to wait for one.
fn edge(upstream: SocketAddr, workers: usize, max: usize, wait: Duration) -> Edge {
    edge_with(upstream, |proxy| {
        proxy.workers = Some(workers);
        proxy.max_connections_per_upstream = max;
        proxy.timeouts.upstream_wait = Nanos::from_millis(wait.as_millis() as u64);
    })
}

fn edge_with(upstream: SocketAddr, set: impl FnOnce(&mut Proxy)) -> Edge {
    Edge::with(upstream, Vec::new(), |config| {
        config.admin.listen = Some("127.0.0.1:0".parse().unwrap());
        set(config.proxy.as_mut().unwrap());
    })
}

fn get(edge: &Edge) -> HttpResponse {
    HttpRequest::get("/").send(edge.address)
}

/// Sends requests side by side, each on a connection of its own.
fn get_many(edge: &Edge, count: usize) -> Vec<thread::JoinHandle<HttpResponse>> {
    let address = edge.address;
    (0..count)
        .map(|_| thread::spawn(move || HttpRequest::get("/").send(address)))
        .collect()
}

#[test]
fn connections_to_a_server_stay_within_their_bound() {
    let server = HeldServer::start();
    let edge = edge(server.address, 2, 4, STEP_TIMEOUT);
    let waiting = get_many(&edge, 24);
    let open = || count_sockets(server.address, TcpState::Established);
    server.wait_for_requests(4);
    assert_eq!(open(), 4);
    server.release();
    while !waiting.iter().all(thread::JoinHandle::is_finished) {
        // bounded wait: each request ends with its client's timeout
        assert!(open() <= 4);
    }
    for response in waiting {
        assert_eq!(response.join().unwrap().status(), 200);
    }
    assert_eq!(server.state.requests.load(SeqCst), 24);
}

/// A connection that is closed and dialled again for each request would cost the server most when it
/// has least to give.
#[test]
fn a_connection_that_becomes_free_goes_to_who_waits_for_it() {
    let server = HeldServer::start();
    let edge = edge(server.address, 1, 1, STEP_TIMEOUT);
    let waiting = get_many(&edge, 12);
    server.wait_for_requests(1);
    server.release();
    for response in waiting {
        assert_eq!(response.join().unwrap().status(), 200);
    }
    assert_eq!(server.state.accepted.load(SeqCst), 1);
}

#[test]
fn who_waits_too_long_for_a_connection_is_told_to_come_back() {
    let server = HeldServer::start();
    let edge = edge(server.address, 1, 1, Duration::from_millis(300));
    let first = get_many(&edge, 1).remove(0);
    server.wait_for_requests(1);
    let begun = Instant::now();
    let refused = get(&edge);
    assert_eq!(
        (refused.status(), refused.header("retry-after")),
        (503, Some("1"))
    );
    assert!(begun.elapsed() >= Duration::from_millis(300));
    let admin = edge.admin().unwrap();
    let metrics = HttpRequest::get("/metrics").host(admin).send(admin);
    let series = "sluicegate_upstream_errors_total{reason=\"busy\"} 1";
    assert!(metrics.text.contains(series), "{}", metrics.text);
    server.release();
    assert_eq!(first.join().unwrap().status(), 200);
    assert_eq!(get(&edge).status(), 200, "it is as before");
}

#[test]
fn a_server_with_room_is_preferred_to_waiting() {
    let (held, free) = (HeldServer::start(), UpstreamRecorder::start());
    let edge = edge_with(held.address, |proxy| {
        proxy.max_connections_per_upstream = 1;
        proxy.timeouts.upstream_wait = Nanos::from_secs(60);
        let other = Upstream::Server {
            tls: false,
            host: free.address.ip().to_string(),
            port: free.address.port(),
            http: UpstreamHttp::Http1,
            ca_file: None,
        };
        proxy.routes[0].upstreams.push(other);
    });
    // They take turns, so one of two goes to the server that holds it.
    let mut first = get_many(&edge, 2);
    held.wait_for_requests(1);
    let is_answered = || first.iter().any(thread::JoinHandle::is_finished);
    eventually(
        "the other server has answered and has room again",
        is_answered,
    );
    for _ in 0..10 {
        assert_eq!(get(&edge).status(), 200);
    }
    assert!(free.count() >= 10);
    held.release();
    first
        .drain(..)
        .for_each(|one| assert_eq!(one.join().unwrap().status(), 200));
}

/// The only connection becomes idle on one thread, and the next request may come to the other.
#[test]
fn idle_connections_of_one_thread_do_not_starve_another() {
    let upstream = UpstreamRecorder::start();
    let edge = edge(upstream.address, 4, 1, Duration::from_secs(20));
    let begun = Instant::now();
    for _ in 0..40 {
        assert_eq!(get(&edge).status(), 200);
    }
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "nobody waits until an idle connection is too old: {:?}",
        begun.elapsed()
    );
}

#[test]
fn a_client_that_leaves_gives_its_connection_back() {
    let server = HeldServer::start();
    let edge = edge(server.address, 1, 1, STEP_TIMEOUT);
    let mut client = connect(edge.address);
    client
        .write_all(&HttpRequest::get("/").keep_open().to_http1())
        .unwrap();
    server.wait_for_requests(1);
    drop(client);
    let next = get_many(&edge, 1).remove(0);
    server.wait_for_requests(2);
    server.release();
    assert_eq!(next.join().unwrap().status(), 200);
}

#[test]
fn a_connection_that_was_upgraded_counts_until_it_ends() {
    let upstream = serve_connections_in_parallel(|mut stream| {
        let head = read_head(&mut stream).unwrap_or_default();
        if !head.to_ascii_lowercase().contains("upgrade: chat") {
            let _ = stream.write_all(OK);
            return;
        }
        let switch = b"HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: chat\r\n\r\n";
        let _ = stream.write_all(switch);
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let edge = edge(upstream, 1, 1, Duration::from_millis(200));
    let mut chat = connect(edge.address);
    let upgrade = HttpRequest::get("/")
        .headers(&["Connection: upgrade", "Upgrade: chat"])
        .keep_open();
    chat.write_all(&upgrade.to_http1()).unwrap();
    assert_eq!(read_response(&mut chat).status(), 101);
    assert_eq!(get(&edge).status(), 503);
    chat.shutdown(Shutdown::Both).unwrap();
    eventually("the connection is given back", || {
        get(&edge).status() == 200
    });
}

#[test]
fn idle_connections_that_the_server_has_closed_are_closed() {
    let server = HeldServer::start();
    let edge = edge(server.address, 1, 64, Duration::from_secs(1));
    let clients = get_many(&edge, 10);
    server.wait_for_requests(10);
    server.release();
    for client in clients {
        assert_eq!(client.join().unwrap().status(), 200);
    }
    assert_eq!(count_sockets(server.address, TcpState::Established), 10);
    server.close();
    eventually("no connection is half open", || {
        count_sockets(server.address, TcpState::CloseWait) == 0
            && count_sockets(server.address, TcpState::Established) == 0
    });
}

/// nginx closes connections that are idle for a second, long before we would.
#[test]
fn connections_that_nginx_has_closed_are_closed() {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let directory = watchdog::temporary_directory("nginx");
    let file = format!(
        "daemon off; master_process off; pid nginx.pid; events {{ }}
http {{
  access_log off; client_body_temp_path a; proxy_temp_path b; fastcgi_temp_path c;
  uwsgi_temp_path d; scgi_temp_path e;
  server {{ listen {address}; keepalive_timeout 1s; location / {{ return 200 ok; }} }}
}}"
    );
    std::fs::write(directory.path().join("nginx.conf"), file).unwrap();
    // Debian installs it where only root looks for it.
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin";
    let mut nginx = Command::new("nginx")
        .env("PATH", path)
        .args(["-p", ".", "-c", "nginx.conf", "-e", "stderr"])
        .current_dir(directory.path())
        .spawn()
        .unwrap();
    watchdog::watch(nginx.id());
    eventually("nginx answers", || {
        HttpRequest::get("/").send(address).status() == 200
    });
    let edge = edge(address, 2, 64, Duration::from_secs(1));
    for _ in 0..3 {
        let posted = HttpRequest::post("/", "hello").send(edge.address);
        assert_eq!(posted.status(), 200, "{posted}");
        eventually("the idle connection is closed on both sides", || {
            count_sockets(address, TcpState::CloseWait) == 0
                && count_sockets(address, TcpState::Established) == 0
        });
    }
    nginx.kill().unwrap();
    nginx.wait().unwrap();
}

/// A request that cannot be sent twice does not meet a connection that has ended.
#[test]
fn a_request_after_the_servers_restart_does_not_fail() {
    let serve = |listener: TcpListener, count: usize| {
        thread::spawn(move || {
            let streams: Vec<TcpStream> = (0..count)
                .map(|_| {
                    let (mut stream, _) = listener.accept().unwrap();
                    let head = read_head(&mut stream).unwrap();
                    if head.to_ascii_lowercase().contains("content-length: 5") {
                        stream.read_exact(&mut [0; 5]).unwrap();
                    }
                    stream.write_all(OK).unwrap();
                    stream
                })
                .collect();
            drop(streams);
        })
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let edge = edge(address, 1, 64, Duration::from_secs(1));
    let first = serve(listener, 1);
    assert_eq!(get(&edge).status(), 200);
    first.join().unwrap();
    eventually("the idle connection is closed", || {
        count_sockets(address, TcpState::CloseWait) == 0
    });
    let mut listener = None;
    eventually("the server's port is free again", || {
        listener = TcpListener::bind(address).ok();
        listener.is_some()
    });
    let second = serve(listener.unwrap(), 1);
    let response = HttpRequest::post("/", "hello").send(edge.address);
    assert_eq!(response.status(), 200, "{response}");
    second.join().unwrap();
}
