//! The reverse proxy: listeners, routes to servers, timeouts and bounds.

use std::net::SocketAddr;
use std::path::PathBuf;

use ipnet::IpNet;
use sluicegate_core::{Nanos, PathPattern, Quota};

/// The reverse proxy.
#[derive(Clone, Debug, PartialEq)]
pub struct Proxy {
    /// The addresses it listens at, at least one; HTTP/1.1 and HTTP/2.
    pub listen: Vec<SocketAddr>,
    /// The routes, the most particular first; the last covers everything.
    pub routes: Vec<Route>,
    /// The certificate for clients; `None` is plain HTTP.
    pub tls: Option<ServerTls>,
    /// The longest times for each phase of a connection.
    pub timeouts: Timeouts,
    /// The most client connections at a time, 1 to 10,000,000.
    pub max_connections: usize,
    /// The most connections to one server, of all threads, 1 to 1,000,000.
    pub max_connections_per_upstream: usize,
    /// The most connections of one client address at a time, addresses grouped as keys by
    /// `client_ip` are, 1 to 10,000,000; `None` is any number. Trusted proxies are not counted.
    pub max_connections_per_client: Option<usize>,
    /// The most bytes of bodies that wait in memory for one connection of HTTP/2, in both
    /// directions together; 128 KiB to 1 GiB, 1 MiB by default.
    pub max_buffered_per_connection: usize,
    /// The largest request.
    pub bounds: Bounds,
    /// The quota of each client address for requests that are refused before any limit is asked;
    /// `None` is any number.
    pub refused_requests: Option<Quota>,
    /// Peers from whom the PROXY protocol (version 1 or 2) is required; empty is off.
    pub proxy_protocol_from: Vec<IpNet>,
    /// Threads, each with a runtime of its own, 1 to 1,024; `None` is as many as cores.
    pub workers: Option<usize>,
}

/// Requests that go to the same servers.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The host, lower case, or `*.example` for all below it; `None` is every host.
    pub host: Option<String>,
    /// This path and every path below it; `None` is every path.
    pub path: Option<PathPattern>,
    /// The servers; requests are spread over those that are healthy.
    pub upstreams: Vec<Upstream>,
}

/// A server that requests are forwarded to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Upstream {
    /// The built-in server, which answers with the request it received.
    Echo,
    /// Another program.
    Server {
        /// True for TLS.
        tls: bool,
        /// A name or address, lower case; an IPv6 address without its brackets.
        host: String,
        /// The port; 80, or 443 with TLS, where the URL has none.
        port: u16,
        /// The version of HTTP.
        http: UpstreamHttp,
        /// Authorities to trust besides the system's, in PEM.
        ca_file: Option<PathBuf>,
    },
}

/// The version of HTTP that a server is asked with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum UpstreamHttp {
    /// HTTP/1.1, or HTTP/2 if the server prefers it by ALPN.
    #[default]
    Auto,
    /// HTTP/1.1.
    Http1,
    /// HTTP/2 in any case; without TLS by prior knowledge.
    Http2,
}

/// A certificate and its key, read again when the files change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTls {
    /// The chain, in PEM.
    pub cert: PathBuf,
    /// The private key, in PEM.
    pub key: PathBuf,
}

/// The longest times for each phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From the first byte of a connection or request to the end of its header; also for the TLS
    /// handshake. 10 s by default.
    pub header: Nanos,
    /// A connection between two requests. 60 s by default.
    pub idle: Nanos,
    /// A client that takes nothing of a response, or sends nothing of a body that is waited for.
    /// 60 s by default.
    pub stalled_client: Nanos,
    /// A server that sends nothing in the middle of its response. 60 s by default.
    pub stalled_server: Nanos,
    /// A new connection to a server. 5 s by default.
    pub connect: Nanos,
    /// The wait of a request for a connection when its server has as many as it may. 1 s by default.
    pub upstream_wait: Nanos,
    /// From the end of a request's header to the beginning of its response. 60 s by default.
    pub request: Nanos,
    /// For requests under way when Sluicegate stops; 0 ends them at once. 30 s by default.
    pub drain: Nanos,
}

/// The largest request; a larger one is rejected with 413, 414 or 431.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The request line and headers together, in bytes; 1 KiB to 1 MiB, 16 KiB by default.
    pub header_bytes: usize,
    /// Header lines, 1 to 10,000; 100 by default.
    pub headers: usize,
    /// The request target, in bytes; 1 KiB to 1 MiB, 8 KiB by default.
    pub target_bytes: usize,
    /// The body, in bytes; `None` is any size.
    pub body_bytes: Option<u64>,
}
