//! A real axum server on a real port, and clients that write their own bytes.

use std::net::SocketAddr;

use axum::Router;
use axum::extract::Request;
use axum::routing::{get, post};
use sluicegate::{KeyPart, Limit, Limiter, Match, Quota, RateLimitLayer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

async fn serve_limited(limit: Limit) -> SocketAddr {
    let layer = RateLimitLayer::new(Limiter::local([limit]).unwrap());
    let app = Router::new()
        .route("/", get(|| async { "hello" }))
        .route("/rpc", post(|| async { "called" }));
    serve(app.layer(layer)).await
}

/// Serves until the test's runtime ends.
async fn serve(app: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    address
}

/// Sends these bytes on a connection of their own and reads until the server closes it: head, then
/// body.
async fn exchange(address: SocketAddr, request: impl AsRef<[u8]>) -> (String, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_ref()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

/// One GET with these further header lines.
async fn send(address: SocketAddr, lines: &[u8]) -> (String, String) {
    let request = [
        b"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n",
        lines,
        b"\r\n",
    ]
    .concat();
    exchange(address, request).await
}

fn status(head: &str) -> u16 {
    head.split(' ').nth(1).unwrap().parse().unwrap()
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = head
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once(": "));
    lines
        .find(|(own, _)| own.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
}

fn per_ip(burst: u32) -> Limit {
    Limit::per_client("per-ip", Quota::per_hour(1).burst(burst))
}
#[tokio::test]
async fn a_client_over_tcp_passes_until_its_quota_is_spent() {
    let address = serve_limited(per_ip(2)).await;
    for remaining in ["1", "0"] {
        let (head, body) = send(address, b"X-Forwarded-For: 9.9.9.9\r\n").await;
        assert_eq!((status(&head), body.as_str()), (200, "hello"));
        assert_eq!(field(&head, "x-ratelimit-remaining"), Some(remaining));
    }
    let (head, body) = send(address, b"X-Forwarded-For: 8.8.8.8\r\n").await;
    assert!(
        head.starts_with("HTTP/1.1 429 Too Many Requests\r\n"),
        "{head}"
    );
    assert_eq!(body, "Too Many Requests");
    assert_eq!(
        field(&head, "content-type"),
        Some("text/plain; charset=utf-8")
    );
    assert_eq!(field(&head, "content-length"), Some("17"));
    assert_eq!(field(&head, "retry-after"), Some("3600"));
    assert_eq!(
        field(&head, "ratelimit-policy"),
        Some("\"per-ip\";q=2;w=7200")
    );
    assert_eq!(field(&head, "ratelimit"), Some("\"per-ip\";r=0;t=3600"));
}
#[tokio::test]
async fn a_head_request_gets_the_head_of_the_denial_and_no_body() {
    let address = serve_limited(per_ip(1)).await;
    send(address, b"").await;
    let (head, body) = exchange(
        address,
        "HEAD / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n",
    )
    .await;
    assert_eq!((status(&head), body.as_str()), (429, ""));
    assert_eq!(field(&head, "content-length"), Some("17"));
    assert_eq!(field(&head, "retry-after"), Some("3600"));
}
#[tokio::test]
async fn problem_details_travel_with_their_length() {
    let address = serve_limited(per_ip(1)).await;
    send(address, b"").await;
    let (head, body) = send(address, b"Accept: application/json\r\n").await;
    assert_eq!(status(&head), 429);
    assert_eq!(
        field(&head, "content-type"),
        Some("application/problem+json")
    );
    assert_eq!(
        field(&head, "content-length"),
        Some(body.len().to_string().as_str())
    );
    let problem: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(problem["violated-policies"], serde_json::json!(["per-ip"]));
}
#[tokio::test]
async fn a_grpc_call_over_tcp_ends_in_its_headers() {
    let address = serve_limited(per_ip(1)).await;
    send(address, b"").await;
    let call = "POST /rpc HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\nContent-Type: application/grpc\r\n\
                TE: trailers\r\nContent-Length: 5\r\n\r\n\0\0\0\0\0";
    let (head, body) = exchange(address, call).await;
    assert_eq!((status(&head), body.as_str()), (200, ""));
    assert_eq!(
        (field(&head, "grpc-status"), field(&head, "content-type")),
        (Some("8"), Some("application/grpc"))
    );
}
#[tokio::test]
async fn a_key_header_that_says_no_one_plain_thing_is_a_bad_request() {
    let tenant = Limit::new("tenant", Quota::per_hour(1)).key([KeyPart::header("X-Tenant-Id")]);
    let address = serve_limited(tenant).await;
    let long = format!("X-Tenant-Id: {}\r\n", "a".repeat(8 * 1024));
    let cases: [(&str, &[u8], &str); 9] = [
        ("missing", b"", "is missing"),
        (
            "twice",
            b"X-Tenant-Id: a\r\nX-Tenant-Id: a\r\n",
            "has more than one value",
        ),
        (
            "twice in two cases",
            b"X-Tenant-Id: a\r\nx-tenant-id: b\r\n",
            "has more than one value",
        ),
        (
            "comma-joined",
            b"X-Tenant-Id: a, b\r\n",
            "has more than one value",
        ),
        ("empty", b"X-Tenant-Id:\r\n", "is empty"),
        ("blank", b"X-Tenant-Id: \t \r\n", "is empty"),
        (
            "8-bit",
            b"X-Tenant-Id: caf\xe9\r\n",
            "has characters beyond printable ASCII",
        ),
        ("8 KiB", long.as_bytes(), "is longer than 4096 bytes"),
        (
            "a lookalike",
            b"X-Tenant-Id: a\r\nX_Tenant_Id: b\r\n",
            "is ambiguous, another header differs only in signs such as '_' and '-'",
        ),
    ];
    for (name, lines, why) in cases {
        let (head, body) = send(address, lines).await;
        assert_eq!(status(&head), 400, "{name}");
        assert_eq!(
            body,
            format!("key_extraction_failed: limit \"tenant\": header:x-tenant-id {why}"),
            "{name}"
        );
    }
    let (head, _) = send(address, b"X-Tenant-Id: a\r\n").await;
    assert_eq!(status(&head), 200, "none of them was charged to the tenant");
}
#[tokio::test]
async fn connections_share_one_counter_and_requests_on_one_connection_too() {
    let address = serve_limited(per_ip(3)).await;
    let request = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
    let last = "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream
        .write_all(format!("{request}{last}").as_bytes())
        .await
        .unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).await.unwrap();
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 2, "{answers}");
    let statuses = [
        status(&send(address, b"").await.0),
        status(&send(address, b"").await.0),
    ];
    assert_eq!(statuses, [200, 429]);
}
#[tokio::test]
async fn around_the_whole_router_the_limited_path_is_the_routed_path() {
    let login =
        Limit::per_client("login", Quota::per_hour(1)).matching(Match::path("/login").unwrap());
    let routes = Router::new().route(
        "/login",
        get(|request: Request| async move { request.uri().to_string() }),
    );
    let app = Router::new()
        .fallback_service(routes)
        .layer(RateLimitLayer::new(Limiter::local([login]).unwrap()));
    let address = serve(app).await;
    let send = async |path: &str| {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
        exchange(address, request).await
    };
    let (head, body) = send("/x/../%6Cogin?a").await;
    assert_eq!((status(&head), body.as_str()), (200, "/login?a"));
    assert_eq!(status(&send("/login").await.0), 429);
}
