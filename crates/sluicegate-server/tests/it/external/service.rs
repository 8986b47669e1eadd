//! Services to ask: a well-behaved one, and one that sends any bytes.

use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A service over HTTP/1.1 that answers every question with the same text.
pub struct HttpLimits {
    pub port: u16,
    pub seen: Arc<Seen>,
}

/// Calls that a service has got.
#[derive(Default)]
pub struct Seen {
    pub connections: AtomicUsize,
    pub calls: AtomicUsize,
    pub under_way: AtomicUsize,
    pub most_under_way: AtomicUsize,
    pub questions: Mutex<Vec<(String, HeaderMap, Bytes)>>,
}

/// The answer of a service, and how it gives it.
#[derive(Clone, Default)]
pub struct Manner {
    pub body: String,
    pub headers: Vec<(&'static str, &'static str)>,
    /// How long it thinks.
    pub takes: Duration,
    pub tls: Option<TlsAcceptor>,
}

impl HttpLimits {
    pub async fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Seen::default());
        tokio::spawn(accept(listener, manner, Arc::clone(&seen)));
        Self { port, seen }
    }

    pub async fn saying(body: &str) -> Self {
        Self::start(Manner {
            body: body.to_owned(),
            ..Manner::default()
        })
        .await
    }

    pub fn calls(&self) -> usize {
        self.seen.calls.load(SeqCst)
    }
}

async fn accept(listener: TcpListener, manner: Manner, seen: Arc<Seen>) {
    while let Ok((stream, _)) = listener.accept().await {
        seen.connections.fetch_add(1, SeqCst);
        let (manner, seen) = (manner.clone(), Arc::clone(&seen));
        tokio::spawn(async move {
            let tls = manner.tls.clone();
            let answering =
                service_fn(move |request| answer(request, manner.clone(), Arc::clone(&seen)));
            let http = hyper::server::conn::http1::Builder::new();
            let _ = match tls {
                None => http.serve_connection(TokioIo::new(stream), answering).await,
                Some(tls) => match tls.accept(stream).await {
                    Ok(stream) => http.serve_connection(TokioIo::new(stream), answering).await,
                    Err(_) => Ok(()),
                },
            };
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    manner: Manner,
    seen: Arc<Seen>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    seen.calls.fetch_add(1, SeqCst);
    let under_way = seen.under_way.fetch_add(1, SeqCst) + 1;
    seen.most_under_way.fetch_max(under_way, SeqCst);
    let (head, body) = request.into_parts();
    let body = body
        .collect()
        .await
        .map(|body| body.to_bytes())
        .unwrap_or_default();
    seen.questions.lock().unwrap().push((
        format!("{} {}", head.method, head.uri),
        head.headers,
        body,
    ));
    // bounded wait: how long the service thinks is what the test is about
    tokio::time::sleep(manner.takes).await;
    let mut response = Response::new(Full::from(manner.body));
    for (name, value) in manner.headers {
        response.headers_mut().insert(name, value.parse().unwrap());
    }
    seen.under_way.fetch_sub(1, SeqCst);
    Ok(response)
}

/// A service that reads each question and then does what it likes with the connection.
pub fn unruly(behave: impl Fn(&mut TcpStream) + Send + Sync + 'static) -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let behave = Arc::new(behave);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let behave = Arc::clone(&behave);
            std::thread::spawn(move || {
                // Nobody is served for ever.
                stream
                    .set_read_timeout(Some(Duration::from_secs(30)))
                    .unwrap();
                stream
                    .set_write_timeout(Some(Duration::from_secs(30)))
                    .unwrap();
                let mut question = [0; 4096];
                if stream.read(&mut question).is_ok_and(|length| length > 0) {
                    behave(&mut stream);
                }
            });
        }
    });
    port
}

/// Writes again and again until the other side has had enough; returns how many bytes it took.
pub fn pour(stream: &mut TcpStream, bytes: &[u8]) -> usize {
    const MOST: usize = 200 << 20;
    let mut poured = 0;
    while poured < MOST && stream.write_all(bytes).is_ok() {
        poured += bytes.len();
    }
    poured
}
