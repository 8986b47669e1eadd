//! Explains why a limit is charged or not: the answer of [`Policy::charges_for`], with its reasons.
//!
//! For people who ask why a request was denied. It looks at every limit instead of the index, and
//! writes sentences, so it is no part of a decision; a test holds both to the same charges.

use super::condition::{Condition, conditions};
use super::{Policy, Stage};
use crate::charge::Charge;
use crate::key::Key;
use crate::limit::{Limit, OnMissingKey};
use crate::missing_key::MissingKey;
use crate::subject::Subject;

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
        self.considered_with(&self.covering(subject), false, subject, cost)
    }

    /// The same for a caller whose credential is refused: the charges are those of
    /// [`Stage::BeforePrincipal`] and [`Stage::Unauthorized`].
    pub fn considered_unauthorized<'a>(
        &'a self,
        subject: &'a Subject<'a>,
        cost: u64,
    ) -> Vec<ConsideredLimit<'a>> {
        let mut charged = self.charged_at(Stage::BeforePrincipal, subject);
        charged.extend(self.charged_at(Stage::Unauthorized, subject).iter());
        self.considered_with(&charged, true, subject, cost)
    }

    /// Every limit, where those that are charged are known.
    fn considered_with<'a>(
        &'a self,
        covering: &[usize],
        is_refused: bool,
        subject: &'a Subject<'a>,
        cost: u64,
    ) -> Vec<ConsideredLimit<'a>> {
        let effect = |index: usize, conditions: &[Condition]| {
            if conditions.iter().any(|condition| !condition.holds) {
                return LimitEffect::NotMatched;
            }
            if !covering.contains(&index) {
                if let Some(missing) = self.left_out_for(index, subject, is_refused) {
                    return LimitEffect::Skipped(missing);
                }
                return match self.charged_instead_of(index, covering) {
                    Some(other) => LimitEffect::ReplacedBy(&self.limits[other]),
                    None => LimitEffect::NotMatched,
                };
            }
            match self.charges_of(&[index], subject, cost) {
                Ok(charges) => match charges.first() {
                    Some(charge) => LimitEffect::Charged(*charge),
                    None => self.without_charge(index, subject),
                },
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

    /// The part of the key that a request lacks, when the limit is not in force for want of it:
    /// because it is skipped, or because the caller is refused for its credential.
    fn left_out_for(
        &self,
        index: usize,
        subject: &Subject<'_>,
        is_refused: bool,
    ) -> Option<MissingKey> {
        let limit = &self.limits[index];
        let is_left_out = match self.key_of(index, subject) {
            Ok(None) => self.may_be_skipped[index],
            Ok(Some(_)) => false,
            Err(_) => is_refused && self.needs_principal[index],
        };
        let missing = Key::of_subject(limit, subject).err();
        missing.filter(|_| is_left_out)
    }

    /// The reason why a limit that covers a request makes no charge: it has no quota for the
    /// caller, or the request lacks a part of the key.
    fn without_charge(&self, index: usize, subject: &Subject<'_>) -> LimitEffect<'_> {
        let limit = &self.limits[index];
        match Key::of_subject(limit, subject) {
            Err(missing) if limit.missing_key_rule() == OnMissingKey::Skip => {
                LimitEffect::Skipped(missing)
            }
            _ => LimitEffect::Unlimited,
        }
    }
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
