//! A server behind the proxy that remembers every request it sees.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Seen {
    pub head: Parts,
    pub body: Bytes,
    pub trailers: Option<HeaderMap>,
}

/// Answers everything with 200 and `ok`.
pub struct Upstream {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    _runtime: tokio::runtime::Runtime,
}

impl Upstream {
    pub fn start() -> Self {
        Self::answering(|_| Response::new(Full::from("ok")))
    }

    pub fn answering(answer: impl Fn(&Seen) -> Response<Full<Bytes>> + Send + Sync + 'static) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let (kept, answer) = (Arc::clone(&seen), Arc::new(answer));
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (kept, answer) = (Arc::clone(&kept), Arc::clone(&answer));
                let service = service_fn(move |request: Request<Incoming>| {
                    let (kept, answer) = (Arc::clone(&kept), Arc::clone(&answer));
                    async move {
                        let (head, body) = request.into_parts();
                        let Ok(body) = body.collect().await else {
                            return Ok::<_, Infallible>(Response::new(Full::from("a body that breaks off")));
                        };
                        let trailers = body.trailers().cloned();
                        let seen = Seen { head, trailers, body: body.to_bytes() };
                        let response = answer(&seen);
                        kept.lock().unwrap().push(seen);
                        Ok(response)
                    }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { address, seen, _runtime: runtime }
    }

    /// The requests that came so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub fn count(&self) -> usize {
        self.seen.lock().unwrap().len()
    }
}
