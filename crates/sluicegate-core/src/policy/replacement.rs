//! Replacement: which of the limits that match a request are charged, and when.
//!
//! The idea: a limit is in force when its conditions hold and it is not skipped for want of a key. Of
//! limits in force that replace one another, directly or through others, exactly one is charged: the
//! one at the end of a chain of replacements, and between several ends the one with the highest
//! rank. A limit that is not in force replaces nobody.
//!
//! A server that verifies credentials charges in two stages, and in the first it does not know yet
//! which of the limits that need a principal will be in force. So a limit that one of them could
//! replace is deferred: it is charged in the second stage, if nobody takes its place then. A limit is
//! *certain* when no such limit could replace it, whoever the caller is; these are charged at once.
//!
//! The invariant: both stages together charge exactly the limits that one stage would, each once.
//! It holds because certainty is decided from the request alone, so that both stages decide it
//! alike, and because a certain limit wins against every set of limits in force.

use super::limit_indices::LimitIndices;
use super::{Policy, Stage};
use crate::limit::Limit;
use crate::path::PathPattern;
use crate::subject::Subject;

impl Policy {
    /// The limits that are charged for a request in one stage, in order.
    #[inline]
    pub(super) fn charged_at(&self, stage: Stage, subject: &Subject<'_>) -> LimitIndices {
        match (stage, self.some_need_principal) {
            (Stage::Whole, _) | (Stage::BeforePrincipal, false) => {
                self.covering_if(subject, |_| true)
            }
            (Stage::AfterPrincipal | Stage::Unauthorized, false) => LimitIndices::default(),
            (_, true) => self.charged_in_turn(stage, subject),
        }
    }

    /// The same where some limits need a principal and others do not.
    #[inline(never)]
    fn charged_in_turn(&self, stage: Stage, subject: &Subject<'_>) -> LimitIndices {
        let mut candidates = self.index.candidates_for_anybody(subject);
        candidates.sort();
        let known = candidates.iter().copied().filter(|&index| {
            !self.needs_principal[index] && self.is_in_force(index, subject, |_| true)
        });
        let known: LimitIndices = known.collect();
        let possible = candidates.iter().copied().filter(|&index| {
            let limit = &self.limits[index];
            let may_replace = self.needs_principal[index] && limit.replaces.is_some();
            may_replace && limit.matching.covers_request(subject)
        });
        let possible: LimitIndices = possible.collect();
        if stage == Stage::BeforePrincipal {
            let certain = known.iter().copied();
            return certain
                .filter(|&index| self.is_certain(index, &known, &possible))
                .collect();
        }
        let is_in_force = |index: &usize| match self.needs_principal[*index] {
            false => known.contains(index),
            true if stage == Stage::Unauthorized => self.is_in_force_for_nobody(*index, subject),
            true => self.is_in_force(*index, subject, |_| true),
        };
        let in_force: LimitIndices = candidates.iter().copied().filter(is_in_force).collect();
        let was_charged = |index: usize| {
            !self.needs_principal[index] && self.is_certain(index, &known, &possible)
        };
        in_force
            .iter()
            .copied()
            .filter(|&index| self.is_charged(index, &in_force) && !was_charged(index))
            .collect()
    }

    /// The limits that cover a request, of those for which `is_included` is true.
    #[inline]
    pub(super) fn covering_if(
        &self,
        subject: &Subject<'_>,
        is_included: impl Fn(&Limit) -> bool,
    ) -> LimitIndices {
        let mut matched = self.index.candidates(subject);
        matched.retain(|index| self.is_in_force(index, subject, &is_included));
        // A limit with several hosts can be found under more than one of them.
        matched.sort();
        if self.some_replace && matched.len() > 1 {
            let in_force = matched.clone();
            matched.retain(|index| self.is_charged(index, &in_force));
        }
        matched
    }

    /// The limits that are charged of those that match a path, where none of them looks at anything
    /// else in a request.
    pub(super) fn charged_by_path(&self, matched: &[usize]) -> Option<Box<[usize]>> {
        let looks_further =
            |&index: &usize| !self.prepared[index].has_only_path || self.may_be_skipped[index];
        if matched.iter().any(looks_further) {
            return None;
        }
        let charged = matched.iter().copied();
        let charged = charged.filter(|&index| self.is_charged(index, matched));
        Some(charged.collect())
    }

    /// Returns true when the conditions of a candidate hold, and it is not skipped for want of a
    /// key. Whether one that replaces nobody is skipped makes no difference here.
    #[inline]
    fn is_in_force(
        &self,
        index: usize,
        subject: &Subject<'_>,
        is_included: impl Fn(&Limit) -> bool,
    ) -> bool {
        let limit = &self.limits[index];
        is_included(limit)
            && (self.prepared[index].has_only_path || limit.matching.covers_rest(subject))
            && !(self.may_be_skipped[index] && self.is_skipped(index, subject))
    }

    /// The same for a caller with a wrong credential. A limit that would refuse whoever has no
    /// principal is not in force: such a caller is refused anyway.
    fn is_in_force_for_nobody(&self, index: usize, subject: &Subject<'_>) -> bool {
        let limit = &self.limits[index];
        limit.matching.covers_rest(subject) && matches!(self.key_of(index, subject), Ok(Some(_)))
    }

    /// Returns true when a request lacks a part of the limit's key, and the rule is to skip it.
    pub(super) fn is_skipped(&self, index: usize, subject: &Subject<'_>) -> bool {
        matches!(self.key_of(index, subject), Ok(None))
    }

    /// Returns true when a limit in force is charged: no other limit in force replaces it, directly
    /// or through others, and none that is left of the same base has a higher rank.
    fn is_charged(&self, index: usize, in_force: &[usize]) -> bool {
        let is_left = |index: usize| {
            !in_force
                .iter()
                .any(|&other| self.replaced[other].contains(&index))
        };
        is_left(index)
            && !in_force
                .iter()
                .any(|&other| self.is_better(other, index) && is_left(other))
    }

    /// Returns true when a limit that needs no principal is charged whoever the caller is: it wins
    /// among its like, and no limit that needs a principal could take its place. `possible` has
    /// those that take a place, and whose conditions on the request hold.
    fn is_certain(&self, index: usize, known: &[usize], possible: &[usize]) -> bool {
        let is_rival =
            |other: usize| self.replaced[other].contains(&index) || self.is_better(other, index);
        self.is_charged(index, known) && !possible.iter().any(|&other| is_rival(other))
    }

    /// Returns true when a limit of the same base has a higher rank than another.
    fn is_better(&self, other: usize, index: usize) -> bool {
        self.base[other] == self.base[index] && self.rank(other) > self.rank(index)
    }

    /// The order between limits that replace the same one: the longest path wins, then the most
    /// conditions, then the first in the list. Ranks are distinct, so exactly one limit wins.
    fn rank(&self, index: usize) -> impl Ord + use<> {
        let matching = &self.limits[index].matching;
        let length = matching.path.as_ref().map_or((0, 0), PathPattern::length);
        (length, matching.conditions(), std::cmp::Reverse(index))
    }
}
