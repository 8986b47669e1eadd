//! The file with its references to the environment and to other files filled in.

use std::cell::RefCell;

use serde_saphyr::Spanned;

use crate::expand::{Expander, Reference};
use crate::mistakes::{Mistake, Position};
use crate::raw::{Raw, RawValue};

/// A value and what is known about it.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) at: Position,
    /// Where it came from.
    pub(crate) origin: Origin,
}

/// What a node is.
#[derive(Debug)]
pub(crate) enum Value {
    Null,
    Bool(bool),
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
    pub(crate) at: Position,
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
pub(crate) type MistakeLog = RefCell<Vec<Mistake>>;

/// Fills in every reference; one that leads nowhere is a mistake at its place.
pub(crate) fn expand(
    raw: Raw,
    path: &str,
    expander: &mut Expander<'_>,
    mistakes: &MistakeLog,
) -> Node {
    let at = Position::from(&raw.referenced);
    let mut origin = Origin::default();
    let value = match raw.value {
        RawValue::Null => Value::Null,
        RawValue::Bool(on) => Value::Bool(on),
        RawValue::Whole(number) => Value::Whole(number),
        RawValue::Negative(number) => Value::Negative(number),
        RawValue::Fraction(number) => Value::Fraction(number),
        RawValue::Text(text) => match expander.expand(text) {
            Ok((text, from)) => {
                origin = from;
                Value::Text(text)
            }
            Err(why) => {
                mistakes
                    .borrow_mut()
                    .push(Mistake::new(Some(at.clone()), path, why));
                Value::Broken
            }
        },
        RawValue::List(items) => {
            let numbered = items.into_iter().enumerate();
            Value::List(
                numbered
                    .map(|(index, item)| {
                        expand(item, &format!("{path}[{index}]"), expander, mistakes)
                    })
                    .collect(),
            )
        }
        RawValue::Section(entries) => {
            let grown = |(key, node): (Spanned<String>, Raw)| {
                let node = expand(node, &child_path(path, &key.value), expander, mistakes);
                Entry {
                    at: Position::from(&key.referenced),
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
pub(crate) fn child_path(path: &str, key: &str) -> String {
    // A key is anything at all until somebody has looked at it.
    let is_plain = !key.is_empty()
        && key
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    match (path, is_plain) {
        ("", true) => key.to_owned(),
        ("", false) => crate::field::quoted(key),
        (path, true) => format!("{path}.{key}"),
        (path, false) => format!("{path}.{}", crate::field::quoted(key)),
    }
}
