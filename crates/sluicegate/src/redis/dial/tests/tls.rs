//! TLS on new connections: which certificates are trusted and shown, and which files are wrong.

use super::*;

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
        let mut connection = dial_first(&options).await.unwrap();
        assert!(matches!(connection, NodeConnection::Tls(_)));
        assert_eq!(send(&mut connection, "PING").await, "+PONG\r\n");
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
        let error = dial_error(&options).await;
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
    let mut connection = dial_first(&options).await.unwrap();
    assert_eq!(send(&mut connection, "PING").await, "+PONG\r\n");
    // The server refuses only after the handshake, in its first reply.
    options.tls = Some(tls);
    options.database = 1;
    let error = dial_error(&options).await;
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
