//! The policy: all limits of a configuration, and which of them a request is charged to.
//!
//! The index finds the limits whose path and rarest condition match; the rest of their conditions
//! is checked one by one. Of limits that replace one another, exactly one is then charged
//! (`replacement.rs`).

mod charges;
mod check;
mod condition;
mod error;
mod explain;
mod index;
mod limit_indices;
mod named_map;
mod prepared;
mod replacement;
mod stage;

pub use condition::Condition;
pub use error::{PolicyError, PolicyErrors};
pub use explain::{ConsideredLimit, LimitEffect};
pub use prepared::{PlainCharge, PlainCharges};
pub use stage::Stage;

use std::collections::HashMap;

use crate::ad_hoc::AdHoc;
use crate::charge::Charge;
use crate::counting::Counting;
use crate::key::Key;
use crate::limit::{Limit, OnMissingKey, QuotaSource};
use crate::list::List;
use crate::missing_key::MissingKey;
use crate::quota::Quota;
use crate::subject::Subject;
use check::{chain, check_alone};
use index::Index;
use named_map::NamedMap;
use prepared::PreparedLimit;

/// All limits of a configuration, checked and ready to be matched.
///
/// ```
/// use sluicegate_core::{Limit, Match, Policy, Quota, Subject};
///
/// let policy = Policy::new([
///     Limit::per_client("per-ip", Quota::per_second(10)),
///     Limit::per_client("api", Quota::per_second(5))
///         .matching(Match::path("/api")?)
///         .replaces("per-ip"),
/// ])?;
/// let subject = Subject {
///     client_ip: Some("203.0.113.7".parse()?),
///     path: "/api/users",
///     ..Subject::ANONYMOUS
/// };
/// let charges = policy.charges_for(&subject, 1)?;
/// assert_eq!(charges.len(), 1);
/// assert_eq!(charges[0].key.to_string(), "api:203.0.113.7");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Policy {
    /// The limits that are on.
    limits: Vec<Limit>,
    /// The limits that are off, which nothing matches.
    disabled: Vec<Limit>,
    /// For each limit, the indices of the limits whose place it takes: the one it replaces, the one
    /// that that one replaces, and so on.
    replaced: Vec<Vec<usize>>,
    /// For each limit, the last of that chain, or the limit itself, by its index in the list as it
    /// was given: limits with the same base compete for the same requests, also when the base is
    /// off.
    base: Vec<usize>,
    /// For each limit, true when it is charged in the second of two stages only.
    needs_principal: Vec<bool>,
    /// True when one of them does.
    some_need_principal: bool,
    /// True when some limit takes the place of another.
    some_replace: bool,
    /// For each limit, what its charges are made of; then the same for those in `ad_hoc`.
    prepared: Vec<PreparedLimit>,
    /// For each limit, true when a request without its key makes it give up the place that it takes.
    may_be_skipped: Vec<bool>,
    /// The index of each limit in `limits`.
    by_name: NamedMap<String, usize>,
    /// Finds the limits that may cover a request.
    index: Index,
    /// Limits that stand for quotas that come with the request; their indices follow those of
    /// `limits`.
    ad_hoc: [Limit; AdHoc::ALL.len()],
    /// Some limit counts requests by their answers.
    awaits_answers: bool,
}

impl Policy {
    /// Checks all limits together and reports every mistake: bad or repeated names, keys without
    /// parts, replacements of limits that do not exist or replace each other in a circle.
    pub fn new(limits: impl IntoIterator<Item = Limit>) -> Result<Self, PolicyErrors> {
        let limits: Vec<Limit> = limits.into_iter().collect();
        let mut mistakes = Vec::new();
        let mut by_name = HashMap::new();
        for (index, limit) in limits.iter().enumerate() {
            check_alone(index, limit, &mut mistakes);
            if let Some(first) = by_name.insert(limit.name.as_str(), index) {
                mistakes.push(PolicyError::new(
                    index,
                    "name",
                    format!("{:?} is also the name of limits[{first}]", limit.name),
                ));
            }
        }
        let replaced = (0..limits.len())
            .map(|index| chain(index, &limits, &by_name, &mut mistakes))
            .collect::<Vec<_>>();
        if !mistakes.is_empty() {
            return Err(PolicyErrors(mistakes));
        }
        Ok(Self::of_checked(limits, &replaced))
    }

    /// Puts the limits that are off aside. `replaced` has the chain of each limit in the list as it
    /// was given.
    fn of_checked(limits: Vec<Limit>, replaced: &[Vec<usize>]) -> Self {
        let mut places = vec![None; limits.len()];
        let enabled = (0..limits.len()).filter(|given| limits[*given].enabled);
        let enabled: Vec<usize> = enabled.collect();
        for (place, &given) in enabled.iter().enumerate() {
            places[given] = Some(place);
        }
        let chain = |given: &usize| replaced[*given].iter().filter_map(|given| places[*given]);
        let base = |given: &usize| *replaced[*given].last().unwrap_or(given);
        let (replaced, base) = (
            enabled.iter().map(|given| chain(given).collect()).collect(),
            enabled.iter().map(base).collect(),
        );
        let (limits, disabled): (Vec<Limit>, Vec<Limit>) =
            limits.into_iter().partition(|limit| limit.enabled);
        let awaits_answers = limits
            .iter()
            .any(|limit| limit.counting != Counting::Always);
        let names = limits.iter().enumerate();
        let ad_hoc = AdHoc::ALL.map(AdHoc::limit);
        let mut index = Index::new(&limits);
        let mut policy = Self {
            by_name: names
                .map(|(index, limit)| (limit.name.clone(), index))
                .collect(),
            index: Index::default(),
            needs_principal: limits.iter().map(Limit::needs_principal).collect(),
            some_need_principal: limits.iter().any(Limit::needs_principal),
            some_replace: limits.iter().any(|limit| limit.replaces.is_some()),
            prepared: limits
                .iter()
                .chain(&ad_hoc)
                .map(|limit| PreparedLimit::new(limit, limit.quota))
                .collect(),
            may_be_skipped: limits.iter().map(may_be_skipped).collect(),
            limits,
            disabled,
            replaced,
            base,
            ad_hoc,
            awaits_answers,
        };
        index.prepare(|matched| policy.charged_by_path(matched));
        policy.index = index;
        policy
    }

    /// The same policy for a program that asks a service for quotas.
    ///
    /// A limit with [`QuotaSource::External`] and no quota of its own makes charges too, because the
    /// service may know one. The quota of such a charge is a stand-in: the program asks first, and
    /// drops the charge if there is no answer ([`Charge::awaits_quota`]).
    ///
    /// ```
    /// use sluicegate_core::{Limit, Policy, QuotaSource, Subject};
    ///
    /// let limit = Limit { quota_from: QuotaSource::External, ..Limit::unlimited("tenant") };
    /// let policy = Policy::new([limit])?;
    /// assert!(policy.charges_for(&Subject::ANONYMOUS, 1)?.is_empty());
    /// let policy = policy.asking_service();
    /// assert!(policy.charges_for(&Subject::ANONYMOUS, 1)?[0].awaits_quota());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn asking_service(mut self) -> Self {
        for (limit, prepared) in self.limits.iter().zip(&mut self.prepared) {
            if limit.quota.is_none() && limit.quota_from == QuotaSource::External {
                *prepared = PreparedLimit::new(limit, Some(stand_in()));
            }
        }
        self
    }

    /// True when some limit counts requests by their answers ([`Limit::counting`]).
    pub fn awaits_answers(&self) -> bool {
        self.awaits_answers
    }

    /// All limits that are on, in the order they were given.
    pub fn limits(&self) -> &[Limit] {
        &self.limits
    }

    /// The limits that are off, in the order they were given.
    pub fn disabled(&self) -> &[Limit] {
        &self.disabled
    }

    /// The reason why [`Policy::limit`] finds no limit of this name, in words.
    pub fn why_absent(&self, name: &str) -> String {
        match self.is_disabled(name) {
            true => format!("the limit {name:?} is off (enabled: false)"),
            false => format!("there is no limit named {name:?}"),
        }
    }

    fn is_disabled(&self, name: &str) -> bool {
        self.disabled.iter().any(|limit| limit.name == name)
    }

    /// The limit of this name and its index.
    pub fn limit(&self, name: &str) -> Option<(usize, &Limit)> {
        self.by_name
            .get(name)
            .map(|index| (*index, &self.limits[*index]))
    }

    /// The limit that a charge or an outcome names by index; beyond the limits of the policy, the
    /// one that stands for quotas that came with the request.
    ///
    /// # Panics
    /// When the index is of another policy and too large for this one.
    ///
    /// ```
    /// use sluicegate_core::{Limit, Policy, Quota};
    ///
    /// let policy = Policy::new([Limit::per_client("per-ip", Quota::per_second(1))])?;
    /// let charge = policy.charge_named("per-ip", &["203.0.113.7"], 1).unwrap().unwrap();
    /// assert_eq!(policy.limit_at(charge.limit_index).name, "per-ip");
    /// # Ok::<(), sluicegate_core::PolicyErrors>(())
    /// ```
    pub fn limit_at(&self, index: usize) -> &Limit {
        self.limits
            .get(index)
            .unwrap_or_else(|| &self.ad_hoc[index - self.limits.len()])
    }

    /// The charge of a quota that came with the request, on a counter that no limit's key can name.
    pub fn charge_ad_hoc<'a>(
        &'a self,
        purpose: AdHoc,
        parts: &'a [&'a [u8]],
        quota: Quota,
        cost: u64,
    ) -> Charge<'a> {
        let limit_index = self.limits.len() + purpose as usize;
        let prepared = &self.prepared[limit_index];
        let key = Key::of_bytes(&self.ad_hoc[purpose as usize], prepared.name_hash, parts);
        prepared.charge(limit_index, key, quota, cost)
    }

    /// The charges of a request: one for each limit that covers it, none for unlimited ones. Each takes
    /// `cost` times the limit's own [`Cost`](crate::Cost).
    ///
    /// An error when the request lacks a part of a key and the limit's rule is to reject it, or when
    /// it says its cost in a header that cannot be read.
    #[inline]
    pub fn charges_for<'a>(
        &'a self,
        subject: &'a Subject<'a>,
        cost: u64,
    ) -> Result<List<Charge<'a>>, MissingKey> {
        self.charges_at(Stage::Whole, subject, cost)
    }

    /// The charges of a request for the limits of one stage only.
    #[inline]
    pub fn charges_at<'a>(
        &'a self,
        stage: Stage,
        subject: &'a Subject<'a>,
        cost: u64,
    ) -> Result<List<Charge<'a>>, MissingKey> {
        let is_whole =
            stage == Stage::Whole || stage == Stage::BeforePrincipal && !self.some_need_principal;
        match self.index.charged(subject.path) {
            Some(indices) if is_whole => self.charges_of(indices, subject, cost),
            _ => self.charges_at_length(stage, subject, cost),
        }
    }

    /// The same for requests of which more than the path has to be looked at.
    #[inline(never)]
    fn charges_at_length<'a>(
        &'a self,
        stage: Stage,
        subject: &'a Subject<'a>,
        cost: u64,
    ) -> Result<List<Charge<'a>>, MissingKey> {
        let indices = self.charged_at(stage, subject);
        self.charges_of(&indices, subject, cost)
    }

    /// The charges of a descriptor: one for each limit that names exactly its entries, in its
    /// conditions or in its key. Limits on requests, such as those by address, do not apply.
    ///
    /// ```
    /// use sluicegate_core::{Limit, Policy, Quota, Subject};
    ///
    /// let by_user = Limit::new("by-user", Quota::per_second(1)).key(["descriptor:user".parse()?]);
    /// let policy = Policy::new([by_user])?;
    /// let subject = Subject { descriptors: &[("user", "ann")], ..Subject::ANONYMOUS };
    /// let charges = policy.charges_for_descriptor(&subject, 1)?;
    /// assert_eq!(charges[0].key.to_string(), "by-user:ann");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn charges_for_descriptor<'a>(
        &'a self,
        subject: &'a Subject<'a>,
        cost: u64,
    ) -> Result<List<Charge<'a>>, MissingKey> {
        let indices = self.covering_if(subject, |limit| limit.names_exactly(subject.descriptors));
        self.charges_of(&indices, subject, cost)
    }

    /// The charge on one limit by name and key parts, for callers that know both; `None` when it is
    /// unlimited. The limit's conditions are not looked at. The cost is multiplied by the limit's own,
    /// unless that is in a header.
    pub fn charge_named<'a>(
        &'a self,
        name: &str,
        parts: &'a [&'a str],
        cost: u64,
    ) -> Result<Option<Charge<'a>>, MissingKey> {
        let (index, limit) = self
            .limit(name)
            .ok_or_else(|| MissingKey::no_limit(name, self.is_disabled(name)))?;
        let prepared = &self.prepared[index];
        let key = Key::of_given(limit, prepared.name_hash, parts)?;
        let units = limit.units_by_name(cost);
        let charge = |quota| prepared.charge(index, key, quota, units);
        Ok(prepared.quota.map(charge))
    }

    /// The indices of the limits that cover a request, after replacement, in order.
    ///
    /// ```
    /// use sluicegate_core::{Limit, Policy, Quota, Subject};
    ///
    /// let policy = Policy::new([Limit::new("all", Quota::per_second(100))])?;
    /// assert_eq!(policy.covering(&Subject::ANONYMOUS).len(), 1);
    /// # Ok::<(), sluicegate_core::PolicyErrors>(())
    /// ```
    pub fn covering(&self, subject: &Subject<'_>) -> List<usize> {
        self.covering_if(subject, |_| true)
            .iter()
            .copied()
            .collect()
    }
}

/// Returns true when a limit takes the place of another, and is skipped for requests without its
/// key.
fn may_be_skipped(limit: &Limit) -> bool {
    limit.replaces.is_some() && limit.missing_key_rule() == OnMissingKey::Skip
}

/// The quota of charges that wait for one from a service. Answers of the decision service may show
/// it, so it is as large as any.
fn stand_in() -> Quota {
    Quota::from(Quota::per_second(1_000_000))
}
