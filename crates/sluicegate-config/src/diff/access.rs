//! Differences of the lists of callers that are treated apart.

use std::fmt::Display;

use super::{Change, ChangeKind};
use crate::typed::{Access, AccessList};

/// Each caller that enters or leaves a list.
pub(super) fn changes(old: &Access, new: &Access) -> Vec<Change> {
    let mut changes = Vec::new();
    // A caller that is always rejected meets a tighter rule, and one that is never limited a
    // looser one.
    list(
        ["access.deny", "rejected with 403"],
        [ChangeKind::Tighter, ChangeKind::Looser],
        [&old.deny, &new.deny],
        &mut changes,
    );
    list(
        ["access.allow", "exempt from all limits"],
        [ChangeKind::Looser, ChangeKind::Tighter],
        [&old.allow, &new.allow],
        &mut changes,
    );
    changes
}

/// The differences of one list: its key and treatment, the kinds of a caller that enters and of
/// one that leaves, and both versions.
fn list(
    [key, treatment]: [&str; 2],
    kinds: [ChangeKind; 2],
    [old, new]: [&AccessList; 2],
    changes: &mut Vec<Change>,
) {
    let mut note = |kind, part: &str, message| {
        changes.push(Change::new(kind, format!("{key}.{part}"), message));
    };
    let [entered, left] = kinds;
    for (part, noun, (gained, lost)) in [
        ("cidrs", "clients of", moved(&old.cidrs, &new.cidrs)),
        ("keys", "the principal", moved(&old.keys, &new.keys)),
    ] {
        let verb = if part == "cidrs" { "are" } else { "is" };
        for caller in gained {
            note(
                entered,
                part,
                format!("{noun} {caller} {verb} {treatment} now"),
            );
        }
        for caller in lost {
            note(
                left,
                part,
                format!("{noun} {caller} {verb} no longer {treatment}"),
            );
        }
    }
}

/// The entries that are only in the new list, and those that are only in the old one.
fn moved<T: Display + PartialEq>(old: &[T], new: &[T]) -> (Vec<String>, Vec<String>) {
    let missing_in = |list: &[T], other: &[T]| {
        let missing = list.iter().filter(|entry| !other.contains(entry));
        missing.map(ToString::to_string).collect()
    };
    (missing_in(new, old), missing_in(old, new))
}
