//! Dials real servers, and some that never answer.

mod login;
mod tls;

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use sluicegate_core::Nanos;
use sluicegate_testkit::{ClientAuth, RedisServer, TlsFiles};
use socket2::{Domain, SockRef, Socket, Type};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::super::{ClientCert, Credentials, Endpoint, RedisOptions, Secret, TlsOptions};
use super::error::DialStep;
use super::{DialError, Dialer, FailureClass, NodeConnection, dial};

async fn dial_first(options: &RedisOptions) -> Result<NodeConnection, DialError> {
    /// Dials must be `Send`: they run in tasks of their own.
    fn sendable<F: Future + Send>(future: F) -> F {
        future
    }
    let dialer = Dialer::prepare(options).unwrap();
    sendable(dial(&options.endpoints[0], &dialer)).await
}

async fn dial_error(options: &RedisOptions) -> DialError {
    match dial_first(options).await {
        Ok(_) => panic!("there is a connection"),
        Err(error) => error,
    }
}

async fn send(connection: &mut NodeConnection, command: &str) -> String {
    connection
        .write_all(format!("{command}\r\n").as_bytes())
        .await
        .unwrap();
    let mut answer = vec![0; 4_096];
    let length = connection.read(&mut answer).await.unwrap();
    String::from_utf8(answer[..length].to_vec()).unwrap()
}

fn endpoint(server: &RedisServer) -> Endpoint {
    Endpoint::new("127.0.0.1", server.port())
}

fn client_cert(files: &TlsFiles) -> ClientCert {
    ClientCert {
        cert_file: files.client_certificate(),
        key_file: files.client_key(),
    }
}

fn options(server: &RedisServer) -> RedisOptions {
    let mut options = RedisOptions::standalone(endpoint(server));
    options.connect_timeout = Nanos::from_secs(5);
    options
}

fn credentials(username: Option<&str>, password: &str) -> Credentials {
    Credentials {
        username: username.map(String::from),
        password: Some(Secret::new(password)),
    }
}

#[tokio::test]
async fn a_plain_connection_is_tuned_and_ready_for_commands() {
    let server = RedisServer::start();
    let mut connection = dial_first(&options(&server)).await.unwrap();
    assert_eq!(send(&mut connection, "PING").await, "+PONG\r\n");
    let NodeConnection::Plain(stream) = &connection else {
        panic!("encrypted")
    };
    let socket = SockRef::from(stream);
    assert!(stream.nodelay().unwrap() && socket.keepalive().unwrap());
    assert_eq!(
        socket.tcp_keepalive_time().unwrap(),
        Duration::from_secs(10)
    );
    assert_eq!(
        socket.tcp_keepalive_interval().unwrap(),
        Duration::from_secs(5)
    );
    assert_eq!(socket.tcp_keepalive_retries().unwrap(), 3);
    #[cfg(target_os = "linux")]
    assert_eq!(
        socket.tcp_user_timeout().unwrap(),
        Some(Duration::from_secs(2))
    );
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up_in_time() {
    // The system accepts connections, but nobody reads from them.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut options = RedisOptions::standalone(Endpoint::new(
        "127.0.0.1",
        silent.local_addr().unwrap().port(),
    ));
    options.connect_timeout = Nanos::from_millis(100);
    options.credentials = credentials(None, "hunter22");
    let authority = TlsFiles::generate();
    let tls = TlsOptions {
        ca_file: Some(authority.authority()),
        ..TlsOptions::default()
    };
    for (tls, step) in [(None, DialStep::Auth), (Some(tls), DialStep::Tls)] {
        options.tls = tls;
        let start = Instant::now();
        let error = dial_error(&options).await;
        let took = start.elapsed();
        assert!(
            (Duration::from_millis(100)..Duration::from_millis(600)).contains(&took),
            "{took:?}"
        );
        assert_eq!(
            (error.step, error.class()),
            (step, FailureClass::Unavailable)
        );
        assert!(
            error.to_string().ends_with("no answer within 100ms"),
            "{error}"
        );
    }
}

/// An address that drops new connections: its queue holds one, and is full.
struct BlackHole {
    address: SocketAddr,
    _listener: Socket,
    _queued: Vec<TcpStream>,
}

impl BlackHole {
    fn open() -> Self {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        listener
            .bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())
            .unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap().as_socket().unwrap();
        let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(50)).ok();
        let queued = (0..100).map_while(|_| connect()).collect();
        Self {
            address,
            _listener: listener,
            _queued: queued,
        }
    }
}

#[tokio::test]
async fn an_address_that_drops_packets_is_given_up_in_time() {
    let hole = BlackHole::open();
    let mut options = RedisOptions::standalone(Endpoint::new("127.0.0.1", hole.address.port()));
    options.connect_timeout = Nanos::from_millis(100);
    let start = Instant::now();
    let error = dial_error(&options).await;
    let took = start.elapsed();
    assert!(
        (Duration::from_millis(99)..Duration::from_millis(600)).contains(&took),
        "{took:?}"
    );
    assert_eq!(
        (error.step, error.class()),
        (DialStep::Connect, FailureClass::Unavailable),
        "{error}"
    );
}

#[tokio::test]
async fn a_closed_port_and_an_unknown_name_are_away() {
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let mut options = RedisOptions::standalone(Endpoint::new("127.0.0.1", closed));
    let error = dial_error(&options).await;
    assert_eq!(
        (error.step, error.class()),
        (DialStep::Connect, FailureClass::Unavailable),
        "{error}"
    );
    options.endpoints = vec!["no-such-host.invalid".parse().unwrap()];
    options.connect_timeout = Nanos::from_secs(5);
    let error = dial_error(&options).await;
    assert_eq!(
        (error.step, error.class()),
        (DialStep::Resolve, FailureClass::Unavailable),
        "{error}"
    );
}

#[tokio::test]
async fn the_next_address_is_tried_when_the_first_is_dead() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let live = listener.local_addr().unwrap();
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let hole = BlackHole::open();
    let deadline = tokio::time::Instant::now() + Duration::from_millis(600);
    let stream = super::connect(&[closed, hole.address, live], deadline)
        .await
        .unwrap();
    assert_eq!(stream.peer_addr().unwrap(), live);
    assert!(tokio::time::Instant::now() < deadline);
}

#[tokio::test]
async fn an_ipv6_endpoint_is_dialed_where_the_system_has_ipv6() {
    if TcpListener::bind("[::1]:0").is_err() {
        return;
    }
    let server = RedisServer::builder().config("bind 127.0.0.1 ::1").start();
    let mut options = options(&server);
    options.endpoints = vec![format!("[::1]:{}", server.port()).parse().unwrap()];
    let mut connection = dial_first(&options).await.unwrap();
    assert_eq!(send(&mut connection, "PING").await, "+PONG\r\n");
}
