//! Indices of limits that a request may meet.

use std::ops::Deref;

/// A list of indices whose first few are kept in place, so that finding the limits of a request does
/// not allocate.
#[derive(Clone, Debug, Default)]
pub(super) struct LimitIndices {
    few: [usize; Self::FEW],
    length: usize,
    /// All of them, once there are more than fit in place.
    many: Vec<usize>,
}

impl LimitIndices {
    const FEW: usize = 8;

    #[inline]
    pub(super) fn push(&mut self, index: usize) {
        if self.length < Self::FEW && self.many.is_empty() {
            self.few[self.length] = index;
            self.length += 1;
        } else {
            self.push_to_many(index);
        }
    }

    #[cold]
    fn push_to_many(&mut self, index: usize) {
        if self.many.is_empty() {
            self.many.extend_from_slice(&self.few[..self.length]);
        }
        self.many.push(index);
    }

    #[inline]
    pub(super) fn extend<'a>(&mut self, indices: impl IntoIterator<Item = &'a usize>) {
        for index in indices {
            self.push(*index);
        }
    }

    /// Keeps the indices for which `is_kept` returns true.
    #[inline]
    pub(super) fn retain(&mut self, is_kept: impl Fn(usize) -> bool) {
        if !self.many.is_empty() {
            self.many.retain(|index| is_kept(*index));
            self.length = 0;
            return;
        }
        let mut kept = 0;
        for place in 0..self.length {
            let index = self.few[place];
            if is_kept(index) {
                self.few[kept] = index;
                kept += 1;
            }
        }
        self.length = kept;
    }

    /// Brings the indices into the order of the list, each once.
    #[inline]
    pub(super) fn sort(&mut self) {
        if !self.many.is_empty() {
            self.many.sort_unstable();
            self.many.dedup();
        } else if !self.is_strictly_ascending() {
            self.sort_few();
        }
    }

    fn is_strictly_ascending(&self) -> bool {
        self.few[..self.length]
            .windows(2)
            .all(|pair| pair[0] < pair[1])
    }

    fn sort_few(&mut self) {
        let few = &mut self.few[..self.length];
        few.sort_unstable();
        let mut kept = 1;
        for place in 1..few.len() {
            if few[place] != few[kept - 1] {
                few[kept] = few[place];
                kept += 1;
            }
        }
        self.length = kept;
    }
}

impl Deref for LimitIndices {
    type Target = [usize];

    #[inline]
    fn deref(&self) -> &[usize] {
        if self.many.is_empty() {
            &self.few[..self.length]
        } else {
            &self.many
        }
    }
}

impl FromIterator<usize> for LimitIndices {
    fn from_iter<I: IntoIterator<Item = usize>>(indices: I) -> Self {
        let mut list = Self::default();
        for index in indices {
            list.push(index);
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_list_however_long_it_is() {
        for length in 0..20 {
            let mixed = (0..length).map(|number| number * 7 % 5).collect::<Vec<_>>();
            let mut indices: LimitIndices = mixed.iter().copied().collect();
            assert_eq!(*indices, mixed);
            indices.retain(|index| index != 3);
            let mut expected = mixed.clone();
            expected.retain(|index| *index != 3);
            assert_eq!(*indices, expected);
            indices.sort();
            expected.sort_unstable();
            expected.dedup();
            assert_eq!(*indices, expected);
            indices.retain(|_| false);
            assert!(indices.is_empty());
            indices.push(1);
            assert_eq!(*indices, [1]);
        }
    }
}
