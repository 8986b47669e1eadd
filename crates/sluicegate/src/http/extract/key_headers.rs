//! Headers that a limit and a server may read differently: `X_Tenant_Id` beside `X-Tenant-Id`, or
//! two lines of a header that a limit compares with a value.
//!
//! CGI and its successors (WSGI, PHP, Rack) turn both names into `HTTP_X_TENANT_ID`, and of two
//! lines some servers read the first and some the last. A caller could be counted under one value
//! and act under the other, so such a request is refused, like one with an ambiguous path.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use http::{HeaderMap, HeaderName};
use sluicegate_core::{KeyPart, Policy, is_header_twin};

/// Finds headers that a limit and a server may read differently: twins of a header that a limit
/// reads, and repeated lines of one that it compares with a value.
///
/// For front doors that call [`extract`](super::extract) themselves: check before the request is
/// counted, and answer with
/// [`Rejection::AmbiguousHeader`](crate::http::Rejection::AmbiguousHeader). The names are listed
/// once for each policy, and listed again when another is in force.
///
/// ```
/// use http::{HeaderMap, HeaderValue};
/// use sluicegate::http::KeyHeaders;
/// use sluicegate::{KeyPart, Limit, Limiter, Quota};
///
/// let tenant = Limit::new("tenant", Quota::per_second(5)).key([KeyPart::header("X-Tenant-Id")]);
/// let limiter = Limiter::local([tenant])?;
/// let key_headers = KeyHeaders::of(limiter.policy());
///
/// let mut headers = HeaderMap::new();
/// headers.insert("x_tenant_id", HeaderValue::from_static("another"));
/// let ambiguous = key_headers.find_ambiguous(&limiter.policy(), &headers);
/// assert_eq!(ambiguous.map(|found| found.header), Some("x-tenant-id".to_owned()));
/// # Ok::<(), sluicegate::PolicyErrors>(())
/// ```
#[derive(Debug)]
pub struct KeyHeaders {
    /// The names for the policy that was in force last. Two threads that see a new policy may both
    /// list it; the results are equal.
    listed: ArcSwap<KeyHeaderList>,
}

impl KeyHeaders {
    /// The key headers of a policy.
    pub fn of(policy: Arc<Policy>) -> Self {
        Self {
            listed: ArcSwap::from_pointee(KeyHeaderList::of(policy)),
        }
    }

    /// The first header of `policy` that is repeated although a limit compares its value, or that
    /// has a twin (see [`is_header_twin`]).
    pub fn find_ambiguous(
        &self,
        policy: &Arc<Policy>,
        headers: &HeaderMap,
    ) -> Option<AmbiguousHeader> {
        let listed = self.listed.load();
        if Arc::ptr_eq(&listed.policy, policy) {
            return listed.find_ambiguous(headers);
        }
        let fresh = Arc::new(KeyHeaderList::of(Arc::clone(policy)));
        self.listed.store(Arc::clone(&fresh));
        fresh.find_ambiguous(headers)
    }
}

/// The headers that limits of one policy read.
#[derive(Debug)]
struct KeyHeaderList {
    policy: Arc<Policy>,
    /// Each name once, with the first limit that reads it.
    names: Vec<ReadHeader>,
}

/// A header that a limit reads.
#[derive(Debug)]
struct ReadHeader {
    /// The index of the limit.
    limit_index: usize,
    /// The header's name, lower case.
    name: String,
    /// The name as a map looks it up; `None` when no request can have it.
    header: Option<HeaderName>,
    /// True when the limit compares the value with its own. A key has a rule for repeated lines.
    is_compared: bool,
}

impl KeyHeaderList {
    fn of(policy: Arc<Policy>) -> Self {
        let mut names: Vec<ReadHeader> = Vec::new();
        let mut note = |limit_index, name: &str, is_compared| match names
            .iter_mut()
            .find(|listed| listed.name == name)
        {
            Some(listed) => listed.is_compared |= is_compared,
            None => names.push(ReadHeader {
                limit_index,
                name: name.to_owned(),
                header: HeaderName::from_bytes(name.as_bytes()).ok(),
                is_compared,
            }),
        };
        for (limit_index, limit) in policy.limits().iter().enumerate() {
            let keys = limit.key.iter().filter_map(|part| match part {
                KeyPart::Header(name) => Some(name.as_str()),
                _ => None,
            });
            for name in keys.chain(limit.cost.header()) {
                note(limit_index, name, false);
            }
            for condition in &limit.matching.headers {
                note(limit_index, &condition.name, condition.value.is_some());
            }
        }
        Self { policy, names }
    }

    fn find_ambiguous(&self, headers: &HeaderMap) -> Option<AmbiguousHeader> {
        if self.names.is_empty() {
            return None;
        }
        let is_repeated = |read: &&ReadHeader| {
            let lines = |name| headers.get_all(name).iter().count();
            read.is_compared && read.header.as_ref().is_some_and(|name| lines(name) > 1)
        };
        if let Some(repeated) = self.names.iter().find(is_repeated) {
            return Some(self.ambiguous(repeated, HeaderAmbiguity::Repeated));
        }
        let is_twin = |sent: &str| {
            let mut names = self.names.iter();
            names.find(|read| is_header_twin(&read.name, sent))
        };
        let twin = headers.keys().find_map(|sent| is_twin(sent.as_str()))?;
        Some(self.ambiguous(twin, HeaderAmbiguity::Twin))
    }

    fn ambiguous(&self, read: &ReadHeader, ambiguity: HeaderAmbiguity) -> AmbiguousHeader {
        AmbiguousHeader {
            limit: self.policy.limits()[read.limit_index].name.clone(),
            header: read.name.clone(),
            ambiguity,
        }
    }
}

/// The error for a request with a header that servers may take for a key header. It names the key
/// header and not the other one, whose name the caller chose.
///
/// ```
/// use http::HeaderMap;
/// use sluicegate::http::KeyHeaders;
/// use sluicegate::{Limit, Limiter, Quota};
///
/// let limit = Limit::new("per-user", Quota::per_second(5)).key(["header:x-user".parse()?]);
/// let policy = Limiter::local([limit])?.policy();
/// let mut headers = HeaderMap::new();
/// headers.insert("x_user", "somebody-else".parse()?);
/// let ambiguous = KeyHeaders::of(policy.clone()).find_ambiguous(&policy, &headers);
/// assert_eq!(ambiguous.unwrap().header, "x-user");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AmbiguousHeader {
    /// The limit that reads it.
    pub limit: String,
    /// The name of the header that the limit reads, as configured.
    pub header: String,
    /// Why servers may read it differently.
    pub ambiguity: HeaderAmbiguity,
}

/// Why servers may read a header differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderAmbiguity {
    /// Another header has the same name for programs that keep letters and digits only.
    Twin,
    /// There are several lines, and the limit compares the value.
    Repeated,
}

impl fmt::Display for AmbiguousHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.ambiguity {
            HeaderAmbiguity::Twin => {
                "is ambiguous, another header differs only in signs such as '_' and '-'"
            }
            HeaderAmbiguity::Repeated => "is there more than once",
        };
        write!(f, "limit {:?}: header:{} {why}", self.limit, self.header)
    }
}

impl std::error::Error for AmbiguousHeader {}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use sluicegate_core::{Limit, Match, Quota};

    use super::*;

    fn found(limit: Limit, lines: &[&'static str]) -> Option<HeaderAmbiguity> {
        let policy = Arc::new(Policy::new([limit]).unwrap());
        let mut headers = HeaderMap::new();
        for name in lines {
            let name = HeaderName::from_static(name);
            headers.append(name, HeaderValue::from_static("free"));
        }
        let ambiguous = KeyHeaders::of(Arc::clone(&policy)).find_ambiguous(&policy, &headers);
        ambiguous.map(|found| found.ambiguity)
    }

    fn limit() -> Limit {
        Limit::new("limit", Quota::per_second(1))
    }

    #[test]
    fn a_twin_differs_in_any_sign_that_cgi_maps_and_in_nothing_else() {
        let by_tenant = || limit().key([KeyPart::header("X-Tenant-Id")]);
        let by_plan = || limit().matching(Match::default().header("X-Tenant-Id", "free"));
        for twin in [
            "x_tenant_id",
            "x-tenant_id",
            "x.tenant.id",
            "x!tenant-id",
            "x#tenant#id",
            "x$tenant-id",
            "x%tenant_id",
            "x&tenant-id",
            "x'tenant-id",
            "x*tenant-id",
            "x+tenant-id",
            "x^tenant-id",
            "x`tenant-id",
            "x|tenant-id",
            "x~tenant-id",
        ] {
            assert_eq!(
                found(by_tenant(), &[twin]),
                Some(HeaderAmbiguity::Twin),
                "{twin}"
            );
            assert_eq!(
                found(by_plan(), &[twin]),
                Some(HeaderAmbiguity::Twin),
                "{twin}"
            );
        }
        for other in ["x-tenant-id", "x-tenant-ip", "x_tenant_id_", "xtenantid"] {
            assert_eq!(found(by_tenant(), &[other]), None, "{other}");
        }
    }

    #[test]
    fn a_header_that_is_compared_may_be_there_once() {
        let twice = ["x-plan", "x-plan"];
        let compared = limit().matching(Match::default().header("X-Plan", "free"));
        assert_eq!(found(compared.clone(), &twice[..1]), None);
        assert_eq!(found(compared, &twice), Some(HeaderAmbiguity::Repeated));
        // A key has a rule of its own for repeated lines, and any value is any value.
        assert_eq!(
            found(limit().key([KeyPart::header("X-Plan")]), &twice),
            None
        );
        let mut any = limit().matching(Match::default().header("X-Plan", ""));
        any.matching.headers[0].value = None;
        assert_eq!(found(any, &twice), None);
    }
}
