//! The headers by which callers are told apart: a client must not be able to drop or imitate them.

use http::header::HeaderName;
use sluicegate_config::Principals;
use sluicegate_core::{KeyPart, Policy};

/// Every header that limits are keyed, matched or charged by, and those that carry credentials. The list is
/// made once for each configuration.
pub fn key_headers(policy: &Policy, principals: &Principals) -> Vec<HeaderName> {
    let mut names: Vec<&str> = Vec::new();
    for limit in policy.limits() {
        names.extend(limit.key.iter().filter_map(|part| match part {
            KeyPart::Header(name) => Some(name.as_str()),
            KeyPart::Cookie(_) => Some("cookie"),
            _ => None,
        }));
        names.extend(limit.cost.header());
        names.extend(
            limit
                .matching
                .headers
                .iter()
                .map(|wanted| wanted.name.as_str()),
        );
    }
    names.extend(principals.api_keys.iter().map(|keys| keys.header.as_str()));
    names.extend(principals.jwt.iter().map(|jwt| jwt.header.as_str()));
    names.sort_unstable();
    names.dedup();
    // A name that is invalid as a header name cannot occur in a request.
    names
        .into_iter()
        .filter_map(|name| HeaderName::from_bytes(name.as_bytes()).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use sluicegate_config::ApiKeys;
    use sluicegate_core::{HeaderCost, Limit, Match, Quota};

    use super::*;

    #[test]
    fn keys_rules_and_credentials_are_listed_once() {
        let mut tenant = Limit::per_client("tenant", Quota::per_second(1).burst(1));
        tenant.key = vec![KeyPart::header("X-Tenant-Id"), KeyPart::ClientIp];
        tenant.matching = Match::default().header("x-plan", "free");
        tenant.cost = HeaderCost::new("X-Cost").into();
        tenant.key.push(KeyPart::Cookie("sid".to_owned()));
        let other = Limit {
            name: "other".to_owned(),
            ..tenant.clone()
        };
        let policy = Policy::new(vec![tenant, other]).unwrap();
        let api_keys = Some(ApiKeys {
            header: "x-api-key".to_owned(),
            file: "keys.yaml".into(),
        });
        let names = key_headers(
            &policy,
            &Principals {
                api_keys,
                ..Principals::default()
            },
        );
        assert_eq!(
            names,
            ["cookie", "x-api-key", "x-cost", "x-plan", "x-tenant-id"]
        );
    }
}
