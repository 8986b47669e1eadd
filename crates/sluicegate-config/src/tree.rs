//! The tree of values with its references to the environment and to other files filled in.
//!
//! The same shape as `raw`, but every value also knows its origin: values from outside may be
//! secrets and stay out of messages, and numbers from outside are text.

use std::cell::RefCell;

use crate::expand::{Expander, Origin};
use crate::message_text::quoted;
use crate::mistakes::{Mistake, Position};
use crate::raw::{Placed, Raw, RawValue};

/// A value with its position and origin.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) at: Position,
    /// The origin of the value.
    pub(crate) origin: Origin,
}

/// A value after expansion.
#[derive(Debug)]
pub(crate) enum Value {
    /// A key without a value.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number from 0.
    Whole(u64),
    /// A whole number below 0.
    Negative(i64),
    /// Any other number, also infinite ones and NaN.
    Fraction(f64),
    /// Text, with its references filled in.
    Text(String),
    /// Values in order.
    List(Vec<Node>),
    /// Keys and values, in the order of the file.
    Section(Vec<Entry>),
    /// A value that could not be read; its mistake has been noted.
    Broken,
}

/// A key and its value.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) at: Position,
    pub(crate) node: Node,
}

/// The mistakes noted so far, shared by all readers.
pub(crate) type MistakeLog = RefCell<Vec<Mistake>>;

/// Fills in every reference; one that cannot be followed is a mistake at its position.
pub(crate) fn expand(
    raw: Raw,
    path: &str,
    expander: &mut Expander<'_>,
    mistakes: &MistakeLog,
) -> Node {
    let at = raw.at;
    let mut origin = Origin::default();
    let value = match raw.value {
        RawValue::Null => Value::Null,
        RawValue::Bool(on) => Value::Bool(on),
        RawValue::Whole(number) => Value::Whole(number),
        RawValue::Negative(number) => Value::Negative(number),
        RawValue::Fraction(number) => Value::Fraction(number),
        RawValue::Text(text) => match expander.expand(text, path) {
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
            let grown = |(key, node): (Placed<String>, Raw)| {
                let node = expand(node, &child_path(path, &key.value), expander, mistakes);
                Entry {
                    at: key.at,
                    key: key.value,
                    node,
                }
            };
            Value::Section(entries.into_iter().map(grown).collect())
        }
    };
    Node { value, at, origin }
}

/// The tree as written, for files of other programs: a `${` means nothing in them.
pub(crate) fn verbatim(raw: Raw) -> Node {
    let value = match raw.value {
        RawValue::Null => Value::Null,
        RawValue::Bool(on) => Value::Bool(on),
        RawValue::Whole(number) => Value::Whole(number),
        RawValue::Negative(number) => Value::Negative(number),
        RawValue::Fraction(number) => Value::Fraction(number),
        RawValue::Text(text) => Value::Text(text),
        RawValue::List(items) => Value::List(items.into_iter().map(verbatim).collect()),
        RawValue::Section(entries) => {
            let entry = |(key, node): (Placed<String>, Raw)| Entry {
                at: key.at,
                key: key.value,
                node: verbatim(node),
            };
            Value::Section(entries.into_iter().map(entry).collect())
        }
    };
    Node {
        value,
        at: raw.at,
        origin: Origin::default(),
    }
}

/// The path of a key in a section: `store.redis`; odd keys in quotes.
pub(crate) fn child_path(path: &str, key: &str) -> String {
    // Unknown keys can be any text, also with line ends.
    let is_plain = !key.is_empty()
        && key
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    match (path, is_plain) {
        ("", true) => key.to_owned(),
        ("", false) => quoted(key),
        (path, true) => format!("{path}.{key}"),
        (path, false) => format!("{path}.{}", quoted(key)),
    }
}
