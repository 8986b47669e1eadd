//! What a request says about its caller.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// Who is asking, and for what. Borrowed from the request; nothing is copied.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// The caller's address, after trusted proxies were walked; the whole address, not its prefix.
    pub client_ip: Option<IpAddr>,
    /// The method as sent; unknown methods count like any other.
    pub method: &'a str,
    /// The host, lower case, without port.
    pub host: Option<&'a str>,
    /// The path without query, as [`normalise_path`](crate::normalise_path) leaves it.
    pub path: &'a str,
    /// The headers.
    pub headers: &'a dyn Headers,
    /// The caller's verified identity.
    pub principal: Option<&'a Principal>,
    /// The domain of a descriptor: which of several gateways or applications asks.
    pub domain: Option<&'a str>,
    /// Entries of a descriptor: name and value.
    pub descriptors: &'a [(&'a str, &'a str)],
}

impl Subject<'_> {
    /// A subject that says nothing; fill in what is known with struct update syntax.
    pub const ANONYMOUS: Subject<'static> = Subject {
        client_ip: None,
        method: "GET",
        host: None,
        path: "/",
        headers: &NoHeaders,
        principal: None,
        domain: None,
        descriptors: &[],
    };
}

impl std::fmt::Debug for Subject<'_> {
    /// Leaves the headers out: they may hold secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subject")
            .field("client_ip", &self.client_ip)
            .field("method", &self.method)
            .field("host", &self.host)
            .field("path", &self.path)
            .field("principal", &self.principal.map(|principal| &principal.id))
            .field("domain", &self.domain)
            .field("descriptors", &self.descriptors)
            .finish_non_exhaustive()
    }
}

/// A caller whose identity was verified: an API key's id or a token's subject.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Principal {
    /// The name that counters are kept under.
    pub id: String,
    /// Verified facts, by name.
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
}

/// What a request holds under one header name.
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
}

impl<N: AsRef<str> + Sync, V: AsRef<[u8]> + Sync, const LINES: usize> Headers for [(N, V); LINES] {
    fn get(&self, name: &str) -> HeaderValue<'_> {
        Headers::get(self.as_slice(), name)
    }
}
