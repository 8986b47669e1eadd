//! From a request to a [`Subject`]: who is asking, and for what.
//!
//! `client_ip.rs` and `hops.rs` find the caller's address, `host.rs` the host; `key_headers.rs`
//! finds headers that could be taken for another, and `reading.rs` refuses requests that servers
//! may read differently. Nothing is copied, except a host or a path that was not sent in its normal
//! spelling.

mod client_ip;
mod hops;
mod host;
mod key_headers;
mod reading;

pub use client_ip::{ClientIp, ProxyHeaderFault};
pub use host::host_of;
pub use key_headers::{AmbiguousHeader, HeaderAmbiguity, KeyHeaders};
pub use reading::{Misread, ReadRequest, RequestHead, check_method, one_spelling, split_target};

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use http::request::Parts;
use http::{Extensions, HeaderMap};
use sluicegate_core::{AmbiguousPath, HeaderValue, Headers, Principal, Subject};

/// Reads who is asking from a request.
///
/// The peer's address comes from the extension [`PeerAddr`] or, with the feature `axum`, from
/// `ConnectInfo<SocketAddr>`; the principal from the extension [`Principal`], which the middleware
/// that verified the caller puts there.
///
/// ```
/// use sluicegate::http::{ClientIp, PeerAddr, extract};
///
/// let peer = PeerAddr("203.0.113.7:4711".parse()?);
/// let request = http::Request::get("http://A.example:80/x/../api").extension(peer).body(())?;
/// let (parts, ()) = request.into_parts();
/// let extracted = extract(&parts, &ClientIp::default())?;
/// let subject = extracted.subject();
/// assert_eq!(subject.client_ip, Some("203.0.113.7".parse()?));
/// assert_eq!((subject.host, subject.path), (Some("a.example"), "/api"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn extract<'a>(parts: &'a Parts, client_ip: &ClientIp) -> Result<Extracted<'a>, AmbiguousPath> {
    let head = RequestHead::of(parts, client_ip);
    Ok(Extracted {
        client_ip: head.client_ip,
        method: head.method,
        host: head.host,
        path: one_spelling(head.path)?,
        query: head.query,
        headers: HeaderLines(&parts.headers),
        sni: head.sni,
        principal: head.principal,
    })
}

impl<'a> RequestHead<'a> {
    /// A request of the `http` crate: peer, TLS name and principal come from its extensions.
    pub fn of(parts: &'a Parts, client_ip: &ClientIp) -> Self {
        Self {
            method: parts.method.as_str(),
            path: parts.uri.path(),
            query: parts.uri.query(),
            target: Some(&parts.uri),
            host: host_of(&parts.uri, &parts.headers),
            client_ip: client_ip.resolve(peer_of(&parts.extensions), &parts.headers),
            headers: &parts.headers,
            sni: parts
                .extensions
                .get()
                .map(|TlsServerName(name)| name.as_str()),
            principal: parts.extensions.get(),
        }
    }
}

/// The facts of a request that limits are decided by; [`Extracted::subject`] is the view that a
/// limiter takes.
///
/// [`extract`] makes it from an `http` request. Its fields are public, so that a server which reads
/// requests by itself, or describes the request of somebody else, can fill them:
///
/// ```
/// use http::HeaderMap;
/// use sluicegate::http::{Extracted, HeaderLines, one_spelling};
///
/// let headers = HeaderMap::new();
/// let extracted = Extracted {
///     client_ip: Some("203.0.113.7".parse()?),
///     method: "GET",
///     host: Some("a.example".into()),
///     path: one_spelling("/x/../api")?,
///     query: None,
///     headers: HeaderLines(&headers),
///     sni: None,
///     principal: None,
/// };
/// assert_eq!(extracted.subject().path, "/api");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Extracted<'a> {
    /// The caller's address, after trusted proxies were walked.
    pub client_ip: Option<IpAddr>,
    /// The method as sent.
    pub method: &'a str,
    /// The host as [`host_of`] returns it: lower case, without port and without a dot at its end,
    /// in brackets if it is an IPv6 address. `None` when there is none, it is malformed, or two
    /// `Host` lines disagree.
    pub host: Option<Cow<'a, str>>,
    /// The path in its normal spelling; borrowed when it was sent like that.
    pub path: Cow<'a, str>,
    /// The query string as sent, without the `?`.
    pub query: Option<&'a str>,
    /// The headers.
    pub headers: HeaderLines<'a>,
    /// The server's name in the TLS handshake of the client, lower case.
    pub sni: Option<&'a str>,
    /// The caller's verified identity.
    pub principal: Option<&'a Principal>,
}

impl Extracted<'_> {
    /// The subject to check.
    pub fn subject(&self) -> Subject<'_> {
        Subject {
            client_ip: self.client_ip,
            method: self.method,
            host: self.host.as_deref(),
            path: &self.path,
            query: self.query,
            headers: &self.headers,
            sni: self.sni,
            principal: self.principal,
            domain: None,
            descriptors: &[],
        }
    }
}

impl std::fmt::Debug for Extracted<'_> {
    /// Leaves query and values of headers out: they may hold secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Extracted")
            .field("client_ip", &self.client_ip)
            .field("method", &self.method)
            .field("host", &self.host)
            .field("path", &self.path)
            .field("headers", &self.headers)
            .field("sni", &self.sni)
            .field("principal", &self.principal.map(|principal| &principal.id))
            .finish_non_exhaustive()
    }
}

/// The address at the other end of the connection: an extension that the server puts into each
/// request.
///
/// ```
/// use sluicegate::http::PeerAddr;
///
/// # fn accepted() -> std::net::SocketAddr { ([203, 0, 113, 7], 4711).into() }
/// let peer: std::net::SocketAddr = accepted();
/// let request = http::Request::get("/").extension(PeerAddr(peer)).body(())?;
/// # let _ = request;
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerAddr(pub SocketAddr);

/// The name that the client asked for in its TLS handshake (SNI): an extension that a server which
/// speaks TLS puts into each request, for limits with the key part `sni`.
///
/// ```
/// use sluicegate::http::TlsServerName;
///
/// let name = TlsServerName::new("A.example");
/// assert_eq!(name, TlsServerName::new("a.example"));
/// let request = http::Request::get("/").extension(name).body(())?;
/// # let _ = request;
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsServerName(String);

impl TlsServerName {
    /// The name in lower case.
    pub fn new(name: impl Into<String>) -> Self {
        let mut name = name.into();
        name.make_ascii_lowercase();
        Self(name)
    }
}

/// The peer's address. Our own extension was put there on purpose, so it comes before the
/// framework's.
fn peer_of(extensions: &Extensions) -> Option<IpAddr> {
    let own = extensions.get().map(|PeerAddr(peer)| peer.ip());
    #[cfg(feature = "axum")]
    let own = own.or_else(|| {
        let connected = extensions.get::<axum::extract::ConnectInfo<SocketAddr>>();
        connected.map(|axum::extract::ConnectInfo(peer)| peer.ip())
    });
    own
}

/// A [`HeaderMap`] as limits read it: a name with several lines has no value, because servers
/// differ in which of them they take.
///
/// The adapter for a [`Subject`] that is filled by hand:
///
/// ```
/// use http::{HeaderMap, HeaderValue};
/// use sluicegate::Subject;
/// use sluicegate::http::HeaderLines;
///
/// let mut headers = HeaderMap::new();
/// headers.insert("x-tenant-id", HeaderValue::from_static("acme"));
/// let lines = HeaderLines(&headers);
/// let subject = Subject { headers: &lines, ..Subject::ANONYMOUS };
/// # let _ = subject;
/// ```
#[derive(Clone, Copy)]
pub struct HeaderLines<'a>(pub &'a HeaderMap);

impl Headers for HeaderLines<'_> {
    fn get(&self, name: &str) -> HeaderValue<'_> {
        let mut lines = self.0.get_all(name).iter();
        match (lines.next(), lines.next()) {
            (None, _) => HeaderValue::Missing,
            (Some(line), None) => HeaderValue::One(line.as_bytes()),
            (Some(_), Some(_)) => HeaderValue::Repeated,
        }
    }

    fn each_line<'a>(&'a self, name: &str, see: &mut dyn FnMut(&'a [u8])) {
        self.0
            .get_all(name)
            .iter()
            .for_each(|line| see(line.as_bytes()));
    }
}

impl std::fmt::Debug for HeaderLines<'_> {
    /// Leaves the values out: they may hold secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
