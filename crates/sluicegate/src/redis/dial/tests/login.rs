//! `AUTH` and `SELECT` on new connections: what is sent, what is refused, and what is never
//! printed.

use super::*;

#[tokio::test]
async fn the_database_is_selected_and_one_that_is_not_there_is_a_wrong_setting() {
    let server = RedisServer::start();
    let mut options = options(&server);
    options.database = 5;
    let mut connection = dial_first(&options).await.unwrap();
    assert!(
        send(&mut connection, "CLIENT INFO")
            .await
            .contains(" db=5 ")
    );
    options.database = 99;
    let error = dial_error(&options).await;
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
async fn a_password_alone_or_with_a_user_is_accepted() {
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
        let mut connection = dial_first(&options).await.unwrap();
        assert!(
            send(&mut connection, "ACL WHOAMI")
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
        let error = dial_error(&options).await;
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
    let error = dial_error(&options).await;
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
    let (error, _stream) = tokio::join!(dial_error(&options), server);
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
    let dialer = Dialer::prepare(&options).unwrap();
    let mut connection = dial(&endpoint(&server), &dialer).await.unwrap();
    assert_eq!(
        send(&mut connection, "CONFIG SET requirepass second").await,
        "+OK\r\n"
    );
    assert!(dial(&endpoint(&server), &dialer).await.is_err());
    fs::write(&path, "second\n").unwrap();
    assert!(dial(&endpoint(&server), &dialer).await.is_ok());
    fs::remove_file(&path).unwrap();
    let error = dial(&endpoint(&server), &dialer).await.err().unwrap();
    assert_eq!(
        (error.step, error.class()),
        (DialStep::Auth, FailureClass::Configuration)
    );
}

#[tokio::test]
async fn a_reply_that_no_redis_sends_is_no_success() {
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
        let (error, _stream) = tokio::join!(dial_error(&options), server);
        assert!(
            error
                .to_string()
                .ends_with("the reply is not that of a Redis server"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_reply_without_an_end_is_not_read_for_ever() {
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
    let (error, _stream) = tokio::join!(dial_error(&options), server);
    assert!(
        error.to_string().ends_with("the reply has no end"),
        "{error}"
    );
}

#[tokio::test]
async fn nothing_behind_the_reply_is_taken() {
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
    let (connection, _stream) = tokio::join!(dial_first(&options), server);
    let mut more = [0; 7];
    connection.unwrap().read_exact(&mut more).await.unwrap();
    assert_eq!(&more, b"+MORE\r\n");
}

#[tokio::test]
async fn sentinels_have_credentials_of_their_own_and_no_database() {
    let server = RedisServer::builder().password("sentinel's").start();
    let mut options = options(&server);
    options.credentials = credentials(Some("ann"), "another");
    options.database = 3;
    let dialer = Dialer::prepare(&options)
        .unwrap()
        .for_sentinels(&credentials(None, "sentinel's"));
    let mut connection = dial(&endpoint(&server), &dialer).await.unwrap();
    assert!(
        send(&mut connection, "CLIENT INFO")
            .await
            .contains(" db=0 ")
    );
}
