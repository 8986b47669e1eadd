use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use sluicegate_testkit::{Fault, FaultProxy, RedisServer, alone, wait_until};

const SHORT: Duration = Duration::from_millis(100);

/// A connection that gives up reading after so long.
fn connect(proxy: &FaultProxy, read_timeout: Duration) -> TcpStream {
    let client = TcpStream::connect_timeout(&proxy.address(), Duration::from_secs(2)).unwrap();
    client.set_read_timeout(Some(read_timeout)).unwrap();
    client
}

fn ping(client: &mut TcpStream) -> std::io::Result<()> {
    client.write_all(b"PING\r\n")?;
    pong(client)
}

fn pong(client: &mut TcpStream) -> std::io::Result<()> {
    let mut answer = [0; 7];
    client.read_exact(&mut answer)?;
    assert_eq!(&answer, b"+PONG\r\n");
    Ok(())
}

fn is_timeout(result: std::io::Result<()>) -> bool {
    result.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn bytes_pass_and_connections_are_counted() {
    let server = RedisServer::start();
    let proxy = FaultProxy::new(server.address());
    let start = Instant::now();
    let mut clients = [(); 5].map(|()| connect(&proxy, Duration::from_secs(2)));
    clients.iter_mut().for_each(|client| ping(client).unwrap());
    assert_eq!(
        (proxy.connections_accepted(), proxy.connections_open()),
        (5, 5)
    );
    assert!(
        proxy
            .accept_times()
            .iter()
            .all(|time| *time >= start && time.elapsed() < Duration::from_secs(5))
    );
    drop(clients);
    wait_until(
        Duration::from_secs(2),
        "closed connections are let go",
        || proxy.connections_open() == 0,
    );
    let large = "x".repeat(4_000_000);
    let mut client = redis::Client::open(proxy.url())
        .unwrap()
        .get_connection()
        .unwrap();
    redis::cmd("SET")
        .arg("a")
        .arg(&large)
        .exec(&mut client)
        .unwrap();
    assert_eq!(
        redis::cmd("GET")
            .arg("a")
            .query::<String>(&mut client)
            .unwrap(),
        large
    );
}

#[test]
fn latency_delays_each_byte_once_in_each_direction() {
    let server = RedisServer::start();
    let proxy = FaultProxy::new(server.address());
    let mut client = connect(&proxy, Duration::from_secs(2));
    ping(&mut client).unwrap();
    proxy.set(Fault::Latency(SHORT));
    let start = Instant::now();
    for _ in 0..10 {
        client.write_all(b"PING\r\n").unwrap();
    }
    (0..10).for_each(|_| pong(&mut client).unwrap());
    let took = start.elapsed();
    assert!(took >= SHORT * 2 && took < SHORT * 4, "{took:?}");
    proxy.set(Fault::None);
    let start = Instant::now();
    ping(&mut client).unwrap();
    assert!(start.elapsed() < SHORT);
}

#[test]
fn one_byte_passes_each_second() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = FaultProxy::new(listener.local_addr().unwrap());
    let mut client = connect(&proxy, Duration::from_secs(3));
    let (mut server, _) = listener.accept().unwrap();
    proxy.set(Fault::OneBytePerSecond);
    server.write_all(b"answer").unwrap();
    let mut answer = [0; 6];
    assert_eq!(client.read(&mut answer).unwrap(), 1);
    let start = Instant::now();
    assert_eq!(client.read(&mut answer[1..]).unwrap(), 1);
    let took = start.elapsed();
    assert!(
        took > Duration::from_millis(900) && took < Duration::from_millis(1500),
        "{took:?}"
    );
    proxy.set(Fault::None);
    client.read_exact(&mut answer[2..]).unwrap();
    assert_eq!(&answer, b"answer");
}

#[test]
fn a_stall_holds_bytes_back_and_lets_them_go() {
    let server = RedisServer::start();
    let proxy = FaultProxy::new(server.address());
    let mut old = connect(&proxy, SHORT);
    ping(&mut old).unwrap();
    proxy.set(Fault::Stall);
    assert!(is_timeout(ping(&mut old)));
    let mut new = connect(&proxy, SHORT);
    assert!(is_timeout(ping(&mut new)));
    proxy.set(Fault::None);
    pong(&mut old).unwrap();
    pong(&mut new).unwrap();
}

#[test]
fn dropped_packets_leave_a_connect_unanswered() {
    let server = RedisServer::start();
    let proxy = FaultProxy::new(server.address());
    let mut old = connect(&proxy, SHORT);
    ping(&mut old).unwrap();
    for _ in 0..2 {
        proxy.set(Fault::Drop);
        assert!(is_timeout(ping(&mut old)));
        let error = TcpStream::connect_timeout(&proxy.address(), SHORT).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        let accepted = proxy.connections_accepted();
        proxy.set(Fault::None);
        pong(&mut old).unwrap();
        ping(&mut connect(&proxy, Duration::from_secs(2))).unwrap();
        assert_eq!(
            proxy.connections_accepted(),
            accepted + 1,
            "our own fillers do not count"
        );
    }
}

#[test]
fn a_reset_is_seen_by_old_and_new_connections() {
    let server = RedisServer::start();
    let proxy = FaultProxy::new(server.address());
    let mut old = connect(&proxy, Duration::from_secs(2));
    ping(&mut old).unwrap();
    proxy.set(Fault::Reset);
    assert_eq!(
        pong(&mut old).unwrap_err().kind(),
        ErrorKind::ConnectionReset
    );
    let mut new = connect(&proxy, Duration::from_secs(2));
    assert_eq!(
        pong(&mut new).unwrap_err().kind(),
        ErrorKind::ConnectionReset
    );
    proxy.set(Fault::None);
    ping(&mut connect(&proxy, Duration::from_secs(2))).unwrap();
}

#[test]
fn a_half_close_ends_reading_while_writes_arrive() {
    let server = RedisServer::start();
    let proxy = FaultProxy::new(server.address());
    let mut client = connect(&proxy, Duration::from_secs(2));
    ping(&mut client).unwrap();
    proxy.set(Fault::HalfClose);
    assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
    client.write_all(b"SET a 1\r\n").unwrap();
    wait_until(Duration::from_secs(2), "the write arrives", || {
        server.command(&["EXISTS", "a"])
    });
    assert_eq!(
        connect(&proxy, Duration::from_secs(2))
            .read(&mut [0; 1])
            .unwrap(),
        0
    );
}

#[test]
fn a_closed_listener_refuses_new_connections_only() {
    let server = RedisServer::start();
    let proxy = FaultProxy::new(server.address());
    let mut old = connect(&proxy, Duration::from_secs(2));
    for _ in 0..3 {
        proxy.set(Fault::Refuse);
        ping(&mut old).unwrap();
        assert_eq!(
            TcpStream::connect(proxy.address()).unwrap_err().kind(),
            ErrorKind::ConnectionRefused
        );
        proxy.set(Fault::None);
        ping(&mut connect(&proxy, Duration::from_secs(2))).unwrap();
    }
}

#[test]
fn black_holes_stay_while_new_connections_work() {
    let server = RedisServer::start();
    let proxy = FaultProxy::new(server.address());
    let mut old = connect(&proxy, SHORT);
    ping(&mut old).unwrap();
    proxy.stall_existing();
    ping(&mut connect(&proxy, Duration::from_secs(2))).unwrap();
    proxy.set(Fault::None);
    assert!(is_timeout(ping(&mut old)));
}

#[test]
fn a_server_that_is_away_resets_the_client() {
    let server = RedisServer::start();
    let proxy = FaultProxy::new(server.address());
    server.kill();
    assert_eq!(
        pong(&mut connect(&proxy, Duration::from_secs(2)))
            .unwrap_err()
            .kind(),
        ErrorKind::ConnectionReset
    );
    server.restart();
    ping(&mut connect(&proxy, Duration::from_secs(2))).unwrap();
}

/// In a process of its own: other tests of this one come and go with their threads.
#[test]
fn a_dropped_proxy_leaves_no_thread_whatever_its_fault() {
    if !alone("fault_proxy::a_dropped_proxy_leaves_no_thread_whatever_its_fault") {
        return;
    }
    let before = threads();
    let server = RedisServer::start();
    let faults = [
        Fault::None,
        Fault::Latency(SHORT),
        Fault::OneBytePerSecond,
        Fault::Stall,
        Fault::Drop,
    ];
    for fault in faults
        .into_iter()
        .chain([Fault::Reset, Fault::HalfClose, Fault::Refuse])
    {
        let proxy = FaultProxy::new(server.address());
        let mut clients = [(); 3].map(|()| connect(&proxy, SHORT));
        clients.iter_mut().for_each(|client| ping(client).unwrap());
        proxy.set(fault);
        // A reset client cannot be written to.
        let _sent = clients[0].write_all(b"PING\r\n");
        assert!(threads() > before);
        let start = Instant::now();
        drop(proxy);
        assert!(
            start.elapsed() < Duration::from_secs(1),
            "{fault:?} took {:?}",
            start.elapsed()
        );
        // The kernel lists a thread a moment longer than it runs.
        wait_until(Duration::from_millis(200), "the threads are gone", || {
            threads() == before
        });
    }
}
