//! A server behind the proxy that remembers every request it sees.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Seen {
    pub head: Parts,
    pub body: Bytes,
    pub trailers: Option<HeaderMap>,
}

/// Which version a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    Http1,
    Http2,
}

/// Answers everything with 200 and `ok`.
pub struct Upstream {
    pub address: SocketAddr,
    speaks: Speaks,
    seen: Arc<Mutex<Vec<Seen>>>,
    _runtime: tokio::runtime::Runtime,
}

impl Upstream {
    pub fn start() -> Self {
        Self::answering(|_| Response::new(Full::from("ok")))
    }

    pub fn answering(
        answer: impl Fn(&Seen) -> Response<Full<Bytes>> + Send + Sync + 'static,
    ) -> Self {
        Self::speaking(Speaks::Http1, answer)
    }

    pub fn speaking<B>(
        speaks: Speaks,
        answer: impl Fn(&Seen) -> Response<B> + Send + Sync + 'static,
    ) -> Self
    where
        B: Body<Data = Bytes, Error = Infallible> + Send + 'static,
    {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let listener = runtime
            .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
            .unwrap();
        let address = listener.local_addr().unwrap();
        let (kept, answer) = (Arc::clone(&seen), Arc::new(answer));
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (kept, answer) = (Arc::clone(&kept), Arc::clone(&answer));
                let service = service_fn(move |request: Request<Incoming>| {
                    let (kept, answer) = (Arc::clone(&kept), Arc::clone(&answer));
                    async move {
                        let (head, body) = request.into_parts();
                        let body = body.collect().await?;
                        let trailers = body.trailers().cloned();
                        let seen = Seen {
                            head,
                            trailers,
                            body: body.to_bytes(),
                        };
                        let response = answer(&seen);
                        kept.lock().unwrap().push(seen);
                        Ok::<_, hyper::Error>(response)
                    }
                });
                let stream = TokioIo::new(stream);
                tokio::spawn(async move {
                    match speaks {
                        Speaks::Http1 => {
                            http1::Builder::new()
                                .serve_connection(stream, service)
                                .await
                        }
                        Speaks::Http2 => {
                            http2::Builder::new(TokioExecutor::new())
                                .serve_connection(stream, service)
                                .await
                        }
                    }
                });
            }
        });
        Self {
            address,
            speaks,
            seen,
            _runtime: runtime,
        }
    }

    /// As a configuration names it.
    pub fn url(&self) -> String {
        let scheme = match self.speaks {
            Speaks::Http1 => "http",
            Speaks::Http2 => "h2c",
        };
        format!("{scheme}://{}", self.address)
    }

    /// The requests that came so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub fn count(&self) -> usize {
        self.seen.lock().unwrap().len()
    }
}
