//! Conditions of other programs in one form: any of these lists, all terms of a list.
//!
//! Each list becomes a limit, or a cover, of its own. "And" multiplies the lists and "not" does so
//! again, so their number is bounded.

/// Any of these lists; all terms of a list must hold.
pub(super) type Alternatives<T> = Vec<Vec<T>>;

/// More alternatives than this are given up.
pub(super) const ALTERNATIVES_MAX: usize = 64;

/// A term that knows its contrary.
pub(super) trait Negate: Clone {
    /// The term that holds where this one does not.
    fn negated(&self) -> Self;
}

/// Both conditions hold.
pub(super) fn both<T: Clone>(one: &[Vec<T>], two: &[Vec<T>]) -> Alternatives<T> {
    one.iter()
        .flat_map(|left| {
            two.iter()
                .map(move |right| [left.as_slice(), right].concat())
        })
        .take(ALTERNATIVES_MAX)
        .collect()
}

/// The condition does not hold: of each list, one term does not.
pub(super) fn contrary<T: Negate>(alternatives: &[Vec<T>]) -> Alternatives<T> {
    let not = |term: &T| vec![term.negated()];
    alternatives.iter().fold(vec![Vec::new()], |all, list| {
        both(&all, &list.iter().map(not).collect::<Vec<_>>())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Negate for i32 {
        fn negated(&self) -> Self {
            -self
        }
    }

    #[test]
    fn conditions_are_joined_and_turned_around() {
        assert_eq!(
            both(&[vec![1], vec![2]], &[vec![3, 4]]),
            [[1, 3, 4], [2, 3, 4]]
        );
        // Not (1 and 2, or 3): not 1 or not 2, and not 3.
        assert_eq!(contrary(&[vec![1, 2], vec![3]]), [[-1, -3], [-2, -3]]);
        assert_eq!(contrary::<i32>(&[]), [[0; 0]], "never becomes always");
        let many = vec![vec![1, 2]; 100];
        assert_eq!(contrary(&many).len(), ALTERNATIVES_MAX);
    }
}
