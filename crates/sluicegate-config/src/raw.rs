//! The file as written: a tree of values in which each knows its position.
//!
//! Values are not interpreted here, and keys are not known. YAML and TOML become the same tree, so
//! nothing after this step knows which of the two a file was. The bounds on size and nesting keep a
//! hostile file from taking more time or memory than an honest one.

mod toml;
mod yaml;

use crate::message_text::quoted;
use crate::mistakes::{Mistake, Position};
use crate::source::Syntax;

/// Lists and sections within each other; no honest configuration comes near.
const LEVELS_MAX: u16 = 32;

/// A value and its position.
pub(crate) type Raw = Placed<RawValue>;

/// A key or a value with its position.
#[derive(Debug)]
pub(crate) struct Placed<T> {
    pub(crate) value: T,
    pub(crate) at: Position,
}

/// A value of the file. Numbers keep the kind that the file gives them, so that messages can show
/// them as written.
#[derive(Debug)]
pub(crate) enum RawValue {
    /// A key without a value; only YAML has it.
    Null,
    /// `true` or `false`; YAML's `yes` and `on` are text.
    Bool(bool),
    /// A whole number from 0.
    Whole(u64),
    /// A whole number below 0.
    Negative(i64),
    /// Any other number, also infinite ones and NaN: they are refused where they are read.
    Fraction(f64),
    /// Text; a date of TOML is text too, as in YAML.
    Text(String),
    List(Vec<Raw>),
    /// Keys and values, in the order of the file.
    Section(Vec<(Placed<String>, Raw)>),
}

/// Reads the text, or reports why it cannot be read. Keys that occur twice are no reason: they are
/// noted, and the first of them counts, so that other mistakes are found as well.
pub(crate) fn parse(text: &str, syntax: Syntax) -> Result<(Raw, Vec<Mistake>), Vec<Mistake>> {
    match syntax {
        Syntax::Yaml => yaml::parse(text).map_err(|mistake| vec![mistake]),
        Syntax::Toml => toml::parse(text),
    }
}

/// Reads a file of another program. YAML may hold several documents.
pub(crate) fn parse_documents(text: &str, syntax: Syntax) -> Result<Vec<Raw>, Vec<Mistake>> {
    match syntax {
        Syntax::Yaml => yaml::parse_documents(text).map_err(|mistake| vec![mistake]),
        Syntax::Toml => match toml::parse(text)? {
            (tree, repeated) if repeated.is_empty() => Ok(vec![tree]),
            (_, repeated) => Err(repeated),
        },
    }
}

/// The mistake of a key that occurs twice.
fn repeated_key(key: &str) -> String {
    format!("the key {} occurs twice", quoted(key))
}

/// The mistake of a file that goes beyond the bounds.
const TOO_DEEP: &str = "is too large or too deeply nested for a configuration";

/// The text with escapes in place of line ends and other control characters, which could change a
/// terminal.
fn visible(text: &str) -> String {
    let shown = |letter: char| match letter.is_control() {
        true => letter.escape_debug().to_string(),
        false => letter.to_string(),
    };
    text.chars().map(shown).collect()
}
