//! The file with its references to the environment and to other files filled in.

use std::cell::RefCell;

use serde_saphyr::Spanned;

use crate::expand::{Expander, Reference};
use crate::mistakes::{At, Mistake};
use crate::raw::{Raw, RawValue};

/// A value and what is known about it.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) at: At,
    /// Where it came from.
    pub(crate) origin: Origin,
}

/// What a node is.
#[derive(Debug)]
pub(crate) enum Value {
    Nothing,
    Switch(bool),
    Whole(u64),
    Negative(i64),
    Fraction(f64),
    Text(String),
    List(Vec<Node>),
    Section(Vec<Entry>),
    /// What could not be read, and has been told of.
    Broken,
}

/// A key and its value.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) at: At,
    pub(crate) node: Node,
}

/// Where a value came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Whether there was a `${…}` in it: then numbers may stand there as text.
    pub(crate) expanded: bool,
    /// What messages say instead of the value, when it came from outside.
    pub(crate) hidden: Option<&'static str>,
    /// The reference, when it was the whole value.
    pub(crate) whole: Option<Reference>,
}

/// Mistakes so far.
pub(crate) type Notes = RefCell<Vec<Mistake>>;

/// Fills in every reference; one that leads nowhere is a mistake at its place.
pub(crate) fn grow(raw: Raw, path: &str, expander: &mut Expander<'_>, notes: &Notes) -> Node {
    let at = At::from(&raw.referenced);
    let mut origin = Origin::default();
    let value = match raw.value {
        RawValue::Nothing => Value::Nothing,
        RawValue::Switch(on) => Value::Switch(on),
        RawValue::Whole(number) => Value::Whole(number),
        RawValue::Negative(number) => Value::Negative(number),
        RawValue::Fraction(number) => Value::Fraction(number),
        RawValue::Text(text) => match expander.expand(text) {
            Ok((text, from)) => {
                origin = from;
                Value::Text(text)
            }
            Err(why) => {
                notes
                    .borrow_mut()
                    .push(Mistake::new(Some(at.clone()), path, why));
                Value::Broken
            }
        },
        RawValue::List(items) => {
            let numbered = items.into_iter().enumerate();
            Value::List(
                numbered
                    .map(|(index, item)| grow(item, &format!("{path}[{index}]"), expander, notes))
                    .collect(),
            )
        }
        RawValue::Section(entries) => {
            let grown = |(key, node): (Spanned<String>, Raw)| {
                let node = grow(node, &below(path, &key.value), expander, notes);
                Entry {
                    at: At::from(&key.referenced),
                    key: key.value,
                    node,
                }
            };
            Value::Section(entries.into_iter().map(grown).collect())
        }
    };
    Node { value, at, origin }
}

/// The path of a key in a section.
pub(crate) fn below(path: &str, key: &str) -> String {
    // A key is anything at all until somebody has looked at it.
    let is_plain = !key.is_empty()
        && key
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    match (path, is_plain) {
        ("", true) => key.to_owned(),
        ("", false) => crate::item::quoted(key),
        (path, true) => format!("{path}.{key}"),
        (path, false) => format!("{path}.{}", crate::item::quoted(key)),
    }
}
