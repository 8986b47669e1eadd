//! YAML, and JSON, which is YAML.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::options::{DuplicateKeyPolicy, NonFiniteFloatPolicy};
use serde_saphyr::{Error, Location, MessageFormatter, Spanned, UserMessageFormatter};

use super::{LEVELS_MAX, Placed, Raw, RawValue, TOO_DEEP, repeated_key, visible};
use crate::mistakes::{Mistake, Position};

/// Reads the text. Invalid YAML ends the reading. A key that occurs twice is noted, and the text is
/// read again with the first of the two, so that other mistakes are found as well.
pub(super) fn parse(text: &str) -> Result<(Raw, Vec<Mistake>), Mistake> {
    let one = |duplicate_keys| options(duplicate_keys, 2);
    let strict = serde_saphyr::from_str_with_options::<Raw>(text, one(DuplicateKeyPolicy::Error));
    match strict {
        Ok(tree) => Ok((tree, Vec::new())),
        Err(error @ Error::DuplicateMappingKey { .. }) => {
            let duplicate = mistake(&error);
            let tree =
                serde_saphyr::from_str_with_options(text, one(DuplicateKeyPolicy::FirstWins));
            tree.map(|tree| (tree, vec![duplicate]))
                .map_err(|error| mistake(&error))
        }
        Err(error) => Err(mistake(&error)),
    }
}

/// Reads a text of several documents, as other programs write them.
pub(super) fn parse_documents(text: &str) -> Result<Vec<Raw>, Mistake> {
    const DOCUMENTS_MAX: usize = 1_000;
    let options = options(DuplicateKeyPolicy::Error, DOCUMENTS_MAX);
    serde_saphyr::from_multiple_with_options(text, options).map_err(|error| mistake(&error))
}

/// Bounds that no honest configuration comes near. Those on aliases keep a few lines from expanding
/// to gigabytes.
fn options(duplicate_keys: DuplicateKeyPolicy, documents_max: usize) -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: usize::from(LEVELS_MAX),
            flow_nesting_limit: usize::from(LEVELS_MAX),
            max_documents: documents_max,
            max_aliases: 1_000,
            max_anchors: 1_000,
            max_merge_keys: 1_000,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 100_000,
            max_replay_stack_depth: 16,
        },
        duplicate_keys: duplicate_keys,
        strict_booleans: true,
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        reject_unsupported_tags: true,
        with_snippet: false,
    }
}

/// The parser's error as a mistake at its position.
fn mistake(error: &Error) -> Mistake {
    let at = error.location().map(|location| Position::from(&location));
    Mistake::new(at, "", message(error))
}

/// The parser's error in our words, where its own would puzzle a reader of configurations.
fn message(error: &Error) -> String {
    match error {
        Error::AliasError { error, .. } => message(error),
        Error::DuplicateMappingKey { key: Some(key), .. } => repeated_key(key),
        Error::Budget { .. } => TOO_DEEP.to_owned(),
        Error::AliasReplayLimitExceeded { .. } | Error::AliasReplayStackDepthExceeded { .. } => {
            "has aliases that expand to too much".to_owned()
        }
        Error::RecursiveReferencesRequireWeakTypes { .. } => {
            "has an alias that contains itself".to_owned()
        }
        error => visible(&UserMessageFormatter.format_message(error)),
    }
}

/// A position that the parser does not know lies beyond every text, so that no line is shown for
/// it.
impl From<&Location> for Position {
    fn from(location: &Location) -> Self {
        let start = location
            .span()
            .byte_offset()
            .and_then(|start| usize::try_from(start).ok());
        let length = location
            .span()
            .byte_len()
            .and_then(|length| usize::try_from(length).ok());
        let start = start.unwrap_or(usize::MAX);
        Self {
            line: location.line(),
            column: location.column(),
            span: (start, start.saturating_add(length.unwrap_or(0))),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Placed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<T>::deserialize(deserializer)?;
        Ok(Self {
            at: Position::from(&spanned.referenced),
            value: spanned.value,
        })
    }
}

impl<'de> Deserialize<'de> for RawValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

/// Accepts every kind of YAML value.
struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = RawValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value, a list or a section")
    }

    fn visit_unit<E: de::Error>(self) -> Result<RawValue, E> {
        Ok(RawValue::Null)
    }

    fn visit_none<E: de::Error>(self) -> Result<RawValue, E> {
        Ok(RawValue::Null)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<RawValue, E> {
        Ok(RawValue::Bool(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<RawValue, E> {
        Ok(RawValue::Whole(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<RawValue, E> {
        Ok(u64::try_from(value).map_or(RawValue::Negative(value), RawValue::Whole))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<RawValue, E> {
        Ok(RawValue::Fraction(value))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<RawValue, E> {
        Ok(RawValue::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<RawValue, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(RawValue::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<RawValue, A::Error> {
        let mut section = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            section.push(entry);
        }
        Ok(RawValue::Section(section))
    }
}
