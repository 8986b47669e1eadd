//! A client of HTTP/2, with or without gRPC, that counts every request it has sent.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use sluicegate_testkit::STEP_TIMEOUT;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

/// Requests side by side on one connection.
pub struct StreamClient {
    address: SocketAddr,
    kind: StreamKind,
    /// Requests at a time.
    streams: usize,
    sender: Option<SendRequest<Full<Bytes>>>,
    runtime: Runtime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    Http,
    Grpc,
}

/// The end of one request.
enum Asked {
    Answered,
    /// The server has announced the end of the connection before anything was sent.
    NotSent,
}

impl StreamClient {
    pub fn new(kind: StreamKind, address: SocketAddr, streams: usize) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        Self {
            address,
            kind,
            streams,
            sender: None,
            runtime,
        }
    }

    /// Sends requests and waits for all of their answers, over a new connection if the server has
    /// said that the last one ends. An error is anything but that.
    pub fn ask(&mut self) -> Result<(), String> {
        let Self {
            address,
            kind,
            streams,
            sender,
            runtime,
        } = self;
        let asked = async {
            let mut left = *streams;
            while left > 0 {
                let mut open = match sender.take() {
                    Some(open) if !open.is_closed() => open,
                    _ => connect(*address).await?,
                };
                let all = (0..left).map(|_| ask(open.clone(), *kind));
                let all = futures(all).await;
                let answered = all.into_iter().collect::<Result<Vec<_>, String>>()?;
                left = answered
                    .iter()
                    .filter(|asked| matches!(asked, Asked::NotSent))
                    .count();
                if open.ready().await.is_ok() {
                    *sender = Some(open);
                }
            }
            Ok(())
        };
        let asked = runtime.block_on(async { tokio::time::timeout(STEP_TIMEOUT, asked).await });
        asked
            .unwrap_or_else(|_| Err("unanswered in time".to_owned()))
            .map_err(|lost: String| format!("{kind:?} in HTTP/2 at {address}: {lost}"))
    }
}

/// Waits for all of them, in tasks of their own.
async fn futures(
    all: impl Iterator<Item = impl Future<Output = Result<Asked, String>> + Send + 'static>,
) -> Vec<Result<Asked, String>> {
    let mut tasks: tokio::task::JoinSet<_> = all.collect();
    let mut done = Vec::new();
    while let Some(one) = tasks.join_next().await {
        done.push(one.unwrap_or_else(|error| Err(error.to_string())));
    }
    done
}

async fn connect(address: SocketAddr) -> Result<SendRequest<Full<Bytes>>, String> {
    let stream = TcpStream::connect(address)
        .await
        .map_err(|error| format!("while connecting: {error}"))?;
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .map_err(|error| format!("in the handshake: {error:?}"))?;
    tokio::spawn(connection);
    Ok(sender)
}

async fn ask(mut sender: SendRequest<Full<Bytes>>, kind: StreamKind) -> Result<Asked, String> {
    let response = match sender.try_send_request(request(kind)).await {
        Ok(response) => response,
        Err(error) if error.message().is_some() => return Ok(Asked::NotSent),
        Err(error) => return Err(format!("unanswered: {:?}", error.into_error())),
    };
    let status = response.status();
    let body = response.into_body().collect().await;
    let body = body.map_err(|error| format!("truncated: {error:?}"))?;
    let is_whole = match kind {
        StreamKind::Http => status == 200,
        StreamKind::Grpc => body.trailers().is_some_and(is_ok),
    };
    if is_whole {
        Ok(Asked::Answered)
    } else {
        Err(format!("{status} with {:?}", body.trailers()))
    }
}

fn is_ok(trailers: &HeaderMap) -> bool {
    trailers
        .get("grpc-status")
        .is_some_and(|status| status == "0")
}

fn request(kind: StreamKind) -> Request<Full<Bytes>> {
    match kind {
        StreamKind::Http => Request::get("http://a.example/load").body(Full::default()),
        StreamKind::Grpc => Request::post(
            "http://a.example/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
        )
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Full::from(envoys_question())),
    }
    .unwrap()
}

/// The domain `edge` and one descriptor, `user` is `ann`, behind the length of a message.
fn envoys_question() -> Bytes {
    let entry = [b"\x0a\x04user\x12\x03ann".as_slice()].concat();
    let descriptor = [&[0x0a, entry.len() as u8], &entry[..]].concat();
    let message = [
        b"\x0a\x04edge\x12".as_slice(),
        &[descriptor.len() as u8],
        &descriptor,
    ]
    .concat();
    let head = [0, 0, 0, 0, message.len() as u8];
    Bytes::from([&head[..], &message].concat())
}
