//! Reading a section: every key that is asked for is known, and every other key is a mistake.
//!
//! There is no list of keys besides the code that reads them, so the two cannot differ. A test
//! holds the JSON Schema to the same keys.

use super::Field;
use crate::message_text::quoted;
use crate::mistakes::Mistake;
use crate::tree::{Entry, Value, child_path};

/// A section that is being read.
#[derive(Debug)]
pub(crate) struct Section<'a> {
    /// The section itself, for its path and position.
    field: Field<'a>,
    /// Its keys and values, in the order of the file.
    entries: &'a [Entry],
    /// Every key that was asked for so far.
    known: Vec<&'static str>,
    /// True when `enabled` is false.
    is_off: bool,
}

impl<'a> Section<'a> {
    pub(crate) fn new(field: Field<'a>, entries: &'a [Entry]) -> Self {
        Self {
            field,
            entries,
            known: Vec::new(),
            is_off: false,
        }
    }

    /// Reads the switch `enabled`, before any other key. A section that is off is checked like any
    /// other, but may lack the keys that it would need.
    pub(crate) fn enabled(&mut self) -> bool {
        let is_on = self.read("enabled", true, Field::boolean);
        if !is_on {
            self.is_off = true;
            let mut switched_off = self.field.context.switched_off.borrow_mut();
            switched_off.push(self.field.path.clone());
        }
        is_on
    }

    /// Returns true when the section is turned off.
    pub(crate) fn is_off(&self) -> bool {
        self.is_off
    }

    /// The value of a key; `None` when the key is absent.
    ///
    /// A key without a value is a mistake, except where a section is expected: see
    /// [`Section::subsection`].
    pub(crate) fn get(&mut self, key: &'static str) -> Option<Field<'a>> {
        let found = self.subsection(key)?;
        if matches!(found.node.value, Value::Null) {
            found.note("has no value; leave the key out");
            return None;
        }
        Some(found)
    }

    /// The value of a key, or the default when it is absent. A value that cannot be read has been
    /// noted, and the default takes its place.
    pub(crate) fn read<T>(
        &mut self,
        key: &'static str,
        default: T,
        read: impl FnOnce(&Field<'a>) -> Option<T>,
    ) -> T {
        self.get(key)
            .and_then(|field| read(&field))
            .unwrap_or(default)
    }

    /// The value of a key that may be absent.
    pub(crate) fn optional<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&Field<'a>) -> Option<T>,
    ) -> Option<T> {
        self.get(key).and_then(|field| read(&field))
    }

    /// The text of a key that may be absent; empty text counts as absent, as it may come from an
    /// empty variable.
    pub(crate) fn text_or_none(&mut self, key: &'static str) -> Option<String> {
        self.optional(key, |field| field.any_text())
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
    }

    /// The values of a list, which may be one value without its brackets.
    pub(crate) fn all<T>(
        &mut self,
        key: &'static str,
        read: impl FnMut(&Field<'a>) -> Option<T>,
    ) -> Vec<T> {
        let fields = self
            .get(key)
            .map(|field| field.one_or_more())
            .unwrap_or_default();
        fields.iter().filter_map(read).collect()
    }

    /// The section below a key; the key may be without a value.
    pub(crate) fn subsection(&mut self, key: &'static str) -> Option<Field<'a>> {
        self.known.push(key);
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        Some(Field {
            path: child_path(&self.field.path, key),
            node: &entry.node,
            context: self.field.context,
        })
    }

    /// The value of a key that must be present; `what` is a hint what to write.
    pub(crate) fn need(&mut self, key: &'static str, what: &str) -> Option<Field<'a>> {
        self.note_if_missing(key, what);
        self.get(key)
    }

    /// The section below a key that must be present.
    pub(crate) fn need_subsection(&mut self, key: &'static str, what: &str) -> Option<Field<'a>> {
        self.note_if_missing(key, what);
        self.subsection(key)
    }

    /// Notes that a key is missing, at the position of its section.
    fn note_if_missing(&self, key: &'static str, what: &str) {
        if !self.has(key) && !self.is_off {
            let at = Some(self.field.node.at.clone());
            self.note(Mistake::new(
                at,
                child_path(&self.field.path, key),
                format!("is missing: {what}"),
            ));
        }
    }

    /// Returns true when a key is present. Does not make it known.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == key)
    }

    /// The keys among these that are present.
    pub(crate) fn present(&self, keys: &[&'static str]) -> Vec<&'static str> {
        keys.iter().copied().filter(|key| self.has(key)).collect()
    }

    /// The value of the first of these keys that is present, or the section itself: the position of
    /// a mistake about several keys.
    pub(crate) fn first_of(&self, keys: &[&'static str]) -> Field<'a> {
        let find = |key: &&str| self.entries.iter().find(|entry| entry.key == **key);
        match keys.iter().find_map(find) {
            Some(entry) => Field {
                path: child_path(&self.field.path, &entry.key),
                node: &entry.node,
                context: self.field.context,
            },
            None => self.field.clone(),
        }
    }

    /// The section as a field.
    pub(crate) fn field(&self) -> &Field<'a> {
        &self.field
    }

    /// Notes a mistake at a key that must not be present beside others.
    pub(crate) fn refuse(&mut self, key: &'static str, message: &str) {
        self.known.push(key);
        if let Some(entry) = self.entries.iter().find(|entry| entry.key == key) {
            self.note(Mistake::new(
                Some(entry.at.clone()),
                child_path(&self.field.path, key),
                message,
            ));
        }
    }

    /// Notes every key that was not asked for, with the known key that is most similar.
    pub(crate) fn note_unknown_keys(&self) {
        /// Searching a similar key takes time, and a hostile file may have many unknown ones.
        const GUESSES_MAX: usize = 50;
        let unknown = self
            .entries
            .iter()
            .filter(|entry| !self.known.contains(&entry.key.as_str()));
        for (number, entry) in unknown.enumerate() {
            let similar = if number < GUESSES_MAX {
                nearest(&entry.key, &self.known)
            } else {
                None
            };
            let message = match similar {
                _ if entry.key == "enabled" => {
                    "unknown key `enabled`: this cannot be turned off; leave it out for its defaults"
                        .to_owned()
                }
                Some(known) => format!(
                    "unknown key `{}`, did you mean `{known}`?",
                    plain(&entry.key)
                ),
                None => format!(
                    "unknown key `{}` (known: {})",
                    plain(&entry.key),
                    self.known.join(", ")
                ),
            };
            self.note(Mistake::new(
                Some(entry.at.clone()),
                self.field.path.as_str(),
                message,
            ));
        }
    }

    fn note(&self, mistake: Mistake) {
        self.field.context.mistakes.borrow_mut().push(mistake);
    }
}

/// The key as text for a message, cut and escaped, without quotes.
fn plain(key: &str) -> String {
    quoted(key).trim_matches('"').to_owned()
}

/// The known key that takes the fewest changes, if they are at most a third of its letters.
fn nearest(key: &str, known: &[&'static str]) -> Option<&'static str> {
    /// The time grows with the product of the lengths.
    const KEY_MAX: usize = 40;
    if key.len() > KEY_MAX {
        return None;
    }
    // `Max-Connections` is one change away from `max_connections`, not five.
    let lower = key.to_ascii_lowercase().replace('-', "_");
    let changes = known.iter().map(|known| (changes(&lower, known), *known));
    let (fewest, nearest) = changes.min()?;
    (fewest <= nearest.len().max(key.len()) / 3).then_some(nearest)
}

/// The edit distance of two texts: letters to insert, delete, replace or swap with their neighbour
/// (Damerau–Levenshtein with adjacent swaps). `rows[i][j]` is the distance of the first `i` letters
/// of one and the first `j` of the other.
fn changes(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut rows = vec![vec![0; other.len() + 1]; one.len() + 1];
    for (row, cells) in rows.iter_mut().enumerate() {
        cells[0] = row;
    }
    for (column, cell) in rows[0].iter_mut().enumerate() {
        *cell = column;
    }
    for i in 1..=one.len() {
        for j in 1..=other.len() {
            let differs = usize::from(one[i - 1] != other[j - 1]);
            let mut fewest = (rows[i - 1][j] + 1)
                .min(rows[i][j - 1] + 1)
                .min(rows[i - 1][j - 1] + differs);
            if i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1] {
                fewest = fewest.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = fewest;
        }
    }
    rows[one.len()][other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_that_was_meant_is_found() {
        let known = ["name", "burst", "rate", "max_connections", "on_failure"];
        for (written, meant) in [
            ("brust", Some("burst")),
            ("burts", Some("burst")),
            ("Burst", Some("burst")),
            ("rat", Some("rate")),
            ("max-connections", Some("max_connections")),
            ("maxConnections", Some("max_connections")),
            ("onfailure", Some("on_failure")),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(nearest(written, &known), meant, "{written:?}");
        }
    }
}
