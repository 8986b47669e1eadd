//! A whole connection of HTTP/2: frames, header blocks, streams. What reaches a handler is a request
//! that can be passed on or is refused, and what is answered is frames.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt, Full};
use sluicegate_config::Bounds;
use sluicegate_net::{
    Connection, ConnectionSettings, Handler, HttpResponse, HttpServer, HttpTimeouts,
    IncomingRequest, TimeoutPolicy, Transport,
};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use crate::input::{InputBytes, fits_one_line};
use crate::written_client::WrittenClient;

/// The first byte is the length of the pieces that are read; the rest is what a client sends behind
/// the preface.
pub fn run(data: &[u8]) {
    let mut input = InputBytes::new(data);
    let piece = 1 + 16 * usize::from(input.byte());
    let sent = [PREFACE, input.rest()].concat();
    let (client, received) = WrittenClient::in_pieces(&sent, piece);
    BED.with(|bed| {
        let server = Arc::clone(&bed.server);
        let handler = Arc::clone(&bed.handler);
        let transport = Transport::Other(Box::new(client));
        let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 4711));
        let _within = bed.runtime.enter();
        let serving = server.serve_http2(handler, bed.settings.clone(), transport, peer);
        bed.runtime.block_on(serving);
    });
    check_frames(&received.take());
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const BOUNDS: Bounds = Bounds {
    header_bytes: 4 * 1024,
    headers: 32,
    target_bytes: 1024,
    body_bytes: Some(1 << 20),
};

struct ServerBed {
    runtime: Runtime,
    server: Arc<HttpServer>,
    handler: Arc<CheckingHandler>,
    settings: ConnectionSettings,
    _end: watch::Sender<bool>,
}

thread_local! {
    static BED: ServerBed = ServerBed::new();
}

impl ServerBed {
    fn new() -> Self {
        let runtime = Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime needs nothing but memory");
        let (_end, ending) = watch::channel(false);
        let long = Duration::from_secs(60);
        Self {
            runtime,
            server: Arc::new(HttpServer {
                counters: Arc::default(),
                proxy_protocol_from: Vec::new(),
                named_clients: None,
                ending,
            }),
            handler: Arc::new(CheckingHandler),
            settings: ConnectionSettings {
                timeouts: TimeoutPolicy::new(&HttpTimeouts {
                    header: long,
                    idle: long,
                    unread: long,
                    unread_bytes_min: 1,
                }),
                bounds: BOUNDS,
                buffered_bytes_max: ConnectionSettings::BUFFERED_BYTES_MAX,
                tls: None,
            },
            _end,
        }
    }
}

/// Asserts what holds for every request, and answers with the length of its body.
struct CheckingHandler;

impl Handler for CheckingHandler {
    type Body = Full<Bytes>;

    async fn handle(
        _: &Arc<Connection<Self>>,
        request: &mut IncomingRequest,
    ) -> HttpResponse<Full<Bytes>> {
        let IncomingRequest { parts, end, body } = request;
        let body = std::mem::take(body);
        for value in parts.headers.values() {
            assert!(fits_one_line(value.as_bytes()), "{value:?}");
        }
        let is_valid = |end| parts.validate(end, &BOUNDS, true).is_ok();
        if end.is_ok_and(is_valid) {
            let connection = ["connection", "transfer-encoding", "upgrade", "keep-alive"];
            assert!(
                connection
                    .iter()
                    .all(|name| !parts.headers.contains_key(*name))
            );
            let path = parts.uri.path();
            assert!(path.starts_with('/') && path.is_ascii());
            let has_host = parts.headers.contains_key("host");
            assert!(has_host || parts.uri.authority().is_some());
        }
        let length = match body.collect().await {
            Ok(body) => body.to_bytes().len(),
            Err(_) => 0,
        };
        HttpResponse::plain_text(StatusCode::OK, length.to_string()).map(Full::new)
    }
}

/// Everything that was sent is whole frames, the first of which are settings.
fn check_frames(mut bytes: &[u8]) {
    const SETTINGS: u8 = 4;
    let mut is_first = true;
    while !bytes.is_empty() {
        let Some((head, after)) = bytes.split_first_chunk::<9>() else {
            panic!("{bytes:?} is not the head of a frame");
        };
        let [high, middle, low, kind, _, stream @ ..] = *head;
        let length = u32::from_be_bytes([0, high, middle, low]) as usize;
        assert!(length <= 16_384 && kind <= 9);
        assert!(!is_first || kind == SETTINGS);
        let stream = u32::from_be_bytes(stream);
        assert!(stream == 0 || stream % 2 == 1, "a stream of ours: {stream}");
        assert!(after.len() >= length, "a frame is cut off");
        bytes = &after[length..];
        is_first = false;
    }
}
