//! Dialing real servers, and some that never answer.

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

async fn dialed(options: &RedisOptions) -> Result<NodeConnection, DialError> {
    /// Attempts are moved to tasks of their own.
    fn sendable<F: Future + Send>(future: F) -> F {
        future
    }
    let how = Dialer::prepare(options).unwrap();
    sendable(dial(&options.endpoints[0], &how)).await
}

async fn refused(options: &RedisOptions) -> DialError {
    match dialed(options).await {
        Ok(_) => panic!("there is a connection"),
        Err(error) => error,
    }
}

async fn ask(link: &mut NodeConnection, command: &str) -> String {
    link.write_all(format!("{command}\r\n").as_bytes())
        .await
        .unwrap();
    let mut answer = vec![0; 4_096];
    let length = link.read(&mut answer).await.unwrap();
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
    let mut link = dialed(&options(&server)).await.unwrap();
    assert_eq!(ask(&mut link, "PING").await, "+PONG\r\n");
    let NodeConnection::Plain(stream) = &link else {
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
async fn the_database_is_selected_and_one_that_is_not_there_is_a_wrong_setting() {
    let server = RedisServer::start();
    let mut options = options(&server);
    options.database = 5;
    let mut link = dialed(&options).await.unwrap();
    assert!(ask(&mut link, "CLIENT INFO").await.contains(" db=5 "));
    options.database = 99;
    let error = refused(&options).await;
    assert_eq!(
        (error.step, error.class()),
        (DialStep::Select, FailureClass::Configuration)
    );
    let endpoint = endpoint(&server);
    assert_eq!(
        error.to_string(),
        format!("{endpoint}: cannot select the database: the server has no such database (ERR)")
    );
}

#[tokio::test]
async fn a_password_alone_or_with_a_user_opens_the_door() {
    let server = RedisServer::builder()
        .password("p{w} \"1\"")
        .acl_user("ann on >ann-s ~* +@all")
        .start();
    let mut options = options(&server);
    options.database = 1;
    for (username, password, user) in [
        (None, "p{w} \"1\"", "default"),
        (Some("ann"), "ann-s", "ann"),
    ] {
        options.credentials = credentials(username, password);
        let mut link = dialed(&options).await.unwrap();
        assert!(
            ask(&mut link, "ACL WHOAMI")
                .await
                .ends_with(&format!("{user}\r\n"))
        );
    }
}

#[tokio::test]
async fn a_wrong_password_is_a_wrong_setting_and_is_not_printed() {
    let server = RedisServer::builder().password("right").start();
    let mut options = options(&server);
    for username in [None, Some("somebody")] {
        options.credentials = credentials(username, "hunter22");
        let error = refused(&options).await;
        assert_eq!(
            (error.step, error.class()),
            (DialStep::Auth, FailureClass::Configuration)
        );
        let printed = format!("{error} {error:?}");
        assert!(printed.contains("WRONGPASS"), "{printed}");
        assert!(
            !printed.contains("hunter22") && !printed.contains("somebody"),
            "{printed}"
        );
    }
    options.credentials = Credentials::default();
    options.database = 1;
    let error = refused(&options).await;
    assert!(
        error.to_string().contains("NOAUTH") && error.class() == FailureClass::Configuration,
        "{error}"
    );
}

#[tokio::test]
async fn a_server_that_quotes_the_password_does_not_make_us_print_it() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut options = RedisOptions::standalone(Endpoint::new(
        "127.0.0.1",
        listener.local_addr().unwrap().port(),
    ));
    options.credentials = credentials(None, "hunter22");
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream
            .write_all(b"-ERR unknown command `AUTH`, with args beginning with: `hunter22`\r\n")
            .await
            .unwrap();
        stream
    };
    let (error, _stream) = tokio::join!(refused(&options), server);
    let printed = format!("{error} {error:?}");
    assert!(
        printed.contains("cannot authenticate") && !printed.contains("hunter22"),
        "{printed}"
    );
}

#[tokio::test]
async fn a_rotated_password_file_needs_no_restart() {
    let server = RedisServer::builder().password("first").start();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("password");
    fs::write(&path, "first\n").unwrap();
    let mut options = options(&server);
    options.credentials.password = Some(Secret::from_file(&path).unwrap());
    let how = Dialer::prepare(&options).unwrap();
    let mut link = dial(&endpoint(&server), &how).await.unwrap();
    assert_eq!(
        ask(&mut link, "CONFIG SET requirepass second").await,
        "+OK\r\n"
    );
    assert!(dial(&endpoint(&server), &how).await.is_err());
    fs::write(&path, "second\n").unwrap();
    assert!(dial(&endpoint(&server), &how).await.is_ok());
    fs::remove_file(&path).unwrap();
    let error = dial(&endpoint(&server), &how).await.err().unwrap();
    assert_eq!(
        (error.step, error.class()),
        (DialStep::Auth, FailureClass::Configuration)
    );
}

#[tokio::test]
async fn tls_trusts_the_given_authority_and_no_other() {
    let (authority, stranger) = (TlsFiles::generate(), TlsFiles::generate());
    let server = RedisServer::builder()
        .tls(&authority, ClientAuth::None)
        .start();
    let mut options = options(&server);
    options.database = 2;
    let tls = TlsOptions {
        ca_file: Some(authority.authority()),
        ..TlsOptions::default()
    };
    for server_name in [None, Some("localhost".to_owned())] {
        options.tls = Some(TlsOptions {
            server_name,
            ..tls.clone()
        });
        let mut link = dialed(&options).await.unwrap();
        assert!(matches!(link, NodeConnection::Tls(_)));
        assert_eq!(ask(&mut link, "PING").await, "+PONG\r\n");
    }
    let wrong_name = TlsOptions {
        server_name: Some("other.test".to_owned()),
        ..tls
    };
    let wrong_authority = TlsOptions {
        ca_file: Some(stranger.authority()),
        ..TlsOptions::default()
    };
    for wrong in [wrong_name, wrong_authority] {
        options.tls = Some(wrong);
        let error = refused(&options).await;
        assert_eq!(
            (error.step, error.class()),
            (DialStep::Tls, FailureClass::Configuration),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_server_that_asks_for_a_certificate_gets_ours() {
    let authority = TlsFiles::generate();
    let server = RedisServer::builder()
        .tls(&authority, ClientAuth::Required)
        .start();
    let mut options = options(&server);
    let tls = TlsOptions {
        ca_file: Some(authority.authority()),
        ..TlsOptions::default()
    };
    options.tls = Some(TlsOptions {
        client_cert: Some(client_cert(&authority)),
        ..tls.clone()
    });
    let mut link = dialed(&options).await.unwrap();
    assert_eq!(ask(&mut link, "PING").await, "+PONG\r\n");
    // The server says so only after the handshake: at the first answer.
    options.tls = Some(tls);
    options.database = 1;
    let error = refused(&options).await;
    assert_eq!(
        (error.step, error.class()),
        (DialStep::Select, FailureClass::Configuration),
        "{error}"
    );
}

#[tokio::test]
async fn files_that_are_missing_or_wrong_are_named_with_their_field() {
    let authority = TlsFiles::generate();
    let key_file = client_cert(&authority).key_file;
    let mut options = RedisOptions::standalone(Endpoint::new("rl-0", 6_379));
    options.tls = Some(TlsOptions {
        ca_file: Some("/no/such/ca.pem".into()),
        ..TlsOptions::default()
    });
    let error = Dialer::prepare(&options).err().unwrap().to_string();
    assert!(
        error.starts_with("store.redis.tls.ca_file: cannot read /no/such/ca.pem: "),
        "{error}"
    );
    options.tls = Some(TlsOptions {
        ca_file: Some(key_file.clone()),
        ..TlsOptions::default()
    });
    let error = Dialer::prepare(&options).err().unwrap().to_string();
    assert_eq!(
        error,
        format!(
            "store.redis.tls.ca_file: {} holds no certificate or key of this kind in PEM",
            key_file.display()
        )
    );
    options.deadline = Nanos::ZERO;
    let error = Dialer::prepare(&options).err().unwrap().to_string();
    assert!(error.starts_with("store.deadline: "), "{error}");
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up_in_time() {
    // The system accepts, nobody reads.
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
        let error = refused(&options).await;
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

/// An address that drops whoever knocks: its queue holds one, and is full.
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
        let knock = || TcpStream::connect_timeout(&address, Duration::from_millis(50)).ok();
        let queued = (0..100).map_while(|_| knock()).collect();
        Self {
            address,
            _listener: listener,
            _queued: queued,
        }
    }
}

#[tokio::test]
async fn an_address_that_swallows_packets_is_given_up_in_time() {
    let hole = BlackHole::open();
    let mut options = RedisOptions::standalone(Endpoint::new("127.0.0.1", hole.address.port()));
    options.connect_timeout = Nanos::from_millis(100);
    let start = Instant::now();
    let error = refused(&options).await;
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
    let error = refused(&options).await;
    assert_eq!(
        (error.step, error.class()),
        (DialStep::Connect, FailureClass::Unavailable),
        "{error}"
    );
    options.endpoints = vec!["no-such-host.invalid".parse().unwrap()];
    options.connect_timeout = Nanos::from_secs(5);
    let error = refused(&options).await;
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
async fn an_answer_that_no_redis_gives_is_not_taken_for_yes() {
    for answer in [
        "HTTP/1.1 400 Bad Request\r\n",
        "+QUEUED\r\n",
        ":1\r\n",
        "\r\n",
    ] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut options = RedisOptions::standalone(Endpoint::new(
            "127.0.0.1",
            listener.local_addr().unwrap().port(),
        ));
        options.credentials = credentials(None, "hunter22");
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
            stream
        };
        let (error, _stream) = tokio::join!(refused(&options), server);
        assert!(
            error
                .to_string()
                .ends_with("the reply is not that of a Redis server"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn an_answer_without_an_end_is_not_read_for_ever() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut options = RedisOptions::standalone(Endpoint::new(
        "127.0.0.1",
        listener.local_addr().unwrap().port(),
    ));
    options.database = 1;
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(&[b'+'; 10_000]).await.unwrap();
        stream
    };
    let (error, _stream) = tokio::join!(refused(&options), server);
    assert!(
        error.to_string().ends_with("the reply has no end"),
        "{error}"
    );
}

#[tokio::test]
async fn nothing_behind_the_answer_is_taken() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut options = RedisOptions::standalone(Endpoint::new(
        "127.0.0.1",
        listener.local_addr().unwrap().port(),
    ));
    options.database = 1;
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"+OK\r\n+MORE\r\n").await.unwrap();
        stream
    };
    let (link, _stream) = tokio::join!(dialed(&options), server);
    let mut more = [0; 7];
    link.unwrap().read_exact(&mut more).await.unwrap();
    assert_eq!(&more, b"+MORE\r\n");
}

#[tokio::test]
async fn an_ipv6_endpoint_is_dialed_where_the_system_has_ipv6() {
    if TcpListener::bind("[::1]:0").is_err() {
        return;
    }
    let server = RedisServer::builder().config("bind 127.0.0.1 ::1").start();
    let mut options = options(&server);
    options.endpoints = vec![format!("[::1]:{}", server.port()).parse().unwrap()];
    let mut link = dialed(&options).await.unwrap();
    assert_eq!(ask(&mut link, "PING").await, "+PONG\r\n");
}

#[tokio::test]
async fn sentinels_have_credentials_of_their_own_and_no_database() {
    let server = RedisServer::builder().password("sentinel's").start();
    let mut options = options(&server);
    options.credentials = credentials(Some("ann"), "another");
    options.database = 3;
    let how = Dialer::prepare(&options)
        .unwrap()
        .for_sentinels(&credentials(None, "sentinel's"));
    let mut link = dial(&endpoint(&server), &how).await.unwrap();
    assert!(ask(&mut link, "CLIENT INFO").await.contains(" db=0 "));
}
