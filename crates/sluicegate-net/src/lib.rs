//! Sluicegate's network engine: it listens, speaks TLS, HTTP/1 and HTTP/2 with clients, and HTTP/1
//! and HTTP/2 with servers.
//!
//! The engine knows sockets, bytes, requests and timeouts. It knows no limits: the program behind
//! it implements [`Handler`], which turns a request into a response, and gives the engine its
//! settings for each connection. Every HTTP/1 connection of the process is served here.
//!
//! # A minimal server
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use bytes::Bytes;
//! use http::StatusCode;
//! use http_body_util::Full;
//! use sluicegate_config::Bounds;
//! use sluicegate_net::{
//!     Connection, ConnectionSettings, CoreSettings, Cores, Endpoint, Handler, HttpResponse,
//!     HttpServer, HttpTimeouts, IncomingRequest, InheritedSockets, TimeoutPolicy,
//! };
//! use tokio::sync::watch;
//!
//! struct Hello;
//!
//! impl Handler for Hello {
//!     type Body = Full<Bytes>;
//!
//!     async fn handle(
//!         connection: &Arc<Connection<Self>>,
//!         request: &mut IncomingRequest,
//!     ) -> HttpResponse<Full<Bytes>> {
//!         let words = format!("{} asked for {}", connection.peer, request.parts.uri.path());
//!         let mut response = HttpResponse::plain_text(StatusCode::OK, words);
//!         response.closes = request.end.is_err();
//!         response.map(Full::new)
//!     }
//! }
//!
//! let (end, ending) = watch::channel(false);
//! let settings = ConnectionSettings {
//!     timeouts: TimeoutPolicy::new(&HttpTimeouts {
//!         header: Duration::from_secs(10),
//!         idle: Duration::from_secs(60),
//!         unread: Duration::from_secs(60),
//!         unread_bytes_min: 6_000,
//!     }),
//!     bounds: Bounds {
//!         header_bytes: 16 * 1024,
//!         headers: 64,
//!         target_bytes: 8 * 1024,
//!         body_bytes: None,
//!     },
//!     buffered_bytes_max: 1024 * 1024,
//!     tls: None,
//! };
//! let server = Arc::new(HttpServer {
//!     counters: Arc::default(),
//!     proxy_protocol_from: Vec::new(),
//!     named_clients: None,
//!     ending: ending.clone(),
//! });
//! let (counters, handler) = (Arc::clone(&server.counters), Arc::new(Hello));
//! let address = "127.0.0.1:0".parse().unwrap();
//! let endpoint = Endpoint::new("hello.listen", vec![address], 1_000, move |stream, peer| {
//!     Arc::clone(&server).serve(Arc::clone(&handler), settings.clone(), stream, peer)
//! });
//! let cores = Cores::start(
//!     2,
//!     vec![endpoint],
//!     &CoreSettings { counters, ending, drain: Duration::from_secs(1) },
//!     &mut InheritedSockets::default(),
//! )
//! .unwrap();
//!
//! use std::io::{Read, Write};
//! let mut client = std::net::TcpStream::connect(cores.addresses("hello.listen")[0]).unwrap();
//! client.write_all(b"GET /a HTTP/1.1\r\nHost: b\r\nConnection: close\r\n\r\n").unwrap();
//! let mut answer = String::new();
//! client.read_to_string(&mut answer).unwrap();
//! assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("asked for /a"));
//!
//! end.send_replace(true);
//! cores.join();
//! ```
//!
//! # The way of a connection
//!
//! `cores.rs` accepts it on one of the threads and spawns its task. `connection.rs` opens it
//! (`connection/opening.rs`) and serves it under a supervisor (`supervisor.rs`), which enforces
//! `timeouts.rs` and puts idle connections to rest. `http1.rs` reads heads from `client_wire.rs`,
//! calls the handler, and sends the response through `wire/outgoing.rs`; `http2.rs` does the same
//! for all streams of a connection. A handler that forwards requests sends them with `http1_client.rs` or
//! `http2_client.rs`.
//!
//! # Order of the modules
//!
//! Each module uses only those above it, so they can be read in this order:
//!
//! ```text
//! bytes         wire, hpack, date, response, hop_by_hop, upgrade_request, validate, body_error
//! sockets       inherited, listen, tls, proxy_protocol, stall_timeout, lingering, transport
//! bookkeeping   wake_flag, rare_event, activity, overload, counters, client_connections, timeouts, connection_timers, upload, slots
//! a client      client_io, client_wire, stream_body, request_body
//! servers       upgrade, tunnel, http1_client, http2_client
//! the seam      handler
//! serving       http1, http2, supervisor, connection
//! the process   cores
//! ```
#![forbid(unsafe_code)]

mod activity;
mod body_error;
mod client_connections;
mod client_io;
mod client_wire;
mod connection;
mod connection_timers;
mod cores;
mod counters;
mod date;
#[cfg(feature = "fuzz-internals")]
#[doc(hidden)]
pub mod fuzz_internals;
mod handler;
mod head_bytes;
mod header_lines;
pub mod hop_by_hop;
mod hpack;
mod http1;
mod http1_client;
mod http2;
pub mod http2_client;
mod inherited;
mod lingering;
pub mod listen;
mod overload;
mod proxy_protocol;
mod rare_event;
mod request_body;
mod request_parts;
mod response;
mod slots;
mod stall_timeout;
mod stream_body;
mod supervisor;
mod timeouts;
pub mod tls;
mod transport;
mod tunnel;
mod turn;
mod upgrade;
mod upgrade_request;
mod upload;
mod validate;
mod wake_flag;
mod wire;

pub use body_error::BodyError;
pub use client_connections::{ClientAdmission, ClientConnections, ClientPermit};
pub use client_wire::WireBody;
pub use connection::{ConnectionSettings, HttpServer};
pub use cores::{CoreSettings, Cores, Endpoint};
pub use counters::{ConnectionCounters, ConnectionRefusal, OpenConnection};
pub use handler::{
    CompleteBody, Connection, Handler, IncomingRequest, ResponseBody, SignOfLife, WholeBodyBounds,
};
pub use head_bytes::HeadBytes;
pub use header_lines::header_lines;
pub use http1_client::{
    ConnectionGrant, ConnectionSlot, ConnectionSlots, Exchange, ExchangeBody, ExchangeError,
    PrivateConnections,
};
pub use inherited::InheritedSockets;
pub use lingering::Lingering;
pub use overload::{OverloadStage, OverloadState, ShedConnection};
pub use rare_event::{First, RareEvent};
pub use request_body::{ClientBody, ForwardedBody, TrailerFilter, WholeBody};
pub use request_parts::RequestParts;
pub use response::{HttpResponse, ResponseLines};
pub use slots::NoSlot;
pub use stall_timeout::StallTimeout;
pub use stream_body::StreamBody;
pub use timeouts::{HttpTimeouts, TimeoutPolicy};
pub use transport::{ByteStream, Transport};
pub use tunnel::{Tunnel, TunnelError};
pub use upgrade::SwitchedServer;
pub use upgrade_request::{UpgradeRequest, upgrade_of};
pub use upload::{UploadMonitor, UploadPace, UploadProgress, UploadState};
pub use validate::{BodyEnd, InvalidRequest, body_end, validate};
pub use wire::HeaderText;
