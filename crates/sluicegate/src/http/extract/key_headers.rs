//! Headers that servers may take for a key header: `X_Tenant_Id` beside `X-Tenant-Id`. A header that
//! a cost is read from is one, too.
//!
//! CGI and its successors (WSGI, PHP, Rack) turn both names into `HTTP_X_TENANT_ID`. A caller could
//! be counted under the value of one and act under the value of the other, so a request with such a
//! header is refused, like a request with an ambiguous path.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use http::HeaderMap;
use sluicegate_core::{KeyPart, Policy};

/// Finds headers that differ from a key header only in `_` for `-`.
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

    /// The first header whose name differs from that of a key header of `policy` only in `_` for
    /// `-`, or the other way round.
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

/// The key headers of one policy.
#[derive(Debug)]
struct KeyHeaderList {
    policy: Arc<Policy>,
    /// The index of a limit and the name of a header in its key or of its cost, lower case. Each
    /// name once, with the first limit that has it.
    names: Vec<(usize, String)>,
}

impl KeyHeaderList {
    fn of(policy: Arc<Policy>) -> Self {
        let mut names: Vec<(usize, String)> = Vec::new();
        for (limit_index, limit) in policy.limits().iter().enumerate() {
            let keys = limit.key.iter().filter_map(|part| match part {
                KeyPart::Header(name) => Some(name.as_str()),
                _ => None,
            });
            for name in keys.chain(limit.cost.header()) {
                if names.iter().all(|(_, listed)| listed != name) {
                    names.push((limit_index, name.to_owned()));
                }
            }
        }
        Self { policy, names }
    }

    fn find_ambiguous(&self, headers: &HeaderMap) -> Option<AmbiguousHeader> {
        if self.names.is_empty() {
            return None;
        }
        let taken_for = |sent: &str| self.names.iter().find(|(_, name)| is_ambiguous(name, sent));
        let (limit_index, name) = headers.keys().find_map(|sent| taken_for(sent.as_str()))?;
        Some(AmbiguousHeader {
            limit: self.policy.limits()[*limit_index].name.clone(),
            header: name.clone(),
        })
    }
}

/// Returns true when two names differ in `_` and `-`, and in nothing else.
fn is_ambiguous(name: &str, sent: &str) -> bool {
    let plain = |byte: u8| if byte == b'_' { b'-' } else { byte };
    name.len() == sent.len() && name != sent && name.bytes().map(plain).eq(sent.bytes().map(plain))
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
    /// The limit whose key or cost it is.
    pub limit: String,
    /// The name of the key header, as configured.
    pub header: String,
}

impl fmt::Display for AmbiguousHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "limit {:?}: header:{} is ambiguous, another header differs only in '_' and '-'",
            self.limit, self.header
        )
    }
}

impl std::error::Error for AmbiguousHeader {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ambiguous_names_differ_in_underscores_and_nothing_else() {
        assert!(is_ambiguous("x-tenant-id", "x_tenant_id"));
        assert!(is_ambiguous("x-tenant-id", "x-tenant_id"));
        assert!(is_ambiguous("x_tenant_id", "x-tenant-id"));
        assert!(!is_ambiguous("x-tenant-id", "x-tenant-id"));
        assert!(!is_ambiguous("x-tenant-id", "x-tenant-ip"));
        assert!(!is_ambiguous("x-tenant-id", "x_tenant_id_"));
    }
}
