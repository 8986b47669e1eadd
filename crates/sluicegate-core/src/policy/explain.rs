//! Explains why a limit is charged or not: the answer of [`Policy::charges_for`], with its reasons.
//!
//! For people who ask why a request was denied. It looks at every limit instead of the index, and
//! writes sentences, so it is no part of a decision; a test holds both to the same charges.

use crate::charge::Charge;
use crate::limit::{DescriptorMatch, HeaderMatch, HostPattern, Limit, Match, OnMissingKey};
use crate::missing_key::MissingKey;
use crate::subject::{HeaderValue, Subject};

use super::Policy;

/// A limit, and its effect on one request.
#[derive(Clone, Debug)]
pub struct ConsideredLimit<'a> {
    /// The limit.
    pub limit: &'a Limit,
    /// Each of its conditions, true or false; empty for a limit that covers everything.
    pub conditions: Vec<Condition>,
    /// The consequence of the conditions, the replacements and the key.
    pub effect: LimitEffect<'a>,
}

/// One condition of a limit, in words about the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// A sentence such as `the method is POST` or `the path /x does not lie below /api`.
    pub words: String,
    /// True when the request meets it.
    pub holds: bool,
}

/// The effect of a limit on one request.
#[derive(Clone, Debug)]
pub enum LimitEffect<'a> {
    /// It is charged.
    Charged(Charge<'a>),
    /// A condition does not hold.
    NotMatched,
    /// It covers the request, but this limit takes its place.
    ReplacedBy(&'a Limit),
    /// It covers the request, but has no quota for its caller.
    Unlimited,
    /// It covers the request, which lacks a part of the key, so it is left out.
    Skipped(MissingKey),
    /// It covers the request, which lacks a part of the key and is rejected for it.
    Unidentified(MissingKey),
}

impl Policy {
    /// Every limit, in order, with the reasons why it is charged or not. For people: a decision
    /// asks [`Policy::charges_for`].
    pub fn considered<'a>(
        &'a self,
        subject: &'a Subject<'a>,
        cost: u64,
    ) -> Vec<ConsideredLimit<'a>> {
        let covering = self.covering(subject);
        let effect = |index: usize, conditions: &[Condition]| {
            if conditions.iter().any(|condition| !condition.holds) {
                return LimitEffect::NotMatched;
            }
            if !covering.contains(&index) {
                return match self.charged_instead_of(index, &covering) {
                    Some(other) => LimitEffect::ReplacedBy(&self.limits[other]),
                    None => LimitEffect::NotMatched,
                };
            }
            match self.charge_for(index, subject, cost) {
                Ok(Some(charge)) => LimitEffect::Charged(charge),
                Ok(None) => self.without_charge(index, subject),
                Err(missing) => LimitEffect::Unidentified(missing),
            }
        };
        let limits = self.limits.iter().enumerate();
        let considered = limits.map(|(index, limit)| {
            let conditions = conditions(&limit.matching, subject);
            let effect = effect(index, &conditions);
            ConsideredLimit {
                limit,
                conditions,
                effect,
            }
        });
        considered.collect()
    }

    /// The limit that is charged in place of one that covers the request and is replaced.
    fn charged_instead_of(&self, index: usize, covering: &[usize]) -> Option<usize> {
        covering
            .iter()
            .copied()
            .find(|&other| self.base[other] == self.base[index])
    }

    /// The reason why a limit that covers a request makes no charge: it has no quota for the
    /// caller, or the request lacks a part of the key.
    fn without_charge(&self, index: usize, subject: &Subject<'_>) -> LimitEffect<'_> {
        let limit = &self.limits[index];
        match crate::key::Key::of_subject(limit, subject) {
            Err(missing) if limit.missing_key_rule() == OnMissingKey::Skip => {
                LimitEffect::Skipped(missing)
            }
            _ => LimitEffect::Unlimited,
        }
    }
}

/// Every condition of a limit, in the order in which the configuration lists them.
fn conditions(matching: &Match, subject: &Subject<'_>) -> Vec<Condition> {
    let path = matching.path.iter().map(|pattern| {
        let holds = pattern.covers(subject.path);
        let words = match (holds, subject.path) {
            (true, path)
                if path.trim_end_matches('/') == pattern.to_string().trim_end_matches('/') =>
            {
                format!("the path is {path}")
            }
            (true, path) => format!("the path {path} lies below {pattern}"),
            (false, path) => format!("the path {path} does not lie below {pattern}"),
        };
        Condition { words, holds }
    });
    let methods = (!matching.methods.is_empty()).then(|| {
        let holds = matching.covers_method(subject.method);
        of_list("method", subject.method, &matching.methods, holds)
    });
    let hosts = (!matching.hosts.is_empty()).then(|| host_condition(&matching.hosts, subject.host));
    let headers = matching
        .headers
        .iter()
        .map(|header| header_condition(header, subject));
    let domain = matching.domain.iter().map(|domain| {
        let holds = subject.domain == Some(domain);
        let is = if holds { "is" } else { "is not" };
        Condition {
            words: format!("the domain {is} {domain}"),
            holds,
        }
    });
    let descriptors = matching
        .descriptors
        .iter()
        .map(|entry| entry_condition(entry, subject));
    path.chain(methods)
        .chain(hosts)
        .chain(headers)
        .chain(domain)
        .chain(descriptors)
        .collect()
}

/// A condition that one of several values meets.
fn of_list(what: &str, value: &str, wanted: &[String], holds: bool) -> Condition {
    let words = match (holds, wanted) {
        (true, _) => format!("the {what} is {value}"),
        (false, [only]) => format!("the {what} is {value}, not {only}"),
        (false, several) => format!("the {what} is {value}, none of {}", several.join(", ")),
    };
    Condition { words, holds }
}

/// The condition on the host.
fn host_condition(patterns: &[HostPattern], host: Option<&str>) -> Condition {
    let wanted: Vec<String> = patterns.iter().map(ToString::to_string).collect();
    match host {
        Some(host) => of_list(
            "host",
            host,
            &wanted,
            patterns.iter().any(|pattern| pattern.covers(host)),
        ),
        None => Condition {
            words: format!("there is no host, and it must be {}", wanted.join(" or ")),
            holds: false,
        },
    }
}

/// The condition on one header. Values of the request are not shown: they may be secrets.
fn header_condition(header: &HeaderMatch, subject: &Subject<'_>) -> Condition {
    let name = &header.name;
    let holds = header.covers(subject);
    let words = match (subject.headers.get(name), &header.value, holds) {
        (HeaderValue::Missing, _, _) => format!("the header {name} is missing"),
        (_, None, _) => format!("the header {name} is there"),
        (_, Some(value), true) => format!("the header {name} is {value}"),
        (HeaderValue::Repeated, Some(value), false) => {
            format!("the header {name} occurs twice, not once as {value}")
        }
        (HeaderValue::One(_), Some(value), false) => format!("the header {name} is not {value}"),
    };
    Condition { words, holds }
}

/// The condition on one entry of a descriptor.
fn entry_condition(entry: &DescriptorMatch, subject: &Subject<'_>) -> Condition {
    let holds = entry.covers(subject);
    let has = if holds { "has" } else { "has no" };
    let words = match &entry.value {
        Some(value) => format!("the descriptor {has} {}={value}", entry.name),
        None => format!("the descriptor {has} {}", entry.name),
    };
    Condition { words, holds }
}

#[cfg(test)]
mod tests {
    use crate::{KeyPart, Limit, Match, Quota, Subject};

    use super::*;

    fn policy() -> Policy {
        let quota = || Quota::per_second(10).burst(20);
        Policy::new([
            Limit::per_client("per-ip", quota()),
            Limit::per_client("api", quota())
                .matching(Match::path("/api/").unwrap().methods(["POST", "PUT"]))
                .replaces("per-ip"),
            Limit::new("tenant", quota())
                .key([KeyPart::header("X-Tenant-Id")])
                .matching(
                    Match::default()
                        .host("*.shop.example")
                        .unwrap()
                        .header("x-beta", "yes"),
                ),
            Limit::new("by-principal", quota()).key([KeyPart::Principal]),
        ])
        .unwrap()
    }

    fn words(considered: &[ConsideredLimit<'_>], index: usize) -> Vec<String> {
        considered[index]
            .conditions
            .iter()
            .map(|condition| condition.words.clone())
            .collect()
    }

    #[test]
    fn a_limit_that_gives_way_names_the_one_that_takes_its_place() {
        let policy = policy();
        let ip = Some("203.0.113.7".parse().unwrap());
        let subject = Subject {
            client_ip: ip,
            method: "POST",
            path: "/api/x",
            ..Subject::ANONYMOUS
        };
        let considered = policy.considered(&subject, 1);
        assert!(
            matches!(considered[0].effect, LimitEffect::ReplacedBy(limit) if limit.name == "api")
        );
        assert!(
            matches!(&considered[1].effect, LimitEffect::Charged(charge) if charge.key.to_string() == "api:203.0.113.7")
        );
        assert_eq!(
            words(&considered, 1),
            ["the path /api/x lies below /api", "the method is POST"]
        );
        assert!(matches!(considered[2].effect, LimitEffect::NotMatched));
        assert!(
            matches!(&considered[3].effect, LimitEffect::Skipped(missing) if missing.limit == "by-principal")
        );
    }

    #[test]
    fn a_condition_that_does_not_hold_says_what_is_there_instead() {
        let policy = policy();
        let headers = [("x-beta", "no")];
        let subject = Subject {
            path: "/apix",
            host: Some("a.example"),
            headers: &headers,
            ..Subject::ANONYMOUS
        };
        let considered = policy.considered(&subject, 1);
        assert_eq!(
            words(&considered, 1),
            [
                "the path /apix does not lie below /api",
                "the method is GET, none of POST, PUT"
            ]
        );
        assert_eq!(
            words(&considered, 2),
            [
                "the host is a.example, not *.shop.example",
                "the header x-beta is not yes"
            ]
        );
        assert!(
            matches!(&considered[0].effect, LimitEffect::Unidentified(missing) if missing.limit == "per-ip")
        );
    }

    #[test]
    fn the_charges_are_those_of_a_decision() {
        let policy = policy();
        let headers = [("x-beta", "yes"), ("x-tenant-id", "acme")];
        let ip = Some("203.0.113.7".parse().unwrap());
        for (method, path, host) in [
            ("GET", "/", None),
            ("POST", "/api", Some("a.shop.example")),
            ("PUT", "/api/1", Some("shop.example")),
        ] {
            let subject = Subject {
                client_ip: ip,
                method,
                path,
                host,
                headers: &headers,
                ..Subject::ANONYMOUS
            };
            let decided: Vec<String> = policy
                .charges_for(&subject, 1)
                .unwrap()
                .iter()
                .map(|charge| charge.key.to_string())
                .collect();
            let considered = policy.considered(&subject, 1);
            let charged = considered.iter().filter_map(|limit| match &limit.effect {
                LimitEffect::Charged(charge) => Some(charge.key.to_string()),
                _ => None,
            });
            assert_eq!(charged.collect::<Vec<_>>(), decided, "{method} {path}");
        }
    }
}
