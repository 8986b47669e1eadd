//! Connections over a pipe within the process, by a clock that jumps.

mod drain;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http_body_util::Full;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::*;
use crate::handler::IncomingRequest;
use crate::response::HttpResponse;
use crate::timeouts::HttpTimeouts;

/// Answers with the path, and closes after a body that it has not read.
#[derive(Default)]
struct PathHandler {
    requests: AtomicUsize,
}

impl Handler for PathHandler {
    type Body = Full<Bytes>;

    async fn handle(
        connection: &Arc<Connection<Self>>,
        request: &mut IncomingRequest,
    ) -> HttpResponse<Full<Bytes>> {
        connection.handler.requests.fetch_add(1, Ordering::Relaxed);
        let path = request.parts.uri.path().to_owned();
        let mut response = HttpResponse::plain_text(StatusCode::OK, path);
        response.closes = !http_body::Body::is_end_stream(&request.body);
        response.map(Full::new)
    }
}

/// A connection that is being served.
struct Served {
    client: DuplexStream,
    task: JoinHandle<()>,
    handler: Arc<PathHandler>,
    end: watch::Sender<bool>,
}

fn serve() -> Served {
    let (client, far) = duplex(64 * 1024);
    let (end, ending) = watch::channel(false);
    let server = Arc::new(HttpServer {
        counters: Arc::default(),
        proxy_protocol_from: Vec::new(),
        named_clients: None,
        ending,
    });
    let handler = Arc::new(PathHandler::default());
    let transport = Transport::Other(Box::new(far));
    let peer = SocketAddr::from(([127, 0, 0, 1], 1));
    let served = server.serve_http1(Arc::clone(&handler), settings(), transport, peer);
    Served {
        client,
        task: tokio::spawn(served),
        handler,
        end,
    }
}

fn settings() -> ConnectionSettings {
    ConnectionSettings {
        timeouts: TimeoutPolicy::new(&HttpTimeouts {
            header: Duration::from_secs(4),
            idle: Duration::from_secs(20),
            unread: Duration::from_secs(20),
            unread_bytes_min: 1,
        }),
        bounds: Bounds {
            header_bytes: 8 * 1024,
            headers: 16,
            target_bytes: 1024,
            body_bytes: None,
        },
        buffered_bytes_max: 1 << 20,
        tls: None,
    }
}

#[tokio::test]
async fn a_connection_that_waits_takes_little_memory() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stream, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
    let server = Arc::new(HttpServer {
        counters: Arc::default(),
        proxy_protocol_from: Vec::new(),
        named_clients: None,
        ending: watch::channel(false).1,
    });
    let peer = accepted.unwrap().1;
    let served = server.serve(
        Arc::new(PathHandler::default()),
        settings(),
        stream.unwrap(),
        peer,
    );
    // All that is large lies in boxes.
    let size = size_of_val(&served);
    assert!(size <= 640, "{size} bytes");
}

impl Served {
    async fn send(&mut self, text: &str) {
        self.client.write_all(text.as_bytes()).await.unwrap();
    }

    /// Reads one response; its body ends with `end`.
    async fn receive(&mut self, end: &str) -> String {
        let mut text = String::new();
        while !text.ends_with(end) {
            let mut bytes = [0; 1024];
            let length = self.client.read(&mut bytes).await.unwrap();
            assert!(length > 0, "closed after {text:?}");
            text.push_str(std::str::from_utf8(&bytes[..length]).unwrap());
        }
        text
    }

    /// Reads until the connection ends; returns everything and the time that took.
    async fn until_closed(mut self) -> (String, Duration) {
        let (began, mut text) = (Instant::now(), String::new());
        self.client.read_to_string(&mut text).await.unwrap();
        let took = began.elapsed();
        drop(self.client);
        self.task.await.unwrap();
        (text, took)
    }
}

#[tokio::test(start_paused = true)]
async fn many_requests_at_once_let_other_connections_go_on() {
    const SENT: usize = 100;
    let [mut greedy, mut other] = [serve(), serve()];
    greedy
        .send(&"GET /a HTTP/1.1\r\nHost: c\r\n\r\n".repeat(SENT))
        .await;
    other.send("GET /b HTTP/1.1\r\nHost: c\r\n\r\n").await;
    other.receive("/b").await;
    let answered = greedy.handler.requests.load(Ordering::Relaxed);
    assert!(answered < SENT / 4, "{answered} came before it");
    // All are answered in the end.
    drop(other);
    greedy.send("GET /last HTTP/1.1\r\nHost: c\r\n\r\n").await;
    greedy.receive("/last").await;
    assert_eq!(greedy.handler.requests.load(Ordering::Relaxed), SENT + 1);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_rested_goes_on_where_it_was() {
    let mut served = serve();
    for path in ["/a", "/b"] {
        served
            .send(&format!("GET {path} HTTP/1.1\r\nHost: c\r\n\r\n"))
            .await;
        assert!(
            served
                .receive(path)
                .await
                .starts_with("HTTP/1.1 200 OK\r\n")
        );
        // bounded wait: the clock is paused; longer than a quiet connection keeps its memory
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    served
        .send("GET /c HTTP/1.1\r\nHost: c\r\n\r\nGET /d HTTP/1.1\r\nHost: c\r\nConnection: close\r\n\r\n")
        .await;
    let (text, _) = served.until_closed().await;
    assert!(
        text.contains("/cHTTP/1.1 200") && text.ends_with("/d"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_rest_of_an_unread_body_is_no_request() {
    let mut served = serve();
    served
        .send("POST /a HTTP/1.1\r\nHost: c\r\nContent-Length: 1000\r\n\r\n")
        .await;
    assert!(served.receive("/a").await.contains("connection: close\r\n"));
    // bounded wait: the clock is paused; longer than a quiet connection keeps its memory
    tokio::time::sleep(Duration::from_millis(500)).await;
    served.send("GET /b HTTP/1.1\r\nHost: c\r\n\r\n").await;
    let handler = Arc::clone(&served.handler);
    let (text, _) = served.until_closed().await;
    assert_eq!(
        (text.as_str(), handler.requests.load(Ordering::Relaxed)),
        ("", 1)
    );
}

#[tokio::test(start_paused = true)]
async fn timeouts_of_a_head_and_between_requests_end_the_connection() {
    let mut served = serve();
    served.send("GET /a HT").await;
    let (text, took) = served.until_closed().await;
    assert_eq!((text.as_str(), took.as_secs()), ("", 4));
    let mut served = serve();
    served.send("GET /a HTTP/1.1\r\nHost: c\r\n\r\n").await;
    served.receive("/a").await;
    let (text, took) = served.until_closed().await;
    assert!(
        text.is_empty() && (20..=21).contains(&took.as_secs()),
        "{took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn bytes_that_are_not_http_are_refused() {
    let mut served = serve();
    served.send("hello\r\n\r\n").await;
    let (text, _) = served.until_closed().await;
    assert!(text.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{text}");
}

/// The future of a connection lives as long as the connection; its large parts must stay in boxes.
#[tokio::test]
async fn a_connection_waits_in_little_memory() {
    let (_end, ending) = watch::channel(false);
    let server = Arc::new(HttpServer {
        counters: Arc::default(),
        proxy_protocol_from: Vec::new(),
        named_clients: None,
        ending,
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let handler = Arc::new(PathHandler::default());
    let served = server.serve(handler, settings(), stream, address);
    let bytes = size_of_val(&served);
    assert!(bytes <= 1_024, "{bytes} bytes");
}
