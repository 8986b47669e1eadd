//! The file of API keys: a YAML list of ids, each with the SHA-256 of its key and with claims.
//!
//! ```yaml
//! - id: ann
//!   sha256: 2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b
//!   claims: { plan: gold }
//! ```
//!
//! Every mistake is reported at once, with its line and column and what was expected there.
//! Messages never repeat what is in the file: somebody may have written the key itself in place of
//! its hash. That is why the fields are read by hand and the YAML parser's own messages are
//! replaced.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::Path;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};
use sluicegate_core::Principal;

use super::api_keys::KeyDigest;
use super::{bounded_file, is_principal_id};

/// One entry of the file, checked.
pub(super) struct KeyOwner {
    pub(super) digest: KeyDigest,
    pub(super) principal: Principal,
}

/// All entries of the file, or all mistakes in it.
pub(super) fn read(path: &Path) -> Result<Vec<KeyOwner>, Vec<String>> {
    let text = bounded_file::read_text(path, BYTES_MAX).map_err(|mistake| vec![mistake])?;
    parse(&text).map_err(|mistakes| {
        mistakes
            .iter()
            .map(|mistake| format!("{}:{mistake}", path.display()))
            .collect()
    })
}

/// The largest file in bytes: some 400,000 keys.
const BYTES_MAX: u64 = 64 << 20;

/// Parses the YAML and checks each entry. The budget bounds what aliases can expand to.
fn parse(text: &str) -> Result<Vec<KeyOwner>, Vec<KeyFileMistake>> {
    let options = serde_saphyr::options! {
        with_snippet: false,
        budget: serde_saphyr::budget! { max_events: 16_000_000, max_nodes: 8_000_000 },
    };
    let raw: RawKeyFile = serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| vec![yaml_mistake(&error)])?;
    let mut reader = EntryChecker::default();
    for place in &raw.unknown {
        reader.add_mistake(*place, "unknown field, expected keys".to_owned());
    }
    let mut owners = Vec::new();
    for (index, entry) in raw.entries.into_iter().enumerate() {
        owners.extend(reader.owner(index, entry));
    }
    reader
        .mistakes
        .sort_by_key(|mistake| (mistake.line, mistake.column));
    if reader.mistakes.is_empty() {
        Ok(owners)
    } else {
        Err(reader.mistakes)
    }
}

/// Checks entries one by one, remembers what must not occur twice and collects mistakes.
#[derive(Default)]
struct EntryChecker {
    /// The index of the entry with each id.
    ids: HashMap<String, usize>,
    /// The index of the entry with each digest.
    digests: HashMap<KeyDigest, usize>,
    mistakes: Vec<KeyFileMistake>,
}

impl EntryChecker {
    /// The owner in an entry; `None` if it has a mistake, which is collected.
    fn owner(&mut self, index: usize, entry: Spanned<RawKeyEntry>) -> Option<KeyOwner> {
        let Spanned {
            value: entry,
            referenced: place,
            ..
        } = entry;
        for unknown in entry.unknown {
            self.add_mistake(
                unknown,
                format!("keys[{index}]: unknown field, expected id, sha256 or claims"),
            );
        }
        let id = self.id(index, entry.id, place);
        let digest = self.digest(index, entry.sha256, place);
        let claims = self.claims(index, entry.claims);
        Some(KeyOwner {
            digest: digest?,
            principal: Principal { id: id?, claims },
        })
    }

    fn id(&mut self, index: usize, id: FieldText, entry: Location) -> Option<String> {
        let (id, place) = text_and_location(id, entry);
        let Some(id) = id.filter(|id| is_principal_id(id)) else {
            self.add_mistake(
                place,
                format!("keys[{index}].id: expected 1 to 256 bytes without control characters"),
            );
            return None;
        };
        if let Some(other) = self.ids.insert(id.clone(), index) {
            self.add_mistake(
                place,
                format!(
                    "keys[{index}].id: used by keys[{other}] already, expected a different one"
                ),
            );
        }
        Some(id)
    }

    fn digest(&mut self, index: usize, sha256: FieldText, entry: Location) -> Option<KeyDigest> {
        let (hex, place) = text_and_location(sha256, entry);
        let Some(digest) = hex.as_deref().and_then(digest_from_hex) else {
            let what = format!(
                "keys[{index}].sha256: expected the SHA-256 of the key as 64 hexadecimal digits"
            );
            self.add_mistake(place, what);
            return None;
        };
        if let Some(other) = self.digests.insert(digest, index) {
            self.add_mistake(
                place,
                format!(
                    "keys[{index}].sha256: used by keys[{other}] already, expected a different one"
                ),
            );
        }
        Some(digest)
    }

    fn claims(&mut self, index: usize, claims: RawClaims) -> BTreeMap<String, String> {
        let mut known = BTreeMap::new();
        for (name, value) in claims.0 {
            match value.value {
                Some(text) if !name.is_empty() => drop(known.insert(name, text)),
                _ => self.add_mistake(
                    value.referenced,
                    format!("keys[{index}].claims: expected a name and a value"),
                ),
            }
        }
        known
    }

    fn add_mistake(&mut self, place: Location, what: String) {
        self.mistakes.push(KeyFileMistake {
            line: place.line(),
            column: place.column(),
            what,
        });
    }
}

/// The text of a field, and its place; for a missing field, the place of the entry.
fn text_and_location(text: FieldText, entry: Location) -> (Option<String>, Location) {
    text.map_or((None, entry), |text| (text.value, text.referenced))
}

/// A digest from 64 hexadecimal digits, in either case.
fn digest_from_hex(hex: &str) -> Option<KeyDigest> {
    let mut digest = [0; 32];
    if hex.len() != 2 * digest.len() || !hex.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, at) in digest.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(hex.get(at..at + 2)?, 16).ok()?;
    }
    Some(digest)
}

/// A mistake in the file, with its place, both counted from 1.
#[derive(Debug, PartialEq)]
struct KeyFileMistake {
    line: u64,
    column: u64,
    what: String,
}

impl fmt::Display for KeyFileMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.what)
    }
}

/// A mistake that the YAML parser found, in our words: its own may repeat what is in the file.
fn yaml_mistake(error: &serde_saphyr::Error) -> KeyFileMistake {
    use serde_saphyr::Error;
    let what = match error {
        Error::SerdeInvalidType { expected, .. } | Error::SerdeInvalidValue { expected, .. } => {
            format!("expected {expected}")
        }
        Error::Unexpected {
            expected: "mapping start",
            ..
        } => "expected fields with values".to_owned(),
        Error::Unexpected {
            expected: "sequence start",
            ..
        } => "expected a list".to_owned(),
        Error::Unexpected {
            expected: "string scalar" | "scalar",
            ..
        } => "expected a text".to_owned(),
        Error::Eof { .. } => format!("expected {EXPECTED_LIST}"),
        Error::DuplicateMappingKey { .. } => "the same field again, expected it once".to_owned(),
        Error::MultipleDocuments { .. } => "expected one YAML document".to_owned(),
        _ => "expected valid YAML".to_owned(),
    };
    // A mistake without a place is about the whole file.
    let (line, column) = error
        .location()
        .map_or((1, 1), |place| (place.line(), place.column()));
    KeyFileMistake {
        line: line.max(1),
        column: column.max(1),
        what,
    }
}

/// The file before its checks, with the places of unknown fields.
#[derive(Default)]
struct RawKeyFile {
    entries: Vec<Spanned<RawKeyEntry>>,
    unknown: Vec<Location>,
}

/// An entry before its checks.
#[derive(Default)]
struct RawKeyEntry {
    id: FieldText,
    sha256: FieldText,
    claims: RawClaims,
    unknown: Vec<Location>,
}

/// Claims in the order of the file, with their places.
#[derive(Default)]
struct RawClaims(Vec<(String, Spanned<Option<String>>)>);

/// The text of a field: the outer `None` is a missing field, the inner one a field without a value.
type FieldText = Option<Spanned<Option<String>>>;

const EXPECTED_LIST: &str = "a list of keys, or `keys:` with such a list";

impl<'de> Deserialize<'de> for RawKeyFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FileVisitor;

        impl<'de> Visitor<'de> for FileVisitor {
            type Value = RawKeyFile;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(EXPECTED_LIST)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<RawKeyFile, A::Error> {
                let mut file = RawKeyFile::default();
                while let Some(entry) = entries.next_element()? {
                    file.entries.push(entry);
                }
                Ok(file)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<RawKeyFile, A::Error> {
                let mut file = RawKeyFile::default();
                while let Some(name) = fields.next_key::<String>()? {
                    match name.as_str() {
                        "keys" => file.entries = fields.next_value()?,
                        _ => file
                            .unknown
                            .push(fields.next_value::<Spanned<IgnoredAny>>()?.referenced),
                    }
                }
                Ok(file)
            }
        }

        deserializer.deserialize_any(FileVisitor)
    }
}

impl<'de> Deserialize<'de> for RawKeyEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntryVisitor;

        impl<'de> Visitor<'de> for EntryVisitor {
            type Value = RawKeyEntry;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("id, sha256 and claims")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<RawKeyEntry, A::Error> {
                let mut entry = RawKeyEntry::default();
                while let Some(name) = fields.next_key::<String>()? {
                    match name.as_str() {
                        "id" => entry.id = Some(fields.next_value()?),
                        "sha256" => entry.sha256 = Some(fields.next_value()?),
                        "claims" => entry.claims = fields.next_value()?,
                        _ => entry
                            .unknown
                            .push(fields.next_value::<Spanned<IgnoredAny>>()?.referenced),
                    }
                }
                Ok(entry)
            }
        }

        deserializer.deserialize_map(EntryVisitor)
    }
}

impl<'de> Deserialize<'de> for RawClaims {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ClaimsVisitor;

        impl<'de> Visitor<'de> for ClaimsVisitor {
            type Value = RawClaims;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("claims by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<RawClaims, A::Error> {
                let mut claims = RawClaims::default();
                while let Some(claim) = fields.next_entry()? {
                    claims.0.push(claim);
                }
                Ok(claims)
            }
        }

        deserializer.deserialize_map(ClaimsVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANN: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const BOB: &str = "BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB";

    fn mistakes(text: &str) -> Vec<String> {
        parse(text)
            .err()
            .unwrap_or_default()
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn both_forms_of_the_file_hold_the_same_keys() {
        let list = format!(
            "- id: ann\n  sha256: {ANN}\n  claims: {{ plan: gold, rate_factor: 0.50, beta: true }}\n- {{ id: 007, sha256: {BOB} }}\n"
        );
        let under_keys = format!("keys:\n{list}");
        for text in [list, under_keys] {
            let owners = parse(&text).ok().unwrap();
            let ann = Principal::new("ann")
                .claim("plan", "gold")
                .claim("rate_factor", "0.50")
                .claim("beta", "true");
            assert_eq!(owners[0].principal, ann);
            assert_eq!(owners[1].principal, Principal::new("007"));
            assert_eq!(
                [owners[0].digest, owners[1].digest],
                [[0xaa; 32], [0xbb; 32]]
            );
        }
        assert!(parse("[]").ok().unwrap().is_empty());
    }

    #[test]
    fn every_mistake_is_named_at_once_with_its_place() {
        let text = format!(
            "keys:\n  - id: ann\n    sha256: {ANN}\n  - id: ann\n    sha256: {ANN}\n  - id: ''\n    sha256: abc\n  \
             - sha256: {BOB}\n    key: plain\n    claims:\n      plan:\nversion: 1\n"
        );
        let expected = [
            "4:9: keys[1].id: used by keys[0] already, expected a different one",
            "5:13: keys[1].sha256: used by keys[0] already, expected a different one",
            "6:9: keys[2].id: expected 1 to 256 bytes without control characters",
            "7:13: keys[2].sha256: expected the SHA-256 of the key as 64 hexadecimal digits",
            "8:5: keys[3].id: expected 1 to 256 bytes without control characters",
            "9:10: keys[3]: unknown field, expected id, sha256 or claims",
            "11:11: keys[3].claims: expected a name and a value",
            "12:10: unknown field, expected keys",
        ];
        assert_eq!(mistakes(&text), expected);
    }

    #[test]
    fn what_has_another_form_is_refused_with_its_place() {
        let cases = [
            (
                "",
                "1:1: expected a list of keys, or `keys:` with such a list",
            ),
            (
                "plain-key",
                "1:1: expected a list of keys, or `keys:` with such a list",
            ),
            ("- plain-key", "1:3: expected fields with values"),
            ("keys: plain-key", "1:7: expected a list"),
            (
                "- {id: a, id: b}",
                "1:11: the same field again, expected it once",
            ),
            ("- {id: [a]}", "1:8: expected a text"),
            ("- {id: a", "1:3: expected valid YAML"),
            ("- {id: a, claims: {a: {b: c}}}", "1:23: expected a text"),
            ("--- []\n--- []", "2:5: expected one YAML document"),
        ];
        let found: Vec<_> = cases
            .iter()
            .map(|(text, _)| (*text, mistakes(text).join("; ")))
            .collect();
        assert_eq!(
            found,
            cases.map(|(text, expected)| (text, expected.to_owned()))
        );
    }

    #[test]
    fn digests_are_64_hexadecimal_digits_and_nothing_else() {
        assert_eq!(digest_from_hex(ANN), Some([0xaa; 32]));
        let shorter = &ANN[1..];
        let longer = format!("{ANN}a");
        let signed = format!("+{shorter}");
        let accented = format!("\u{e9}{}", &ANN[2..]);
        for wrong in ["", shorter, &longer, &signed, &accented, "0x"] {
            assert_eq!(digest_from_hex(wrong), None, "{wrong}");
        }
    }
}
