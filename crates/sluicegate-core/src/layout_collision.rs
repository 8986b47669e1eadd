//! Limits that would share a counter under the key layouts of older programs.
//!
//! Those programs had one limit, or one of each kind, and left its name out of the key. A policy may
//! have many limits, so some policies cannot be written in these layouts: two of their limits could
//! write the same name for different callers. [`KeyLayout::may_share`] finds them, and a
//! configuration with such a pair is refused.
//!
//! The rules here follow from the names that `sluicegate` writes, and a test there holds both
//! together: limits that may not share never write the same name. Where the rules are in doubt they
//! say that limits may share, because a refusal is seen at once and a shared counter is not.

use std::net::IpAddr;

use crate::limit::{KeyPart, Limit, OnMissingKey, QuotaSource};
use crate::path::{PathPattern, push_escape};
use crate::settings::KeyLayout;

impl KeyLayout {
    /// Returns true when some counter of one limit could have the name of a counter of the other.
    ///
    /// ```
    /// use sluicegate_core::{KeyLayout, Limit, Quota};
    ///
    /// let one = Limit::per_client("one", Quota::per_second(1));
    /// let other = Limit::per_client("other", Quota::per_second(1));
    /// assert!(KeyLayout::EdgeQuota.may_share(&one, &other));
    /// assert!(!KeyLayout::Readable.may_share(&one, &other));
    /// ```
    pub fn may_share(self, one: &Limit, other: &Limit) -> bool {
        match self {
            Self::Readable | Self::Compact => false,
            Self::EdgeQuota => may_share_in_edge_quota(one, other),
            Self::EdgeGuard => {
                let head = |limit: &Limit| edge_guard_kind(limit).unwrap_or(limit.name.clone());
                let (one, other) = (head(one), head(other));
                one == other || is_head_of(&one, &other) || is_head_of(&other, &one)
            }
        }
    }
}

impl Limit {
    /// Returns true when all requests share one counter.
    pub fn is_global(&self) -> bool {
        matches!(self.key[..], [KeyPart::Global])
    }
}

/// The beginning of a limit's names under [`KeyLayout::EdgeGuard`], between the prefix and the
/// caller; `None` for limits that are written by their name. That program had three kinds of
/// counters; a limit that replaces another is what it called a route.
pub fn edge_guard_kind(limit: &Limit) -> Option<String> {
    match (limit.key.as_slice(), &limit.replaces) {
        ([KeyPart::ClientIp], None) => Some("ip".to_owned()),
        ([KeyPart::ClientIp], Some(_)) => {
            let path = limit.matching.path.as_ref();
            let route = path.map_or_else(|| limit.name.clone(), route);
            Some(format!("route:{route}"))
        }
        ([KeyPart::Principal], _) => Some("key".to_owned()),
        _ => None,
    }
}

/// The route as it is written. Names within braces are left out, because a cluster would take them
/// for a hash tag, and all that is not printable ASCII is escaped.
fn route(path: &PathPattern) -> String {
    let mut route = String::new();
    let mut in_braces = false;
    for character in path.as_written().chars() {
        in_braces = in_braces && character != '}';
        match character {
            _ if in_braces => {}
            plain if plain.is_ascii_graphic() => route.push(plain),
            other => {
                let mut bytes = [0; 4];
                for byte in other.encode_utf8(&mut bytes).bytes() {
                    push_escape(&mut route, byte);
                }
            }
        }
        in_braces = in_braces || character == '{';
    }
    route
}

/// Returns true when names that begin with `other` could be read as names of `head`.
fn is_head_of(head: &str, other: &str) -> bool {
    other
        .strip_prefix(head)
        .is_some_and(|rest| rest.starts_with(':'))
}

/// The names of a limit under [`KeyLayout::EdgeQuota`], as far as it decides whether they can meet
/// those of another limit.
enum EdgeQuotaNames<'a> {
    /// The name of the limit, for one counter of all requests.
    Limit(&'a str),
    /// An address: colons only in those of IPv6.
    Address,
    /// So many values, each without a colon.
    Values(usize),
    /// Values and an address.
    Mixed,
}

fn edge_quota_names(limit: &Limit) -> EdgeQuotaNames<'_> {
    match limit.key[..] {
        [KeyPart::Global] => EdgeQuotaNames::Limit(&limit.name),
        [KeyPart::ClientIp] => EdgeQuotaNames::Address,
        _ if limit.key.contains(&KeyPart::ClientIp) => EdgeQuotaNames::Mixed,
        _ => EdgeQuotaNames::Values(limit.key.len()),
    }
}

fn may_share_in_edge_quota(one: &Limit, other: &Limit) -> bool {
    use EdgeQuotaNames::{Address, Limit as Named, Mixed, Values};
    // Tenants, and requests that lack a part, have names of one form for all limits.
    let has_tenants = |limit: &Limit| limit.quota_from == QuotaSource::External;
    let instead = |limit: &Limit| match limit.missing_key_rule() {
        rule @ (OnMissingKey::Shared | OnMissingKey::ClientIp) if !limit.is_global() => Some(rule),
        _ => None,
    };
    if has_tenants(one) && has_tenants(other)
        || instead(one).is_some() && instead(one) == instead(other)
    {
        return true;
    }
    match (edge_quota_names(one), edge_quota_names(other)) {
        (Named(one), Named(other)) => one == other,
        (Named(name), Address) | (Address, Named(name)) => name.parse::<IpAddr>().is_ok(),
        // A caller may send the name of a limit as its only value.
        (Named(_), Values(count)) | (Values(count), Named(_)) => count == 1,
        (Named(_), Mixed) | (Mixed, Named(_)) => false,
        (Values(one), Values(other)) => one == other,
        (Address | Mixed, Address | Mixed | Values(_)) | (Values(_), Address | Mixed) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::Match;
    use crate::quota::Quota;

    fn limit(name: &str, key: &[&str]) -> Limit {
        let parts = key.iter().map(|part| part.parse().unwrap());
        Limit::new(name, Quota::per_second(1)).key(parts)
    }

    #[test]
    fn limits_that_edge_quota_could_not_tell_apart_are_found() {
        let share = |one: &Limit, other: &Limit| {
            let found = KeyLayout::EdgeQuota.may_share(one, other);
            assert_eq!(found, KeyLayout::EdgeQuota.may_share(other, one));
            found
        };
        let (all, rest) = (limit("all", &["global"]), limit("rest", &["global"]));
        let ip = limit("ip", &["client_ip"]);
        let tenant = limit("tenant", &["header:X-Tenant"]);
        let both = limit("both", &["header:X-Tenant", "path_segment:1"]);
        assert!(!share(&all, &rest) && !share(&all, &ip) && !share(&all, &both));
        assert!(!share(&tenant, &both), "another number of values");
        assert!(share(&all, &tenant), "a tenant may be called all");
        assert!(share(&limit("203.0.113.7", &["global"]), &ip));
        assert!(share(&ip, &limit("other", &["client_ip"])));
        assert!(share(&ip, &tenant) && share(&ip, &both));
        assert!(share(&tenant, &limit("other", &["host"])));
        let external = |limit: &Limit| Limit {
            quota_from: QuotaSource::External,
            ..limit.clone()
        };
        assert!(share(&external(&all), &external(&both)), "tenants");
        assert!(!share(&external(&all), &both));
        let shared = |limit: &Limit| limit.clone().on_missing_key(OnMissingKey::Shared);
        assert!(share(&shared(&tenant), &shared(&both)));
        assert!(!share(&shared(&tenant), &both));
    }

    #[test]
    fn limits_that_edge_guard_could_not_tell_apart_are_found() {
        let route = |name: &str, path: &str| {
            limit(name, &["client_ip"])
                .matching(Match::path(path).unwrap())
                .replaces("ip")
        };
        let share = |one: &Limit, other: &Limit| KeyLayout::EdgeGuard.may_share(one, other);
        let ip = limit("per-ip", &["client_ip"]);
        let api = route("api", "/api");
        assert!(!share(&ip, &api) && !share(&api, &route("b", "/api/")));
        assert!(share(&ip, &limit("other", &["client_ip"])));
        assert!(share(&api, &route("b", "/api")));
        assert!(share(&api, &route("b", "/api:x")), "/api:x::1 is both");
        assert!(share(&route("a", "/a/{x}"), &route("b", "/a/{y}")));
        assert!(share(&ip, &limit("ip", &["host"])), "by its name");
        assert!(share(&limit("route", &["host", "client_ip"]), &api));
        let (key, other) = (limit("a", &["principal"]), limit("b", &["principal"]));
        assert!(share(&key, &other) && !share(&key, &ip));
        assert!(!share(&limit("a", &["host"]), &limit("b", &["host"])));
    }

    #[test]
    fn a_route_is_written_as_it_stands_in_the_rule() {
        for (path, expected) in [
            ("/api/", "route:/api/"),
            ("/api", "route:/api"),
            ("/", "route:/"),
            ("/%61pi//x/", "route:/%61pi//x/"),
            ("/users/{id}/orders/", "route:/users/{}/orders/"),
            ("/caf\u{e9}/", "route:/caf%C3%A9/"),
        ] {
            let limit = limit("a", &["client_ip"])
                .matching(Match::path(path).unwrap())
                .replaces("b");
            assert_eq!(edge_guard_kind(&limit).as_deref(), Some(expected));
        }
    }
}
