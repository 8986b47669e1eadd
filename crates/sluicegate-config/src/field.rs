//! Reading one value: the right kind, in the right range, or a mistake at its position.
//!
//! A [`Field`] is a value with its path. Its methods convert it to what a section wants: text, a
//! number in a range, a duration, an address. A method that returns `None` has noted the mistake,
//! so callers put a default in its place and read on.

mod section;

use std::cell::RefCell;
use std::fmt::{self, Display};
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ipnet::IpNet;
use sluicegate_core::{Nanos, parse_duration};

use crate::message_text::{expected, one_of, quoted};
use crate::mistakes::Mistake;
use crate::tree::{MistakeLog, Node, Value, child_path};
use crate::typed::{BodyFile, ValueFile};

pub(crate) use section::Section;

/// The context that all fields of one file share.
pub(crate) struct ReadContext<'a> {
    /// The directory that relative file names start from.
    pub(crate) base_dir: &'a Path,
    /// The mistakes noted so far.
    pub(crate) mistakes: &'a MistakeLog,
    /// The paths of the sections that are turned off.
    pub(crate) switched_off: RefCell<Vec<String>>,
    /// Looks up variables of the environment.
    env: &'a dyn Fn(&str) -> Option<String>,
    /// Sentences about variables that cannot be used.
    pub(crate) warnings: RefCell<Vec<String>>,
    /// The files that were read with the configuration: bodies of rejections.
    pub(crate) body_files: RefCell<Vec<Arc<BodyFile>>>,
    /// The files that values were taken from.
    pub(crate) value_files: Vec<ValueFile>,
}

impl<'a> ReadContext<'a> {
    pub(crate) fn new(
        base_dir: &'a Path,
        mistakes: &'a MistakeLog,
        env: &'a dyn Fn(&str) -> Option<String>,
    ) -> Self {
        Self {
            base_dir,
            mistakes,
            switched_off: RefCell::default(),
            env,
            warnings: RefCell::default(),
            body_files: RefCell::default(),
            value_files: Vec::new(),
        }
    }

    /// A variable of the environment; an empty one counts as absent.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        (self.env)(name).filter(|value| !value.trim().is_empty())
    }

    /// Notes a sentence about the environment, once.
    pub(crate) fn warn(&self, warning: String) {
        let mut warnings = self.warnings.borrow_mut();
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
}

impl fmt::Debug for ReadContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReadContext")
    }
}

/// A value of the file with its path, ready to be converted.
///
/// Every method returns `None` for a value it cannot use, and has noted the mistake.
#[derive(Clone, Debug)]
pub(crate) struct Field<'a> {
    /// Such as `limits[2].burst`; empty for the whole file.
    pub(crate) path: String,
    pub(crate) node: &'a Node,
    pub(crate) context: &'a ReadContext<'a>,
}

impl<'a> Field<'a> {
    /// Notes a mistake, followed by the value: `must be at least 1 (got 0)`. Values from outside
    /// are not shown.
    pub(crate) fn note_with_value(&self, what: impl Display) {
        match self.node.origin.hidden {
            Some(hidden) => self.note(format!("{what} ({hidden})")),
            None => self.note(format!("{what} (got {})", self.got())),
        }
    }

    /// Notes a mistake without showing the value.
    pub(crate) fn note(&self, message: impl Into<String>) {
        let mistake = Mistake::new(Some(self.node.at.clone()), self.path.as_str(), message);
        self.context.mistakes.borrow_mut().push(mistake);
    }

    /// Notes a mistake about the value at a path below this one, at its position or at that of the
    /// last section on the way.
    pub(crate) fn note_at(&self, path: &str, message: &str) {
        let mut node = self.node;
        for key in path.split('.') {
            let Value::Section(entries) = &node.value else {
                break;
            };
            match entries.iter().find(|entry| entry.key == key) {
                Some(entry) => node = &entry.node,
                None => break,
            }
        }
        let mistake = Mistake::new(Some(node.at.clone()), path, message);
        self.context.mistakes.borrow_mut().push(mistake);
    }

    /// Notes the error of a parser. Its own `(got …)` is replaced by ours, which hides values from
    /// outside.
    fn note_parse_error(&self, text: &str, error: impl Display) {
        let message = error.to_string();
        match message.strip_suffix(&format!(" (got {text:?})")) {
            Some(what) => self.note_with_value(what),
            None if self.node.origin.hidden.is_some() => self.note_with_value("is not accepted"),
            None => self.note(message),
        }
    }

    /// The value in a few words. Not for values from outside.
    fn got(&self) -> String {
        match &self.node.value {
            Value::Null => "nothing".to_owned(),
            Value::Bool(on) => on.to_string(),
            Value::Whole(number) => number.to_string(),
            Value::Negative(number) => number.to_string(),
            Value::Fraction(number) => number.to_string(),
            Value::Text(text) => quoted(text),
            Value::List(_) => "a list".to_owned(),
            Value::Section(_) => "a section".to_owned(),
            Value::Broken => "something else".to_owned(),
        }
    }

    /// Notes that a value of another kind was expected, unless a mistake has been noted already.
    fn note_unexpected<T>(&self, expected: &str) -> Option<T> {
        if !matches!(self.node.value, Value::Broken) {
            self.note_with_value(format_args!("expected {expected}"));
        }
        None
    }

    /// The text, which may be empty.
    pub(crate) fn any_text(&self) -> Option<&'a str> {
        match &self.node.value {
            Value::Text(text) => Some(text),
            _ => self.note_unexpected("text"),
        }
    }

    /// The text; an empty one is a mistake.
    pub(crate) fn text(&self) -> Option<&'a str> {
        let text = self.any_text()?;
        if text.is_empty() {
            self.note("must not be empty");
            return None;
        }
        Some(text)
    }

    /// The text, converted by a parser.
    pub(crate) fn parsed<T, E: Display>(
        &self,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let text = self.text()?;
        parse(text)
            .map_err(|error| self.note_parse_error(text, error))
            .ok()
    }

    /// One of a few words, each with its meaning.
    pub(crate) fn word<T: Copy>(&self, words: &[(&str, T)]) -> Option<T> {
        let text = self.any_text()?;
        let known = words.iter().find(|(word, _)| *word == text);
        if known.is_none() {
            self.note_unknown_word(&words.iter().map(|(word, _)| *word).collect::<Vec<_>>());
        }
        known.map(|(_, meaning)| *meaning)
    }

    /// Notes that a word is unknown, and lists the known ones.
    pub(crate) fn note_unknown_word(&self, known: &[&str]) {
        let expected = one_of(known);
        match self.node.origin.hidden {
            Some(hidden) => self.note(format!("unknown {hidden} (expected {expected})")),
            None => self.note(format!(
                "unknown value {} (expected {expected})",
                self.got()
            )),
        }
    }

    /// `true` or `false`.
    pub(crate) fn boolean(&self) -> Option<bool> {
        match (&self.node.value, self.expanded_text()) {
            (Value::Bool(on), _) => Some(*on),
            (_, Some("true")) => Some(true),
            (_, Some("false")) => Some(false),
            _ => self.note_unexpected("true or false"),
        }
    }

    /// A whole number in a range.
    pub(crate) fn whole_number(&self, range: RangeInclusive<u64>) -> Option<u64> {
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let number = match &self.node.value {
            Value::Whole(number) => *number,
            // Out of range says more than a wrong kind.
            Value::Negative(_) => return self.note_out_of_range(range),
            Value::Fraction(number) if *number < 0.0 => return self.note_out_of_range(range),
            _ => match self
                .expanded_text()
                .filter(|text| digits(text))
                .and_then(|text| text.parse().ok())
            {
                Some(number) => number,
                None => return self.note_unexpected("a whole number"),
            },
        };
        if range.contains(&number) {
            Some(number)
        } else {
            self.note_out_of_range(range)
        }
    }

    /// A whole number of at least 1; `hint` says what to write instead of 0.
    pub(crate) fn at_least_one(&self, hint: &str) -> Option<u64> {
        let is_zero =
            matches!(self.node.value, Value::Whole(0)) || self.expanded_text() == Some("0");
        if is_zero {
            self.note_with_value(format_args!("must be at least 1; {hint}"));
            return None;
        }
        self.whole_number(1..=u64::MAX)
    }

    /// Notes the range that a number must be in.
    fn note_out_of_range<T>(&self, range: RangeInclusive<u64>) -> Option<T> {
        match (*range.start(), *range.end()) {
            (least, u64::MAX) => self.note_with_value(format_args!("must be at least {least}")),
            (least, most) => self.note_with_value(format_args!("must be {least} to {most}")),
        }
        None
    }

    /// A number, perhaps with a fraction.
    pub(crate) fn number(&self) -> Option<f64> {
        match &self.node.value {
            Value::Fraction(number) => Some(*number),
            Value::Whole(number) => Some(*number as f64),
            Value::Negative(number) => Some(*number as f64),
            _ => self
                .expanded_text()
                .and_then(|text| text.parse().ok())
                .or_else(|| self.note_unexpected("a number")),
        }
    }

    /// A duration in a range.
    pub(crate) fn duration(&self, range: RangeInclusive<Nanos>) -> Option<Nanos> {
        if matches!(
            self.node.value,
            Value::Whole(_) | Value::Negative(_) | Value::Fraction(_)
        ) {
            return self.note_unexpected("a duration with its unit, such as 30s");
        }
        let span = self.parsed(parse_duration)?;
        if !range.contains(&span) {
            match *range.end() {
                Nanos::MAX => {
                    self.note_with_value(format_args!("must be at least {}", range.start()))
                }
                most => self.note_with_value(format_args!("must be {} to {most}", range.start())),
            }
            return None;
        }
        Some(span)
    }

    /// A size in bytes in a range: a number, or one with a unit.
    pub(crate) fn size(&self, range: RangeInclusive<u64>) -> Option<u64> {
        let bytes = match &self.node.value {
            Value::Text(text) => match parse_size(text) {
                Some(bytes) => bytes,
                None => return self.note_unexpected("a size, such as 512, 64KiB, 1MiB or 1GiB"),
            },
            _ => return self.whole_number(range),
        };
        if range.contains(&bytes) {
            Some(bytes)
        } else {
            self.note_out_of_range(range)
        }
    }

    /// The name of a file; a relative one starts from the configuration's directory.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        self.text().map(|name| self.context.base_dir.join(name))
    }

    /// An IP address and port.
    pub(crate) fn socket(&self) -> Option<SocketAddr> {
        self.parsed(|text| {
            text.parse()
                .map_err(|_| expected("an IP address and port, such as 127.0.0.1:8080", text))
        })
    }

    /// A network, written with a prefix length or as one address.
    pub(crate) fn cidr(&self) -> Option<IpNet> {
        self.parsed(|text| {
            let net: IpNet = text
                .parse()
                .or_else(|_| text.parse::<IpAddr>().map(IpNet::from))
                .map_err(|_| expected("addresses such as 10.0.0.0/8 or 2001:db8::/32", text))?;
            match net.trunc() == net {
                true => Ok(net),
                false => Err(expected(
                    "a network whose address has no bits set after the prefix",
                    text,
                )),
            }
        })
    }

    /// The name of a header, in lower case.
    pub(crate) fn header_name(&self) -> Option<String> {
        let is_token = |text: &str| {
            text.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
        };
        self.parsed(|text| match is_token(text) {
            true => Ok(text.to_ascii_lowercase()),
            false => Err(expected("a header name", text)),
        })
    }

    /// The values of a list.
    pub(crate) fn list(&self) -> Option<Vec<Field<'a>>> {
        match &self.node.value {
            Value::List(nodes) => {
                let field = |(index, node)| Field {
                    path: format!("{}[{index}]", self.path),
                    node,
                    context: self.context,
                };
                Some(nodes.iter().enumerate().map(field).collect())
            }
            _ => self.note_unexpected("a list"),
        }
    }

    /// The values of a list; a single value counts as a list of one.
    pub(crate) fn one_or_more(&self) -> Vec<Field<'a>> {
        match &self.node.value {
            Value::List(_) => self.list().unwrap_or_default(),
            _ => vec![self.clone()],
        }
    }

    /// Reads a section. Keys that `read` does not ask for are mistakes, so `read` has to ask for
    /// every key that is known. A key without a value is a section without keys.
    pub(crate) fn section<T>(&self, read: impl FnOnce(&mut Section<'a>) -> T) -> Option<T> {
        let entries = match &self.node.value {
            Value::Section(entries) => entries.as_slice(),
            Value::Null => &[],
            _ => return self.note_unexpected("a section"),
        };
        let mut section = Section::new(self.clone(), entries);
        let result = read(&mut section);
        section.note_unknown_keys();
        Some(result)
    }

    /// Returns true for a section that has been read and that is turned off.
    pub(crate) fn is_switched_off(&self) -> bool {
        self.context.switched_off.borrow().contains(&self.path)
    }

    /// Returns true for `off`, which is text in YAML 1.2, and for `false`, which people mean by it.
    pub(crate) fn is_off(&self) -> bool {
        match &self.node.value {
            Value::Bool(on) => !on,
            Value::Text(text) => matches!(text.as_str(), "off" | "false"),
            _ => false,
        }
    }

    /// The keys and values of a section whose keys may be anything.
    pub(crate) fn entries(&self) -> Option<Vec<(&'a str, Field<'a>)>> {
        match &self.node.value {
            Value::Section(entries) => {
                let field = |key| Field {
                    path: child_path(&self.path, key),
                    ..self.clone()
                };
                Some(
                    entries
                        .iter()
                        .map(|entry| {
                            (
                                entry.key.as_str(),
                                Field {
                                    node: &entry.node,
                                    ..field(&entry.key)
                                },
                            )
                        })
                        .collect(),
                )
            }
            _ => self.note_unexpected("a section"),
        }
    }

    /// Text in which a `${…}` was filled in: it may be a number.
    fn expanded_text(&self) -> Option<&'a str> {
        match &self.node.value {
            Value::Text(text) if self.node.origin.expanded => Some(text),
            _ => None,
        }
    }
}

/// Reads a size in bytes with a binary unit. `1MB` is refused: it could mean 10^6 or 2^20.
fn parse_size(text: &str) -> Option<u64> {
    let end = text
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let shift = match unit.trim_start() {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests;
