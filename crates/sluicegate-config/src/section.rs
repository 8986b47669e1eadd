//! Reading a section: the keys that are known, and a word about those that are not.

use crate::field::{Field, quoted};
use crate::mistakes::Mistake;
use crate::tree::{Entry, Value, child_path};

/// A section that is being read.
#[derive(Debug)]
pub(crate) struct Section<'a> {
    field: Field<'a>,
    entries: &'a [Entry],
    /// Every key that was asked for.
    known: Vec<&'static str>,
}

impl<'a> Section<'a> {
    pub(crate) fn new(field: Field<'a>, entries: &'a [Entry]) -> Self {
        Self {
            field,
            entries,
            known: Vec::new(),
        }
    }

    /// The value of a key; `None` when it is not there.
    ///
    /// A key without a value is a mistake, except where a section is expected: see
    /// [`Section::sub`].
    pub(crate) fn get(&mut self, key: &'static str) -> Option<Field<'a>> {
        let found = self.subsection(key)?;
        if matches!(found.node.value, Value::Null) {
            found.note("has no value; leave the key out");
            return None;
        }
        Some(found)
    }

    /// What a key says, or what holds without it. What cannot be read has been noted, and the
    /// default stands in for it.
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

    /// The same for a key that may be left out.
    pub(crate) fn optional<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&Field<'a>) -> Option<T>,
    ) -> Option<T> {
        self.get(key).and_then(|field| read(&field))
    }

    /// The same for text in which an empty one means that there is none.
    pub(crate) fn text_or_none(&mut self, key: &'static str) -> Option<String> {
        self.optional(key, |field| field.any_text())
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
    }

    /// The same for a list, which may be one value without its brackets.
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

    /// The section of a key, which may stand there without a value.
    pub(crate) fn subsection(&mut self, key: &'static str) -> Option<Field<'a>> {
        self.known.push(key);
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        Some(Field {
            path: child_path(&self.field.path, key),
            node: &entry.node,
            context: self.field.context,
        })
    }

    /// The value of a key that must be there; `what` says what it is.
    pub(crate) fn need(&mut self, key: &'static str, what: &str) -> Option<Field<'a>> {
        self.note_if_missing(key, what);
        self.get(key)
    }

    /// The same for a section.
    pub(crate) fn need_subsection(&mut self, key: &'static str, what: &str) -> Option<Field<'a>> {
        self.note_if_missing(key, what);
        self.subsection(key)
    }

    fn note_if_missing(&self, key: &'static str, what: &str) {
        if !self.has(key) {
            let at = Some(self.field.node.at.clone());
            self.note(Mistake::new(
                at,
                child_path(&self.field.path, key),
                format!("is missing: {what}"),
            ));
        }
    }

    /// Whether a key is there.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == key)
    }

    /// Which of these keys are there.
    pub(crate) fn present(&self, keys: &[&'static str]) -> Vec<&'static str> {
        keys.iter().copied().filter(|key| self.has(key)).collect()
    }

    /// The first of these keys that is there, or the section itself.
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

    /// The section as a value.
    pub(crate) fn field(&self) -> &Field<'a> {
        &self.field
    }

    /// Notes that a key is there and must not be.
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

    /// Notes every key that nobody asked for, with the known key that is most like it.
    pub(crate) fn note_unknown_keys(&self) {
        /// Looking for the key that was meant takes a while; nobody misspells this many.
        const GUESSES_MAX: usize = 50;
        let unknown = self
            .entries
            .iter()
            .filter(|entry| !self.known.contains(&entry.key.as_str()));
        for (number, entry) in unknown.enumerate() {
            let meant = if number < GUESSES_MAX {
                nearest(&entry.key, &self.known)
            } else {
                None
            };
            let message = match meant {
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

fn plain(key: &str) -> String {
    quoted(key).trim_matches('"').to_owned()
}

/// The known key that takes the fewest changes, if they are few.
fn nearest(key: &str, known: &[&'static str]) -> Option<&'static str> {
    const KEY_MAX: usize = 40;
    if key.len() > KEY_MAX {
        return None;
    }
    let lower = key.to_ascii_lowercase().replace('-', "_");
    let changes = known.iter().map(|known| (changes(&lower, known), *known));
    let (fewest, nearest) = changes.min()?;
    (fewest <= nearest.len().max(key.len()) / 3).then_some(nearest)
}

/// Letters to put in, leave out, replace or swap with their neighbour until one text is the other.
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
