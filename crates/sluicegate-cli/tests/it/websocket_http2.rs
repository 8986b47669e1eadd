//! WebSockets over HTTP/2 (RFC 8441), with a client and a server that know nothing of each other's
//! version.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use http::{HeaderMap, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::ext::Protocol;
use hyper_util::rt::{TokioExecutor, TokioIo};
use sluicegate_testkit::STEP_TIMEOUT;
use sluicegate_testkit::raw_socket::read_head;
use tungstenite::protocol::{Role, WebSocket};

use super::protocols::server;
use super::running::Sluicegate;

fn config(upstream: &str, burst: u32) -> String {
    format!(
        "
proxy: {{ listen: '127.0.0.1:0', upstream: '{upstream}' }}
admin: off
limits:
  - {{ name: per-client, match: {{ methods: [GET] }}, key: [client_ip], rate: 1/h, burst: {burst} }}
"
    )
}

/// The head of the answer to a stream that asks for this protocol, and a socket whose bytes are those
/// of the stream.
fn open(proxy: SocketAddr, path: &str) -> (StatusCode, HeaderMap, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    near.set_read_timeout(Some(STEP_TIMEOUT)).unwrap();
    let (far, _) = listener.accept().unwrap();
    far.set_nonblocking(true).unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    let path = path.to_owned();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let response = ask(proxy, &path).await;
            let _ = tell.send((response.status(), response.headers().clone()));
            if !response.status().is_success() {
                return;
            }
            let Ok(upgraded) = hyper::upgrade::on(response).await else {
                return;
            };
            let mut far = tokio::net::TcpStream::from_std(far).unwrap();
            let _ = tokio::io::copy_bidirectional(&mut far, &mut TokioIo::new(upgraded)).await;
        });
    });
    let (status, headers) = told.recv_timeout(STEP_TIMEOUT).expect("an answer in time");
    (status, headers, near)
}

async fn ask(proxy: SocketAddr, path: &str) -> Response<Incoming> {
    let stream = tokio::net::TcpStream::connect(proxy).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    // The server's settings come first.
    let first = Request::get(format!("http://{proxy}/favicon.ico"));
    let request = first.method("HEAD").body(String::new()).unwrap();
    sender.send_request(request).await.unwrap();
    let request = Request::connect(format!("http://{proxy}{path}"))
        .extension(Protocol::from_static("websocket"))
        .header("sec-websocket-version", "13")
        .header("sec-websocket-protocol", "chat")
        .body(String::new())
        .unwrap();
    sender.send_request(request).await.unwrap()
}

/// A server that answers each message with the same, and any other request with 404.
fn echo() -> String {
    server(|mut stream| {
        thread::spawn(move || {
            let mut head = [0; 4];
            stream.peek(&mut head).unwrap();
            if head == *b"HEAD" {
                read_head(&mut stream);
                stream
                    .write_all(b"HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n")
                    .unwrap();
                return;
            }
            let mut socket = tungstenite::accept(stream).unwrap();
            while let Ok(message) = socket.read() {
                if (message.is_text() || message.is_binary()) && socket.send(message).is_err() {
                    return;
                }
            }
        });
    })
}

/// A server that answers an upgrade with these bytes.
fn answering(answer: &'static [u8]) -> String {
    server(move |mut stream| {
        while let Some(head) = read_head(&mut stream) {
            let is_head = head.starts_with("HEAD");
            let other = b"HTTP/1.1 404 Not Found\r\n\r\n";
            if stream
                .write_all(if is_head { other } else { answer })
                .is_err()
            {
                return;
            }
        }
    })
}

#[test]
fn a_websocket_over_http2_carries_messages_both_ways() {
    let sluicegate = Sluicegate::start(&config(&echo(), 10));
    let (status, headers, stream) = open(sluicegate.proxy, "/chat");
    assert_eq!(status, 200);
    for gone in ["sec-websocket-accept", "upgrade", "connection"] {
        assert!(!headers.contains_key(gone), "{gone}");
    }
    let mut socket = WebSocket::from_raw_socket(stream, Role::Client, None);
    for length in [0, 1, 125, 126, 65_535, 65_536, 1_000_000] {
        let message = tungstenite::Message::binary(vec![7; length]);
        socket.send(message.clone()).unwrap();
        assert_eq!(socket.read().unwrap(), message);
    }
    socket.close(None).unwrap();
    while socket.read().is_ok() {}
}

#[test]
fn a_websocket_over_http2_is_a_get_that_limits_count() {
    // Each begins with a HEAD, which counts as well.
    let sluicegate = Sluicegate::start(&config(&echo(), 2));
    assert_eq!(open(sluicegate.proxy, "/chat").0, 200);
    let (status, headers, _) = open(sluicegate.proxy, "/chat");
    assert_eq!(status, 429);
    assert!(headers.contains_key("retry-after"));
}

#[test]
fn a_server_that_does_not_agree_opens_no_tunnel() {
    let cases: [(&[u8], u16); 4] = [
        // Without the answer to the key, and with that to another one.
        (b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n", 502),
        (b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n", 502),
        // A client would take it for an agreement.
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 502),
        (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno", 403),
    ];
    for (answer, expected) in cases {
        let sluicegate = Sluicegate::start(&config(&answering(answer), 10));
        let (status, ..) = open(sluicegate.proxy, "/chat");
        assert_eq!(status, expected, "{}", String::from_utf8_lossy(answer));
    }
}

#[test]
fn the_end_of_either_side_ends_a_websocket_over_http2() {
    let sluicegate = Sluicegate::start(&config(&echo(), 10));
    let (_, _, stream) = open(sluicegate.proxy, "/chat");
    let mut socket = WebSocket::from_raw_socket(stream, Role::Client, None);
    socket.send(tungstenite::Message::text("hello")).unwrap();
    assert_eq!(socket.read().unwrap(), tungstenite::Message::text("hello"));
    let mut stream = socket.get_ref();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut rest = Vec::new();
    // The server reads the end, and closes its side.
    let _ = stream.read_to_end(&mut rest);
    let (status, ..) = open(sluicegate.proxy, "/chat");
    assert_eq!(status, 200);
}
