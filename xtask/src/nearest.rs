//! Finds the known name a typing slip was meant to be.

/// The known name with the fewest single-letter edits from `word`; the first of several equals.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> &'a str {
    known
        .iter()
        .min_by_key(|name| edits(word, name))
        .expect("every caller passes a list of names fixed in the source, none of them empty")
}

/// Insertions, deletions and replacements that turn `from` into `to` (Levenshtein).
fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (from_index, from_letter) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = from_index + 1;
        for (to_index, to_letter) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(from_letter != *to_letter);
            diagonal = row[to_index + 1];
            row[to_index + 1] = replaced.min(row[to_index] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted_one_by_one() {
        for (from, to, count) in [
            ("", "", 0),
            ("", "abc", 3),
            ("tidy", "tidy", 0),
            ("tody", "tidy", 1),
            ("tset", "test", 2),
        ] {
            assert_eq!(edits(from, to), count, "{from:?} to {to:?}");
        }
    }

    #[test]
    fn the_closest_name_wins() {
        assert_eq!(nearest("bnch", &["test", "bench", "tidy"]), "bench");
        assert_eq!(nearest("tdy", &["test", "bench", "tidy"]), "tidy");
    }
}
