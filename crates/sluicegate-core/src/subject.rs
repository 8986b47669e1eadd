//! The subject of a request: who is asking, and for what.
//!
//! The server fills it in from the request; a policy matches it and makes keys from it.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// The caller and the request, as far as limits look at them. Borrowed; nothing is copied.
///
/// ```
/// use sluicegate_core::{Principal, Subject};
///
/// let ann = Principal::new("ann").claim("plan", "gold");
/// let headers = [("x-tenant-id", "acme")];
/// let subject = Subject {
///     method: "POST",
///     path: "/api/orders",
///     headers: &headers,
///     principal: Some(&ann),
///     ..Subject::ANONYMOUS
/// };
/// assert_eq!(subject.client_ip, None);
/// ```
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// The caller's address, after the headers of trusted proxies; the whole address, not its
    /// prefix.
    pub client_ip: Option<IpAddr>,
    /// The method as sent; unknown methods count like any other.
    pub method: &'a str,
    /// The host, lower case, without port.
    pub host: Option<&'a str>,
    /// The path without query, as [`normalise_path`](crate::normalise_path) leaves it.
    pub path: &'a str,
    /// The query string: what follows the first `?` of the target, as sent. `None` without one.
    pub query: Option<&'a str>,
    /// The headers; anything that finds a value by lower-case name.
    pub headers: &'a dyn Headers,
    /// The server's name in the TLS handshake of the client, lower case; `None` without TLS or
    /// without a name.
    pub sni: Option<&'a str>,
    /// The caller's verified identity; `None` before or without authentication.
    pub principal: Option<&'a Principal>,
    /// The domain of a descriptor: which of several gateways or applications asks.
    pub domain: Option<&'a str>,
    /// Entries of a descriptor: name and value.
    pub descriptors: &'a [(&'a str, &'a str)],
}

impl Subject<'_> {
    /// A subject about which nothing is known: `GET /`. Fill in the rest with struct update syntax.
    pub const ANONYMOUS: Subject<'static> = Subject {
        client_ip: None,
        method: "GET",
        host: None,
        path: "/",
        query: None,
        headers: &NoHeaders,
        sni: None,
        principal: None,
        domain: None,
        descriptors: &[],
    };
}

impl std::fmt::Debug for Subject<'_> {
    /// Leaves query and headers out: they may hold secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subject")
            .field("client_ip", &self.client_ip)
            .field("method", &self.method)
            .field("host", &self.host)
            .field("path", &self.path)
            .field("sni", &self.sni)
            .field("principal", &self.principal.map(|principal| &principal.id))
            .field("domain", &self.domain)
            .field("descriptors", &self.descriptors)
            .finish_non_exhaustive()
    }
}

/// A caller whose identity was verified: the id of an API key or the subject of a token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Principal {
    /// The name that counters are kept under.
    pub id: String,
    /// Verified facts about the caller, by name.
    pub claims: BTreeMap<String, String>,
}

impl Principal {
    /// A principal without claims.
    pub fn new(id: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            claims: BTreeMap::new(),
        }
    }

    /// The same principal with one more claim.
    #[must_use]
    pub fn claim(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.claims.insert(name.into(), value.into());
        self
    }
}

/// The headers of a request, by lower-case name.
pub trait Headers: Sync {
    /// The value of the header `name`.
    fn get(&self, name: &str) -> HeaderValue<'_>;

    /// Shows every line of the header `name`, in their order. Cookies may come in several.
    fn each_line<'a>(&'a self, name: &str, see: &mut dyn FnMut(&'a [u8]));
}

/// Returns true when two different header names are one for CGI and its successors (WSGI, PHP,
/// Rack), which map every sign that is neither letter nor digit to `_`.
///
/// ```
/// use sluicegate_core::is_header_twin;
///
/// assert!(is_header_twin("x-tenant-id", "x_tenant.id"));
/// assert!(!is_header_twin("x-tenant-id", "x-tenant-id"));
/// assert!(!is_header_twin("x-tenant-id", "x-tenant-ip"));
/// ```
pub fn is_header_twin(name: &str, sent: &str) -> bool {
    let mapped = |byte: u8| {
        if byte.is_ascii_alphanumeric() {
            byte
        } else {
            b'_'
        }
    };
    name.len() == sent.len()
        && name != sent
        && name.bytes().map(mapped).eq(sent.bytes().map(mapped))
}

/// The lines of a request under one header name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderValue<'a> {
    /// No such line.
    Missing,
    /// One line with these bytes.
    One(&'a [u8]),
    /// Several lines: which one counts would be a guess.
    Repeated,
}

/// A request without headers.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHeaders;

impl Headers for NoHeaders {
    fn get(&self, _name: &str) -> HeaderValue<'_> {
        HeaderValue::Missing
    }

    fn each_line<'a>(&'a self, _name: &str, _see: &mut dyn FnMut(&'a [u8])) {}
}

/// Name and value pairs, names in any case.
impl<N: AsRef<str> + Sync, V: AsRef<[u8]> + Sync> Headers for [(N, V)] {
    fn get(&self, name: &str) -> HeaderValue<'_> {
        let mut lines = self
            .iter()
            .filter(|(own, _)| own.as_ref().eq_ignore_ascii_case(name));
        match (lines.next(), lines.next()) {
            (None, _) => HeaderValue::Missing,
            (Some((_, value)), None) => HeaderValue::One(value.as_ref()),
            (Some(_), Some(_)) => HeaderValue::Repeated,
        }
    }

    fn each_line<'a>(&'a self, name: &str, see: &mut dyn FnMut(&'a [u8])) {
        for (own, value) in self {
            if own.as_ref().eq_ignore_ascii_case(name) {
                see(value.as_ref());
            }
        }
    }
}

impl<N: AsRef<str> + Sync, V: AsRef<[u8]> + Sync, const LINES: usize> Headers for [(N, V); LINES] {
    fn get(&self, name: &str) -> HeaderValue<'_> {
        Headers::get(self.as_slice(), name)
    }

    fn each_line<'a>(&'a self, name: &str, see: &mut dyn FnMut(&'a [u8])) {
        Headers::each_line(self.as_slice(), name, see);
    }
}
