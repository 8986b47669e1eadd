//! A gRPC service whose messages are plain bytes, so that nothing has to be generated.

use std::convert::Infallible;
use std::future::{pending, ready};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use bytes::{Buf, BufMut};
use http::{HeaderMap, HeaderValue};
use http_body_util::BodyExt;
use tokio_stream::{Stream, StreamExt};
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::metadata::MetadataMap;
use tonic::server::Grpc;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Code, Request, Response, Status, Streaming};

/// Sends every message back when it comes, and `x-last: trailer` at the end.
pub const ECHO: &str = "/plain.Service/Echo";
/// For a message that is a number, so many messages.
pub const COUNT: &str = "/plain.Service/Count";
/// Sends the first message back, and then [`status`].
pub const FAIL: &str = "/plain.Service/Fail";
/// Nothing but [`status`].
pub const REFUSE: &str = "/plain.Service/Refuse";
/// Does not answer.
pub const NEVER: &str = "/plain.Service/Never";
/// Sends one message, and then nothing more.
pub const HANG: &str = "/plain.Service/Hang";

/// A status with everything that one can carry.
pub fn status() -> Status {
    let mut metadata = MetadataMap::new();
    metadata.insert("x-left", "3".parse().unwrap());
    metadata.insert_bin(
        "own-bin",
        tonic::metadata::MetadataValue::from_bytes(&[0, 159, 255]),
    );
    Status::with_details_and_metadata(
        Code::Aborted,
        "100 % of caf\u{e9}s",
        "details".into(),
        metadata,
    )
}

/// The running service.
pub struct Service {
    pub address: SocketAddr,
    /// The header of every call, in the order in which they came.
    pub seen: Arc<Mutex<Vec<HeaderMap>>>,
    /// The path of every [`NEVER`] and [`HANG`] that has ended.
    pub ended: Receiver<String>,
    _runtime: tokio::runtime::Runtime,
}

impl Service {
    pub fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let entered = runtime.enter();
        let incoming = TcpIncoming::bind(([127, 0, 0, 1], 0).into()).unwrap();
        drop(entered);
        let address = incoming.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (end, ended) = channel();
        let kept = Arc::clone(&seen);
        let service = tower::service_fn(move |request: http::Request<Body>| {
            kept.lock().unwrap().push(request.headers().clone());
            answer(request, end.clone())
        });
        runtime.spawn(Server::builder().serve_with_incoming(service, incoming));
        Self {
            address,
            seen,
            ended,
            _runtime: runtime,
        }
    }
}

type Messages = Pin<Box<dyn Stream<Item = Result<Vec<u8>, Status>> + Send>>;

async fn answer(
    request: http::Request<Body>,
    end: Sender<String>,
) -> Result<http::Response<Body>, Infallible> {
    let path = request.uri().path().to_owned();
    let call = {
        let path = path.clone();
        tower::service_fn(move |request: Request<Streaming<Vec<u8>>>| {
            messages(path.clone(), request.into_inner(), end.clone())
        })
    };
    let response = Grpc::new(Plain).streaming(call, request).await;
    if path != ECHO {
        return Ok(response);
    }
    let trailers = HeaderMap::from_iter([(
        http::HeaderName::from_static("x-last"),
        HeaderValue::from_static("trailer"),
    )]);
    Ok(response.map(|body| Body::new(body.with_trailers(ready(Some(Ok(trailers)))))))
}

async fn messages(
    path: String,
    mut messages: Streaming<Vec<u8>>,
    end: Sender<String>,
) -> Result<Response<Messages>, Status> {
    let stream: Messages = match path.as_str() {
        ECHO => Box::pin(messages),
        COUNT => {
            let count = messages
                .message()
                .await?
                .and_then(|text| String::from_utf8(text).ok()?.parse().ok());
            let count: u32 = count.ok_or_else(|| Status::invalid_argument("no number"))?;
            Box::pin(tokio_stream::iter(0..count).map(|number| Ok(number.to_string().into_bytes())))
        }
        FAIL => Box::pin(messages.take(1).chain(tokio_stream::once(Err(status())))),
        REFUSE => return Err(status()),
        NEVER => {
            let _guard = Guard(path, end);
            pending().await
        }
        HANG => {
            let guard = Guard(path, end);
            let first = tokio_stream::once(b"one".to_vec()).chain(tokio_stream::pending());
            Box::pin(first.map(move |message| {
                let _kept_with_the_stream = &guard;
                Ok(message)
            }))
        }
        _ => return Err(Status::unimplemented(path)),
    };
    let mut response = Response::new(stream);
    response
        .metadata_mut()
        .insert("x-first", "header".parse().unwrap());
    Ok(response)
}

/// Tells when a call ends.
struct Guard(String, Sender<String>);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.1.send(std::mem::take(&mut self.0));
    }
}

/// Messages that are their own encoding.
#[derive(Clone, Copy)]
pub struct Plain;

impl Codec for Plain {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Plain {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, message: Vec<u8>, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put_slice(&message);
        Ok(())
    }
}

impl Decoder for Plain {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining()).to_vec()))
    }
}
