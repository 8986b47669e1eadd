//! A list that nearly always has at most one item.

use std::ops::Deref;

/// A list that allocates only from its second item on: most requests are charged to one limit, and
/// a decision about one limit should not allocate.
///
/// ```
/// use sluicegate_core::List;
///
/// let mut list = List::Empty;
/// list.push("one");
/// assert!(matches!(list, List::One("one")));
/// list.push("two");
/// assert_eq!(*list, ["one", "two"]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum List<T> {
    /// No item.
    #[default]
    Empty,
    /// One item, in place.
    One(T),
    /// Two items or more; the only variant with memory of its own.
    Many(Vec<T>),
}

impl<T> List<T> {
    /// Adds an item at the end.
    pub fn push(&mut self, item: T) {
        *self = match std::mem::replace(self, Self::Empty) {
            Self::Empty => Self::One(item),
            Self::One(first) => Self::Many(vec![first, item]),
            Self::Many(mut items) => {
                items.push(item);
                Self::Many(items)
            }
        };
    }
}

impl<T> Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Self::Empty => &[],
            Self::One(item) => std::slice::from_ref(item),
            Self::Many(items) => items,
        }
    }
}

impl<T> FromIterator<T> for List<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut items = items.into_iter();
        let Some(first) = items.next() else {
            return Self::Empty;
        };
        match items.next() {
            None => Self::One(first),
            Some(second) => Self::Many([first, second].into_iter().chain(items).collect()),
        }
    }
}

impl<'a, T: Copy + 'a> Extend<&'a T> for List<T> {
    fn extend<I: IntoIterator<Item = &'a T>>(&mut self, items: I) {
        for item in items {
            self.push(*item);
        }
    }
}

impl<'a, T> IntoIterator for &'a List<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_keep_their_order() {
        for length in 0..5 {
            let list: List<usize> = (0..length).collect();
            assert_eq!(*list, *(0..length).collect::<Vec<_>>());
        }
    }
}
