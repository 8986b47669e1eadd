//! Headers that many servers take for a key header: `X_Tenant_Id` beside `X-Tenant-Id`.
//!
//! CGI and its heirs turn both into `HTTP_X_TENANT_ID`. Whoever is counted under the one could act under the other.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use http::HeaderMap;
use sluicegate_core::{KeyPart, Policy};

/// The headers that limits are keyed by, listed once for each policy.
#[derive(Debug)]
pub struct KeyHeaders {
    listed: ArcSwap<KeyHeaderList>,
}

impl KeyHeaders {
    /// The key headers of a policy.
    pub fn of(policy: Arc<Policy>) -> Self {
        Self {
            listed: ArcSwap::from_pointee(KeyHeaderList::of(policy)),
        }
    }

    /// The first header whose name differs from that of a key header only in `_` for `-`, or the other way round.
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

#[derive(Debug)]
struct KeyHeaderList {
    policy: Arc<Policy>,
    /// Places of limits, and the names of headers in their keys.
    names: Vec<(usize, String)>,
}

impl KeyHeaderList {
    fn of(policy: Arc<Policy>) -> Self {
        let mut names = Vec::new();
        for (place, limit) in policy.limits().iter().enumerate() {
            for part in &limit.key {
                match part {
                    KeyPart::Header(name) if names.iter().all(|(_, listed)| listed != name) => {
                        names.push((place, name.clone()));
                    }
                    _ => {}
                }
            }
        }
        Self { policy, names }
    }

    fn find_ambiguous(&self, headers: &HeaderMap) -> Option<AmbiguousHeader> {
        if self.names.is_empty() {
            return None;
        }
        let twin_of = |sent: &str| self.names.iter().find(|(_, name)| are_twins(name, sent));
        let (place, name) = headers.keys().find_map(|sent| twin_of(sent.as_str()))?;
        Some(AmbiguousHeader {
            limit: self.policy.limits()[*place].name.clone(),
            header: name.clone(),
        })
    }
}

fn are_twins(name: &str, sent: &str) -> bool {
    let plain = |byte: u8| if byte == b'_' { b'-' } else { byte };
    name.len() == sent.len() && name != sent && name.bytes().map(plain).eq(sent.bytes().map(plain))
}

/// A request has a header that passes for a key header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AmbiguousHeader {
    /// The limit whose key it is.
    pub limit: String,
    /// The name of the key header, as configured.
    pub header: String,
}

impl fmt::Display for AmbiguousHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "limit {:?}: header:{} has a twin, spelled with the other of '_' and '-'",
            self.limit, self.header
        )
    }
}

impl std::error::Error for AmbiguousHeader {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twins_differ_in_underscores_and_nothing_else() {
        assert!(are_twins("x-tenant-id", "x_tenant_id"));
        assert!(are_twins("x-tenant-id", "x-tenant_id"));
        assert!(are_twins("x_tenant_id", "x-tenant-id"));
        assert!(!are_twins("x-tenant-id", "x-tenant-id"));
        assert!(!are_twins("x-tenant-id", "x-tenant-ip"));
        assert!(!are_twins("x-tenant-id", "x_tenant_id_"));
    }
}
