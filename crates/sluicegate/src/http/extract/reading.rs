//! One reading of a request: what another server might read differently is refused here.
//!
//! The limiter, the service behind it and a proxy in between must see the same path and the same
//! key headers, or a caller is counted under one name and acts under another. Every front door
//! comes through [`RequestHead::read`], so all of them refuse the same requests, in the same order:
//! first the path, then the method, then headers that pass for a key header.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderMap, Uri};
use sluicegate_core::{AmbiguousPath, Policy, Principal, normalise_path};

use super::{AmbiguousHeader, Extracted, HeaderLines, KeyHeaders};

/// A request as it arrived, before anything in it is believed.
///
/// ```
/// use http::HeaderMap;
/// use sluicegate::http::{KeyHeaders, RequestHead};
/// use sluicegate::{Limit, Limiter, Quota};
///
/// let limiter = Limiter::local([Limit::new("all", Quota::per_second(5))])?;
/// let (policy, headers) = (limiter.policy(), HeaderMap::new());
/// let head = RequestHead {
///     method: "GET",
///     path: "/x/../api",
///     query: None,
///     target: None,
///     host: None,
///     client_ip: None,
///     headers: &headers,
///     sni: None,
///     principal: None,
/// };
/// let read = head.read(&KeyHeaders::of(policy.clone()), &policy).unwrap();
/// assert_eq!(read.extracted.subject().path, "/api");
/// # Ok::<(), sluicegate::PolicyErrors>(())
/// ```
#[derive(Clone, Debug)]
pub struct RequestHead<'a> {
    /// The method as sent.
    pub method: &'a str,
    /// The path as sent, without the query.
    pub path: &'a str,
    /// The query string as sent, without the `?`; `None` without one.
    pub query: Option<&'a str>,
    /// The target to rewrite when the path is not in its one spelling; `None` when nothing is
    /// forwarded from here.
    pub target: Option<&'a Uri>,
    /// The host in its one spelling.
    pub host: Option<Cow<'a, str>>,
    /// The caller's address, after trusted proxies were walked.
    pub client_ip: Option<IpAddr>,
    /// Every header line.
    pub headers: &'a HeaderMap,
    /// The server's name in the TLS handshake of the client, lower case.
    pub sni: Option<&'a str>,
    /// The caller's verified identity, where somebody in front has verified it.
    pub principal: Option<&'a Principal>,
}

/// A request that every server reads alike.
///
/// ```
/// use http::HeaderMap;
/// use sluicegate::http::{KeyHeaders, ReadRequest, RequestHead};
/// use sluicegate::{Limit, Limiter, Quota};
///
/// let policy = Limiter::local([Limit::new("all", Quota::per_second(5))])?.policy();
/// let (key_headers, headers) = (KeyHeaders::of(policy.clone()), HeaderMap::new());
/// let head = RequestHead {
///     method: "GET",
///     path: "/a/../b",
///     query: None,
///     target: None,
///     host: None,
///     client_ip: None,
///     headers: &headers,
///     sni: None,
///     principal: None,
/// };
/// let ReadRequest { extracted, .. } = head.read(&key_headers, &policy).unwrap();
/// assert_eq!(extracted.subject().path, "/b");
/// # Ok::<(), sluicegate::PolicyErrors>(())
/// ```
#[derive(Debug)]
pub struct ReadRequest<'a> {
    /// The request, ready to be looked up in a policy.
    pub extracted: Extracted<'a>,
    /// The target with the path as it was limited; `None` when it was sent like that.
    pub rewritten_target: Option<Uri>,
}

/// A request that servers may read differently.
///
/// ```
/// use http::HeaderMap;
/// use sluicegate::http::{KeyHeaders, Misread, RequestHead};
/// use sluicegate::{Limit, Limiter, Quota};
///
/// let policy = Limiter::local([Limit::new("all", Quota::per_second(5))])?.policy();
/// let (key_headers, headers) = (KeyHeaders::of(policy.clone()), HeaderMap::new());
/// let head = RequestHead {
///     method: "GET",
///     path: "/a%2Fb",
///     query: None,
///     target: None,
///     host: None,
///     client_ip: None,
///     headers: &headers,
///     sni: None,
///     principal: None,
/// };
/// let misread = head.read(&key_headers, &policy).unwrap_err();
/// assert!(matches!(misread, Misread::AmbiguousPath(_)));
/// # Ok::<(), sluicegate::PolicyErrors>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misread {
    /// The path has more than one reading.
    AmbiguousPath(AmbiguousPath),
    /// A header passes for one that a limit is keyed by.
    AmbiguousHeader(AmbiguousHeader),
    /// The path in its one spelling is longer than a target may be.
    PathTooLong,
    /// The method has a lower-case letter. Methods are compared by case, and some servers take
    /// `get` for `GET` all the same.
    MethodCase,
}

impl<'a> RequestHead<'a> {
    /// Brings the path to its one spelling and refuses what servers may read differently.
    pub fn read(
        self,
        key_headers: &KeyHeaders,
        policy: &Arc<Policy>,
    ) -> Result<ReadRequest<'a>, Misread> {
        let path = one_spelling(self.path).map_err(Misread::AmbiguousPath)?;
        check_method(self.method)?;
        if let Some(ambiguous) = key_headers.find_ambiguous(policy, self.headers) {
            return Err(Misread::AmbiguousHeader(ambiguous));
        }
        let rewritten_target = match (self.target, &path) {
            (Some(target), Cow::Owned(path)) => {
                Some(with_path(target, path).ok_or(Misread::PathTooLong)?)
            }
            (None, _) | (_, Cow::Borrowed(_)) => None,
        };
        let extracted = Extracted {
            client_ip: self.client_ip,
            method: self.method,
            host: self.host,
            path,
            query: self.query,
            headers: HeaderLines(self.headers),
            sni: self.sni,
            principal: self.principal,
        };
        Ok(ReadRequest {
            extracted,
            rewritten_target,
        })
    }
}

/// Refuses a method that is not in capitals, as no method of HTTP is.
///
/// ```
/// use sluicegate::http::{Misread, check_method};
///
/// assert_eq!(check_method("PATCH"), Ok(()));
/// assert_eq!(check_method("Patch"), Err(Misread::MethodCase));
/// ```
pub fn check_method(method: &str) -> Result<(), Misread> {
    match method.bytes().any(|byte| byte.is_ascii_lowercase()) {
        true => Err(Misread::MethodCase),
        false => Ok(()),
    }
}

/// The path in its one spelling. The target of `OPTIONS *` is about the server as a whole: it counts
/// as the server's root.
///
/// ```
/// use sluicegate::http::one_spelling;
///
/// assert_eq!(one_spelling("//api/./%6cogin").unwrap(), "/api/login");
/// assert_eq!(one_spelling("*").unwrap(), "/");
/// assert!(one_spelling("/api%2Flogin").is_err());
/// ```
pub fn one_spelling(path: &str) -> Result<Cow<'_, str>, AmbiguousPath> {
    match path {
        "*" => Ok(Cow::Borrowed("/")),
        path => normalise_path(path),
    }
}

/// Path and query of a target as it was sent: the query follows the first `?`, and a fragment is cut
/// off. For front doors that get a target as text.
///
/// ```
/// use sluicegate::http::split_target;
///
/// assert_eq!(split_target("/a?b=c?d#e"), ("/a", Some("b=c?d")));
/// assert_eq!(split_target("/a#b?c"), ("/a", None));
/// ```
pub fn split_target(target: &str) -> (&str, Option<&str>) {
    let whole = target.split('#').next().unwrap_or_default();
    match whole.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (whole, None),
    }
}

/// The same target with another path; `None` when that is longer than a target may be.
fn with_path(uri: &Uri, path: &str) -> Option<Uri> {
    let path_and_query = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(path_and_query.try_into().ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use sluicegate_core::{KeyPart, Limit, Quota};

    use super::*;

    #[test]
    fn only_the_path_of_a_target_is_replaced() {
        let uri = |text: &str| text.parse::<Uri>().unwrap();
        assert_eq!(
            with_path(&uri("/a/../b?x=%2e&y"), "/b"),
            Some(uri("/b?x=%2e&y"))
        );
        assert_eq!(
            with_path(&uri("http://a.example:81//b"), "/b"),
            Some(uri("http://a.example:81/b"))
        );
    }

    #[test]
    fn a_path_beyond_what_a_target_holds_is_refused() {
        let long = format!("/{}", "%C3%A9".repeat(11_000));
        assert_eq!(with_path(&Uri::from_static("/"), &long), None);
    }

    #[test]
    fn the_path_is_looked_at_before_the_headers() {
        let policy = Arc::new(Policy::new([tenant()]).unwrap());
        let key_headers = KeyHeaders::of(Arc::clone(&policy));
        let mut headers = HeaderMap::new();
        headers.insert("x_tenant", "a".parse().unwrap());
        let read = |path| {
            let head = RequestHead {
                method: "GET",
                path,
                query: None,
                target: None,
                host: None,
                client_ip: None,
                headers: &headers,
                sni: None,
                principal: None,
            };
            head.read(&key_headers, &policy).map(drop)
        };
        assert!(matches!(read("/a%2fb"), Err(Misread::AmbiguousPath(_))));
        assert!(matches!(read("/a"), Err(Misread::AmbiguousHeader(_))));
    }

    fn tenant() -> Limit {
        Limit::new("tenant", Quota::per_second(1)).key([KeyPart::header("X-Tenant")])
    }
}
