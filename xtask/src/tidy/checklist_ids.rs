//! The ids of the behaviours in `docs/reference/checklist.md`: which exist, and which must be covered by now.

use std::ops::RangeInclusive;

/// Every id a row may have.
pub fn known() -> Vec<String> {
    KNOWN.iter().flat_map(ids).collect()
}

/// Every id that must have a row.
pub fn due() -> Vec<String> {
    DUE.iter().flat_map(ids).collect()
}

/// Ids with the same prefix, numbered in a row.
struct Group {
    prefix: &'static str,
    numbers: RangeInclusive<u32>,
}

const KNOWN: [Group; 11] = [
    Group {
        prefix: "A",
        numbers: 1..=16,
    },
    Group {
        prefix: "B",
        numbers: 1..=11,
    },
    Group {
        prefix: "C",
        numbers: 1..=8,
    },
    Group {
        prefix: "D",
        numbers: 1..=7,
    },
    Group {
        prefix: "E",
        numbers: 1..=12,
    },
    Group {
        prefix: "F",
        numbers: 1..=8,
    },
    Group {
        prefix: "G",
        numbers: 1..=5,
    },
    Group {
        prefix: "H",
        numbers: 1..=36,
    },
    Group {
        prefix: "S",
        numbers: 1..=14,
    },
    Group {
        prefix: "N",
        numbers: 1..=6,
    },
    Group {
        prefix: "T-",
        numbers: 1..=67,
    },
];

/// Grows as features arrive, until it equals [`KNOWN`].
const DUE: [Group; 15] = [
    Group {
        prefix: "A",
        numbers: 1..=16,
    },
    Group {
        prefix: "B",
        numbers: 1..=11,
    },
    Group {
        prefix: "C",
        numbers: 1..=8,
    },
    Group {
        prefix: "D",
        numbers: 1..=7,
    },
    Group {
        prefix: "F",
        numbers: 1..=8,
    },
    Group {
        prefix: "G",
        numbers: 1..=4,
    },
    Group {
        prefix: "H",
        numbers: 1..=36,
    },
    Group {
        prefix: "S",
        numbers: 1..=7,
    },
    Group {
        prefix: "N",
        numbers: 1..=6,
    },
    Group {
        prefix: "T-",
        numbers: 1..=23,
    },
    Group {
        prefix: "T-",
        numbers: 25..=25,
    },
    Group {
        prefix: "T-",
        numbers: 26..=30,
    },
    Group {
        prefix: "T-",
        numbers: 31..=35,
    },
    Group {
        prefix: "T-",
        numbers: 37..=56,
    },
    Group {
        prefix: "T-",
        numbers: 62..=67,
    },
];

/// `A1`, but `T-01`.
fn ids(group: &Group) -> impl Iterator<Item = String> {
    let width = if group.prefix.ends_with('-') { 2 } else { 1 };
    group
        .numbers
        .clone()
        .map(move |number| format!("{}{number:0width$}", group.prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_spelled_as_in_the_table() {
        let known = known();
        for id in [
            "A1", "A16", "B11", "C8", "D7", "E12", "F8", "G5", "H13", "H36", "S2", "N6", "T-01",
            "T-67",
        ] {
            assert!(known.iter().any(|known| known == id), "{id}");
        }
        for id in ["A0", "A17", "A01", "T-1", "T-68", "H0", "N7", "I1"] {
            assert!(!known.iter().any(|known| known == id), "{id}");
        }
    }

    #[test]
    fn everything_due_is_known_and_named_once() {
        let (known, due) = (known(), due());
        assert!(due.iter().all(|id| known.contains(id)));
        let distinct: std::collections::HashSet<&String> = due.iter().collect();
        assert_eq!(distinct.len(), due.len());
    }
}
