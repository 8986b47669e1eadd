//! The policy: all limits, indexed, and which of them a request is charged to.

mod error;
mod explain;
mod index;

pub use error::{MissingKey, MissingReason, PolicyError, PolicyErrors};
pub use explain::{Condition, ConsideredLimit, LimitEffect};

use std::collections::HashMap;

use crate::ad_hoc::AdHoc;
use crate::charge::Charge;
use crate::factor::Factor;
use crate::key::Key;
use crate::limit::{Limit, Mode, OnMissingKey};
use crate::list::List;
use crate::path::PathPattern;
use crate::quota::Quota;
use crate::subject::Subject;
use index::Index;

/// Which limits of a request are charged: a front door that authenticates callers charges in two stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// All, at once.
    Whole,
    /// Those that need no principal, before anybody spends time on a credential.
    BeforePrincipal,
    /// Those that need one.
    AfterPrincipal,
}

impl Stage {
    fn has(self, limit: &Limit) -> bool {
        match self {
            Self::Whole => true,
            Self::BeforePrincipal => !limit.needs_principal(),
            Self::AfterPrincipal => limit.needs_principal(),
        }
    }
}

/// All limits of a configuration, checked and ready to be matched.
#[derive(Debug)]
pub struct Policy {
    limits: Vec<Limit>,
    /// For each limit, the limits whose place it takes: the one it replaces, the one that replaces, and so on.
    replaced: Vec<Vec<usize>>,
    /// For each limit, the first of its chain of replacements: limits with the same base compete.
    base: Vec<usize>,
    by_name: HashMap<String, usize>,
    index: Index,
    /// What stands for quotas that come with the request; their places follow those of the limits.
    ad_hoc: [Limit; AdHoc::ALL.len()],
}

impl Policy {
    /// Checks all limits together and reports every mistake.
    pub fn new(limits: impl IntoIterator<Item = Limit>) -> Result<Self, PolicyErrors> {
        let limits: Vec<Limit> = limits.into_iter().collect();
        let mut mistakes = Vec::new();
        let mut by_name = HashMap::new();
        for (place, limit) in limits.iter().enumerate() {
            check_alone(place, limit, &mut mistakes);
            if let Some(first) = by_name.insert(limit.name.as_str(), place) {
                mistakes.push(PolicyError::new(
                    place,
                    "name",
                    format!("{:?} is also the name of limits[{first}]", limit.name),
                ));
            }
        }
        let replaced = (0..limits.len())
            .map(|place| chain(place, &limits, &by_name, &mut mistakes))
            .collect::<Vec<_>>();
        if !mistakes.is_empty() {
            return Err(PolicyErrors(mistakes));
        }
        let base = replaced
            .iter()
            .enumerate()
            .map(|(own, chain)| *chain.last().unwrap_or(&own))
            .collect();
        let index = Index::new(&limits);
        let by_name = by_name
            .into_iter()
            .map(|(name, place)| (name.to_owned(), place))
            .collect();
        Ok(Self {
            limits,
            replaced,
            base,
            by_name,
            index,
            ad_hoc: AdHoc::ALL.map(AdHoc::limit),
        })
    }

    /// All limits, in the order they were given.
    pub fn limits(&self) -> &[Limit] {
        &self.limits
    }

    /// The limit of this name and its place.
    pub fn limit(&self, name: &str) -> Option<(usize, &Limit)> {
        self.by_name
            .get(name)
            .map(|place| (*place, &self.limits[*place]))
    }

    /// The limit that a charge or an outcome speaks of by its place, or what stands for a quota that came with the request.
    ///
    /// # Panics
    /// When the place is of another policy.
    pub fn limit_at(&self, place: usize) -> &Limit {
        self.limits
            .get(place)
            .unwrap_or_else(|| &self.ad_hoc[place - self.limits.len()])
    }

    /// The charge of a quota that came with the request, on a counter that no limit's key can reach.
    pub fn charge_ad_hoc<'a>(
        &'a self,
        purpose: AdHoc,
        parts: &'a [&'a [u8]],
        quota: Quota,
        cost: u64,
    ) -> Charge<'a> {
        let place = purpose as usize;
        charge(
            self.limits.len() + place,
            Key::of_bytes(&self.ad_hoc[place], parts),
            quota,
            cost,
        )
    }

    /// The charges of a request: one for each limit that covers it, none for unlimited ones.
    pub fn charges_for<'a>(
        &'a self,
        subject: &'a Subject<'a>,
        cost: u64,
    ) -> Result<List<Charge<'a>>, MissingKey> {
        self.charges_at(Stage::Whole, subject, cost)
    }

    /// The same, for the limits of one stage only.
    pub fn charges_at<'a>(
        &'a self,
        stage: Stage,
        subject: &'a Subject<'a>,
        cost: u64,
    ) -> Result<List<Charge<'a>>, MissingKey> {
        let mut charges = List::Empty;
        for &place in self.covering(subject).iter() {
            if !stage.has(&self.limits[place]) {
                continue;
            }
            if let Some(charge) = self.charge_for(place, subject, cost)? {
                charges.push(charge);
            }
        }
        Ok(charges)
    }

    /// The charges of a descriptor: one for each limit that speaks of exactly its entries, in its conditions or in its key.
    ///
    /// Limits on requests, such as those by address, have nothing to say about descriptors.
    pub fn charges_for_descriptor<'a>(
        &'a self,
        subject: &'a Subject<'a>,
        cost: u64,
    ) -> Result<List<Charge<'a>>, MissingKey> {
        let mut charges = List::Empty;
        for &place in self
            .covering_if(subject, |limit| limit.names_exactly(subject.descriptors))
            .iter()
        {
            if let Some(charge) = self.charge_for(place, subject, cost)? {
                charges.push(charge);
            }
        }
        Ok(charges)
    }

    /// The charge on one limit by name and key parts, for callers that know both; `None` when it is unlimited.
    pub fn charge_named<'a>(
        &'a self,
        name: &str,
        parts: &'a [&'a str],
        cost: u64,
    ) -> Result<Option<Charge<'a>>, MissingKey> {
        let (place, limit) = self
            .limit(name)
            .ok_or_else(|| MissingKey::unknown_limit(name))?;
        let key = Key::of_parts(limit, parts)?;
        Ok(limit.quota.map(|quota| charge(place, key, quota, cost)))
    }

    /// The places of the limits that cover a request, after replacement, in order.
    pub fn covering(&self, subject: &Subject<'_>) -> List<usize> {
        self.covering_if(subject, |_| true)
    }

    fn covering_if(&self, subject: &Subject<'_>, is_meant: impl Fn(&Limit) -> bool) -> List<usize> {
        let covers = |place: &usize| {
            let limit = &self.limits[*place];
            is_meant(limit) && limit.matching.covers_rest(subject)
        };
        match self.index.candidates(subject) {
            List::Empty => List::Empty,
            List::One(only) => Some(only).filter(covers).into_iter().collect(),
            List::Many(mut matched) => {
                matched.retain(covers);
                matched.sort_unstable();
                matched.dedup();
                matched
                    .iter()
                    .copied()
                    .filter(|place| self.stands(*place, &matched))
                    .collect()
            }
        }
    }

    /// Whether a matched limit is charged: nothing matched takes its place, and no rival that is left has a longer path.
    fn stands(&self, place: usize, matched: &[usize]) -> bool {
        let is_left = |place: usize| {
            !matched
                .iter()
                .any(|&other| self.replaced[other].contains(&place))
        };
        let is_better = |other: usize| {
            self.base[other] == self.base[place] && self.rank(other) > self.rank(place)
        };
        is_left(place)
            && !matched
                .iter()
                .any(|&other| is_better(other) && is_left(other))
    }

    /// Between limits that replace the same one: the longest path, then the most conditions, then the first.
    fn rank(&self, place: usize) -> impl Ord + use<> {
        let matching = &self.limits[place].matching;
        let length = matching.path.as_ref().map_or((0, 0), PathPattern::length);
        (length, matching.conditions(), std::cmp::Reverse(place))
    }

    fn charge_for<'a>(
        &'a self,
        place: usize,
        subject: &'a Subject<'a>,
        cost: u64,
    ) -> Result<Option<Charge<'a>>, MissingKey> {
        let limit = &self.limits[place];
        let factor = limit
            .factor
            .as_ref()
            .map_or(Factor::ONE, |rule| rule.factor_of(subject.principal));
        let Some(quota) = limit.quota.and_then(|quota| factor.apply(quota)) else {
            return Ok(None);
        };
        let key = match Key::of_subject(limit, subject) {
            Ok(key) => key,
            Err(missing) => match limit.missing_key_rule() {
                OnMissingKey::Skip => return Ok(None),
                OnMissingKey::Shared => Key::shared(limit),
                OnMissingKey::ClientIp => Key::address_instead(limit, subject).ok_or(missing)?,
                OnMissingKey::Reject => return Err(missing),
            },
        };
        Ok(Some(charge(place, key, quota, cost)))
    }
}

fn charge(limit_index: usize, key: Key<'_>, quota: Quota, cost: u64) -> Charge<'_> {
    let Limit {
        mode, on_failure, ..
    } = *key.limit();
    Charge {
        key,
        quota,
        cost,
        limit_index,
        enforced: mode == Mode::Enforce,
        on_failure,
    }
}

/// What can be said of a limit without the others.
fn check_alone(place: usize, limit: &Limit, mistakes: &mut Vec<PolicyError>) {
    const NAME_MAX: usize = 64;
    let is_name = (1..=NAME_MAX).contains(&limit.name.len())
        && limit
            .name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    if !is_name {
        let message = format!(
            "must be 1 to {NAME_MAX} of letters, digits, '.', '_' and '-' (got {:?})",
            limit.name
        );
        mistakes.push(PolicyError::new(place, "name", message));
    }
    if limit.key.is_empty() {
        mistakes.push(PolicyError::new(
            place,
            "key",
            "must have at least one part; use global for one counter".into(),
        ));
    }
}

/// The places of the limits that `place` replaces, nearest first.
fn chain(
    place: usize,
    limits: &[Limit],
    by_name: &HashMap<&str, usize>,
    mistakes: &mut Vec<PolicyError>,
) -> Vec<usize> {
    let mut chain = Vec::new();
    let mut current = place;
    while let Some(name) = &limits[current].replaces {
        let Some(&next) = by_name.get(name.as_str()) else {
            if current == place {
                mistakes.push(PolicyError::new(
                    place,
                    "replaces",
                    format!("there is no limit named {name:?}"),
                ));
            }
            break;
        };
        if next == place {
            let message = format!("{:?} replaces this limit in turn", limits[current].name);
            mistakes.push(PolicyError::new(place, "replaces", message));
            break;
        }
        if chain.contains(&next) {
            break;
        }
        chain.push(next);
        current = next;
    }
    chain
}
