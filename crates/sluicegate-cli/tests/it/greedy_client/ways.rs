//! The ways to be greedy. Each is what a connection begins with, and what it goes on with.

use std::time::Duration;

use sluicegate_testkit::h2_frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PING, PREFACE, RST_STREAM, SETTINGS,
    WINDOW_UPDATE, field, frame, get_fields, post_fields, push_integer,
};

pub struct Way {
    pub name: &'static str,
    pub door: Door,
    pub limit: Limit,
    /// Connections in the short form.
    pub crowd: usize,
    pub first: fn() -> Vec<u8>,
    /// The bytes of a round, which comes when those before have been taken.
    pub then: fn(u32) -> Vec<u8>,
    /// Between two rounds.
    pub pause: Duration,
    pub answers: Answers,
    pub after: After,
}

/// The listener that is attacked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Door {
    Proxy,
    Admin,
    Grpc,
    TlsDecisions,
}

/// The limit of each client's requests.
#[derive(Clone, Copy)]
pub enum Limit {
    /// That of the configuration without a file. Streams of HTTP/2 are cheap for a client, and a
    /// limit is what keeps it from having thousands of requests under way.
    Default,
    /// Never reached, so that the other bounds have to hold on their own.
    OutOfReach,
}

#[derive(Clone, Copy)]
pub enum Answers {
    Read,
    LeftUnread,
}

/// What follows once all of a round was taken.
#[derive(Clone, Copy)]
pub enum After {
    GoOn,
    /// The connection is closed when something was answered.
    Close,
}

const SLOW: Duration = Duration::from_millis(50);

/// Waits, once it has said something.
const WAIT: Way = Way {
    name: "",
    door: Door::Proxy,
    limit: Limit::OutOfReach,
    crowd: 300,
    first: Vec::new,
    then: |_| Vec::new(),
    pause: SLOW,
    answers: Answers::LeftUnread,
    after: After::GoOn,
};

/// Writes as much as is taken, and reads what comes.
const FLOOD: Way = Way {
    crowd: 100,
    pause: Duration::ZERO,
    answers: Answers::Read,
    ..WAIT
};

pub const WAITING: [Way; 8] = [
    Way {
        name: "connections without a request",
        crowd: 1_200,
        ..WAIT
    },
    Way {
        name: "half a header",
        first: || b"GET /half HTTP/1.1\r\nHost: a.exam".to_vec(),
        ..WAIT
    },
    Way {
        name: "a header byte by byte",
        first: || b"GET /slow HTTP/1.1\r\nHost: a.example\r\nX-Slow: ".to_vec(),
        then: |_| b"a".to_vec(),
        ..WAIT
    },
    Way {
        name: "a body byte by byte",
        first: || upload("100000"),
        then: |_| b"a".to_vec(),
        ..WAIT
    },
    Way {
        name: "a body that never comes",
        first: || upload("100000"),
        ..WAIT
    },
    Way {
        name: "large answers left unread",
        // Each fills the buffers of its sockets, which is a burst of several mebibytes.
        crowd: 100,
        first: || get("/large"),
        ..WAIT
    },
    Way {
        name: "WebSockets that say nothing",
        first: || {
            b"GET /socket HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".to_vec()
        },
        ..WAIT
    },
    Way {
        name: "a server that stops in its answer",
        first: || get("/stops"),
        answers: Answers::Read,
        ..WAIT
    },
];

pub const FLOODING: [Way; 6] = [
    Way {
        name: "pipelined requests, answers left unread",
        then: |_| get("/good").repeat(200),
        answers: Answers::LeftUnread,
        ..FLOOD
    },
    Way {
        name: "a connection for each request",
        first: || get("/good"),
        after: After::Close,
        ..FLOOD
    },
    Way {
        name: "requests beyond the limit",
        limit: Limit::Default,
        then: |_| get("/good").repeat(20),
        ..FLOOD
    },
    Way {
        name: "malformed requests",
        first: || b"get / HTTP/1.1\r\nHost: a.example\r\n\r\n".to_vec(),
        after: After::Close,
        ..FLOOD
    },
    Way {
        name: "headers of a mebibyte",
        first: || [b"GET / HTTP/1.1\r\nX-Large: ".to_vec(), vec![b'a'; 1 << 20]].concat(),
        after: After::Close,
        ..FLOOD
    },
    Way {
        name: "uploads without end",
        first: || upload("1099511627776"),
        then: |_| vec![b'a'; 64 << 10],
        ..FLOOD
    },
];

pub const WAITING_IN_HTTP2: [Way; 5] = [
    Way {
        name: "streams without a window for their answers",
        limit: Limit::Default,
        crowd: 100,
        first: || hundred_streams(0, "/large"),
        ..WAIT
    },
    Way {
        name: "a connection without a window",
        limit: Limit::Default,
        crowd: 100,
        first: || hundred_streams(0x7fff_ffff, "/large"),
        answers: Answers::Read,
        ..WAIT
    },
    Way {
        name: "a hundred streams to a server that stops",
        crowd: 100,
        first: || hundred_streams(0xffff, "/stops"),
        answers: Answers::Read,
        ..WAIT
    },
    Way {
        name: "bodies of streams that never come",
        crowd: 100,
        first: || {
            let streams = streams()
                .map(|stream| frame(HEADERS, END_HEADERS, stream, &post_fields("/upload")));
            [begin(0xffff)]
                .into_iter()
                .chain(streams)
                .flatten()
                .collect()
        },
        answers: Answers::Read,
        ..WAIT
    },
    Way {
        name: "nothing but WINDOW_UPDATE",
        first: || begin(0xffff),
        then: |_| frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]),
        answers: Answers::Read,
        ..WAIT
    },
];

pub const FLOODING_IN_HTTP2: [Way; 5] = [
    Way {
        name: "streams that are reset at once",
        first: || begin(0xffff),
        then: |round| {
            let streams = (0..50).map(|number| 1 + 2 * (round * 50 + number));
            streams.flat_map(begun_and_reset).collect()
        },
        ..FLOOD
    },
    Way {
        name: "CONTINUATION without end",
        first: || {
            [
                begin(0xffff),
                frame(HEADERS, END_STREAM, 1, &get_fields("/never")),
            ]
            .concat()
        },
        then: |_| frame(CONTINUATION, 0, 1, &field("x", "y")).repeat(100),
        ..FLOOD
    },
    Way {
        name: "pings and settings",
        first: || begin(0xffff),
        then: |_| {
            [frame(PING, 0, 0, &[0; 8]), frame(SETTINGS, 0, 0, &[])]
                .concat()
                .repeat(50)
        },
        ..FLOOD
    },
    Way {
        name: "empty frames of a body",
        first: || {
            [
                begin(0xffff),
                frame(HEADERS, END_HEADERS, 1, &post_fields("/upload")),
            ]
            .concat()
        },
        then: |_| frame(DATA, 0, 1, &[]).repeat(100),
        ..FLOOD
    },
    Way {
        name: "headers that unpack to sixty mebibytes",
        first: || {
            let entry = [get_fields("/good"), remembered_field()].concat();
            [
                begin(0xffff),
                frame(HEADERS, END_HEADERS | END_STREAM, 1, &entry),
            ]
            .concat()
        },
        then: |round| {
            const NEWEST_ENTRY: u8 = 0x80 | 62;
            let bomb = [get_fields("/bomb"), vec![NEWEST_ENTRY; 16_000]].concat();
            frame(HEADERS, END_HEADERS | END_STREAM, 3 + 2 * round, &bomb)
        },
        ..FLOOD
    },
];

pub const AT_OTHER_DOORS: [Way; 3] = [
    Way {
        name: "TLS handshakes byte by byte",
        door: Door::TlsDecisions,
        // A record of 8 KiB, which begins a handshake.
        first: || vec![0x16, 3, 1, 0x20, 0, 1, 0, 0x1f, 0xfc, 3, 3],
        then: |_| vec![7],
        ..WAIT
    },
    Way {
        name: "gRPC questions without a body",
        door: Door::Grpc,
        crowd: 100,
        first: || {
            let path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
            let fields = [
                post_fields(path),
                field("content-type", "application/grpc"),
                field("te", "trailers"),
            ]
            .concat();
            let streams = streams().map(|stream| frame(HEADERS, END_HEADERS, stream, &fields));
            [begin(0xffff)]
                .into_iter()
                .chain(streams)
                .flatten()
                .collect()
        },
        answers: Answers::Read,
        ..WAIT
    },
    Way {
        name: "silent strangers at the admin API",
        door: Door::Admin,
        ..WAIT
    },
];

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n\r\n").into_bytes()
}

fn upload(length: &str) -> Vec<u8> {
    format!("POST /upload HTTP/1.1\r\nHost: a.example\r\nContent-Length: {length}\r\n\r\n")
        .into_bytes()
}

/// Begins a connection whose streams have this window.
fn begin(window: u32) -> Vec<u8> {
    const INITIAL_WINDOW_SIZE: [u8; 2] = [0, 4];
    let setting = [&INITIAL_WINDOW_SIZE[..], &window.to_be_bytes()].concat();
    [PREFACE, &frame(SETTINGS, 0, 0, &setting)].concat()
}

/// As many as a connection may have at a time.
fn streams() -> impl Iterator<Item = u32> {
    (0..100).map(|number| 1 + 2 * number)
}

fn hundred_streams(window: u32, path: &str) -> Vec<u8> {
    let fields = get_fields(path);
    let requests =
        streams().map(|stream| frame(HEADERS, END_HEADERS | END_STREAM, stream, &fields));
    [begin(window)]
        .into_iter()
        .chain(requests)
        .flatten()
        .collect()
}

fn begun_and_reset(stream: u32) -> Vec<u8> {
    const CANCEL: [u8; 4] = [0, 0, 0, 8];
    let request = frame(
        HEADERS,
        END_HEADERS | END_STREAM,
        stream,
        &get_fields("/good"),
    );
    [request, frame(RST_STREAM, 0, stream, &CANCEL)].concat()
}

/// A field of 4,000 bytes that goes into the table of the connection.
fn remembered_field() -> Vec<u8> {
    const WITH_INDEXING: u8 = 0x40;
    let mut entry = vec![WITH_INDEXING];
    for text in ["x-bomb", &"a".repeat(4_000)] {
        push_integer(&mut entry, 0, 127, text.len());
        entry.extend_from_slice(text.as_bytes());
    }
    entry
}
