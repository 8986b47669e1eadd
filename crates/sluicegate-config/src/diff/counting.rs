//! Differences of the limits that count by the answer.

use sluicegate_core::{Counting, Limit};

use super::ChangeKind;
use crate::summary::counted_in_words;

/// Notes that a limit counts other requests: fewer units are taken where only some answers count.
pub(super) fn compare(old: &Limit, new: &Limit, note: &mut impl FnMut(ChangeKind, String)) {
    if old.counting == new.counting {
        return;
    }
    let kind = match (old.counting, new.counting) {
        (Counting::Always, _) => ChangeKind::Looser,
        (_, Counting::Always) => ChangeKind::Tighter,
        _ => ChangeKind::Changed,
    };
    let (is_now, was) = (
        counted_in_words(&new.counting),
        counted_in_words(&old.counting),
    );
    note(
        kind,
        format!("{} counts {is_now} now; before, {was}", new.name),
    );
}
