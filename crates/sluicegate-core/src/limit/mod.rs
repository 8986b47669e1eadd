//! A limit: the requests it covers, the key it counts them by, the quota it enforces.
//!
//! A limit is data. [`Policy`](crate::Policy) checks a list of them together and finds those that
//! cover a request; [`Key`](crate::Key) makes the name of a counter from a limit and a request.

mod ban;
mod cost;
mod host;
mod key_part;
mod matching;

use std::sync::Arc;

pub use ban::BanRule;
pub use cost::{Cost, HeaderCost};
pub use host::HostPattern;
pub use key_part::KeyPart;
pub(crate) use matching::claim_values;
pub use matching::{ClaimMatch, DescriptorMatch, HeaderMatch, Match, QueryMatch, ValueMatch};

use crate::address::Prefixes;
use crate::counting::{AnswerSet, Counting};
use crate::factor::FactorRule;
use crate::failure::FailurePolicy;
use crate::own_rejection::OwnRejection;
use crate::quota::Quota;

/// A named rule. Made with [`Limit::new`] and the methods below it, checked by
/// [`Policy::new`](crate::Policy::new).
///
/// ```
/// use sluicegate_core::{KeyPart, Limit, Match, Quota};
///
/// let per_ip = Limit::per_client("per-ip", Quota::per_second(100).burst(200));
/// let api = Limit::per_client("api", Quota::per_second(10).burst(20))
///     .matching(Match::path("/api/")?.methods(["POST"]))
///     .replaces("per-ip");
/// let tenant = Limit::new("tenant", Quota::per_second(100).burst(50))
///     .key([KeyPart::header("X-Tenant-Id"), KeyPart::PathSegment(1)]);
/// # let _ = (per_ip, api, tenant);
/// # Ok::<(), sluicegate_core::ParseRuleError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// The name: letters, digits, `.`, `_` and `-`. Part of every key, so a renamed limit starts
    /// afresh.
    pub name: String,
    /// The numbers; `None` is unlimited.
    pub quota: Option<Quota>,
    /// Where the quota of a key comes from: these numbers, or a service that knows better.
    pub quota_from: QuotaSource,
    /// The facts that make a caller: one counter for each distinct tuple of their values.
    pub key: Vec<KeyPart>,
    /// The requests it covers.
    pub matching: Match,
    /// The name of the limit whose place it takes where it matches.
    pub replaces: Option<String>,
    /// Enforced, or only counted and reported.
    pub mode: Mode,
    /// The treatment of requests that lack a key part; `None` is the default for its parts, see
    /// [`Limit::missing_key_rule`].
    pub on_missing_key: Option<OnMissingKey>,
    /// The treatment of requests while the store is away; `None` is the limiter's default.
    pub on_failure: Option<FailurePolicy>,
    /// The units that a request takes.
    pub cost: Cost,
    /// A factor on the quota, from a claim of the caller; `None` is the same quota for everybody.
    pub factor: Option<FactorRule>,
    /// The leading bits of an address that make a caller.
    pub prefixes: Prefixes,
    /// When a caller that it denies again and again is banned; `None` bans nobody. A server that
    /// keeps bans enforces it; [`Mode::Shadow`] bans nobody.
    pub ban: Option<BanRule>,
    /// When it counts a request: when it comes, or by the answer.
    pub counting: Counting,
    /// The response to requests that it denies; `None` is the usual one.
    pub reject: Option<Arc<OwnRejection>>,
    /// False when it is off: checked together with the others, and then neither matched nor
    /// charged.
    pub enabled: bool,
}

/// Where the quota of a key comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuotaSource {
    /// The limit itself.
    #[default]
    Limit,
    /// A service that knows the caller's plan; the limit's own quota while it does not answer.
    External,
}

impl Limit {
    /// A limit on all requests together; [`Limit::key`] splits it by caller.
    pub fn new(name: impl Into<String>, quota: impl Into<Quota>) -> Self {
        Self {
            name: name.into(),
            quota: Some(quota.into()),
            quota_from: QuotaSource::Limit,
            key: vec![KeyPart::Global],
            matching: Match::default(),
            replaces: None,
            mode: Mode::Enforce,
            on_missing_key: None,
            on_failure: None,
            cost: Cost::default(),
            factor: None,
            prefixes: Prefixes::default(),
            ban: None,
            counting: Counting::Always,
            reject: None,
            enabled: true,
        }
    }

    /// A limit on each client address.
    pub fn per_client(name: impl Into<String>, quota: impl Into<Quota>) -> Self {
        Self::new(name, quota).key([KeyPart::ClientIp])
    }

    /// A limit that lets everything it covers pass: an exception to the limit that it replaces.
    pub fn unlimited(name: impl Into<String>) -> Self {
        Self {
            quota: None,
            ..Self::new(name, Quota::per_second(1))
        }
    }

    /// One counter for each distinct tuple of these parts.
    #[must_use]
    pub fn key(mut self, parts: impl IntoIterator<Item = KeyPart>) -> Self {
        self.key = parts.into_iter().collect();
        self
    }

    /// Covers only the requests that match.
    #[must_use]
    pub fn matching(mut self, matching: Match) -> Self {
        self.matching = matching;
        self
    }

    /// Takes the place of the limit `name` where it matches; among several, the longest path wins.
    #[must_use]
    pub fn replaces(mut self, name: impl Into<String>) -> Self {
        self.replaces = Some(name.into());
        self
    }

    /// Counts and reports, never rejects.
    #[must_use]
    pub fn shadow(mut self) -> Self {
        self.mode = Mode::Shadow;
        self
    }

    /// Treats requests that lack a part of the key like this.
    #[must_use]
    pub fn on_missing_key(mut self, rule: OnMissingKey) -> Self {
        self.on_missing_key = Some(rule);
        self
    }

    /// Treats requests like this while the store is away, instead of the limiter's default.
    #[must_use]
    pub fn on_failure(mut self, policy: FailurePolicy) -> Self {
        self.on_failure = Some(policy);
        self
    }

    /// Takes this many units for each request, instead of 1, or as many as a header says.
    #[must_use]
    pub fn cost(mut self, cost: impl Into<Cost>) -> Self {
        self.cost = cost.into();
        self
    }

    /// Divides the quota by a claim of the principal.
    #[must_use]
    pub fn factor(mut self, rule: FactorRule) -> Self {
        self.factor = Some(rule);
        self
    }

    /// Turns the limit off. Limits that replace it keep their order among each other.
    #[must_use]
    pub fn disabled(mut self) -> Self {
        self.enabled = false;
        self
    }

    /// Counts addresses by these prefixes.
    #[must_use]
    pub fn prefixes(mut self, prefixes: Prefixes) -> Self {
        self.prefixes = prefixes;
        self
    }

    /// Bans callers that it denies again and again, where a server keeps bans.
    #[must_use]
    pub fn ban(mut self, rule: BanRule) -> Self {
        self.ban = Some(rule);
        self
    }

    /// Counts only the requests that are answered like this; until then the counter is looked at.
    #[must_use]
    pub fn count_when(mut self, answers: AnswerSet) -> Self {
        self.counting = Counting::When(answers);
        self
    }

    /// Gives the units back of requests that are answered like this.
    #[must_use]
    pub fn refund_when(mut self, answers: AnswerSet) -> Self {
        self.counting = Counting::RefundWhen(answers);
        self
    }

    /// Answers the requests that it denies like this.
    #[must_use]
    pub fn reject(mut self, rejection: OwnRejection) -> Self {
        self.reject = Some(Arc::new(rejection));
        self
    }

    /// Returns true when conditions, key or quota are known only once the caller is authenticated.
    pub fn needs_principal(&self) -> bool {
        self.factor.is_some()
            || self.matching.names_caller()
            || self
                .key
                .iter()
                .any(|part| matches!(part, KeyPart::Principal | KeyPart::Claim(_)))
    }

    /// Returns true when conditions and key together name exactly these entries of a descriptor:
    /// none that is missing, and none is left over.
    pub(crate) fn names_exactly(&self, entries: &[(&str, &str)]) -> bool {
        let conditions = &self.matching.descriptors;
        let is_condition = |name: &str| conditions.iter().any(|entry| entry.name == name);
        let in_key = self.key.iter().filter_map(|part| match part {
            KeyPart::Descriptor(name) if !is_condition(name) => Some(name.as_str()),
            _ => None,
        });
        let mut names = 0;
        let mut all_there = true;
        for name in conditions
            .iter()
            .map(|entry| entry.name.as_str())
            .chain(in_key)
        {
            names += 1;
            all_there &= entries.iter().any(|(own, _)| *own == name);
        }
        names > 0 && names == entries.len() && all_there
    }

    /// The rule for a missing key part: as configured, else [`OnMissingKey::Skip`] for keys with a
    /// part that only some requests have by nature (principal, claim, descriptor), else
    /// [`OnMissingKey::Reject`].
    pub fn missing_key_rule(&self) -> OnMissingKey {
        let optional = |part: &KeyPart| {
            matches!(
                part,
                KeyPart::Principal | KeyPart::Claim(_) | KeyPart::Descriptor(_)
            )
        };
        let default = if self.key.iter().any(optional) {
            OnMissingKey::Skip
        } else {
            OnMissingKey::Reject
        };
        self.on_missing_key.unwrap_or(default)
    }
}

/// The effect of a denial: a limit rejects, or only watches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// A denial rejects the request.
    #[default]
    Enforce,
    /// Counted and reported, never rejected.
    Shadow,
}

/// The treatment of a request that lacks a part of a limit's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnMissingKey {
    /// Reject it with status 400.
    Reject,
    /// Count by client address instead, apart from every real key.
    ClientIp,
    /// Count all such requests in one counter.
    Shared,
    /// Do not apply this limit to it.
    Skip,
}
