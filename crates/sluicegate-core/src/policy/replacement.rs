//! Replacement: which of the limits that match a request are charged.

use super::Policy;
use crate::limit::Limit;
use crate::list::List;
use crate::path::PathPattern;
use crate::subject::Subject;

impl Policy {
    /// The limits that cover a request, of those for which `is_included` is true.
    pub(super) fn covering_if(
        &self,
        subject: &Subject<'_>,
        is_included: impl Fn(&Limit) -> bool,
    ) -> List<usize> {
        let covers = |index: &usize| {
            let limit = &self.limits[*index];
            is_included(limit) && limit.matching.covers_rest(subject)
        };
        match self.index.candidates(subject) {
            List::Empty => List::Empty,
            List::One(only) => Some(only).filter(covers).into_iter().collect(),
            List::Many(mut matched) => {
                // A limit with several hosts can be found under more than one of them.
                matched.retain(covers);
                matched.sort_unstable();
                matched.dedup();
                matched
                    .iter()
                    .copied()
                    .filter(|index| self.is_charged(*index, &matched))
                    .collect()
            }
        }
    }

    /// Returns true when a matched limit is charged: no other matched limit replaces it, directly
    /// or through others, and none that is left of the same base has a higher rank.
    fn is_charged(&self, index: usize, matched: &[usize]) -> bool {
        let is_left = |index: usize| {
            !matched
                .iter()
                .any(|&other| self.replaced[other].contains(&index))
        };
        let is_better = |other: usize| {
            self.base[other] == self.base[index] && self.rank(other) > self.rank(index)
        };
        is_left(index)
            && !matched
                .iter()
                .any(|&other| is_better(other) && is_left(other))
    }

    /// The order between limits that replace the same one: the longest path wins, then the most
    /// conditions, then the first in the list. Ranks are distinct, so exactly one limit wins.
    fn rank(&self, index: usize) -> impl Ord + use<> {
        let matching = &self.limits[index].matching;
        let length = matching.path.as_ref().map_or((0, 0), PathPattern::length);
        (length, matching.conditions(), std::cmp::Reverse(index))
    }
}
