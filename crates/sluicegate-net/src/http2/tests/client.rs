//! A client that sends frames as it likes.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use sluicegate_config::Bounds;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::watch;
use tokio::time::timeout;

use super::TestHandler;
use crate::connection::{ConnectionSettings, HttpServer};
use crate::hpack::{Decoder, FieldName, FieldValue, push_field};
use crate::http2::frame::{self, FrameHead, HEAD_BYTES, PREFACE, flag, kind};
use crate::timeouts::{HttpTimeouts, TimeoutPolicy};
use crate::transport::Transport;

/// The client's end of a connection that is served.
pub(super) struct Client {
    io: DuplexStream,
    pub(super) handler: Arc<TestHandler>,
    pub(super) end: watch::Sender<bool>,
    decoder: Decoder,
    /// Frames that were read while another was waited for.
    later: Vec<Seen>,
    /// Bytes that may be sent on the connection.
    window: usize,
}

/// A frame of the server.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    pub(super) payload: Vec<u8>,
}

impl Seen {
    pub(super) fn is_last(&self) -> bool {
        self.flags & flag::END_STREAM != 0
    }

    pub(super) fn is_data(&self, stream: u32) -> bool {
        (self.kind, self.stream) == (kind::DATA, stream)
    }

    /// The error code of RST_STREAM or GOAWAY.
    pub(super) fn code(&self) -> u32 {
        frame::number(&self.payload[self.payload.len() - 4..]).unwrap()
    }

    /// The last stream of GOAWAY.
    pub(super) fn last_stream(&self) -> u32 {
        frame::number(&self.payload).unwrap()
    }
}

/// The head of a response.
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
}

impl Client {
    pub(super) async fn connect(settings: &[(u16, u32)]) -> Self {
        let (io, far) = duplex(64 * 1024);
        let (end, ending) = watch::channel(false);
        let server = Arc::new(HttpServer {
            counters: Arc::default(),
            proxy_protocol_from: Vec::new(),
            named_clients: None,
            ending,
        });
        let handler = Arc::new(TestHandler::default());
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let transport = Transport::Other(Box::new(far));
        tokio::spawn(server.serve_http2(
            Arc::clone(&handler),
            connection_settings(),
            transport,
            peer,
        ));
        let mut client = Self {
            io,
            handler,
            end,
            decoder: Decoder::new(),
            later: Vec::new(),
            window: frame::WINDOW_DEFAULT as usize,
        };
        let mut out = PREFACE.to_vec();
        frame::push_settings(&mut out, settings);
        client.send(&out).await;
        client
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.io.write_all(bytes).await.unwrap();
    }

    async fn send_frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let mut out = Vec::new();
        frame::push_frame(&mut out, kind, flags, stream, payload);
        self.send(&out).await;
    }

    /// Sends so many requests in one write; returns the number of responses that come in the first.
    pub(super) async fn burst(&mut self, count: u32) -> usize {
        let block = [0x82, 0x86, 0x84, 0x01, 1, b'a'];
        let flags = flag::END_HEADERS | flag::END_STREAM;
        let mut out = Vec::new();
        for number in 0..count {
            frame::push_frame(&mut out, kind::HEADERS, flags, number * 2 + 1, &block);
        }
        self.send(&out).await;
        let mut bytes = vec![0; 64 * 1024];
        let length = self.io.read(&mut bytes).await.unwrap();
        let (mut rest, mut responses) = (&bytes[..length], 0);
        while let Some(head) = FrameHead::parse(rest) {
            responses += usize::from(head.kind == kind::HEADERS);
            rest = &rest[HEAD_BYTES + head.length..];
        }
        responses
    }

    pub(super) async fn get(&mut self, stream: u32, path: &str) {
        self.get_with(stream, path, &[]).await;
    }

    pub(super) async fn get_with(&mut self, stream: u32, path: &str, more: &[(&str, &str)]) {
        let flags = flag::END_HEADERS | flag::END_STREAM;
        self.request(stream, flags, "GET", path, more).await;
    }

    pub(super) async fn post(&mut self, stream: u32, path: &str) {
        self.request(stream, flag::END_HEADERS, "POST", path, &[])
            .await;
    }

    /// A request with so many copies of a field, which has so many bytes and is spelt out only once.
    pub(super) async fn get_with_copies(&mut self, stream: u32, length: usize, copies: usize) {
        const NEWEST_ENTRY: u8 = 0x80 | 62;
        let mut long = Vec::new();
        push_field(&mut long, b"x-copied", &vec![b'a'; length]);
        // With indexing: the name follows, as it does without.
        long[0] = 0x40;
        let mut block = Vec::new();
        for (name, value) in request_fields("GET", "/a") {
            push_field(&mut block, name.as_bytes(), value.as_bytes());
        }
        block.extend(long);
        block.extend(vec![NEWEST_ENTRY; copies - 1]);
        let flags = flag::END_HEADERS | flag::END_STREAM;
        self.send_frame(kind::HEADERS, flags, stream, &block).await;
    }

    async fn request(
        &mut self,
        stream: u32,
        flags: u8,
        method: &str,
        path: &str,
        more: &[(&str, &str)],
    ) {
        let mut block = Vec::new();
        for (name, value) in request_fields(method, path).iter().chain(more) {
            push_field(&mut block, name.as_bytes(), value.as_bytes());
        }
        self.send_frame(kind::HEADERS, flags, stream, &block).await;
    }

    /// Sends a whole body, as the windows allow.
    pub(super) async fn upload(&mut self, stream: u32, length: usize) {
        self.upload_without_end(stream, length).await;
        self.send_frame(kind::DATA, flag::END_STREAM, stream, &[])
            .await;
    }

    /// Sends a part of a body, as the windows allow. The stream's own window is a mebibyte and grows
    /// with that of the connection, because nobody else uses it.
    pub(super) async fn upload_without_end(&mut self, stream: u32, mut length: usize) {
        while length > 0 {
            let part = length.min(super::PART);
            while self.window < part {
                let update = self.read().await.expect("the connection goes on");
                self.later.push(update);
            }
            self.send_frame(kind::DATA, 0, stream, &vec![1; part]).await;
            self.window -= part;
            length -= part;
        }
    }

    pub(super) async fn open_window(&mut self, stream: u32, by: u32) {
        let mut out = Vec::new();
        frame::push_window_update(&mut out, stream, by);
        self.send(&out).await;
    }

    pub(super) async fn ping(&mut self) {
        self.send_frame(kind::PING, 0, 0, &[1; 8]).await;
    }

    pub(super) async fn pong(&mut self, payload: &[u8]) {
        self.send_frame(kind::PING, flag::ACK, 0, payload).await;
    }

    pub(super) async fn reset(&mut self, stream: u32) {
        self.send_frame(kind::RST_STREAM, 0, stream, &[0, 0, 0, 8])
            .await;
    }

    pub(super) async fn update_priority(&mut self, stream: u32, value: &str) {
        let payload = [&stream.to_be_bytes()[..], value.as_bytes()].concat();
        self.send_frame(kind::PRIORITY_UPDATE, 0, 0, &payload).await;
    }

    /// Reads a frame; `None` at the end of the connection.
    async fn read(&mut self) -> Option<Seen> {
        let mut head = [0; HEAD_BYTES];
        self.io.read_exact(&mut head).await.ok()?;
        let head = FrameHead::parse(&head).unwrap();
        let mut payload = vec![0; head.length];
        self.io.read_exact(&mut payload).await.ok()?;
        if (head.kind, head.stream) == (kind::WINDOW_UPDATE, 0) {
            self.window += frame::number(&payload).unwrap() as usize;
        }
        Some(Seen {
            kind: head.kind,
            flags: head.flags,
            stream: head.stream,
            payload,
        })
    }

    /// The next frame that is not about the connection's beginning or its windows.
    pub(super) async fn next(&mut self) -> Option<Seen> {
        loop {
            let seen = match self.later.is_empty() {
                true => self.read().await?,
                false => self.later.remove(0),
            };
            if !matches!(seen.kind, kind::SETTINGS | kind::WINDOW_UPDATE) {
                return Some(seen);
            }
        }
    }

    /// Lets the server do what it can; returns true when it has ended the connection.
    pub(super) async fn is_ended(&mut self) -> bool {
        let passed = self.pass(Duration::from_millis(1)).await;
        passed.iter().any(|seen| seen.kind == kind::GOAWAY)
    }

    /// The next frame of this kind; others are dropped.
    pub(super) async fn until(&mut self, kind: u8) -> Seen {
        loop {
            let seen = self.next().await.expect("the connection goes on");
            if seen.kind == kind {
                return seen;
            }
        }
    }

    /// All frames that come within a time.
    pub(super) async fn pass(&mut self, time: Duration) -> Vec<Seen> {
        let mut seen = Vec::new();
        let _ = timeout(time, async {
            while let Some(frame) = self.next().await {
                seen.push(frame);
            }
            // bounded wait: the clock is paused
            std::future::pending::<()>().await;
        })
        .await;
        seen
    }

    /// The head of a stream's response, which must be the next frame of that stream.
    pub(super) async fn head_of(&mut self, stream: u32) -> Head {
        let seen = loop {
            let seen = self.next().await.expect("the connection goes on");
            if seen.stream == stream {
                break seen;
            }
        };
        assert_eq!(seen.kind, kind::HEADERS, "{seen:?}");
        let mut head = Head {
            status: 0,
            headers: HeaderMap::new(),
        };
        let status = seen.payload.iter().position(|byte| *byte & 0x80 != 0);
        if status.is_some_and(|at| seen.payload[at] == 0x88) {
            head.status = 200;
        }
        self.decoder
            .decode(&seen.payload, |field| {
                if let (FieldName::Header(name), FieldValue::Header(value)) =
                    (&field.name, &field.value)
                {
                    head.headers.append(name, value.clone());
                }
                ControlFlow::Continue(())
            })
            .unwrap();
        head
    }

    /// The body of a stream's response, until its end or its trailers.
    pub(super) async fn body_of(&mut self, stream: u32) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let seen = self.next().await.expect("the connection goes on");
            if seen.kind == kind::HEADERS && seen.stream == stream {
                self.later.insert(0, seen);
                return body;
            }
            if seen.is_data(stream) {
                body.extend_from_slice(&seen.payload);
                if seen.is_last() {
                    return body;
                }
            }
        }
    }
}

fn connection_settings() -> ConnectionSettings {
    ConnectionSettings {
        timeouts: TimeoutPolicy::new(&HttpTimeouts {
            header: Duration::from_secs(4),
            idle: Duration::from_secs(20),
            unread: Duration::from_secs(20),
            unread_bytes_min: 2_000,
        }),
        buffered_bytes_max: ConnectionSettings::BUFFERED_BYTES_MAX,
        bounds: Bounds {
            header_bytes: 8 * 1024,
            headers: 16,
            target_bytes: 1024,
            body_bytes: None,
        },
        tls: None,
    }
}

fn request_fields<'a>(method: &'a str, path: &'a str) -> [(&'static str, &'a str); 4] {
    [
        (":method", method),
        (":scheme", "http"),
        (":authority", "a.example"),
        (":path", path),
    ]
}
