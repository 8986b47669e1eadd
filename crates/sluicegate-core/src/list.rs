//! A list that nearly always has at most two items.

use std::ops::{Deref, DerefMut};

/// A list that allocates only from its third item on: most requests are charged to one limit or
/// two, and a decision about so few should not allocate.
///
/// ```
/// use sluicegate_core::List;
///
/// let mut list = List::Empty;
/// list.push("one");
/// assert!(matches!(list, List::One("one")));
/// list.push("two");
/// assert!(matches!(list, List::Two(["one", "two"])));
/// list.push("three");
/// assert_eq!(*list, ["one", "two", "three"]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum List<T> {
    /// No item.
    #[default]
    Empty,
    /// One item, in place.
    One(T),
    /// Two items, in place.
    Two([T; 2]),
    /// Three items or more; the only variant with memory of its own.
    Many(Vec<T>),
}

impl<T> List<T> {
    /// Adds an item at the end.
    #[inline]
    pub fn push(&mut self, item: T) {
        match self {
            Self::Empty => *self = Self::One(item),
            Self::Many(items) => items.push(item),
            Self::One(_) | Self::Two(_) => self.grow(item),
        }
    }

    /// Adds an item to a list that has one or two.
    fn grow(&mut self, item: T) {
        *self = match std::mem::replace(self, Self::Empty) {
            Self::Empty => Self::One(item),
            Self::One(first) => Self::Two([first, item]),
            Self::Two([first, second]) => Self::Many(vec![first, second, item]),
            Self::Many(mut items) => {
                items.push(item);
                Self::Many(items)
            }
        };
    }
}

impl<T> Deref for List<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match self {
            Self::Empty => &[],
            Self::One(item) => std::slice::from_ref(item),
            Self::Two(items) => items,
            Self::Many(items) => items,
        }
    }
}

impl<T> DerefMut for List<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        match self {
            Self::Empty => &mut [],
            Self::One(item) => std::slice::from_mut(item),
            Self::Two(items) => items,
            Self::Many(items) => items,
        }
    }
}

impl<T> FromIterator<T> for List<T> {
    #[inline]
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut items = items.into_iter();
        let Some(first) = items.next() else {
            return Self::Empty;
        };
        let Some(second) = items.next() else {
            return Self::One(first);
        };
        match items.next() {
            None => Self::Two([first, second]),
            Some(third) => Self::Many([first, second, third].into_iter().chain(items).collect()),
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
            let mut pushed = List::Empty;
            (0..length).for_each(|item| pushed.push(item));
            assert_eq!(pushed, list);
        }
    }
}
