//! YAML, JSON and TOML files of other programs, read as trees.
//!
//! Their keys are not ours, so a key that an importer does not ask for is no mistake. Values are
//! read through [`Field`], so a mistake in one is reported with its path and its line.

use std::cell::RefCell;
use std::ops::Range;

use toml::de::{DeTable, DeValue};

use crate::expand::Origin;
use crate::field::{Field, ReadContext};
use crate::mistakes::{Mistake, Mistakes, Position};
use crate::tree::{Entry, MistakeLog, Node, Value, child_path, verbatim};
use crate::{Source, raw, redact};

/// The syntax of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Syntax {
    /// Also JSON, which is YAML.
    Yaml,
    Toml,
}

/// Reads all documents of a file and converts them. The result is given out only when there was no
/// mistake.
pub(super) fn read<T>(
    source: &Source,
    syntax: Syntax,
    convert: impl FnOnce(&[Field<'_>]) -> Option<T>,
) -> Result<T, Mistakes> {
    let report = |list| Mistakes::new(&source.name, redact::redacted(&source.text), list);
    let nodes = match syntax {
        Syntax::Yaml => raw::parse_documents(&source.text)
            .map(|documents| documents.into_iter().map(verbatim).collect()),
        Syntax::Toml => toml_node(&source.text).map(|node| vec![node]),
    };
    let nodes: Vec<Node> = nodes.map_err(|mistake| report(vec![mistake]))?;
    let mistakes = MistakeLog::default();
    let context = ReadContext {
        base_dir: &source.base_dir,
        mistakes: &mistakes,
        switched_off: RefCell::default(),
        body_files: RefCell::default(),
    };
    let field = |node| Field {
        path: String::new(),
        node,
        context: &context,
    };
    let fields: Vec<Field<'_>> = nodes.iter().map(field).collect();
    if fields.is_empty() {
        return Err(Mistakes::whole(&source.name, "is empty"));
    }
    match (convert(&fields), mistakes.take()) {
        (Some(converted), mistakes) if mistakes.is_empty() => Ok(converted),
        (_, mistakes) => Err(report(mistakes)),
    }
}

impl<'a> Field<'a> {
    /// The value of a key, whatever the case of its letters; `None` when it is absent or empty.
    pub(super) fn child(&self, key: &str) -> Option<Field<'a>> {
        let Value::Section(entries) = &self.node.value else {
            return None;
        };
        let entry = entries
            .iter()
            .find(|entry| entry.key.eq_ignore_ascii_case(key))?;
        (!matches!(entry.node.value, Value::Null)).then(|| Field {
            path: child_path(&self.path, &entry.key),
            node: &entry.node,
            context: self.context,
        })
    }

    /// The value at the end of a path of keys.
    pub(super) fn at(&self, keys: &[&str]) -> Option<Field<'a>> {
        keys.iter()
            .try_fold(self.clone(), |field, key| field.child(key))
    }

    /// The entries below a key; none when the key is absent.
    pub(super) fn children(&self, key: &str) -> Vec<(&'a str, Field<'a>)> {
        self.child(key)
            .and_then(|field| field.entries())
            .unwrap_or_default()
    }

    /// The values of a list below a key; none when the key is absent.
    pub(super) fn items(&self, key: &str) -> Vec<Field<'a>> {
        self.child(key)
            .map(|field| field.one_or_more())
            .unwrap_or_default()
    }

    /// The texts of a list below a key.
    pub(super) fn texts(&self, key: &str) -> Vec<String> {
        let fields = self.items(key);
        fields.iter().filter_map(Field::plain_text).collect()
    }

    /// The text below a key.
    pub(super) fn text_at(&self, key: &str) -> Option<String> {
        self.child(key)?.plain_text()
    }

    /// The whole number below a key.
    pub(super) fn whole_at(&self, key: &str) -> Option<u64> {
        self.child(key)?.whole_number(0..=u64::from(u32::MAX))
    }

    /// The boolean below a key, or the default.
    pub(super) fn flag_at(&self, key: &str, default: bool) -> bool {
        self.child(key)
            .and_then(|field| field.boolean())
            .unwrap_or(default)
    }

    /// The value as text: where others expect text, YAML may read a number or a boolean.
    pub(super) fn plain_text(&self) -> Option<String> {
        match &self.node.value {
            Value::Whole(number) => Some(number.to_string()),
            Value::Negative(number) => Some(number.to_string()),
            Value::Fraction(number) => Some(number.to_string()),
            Value::Bool(on) => Some(on.to_string()),
            _ => self.any_text().map(str::to_owned),
        }
    }

    /// The line of the value, from 1.
    pub(super) fn line(&self) -> u64 {
        self.node.at.line
    }

    /// A duration as Go writes it, `1m30s` or `1.5s`, or a number of seconds; in milliseconds.
    pub(super) fn go_duration(&self) -> Option<u64> {
        let text = self.plain_text()?;
        let millis = go_millis(&text);
        if millis.is_none() {
            self.note_with_value("expected a duration such as 1s or 1m30s");
        }
        millis
    }
}

/// Milliseconds of a duration as Go writes it; a number alone is seconds.
pub(super) fn go_millis(text: &str) -> Option<u64> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return seconds.checked_mul(1_000);
    }
    let mut rest = text;
    let mut millis = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let (number, after) = rest.split_at(digits);
        let letters = after
            .find(|letter: char| letter.is_ascii_digit() || letter == '.')
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let length = match unit {
            "ns" => 0.000_001,
            "us" | "µs" => 0.001,
            "ms" => 1.0,
            "s" => 1_000.0,
            "m" => 60_000.0,
            "h" => 3_600_000.0,
            _ => return None,
        };
        millis += number.parse::<f64>().ok()? * length;
        rest = after;
    }
    // A century is more than any limit has.
    let is_fine = !text.is_empty() && (1.0..3.2e12).contains(&millis);
    is_fine.then_some(millis.round() as u64)
}

/// Reads TOML into the same tree as YAML.
fn toml_node(text: &str) -> Result<Node, Mistake> {
    let lines = LineStarts::of(text);
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map(|span| lines.position(text, span));
        Mistake::new(at, "", error.message().replace('\n', " "))
    })?;
    let span = table.span();
    Ok(Node {
        value: toml_section(table.get_ref(), text, &lines),
        at: lines.position(text, span),
        origin: Origin::default(),
    })
}

fn toml_section(table: &DeTable<'_>, text: &str, lines: &LineStarts) -> Value {
    let entries = table.iter().map(|(key, value)| Entry {
        key: key.get_ref().to_string(),
        at: lines.position(text, key.span()),
        node: toml_value(value.get_ref(), value.span(), text, lines),
    });
    Value::Section(entries.collect())
}

fn toml_value(value: &DeValue<'_>, span: Range<usize>, text: &str, lines: &LineStarts) -> Node {
    let node_value = match value {
        DeValue::String(string) => Value::Text(string.to_string()),
        DeValue::Integer(number) => {
            let signed = i128::from_str_radix(number.as_str(), number.radix()).unwrap_or(i128::MAX);
            match (u64::try_from(signed), i64::try_from(signed)) {
                (Ok(number), _) => Value::Whole(number),
                (_, Ok(number)) => Value::Negative(number),
                _ => Value::Fraction(signed as f64),
            }
        }
        DeValue::Float(number) => Value::Fraction(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(on) => Value::Bool(*on),
        DeValue::Datetime(time) => Value::Text(time.to_string()),
        DeValue::Array(items) => {
            let node = |item: &toml::Spanned<DeValue<'_>>| {
                toml_value(item.get_ref(), item.span(), text, lines)
            };
            Value::List(items.iter().map(node).collect())
        }
        DeValue::Table(table) => toml_section(table, text, lines),
    };
    Node {
        value: node_value,
        at: lines.position(text, span),
        origin: Origin::default(),
    }
}

/// Where each line of a text begins.
struct LineStarts(Vec<usize>);

impl LineStarts {
    fn of(text: &str) -> Self {
        let after_ends = text.match_indices('\n').map(|(end, _)| end + 1);
        Self(std::iter::once(0).chain(after_ends).collect())
    }

    fn position(&self, text: &str, span: Range<usize>) -> Position {
        let line = self.0.partition_point(|start| *start <= span.start);
        let line_start = self.0.get(line.saturating_sub(1)).copied().unwrap_or(0);
        let before = text.get(line_start..span.start).unwrap_or_default();
        Position {
            line: line as u64,
            column: before.chars().count() as u64 + 1,
            span: (span.start, span.end),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_go_are_read() {
        for (text, millis) in [
            ("1s", Some(1_000)),
            ("1m30s", Some(90_000)),
            ("1.5s", Some(1_500)),
            ("100ms", Some(100)),
            ("10", Some(10_000)),
            ("1h", Some(3_600_000)),
            ("", None),
            ("s", None),
            ("1d", None),
            ("-1s", None),
            ("1s2", None),
        ] {
            assert_eq!(go_millis(text), millis, "{text}");
        }
    }
}
