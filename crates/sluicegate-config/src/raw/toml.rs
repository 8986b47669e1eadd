//! TOML.
//!
//! The depth of a file is checked before it is parsed: the parser bounds brackets and the parts of
//! one key each, but their product is deeper than a stack is safe for.

use std::ops::Range;

use toml::de::{DeTable, DeValue, Error};
use toml_parser::parser::{EventReceiver, parse_document};
use toml_parser::{ErrorSink, Source, Span, decoder::Encoding};

use super::{LEVELS_MAX, Placed, Raw, RawValue, TOO_DEEP, repeated_key, visible};
use crate::mistakes::{Mistake, Position};

/// Reads the text, or reports every place where it is no TOML. Keys that occur twice are noted, and
/// the first of them counts.
pub(super) fn parse(text: &str) -> Result<(Raw, Vec<Mistake>), Vec<Mistake>> {
    let places = Places::of(text);
    if let Some(at) = too_deep(text) {
        return Err(vec![Mistake::new(Some(places.at(at)), "", TOO_DEEP)]);
    }
    let (table, errors) = DeTable::parse_recoverable(text);
    let is_complete = errors.iter().all(is_repeated_key);
    let mistakes = errors.iter().map(|error| places.mistake(error)).collect();
    if !is_complete {
        return Err(mistakes);
    }
    let tree = Placed {
        value: section(table.get_ref(), &places),
        at: places.at(0..0),
    };
    Ok((tree, mistakes))
}

fn is_repeated_key(error: &Error) -> bool {
    error.message() == "duplicate key"
}

/// The keys of a table, in the order of the file.
fn section(table: &DeTable<'_>, places: &Places<'_>) -> RawValue {
    let entry = |(key, value): (&toml::Spanned<_>, &toml::Spanned<_>)| {
        let text: &std::borrow::Cow<'_, str> = key.get_ref();
        let key = Placed {
            value: text.to_string(),
            at: places.at(key.span()),
        };
        (key, raw(value, places))
    };
    let mut entries: Vec<(Placed<String>, Raw)> = table.iter().map(entry).collect();
    entries.sort_by_key(|(key, _)| key.at.span);
    RawValue::Section(entries)
}

fn raw(spanned: &toml::Spanned<DeValue<'_>>, places: &Places<'_>) -> Raw {
    let value = match spanned.get_ref() {
        DeValue::String(text) => RawValue::Text(text.to_string()),
        DeValue::Integer(number) => whole(number.as_str(), number.radix()),
        DeValue::Float(number) => RawValue::Fraction(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(on) => RawValue::Bool(*on),
        DeValue::Datetime(time) => RawValue::Text(time.to_string()),
        DeValue::Array(items) => {
            RawValue::List(items.iter().map(|item| raw(item, places)).collect())
        }
        DeValue::Table(table) => section(table, places),
    };
    Placed {
        value,
        at: places.at(spanned.span()),
    }
}

/// A whole number; one beyond 64 bits is a number all the same, as in YAML.
fn whole(digits: &str, radix: u32) -> RawValue {
    match (
        u64::from_str_radix(digits, radix),
        i64::from_str_radix(digits, radix),
    ) {
        (Ok(number), _) => RawValue::Whole(number),
        (_, Ok(number)) => RawValue::Negative(number),
        _ => RawValue::Fraction(digits.parse().unwrap_or(f64::INFINITY)),
    }
}

/// Finds the line and the column of an offset without reading the whole line again.
struct Places<'a> {
    text: &'a str,
    /// Where each line begins.
    lines: Vec<usize>,
    /// The number of characters before each block of bytes.
    letters: Vec<usize>,
}

impl<'a> Places<'a> {
    /// Bytes of a block.
    const BLOCK: usize = 64;

    fn of(text: &'a str) -> Self {
        let after_ends = text.match_indices('\n').map(|(end, _)| end + 1);
        let mut letters = Vec::with_capacity(text.len() / Self::BLOCK + 1);
        let mut count = 0;
        for block in text.as_bytes().chunks(Self::BLOCK) {
            letters.push(count);
            count += letters_in(block);
        }
        letters.push(count);
        Self {
            text,
            lines: std::iter::once(0).chain(after_ends).collect(),
            letters,
        }
    }

    fn at(&self, span: Range<usize>) -> Position {
        let line = self.lines.partition_point(|start| *start <= span.start);
        let line_start = self.lines.get(line.saturating_sub(1)).copied();
        let before = self.letters_before(span.start);
        let column = before - self.letters_before(line_start.unwrap_or(0)) + 1;
        Position {
            line: line as u64,
            column: column as u64,
            span: (span.start, span.end),
        }
    }

    /// The number of characters that begin before an offset.
    fn letters_before(&self, offset: usize) -> usize {
        let offset = offset.min(self.text.len());
        let block = offset / Self::BLOCK;
        let rest = &self.text.as_bytes()[block * Self::BLOCK..offset];
        self.letters[block] + letters_in(rest)
    }

    /// The parser's error as a mistake at its position.
    fn mistake(&self, error: &Error) -> Mistake {
        let span = error.span();
        let found = span.clone().and_then(|span| self.text.get(span));
        Mistake::new(
            span.map(|span| self.at(span)),
            "",
            message(error, found.unwrap_or_default()),
        )
    }
}

/// The parser's error in our words, where its own would puzzle a reader of configurations. What was
/// found is not shown: it may be a password.
fn message(error: &Error, found: &str) -> String {
    if is_repeated_key(error) {
        return repeated_key(found.trim_matches(['"', '\'']));
    }
    match error.message() {
        message if !message.starts_with("string values must be quoted") => {
            visible(message.trim_end_matches(", expected nothing"))
        }
        _ if found.trim().is_empty() => "expected a value after `=`".to_owned(),
        _ => "expected a value; text must be in quotes".to_owned(),
    }
}

/// The number of characters that begin in these bytes of UTF-8.
fn letters_in(bytes: &[u8]) -> usize {
    let begins = |byte: &&u8| **byte & 0b1100_0000 != 0b1000_0000;
    bytes.iter().filter(begins).count()
}

/// The first bracket or key that is deeper than the bound.
fn too_deep(text: &str) -> Option<Range<usize>> {
    let mut depth = Depth::default();
    let tokens = Source::new(text).lex().into_vec();
    parse_document(&tokens, &mut depth, &mut ());
    depth.exceeded.map(|span| span.start()..span.end())
}

/// Counts the keys and brackets around the current place.
#[derive(Default)]
struct Depth {
    /// Of the current header: `[a.b]` is two.
    header: usize,
    in_header: bool,
    /// The parts of the current key, within the innermost bracket: `a.b` is two.
    key: usize,
    /// True behind a dot of a key.
    is_dotted: bool,
    /// For each open bracket, the parts of the key in front of it.
    brackets: Vec<usize>,
    /// The sum of `brackets`, and their number.
    around: usize,
    exceeded: Option<Span>,
}

impl Depth {
    fn check(&mut self, span: Span) -> bool {
        let is_fine = self.header + self.around + self.key <= usize::from(LEVELS_MAX);
        if !is_fine {
            self.exceeded.get_or_insert(span);
        }
        is_fine
    }

    fn open_header(&mut self) {
        *self = Self {
            in_header: true,
            exceeded: self.exceeded,
            ..Self::default()
        };
    }

    fn open(&mut self, span: Span) -> bool {
        self.brackets.push(self.key);
        self.around += self.key + 1;
        self.key = 0;
        self.check(span)
    }

    fn close(&mut self) {
        let Some(key) = self.brackets.pop() else {
            return;
        };
        self.around -= key + 1;
        self.key = key;
    }
}

impl EventReceiver for Depth {
    fn std_table_open(&mut self, _: Span, _: &mut dyn ErrorSink) {
        self.open_header();
    }

    fn std_table_close(&mut self, _: Span, _: &mut dyn ErrorSink) {
        self.in_header = false;
    }

    fn array_table_open(&mut self, _: Span, _: &mut dyn ErrorSink) {
        self.open_header();
    }

    fn array_table_close(&mut self, _: Span, _: &mut dyn ErrorSink) {
        self.in_header = false;
    }

    fn inline_table_open(&mut self, span: Span, _: &mut dyn ErrorSink) -> bool {
        self.open(span)
    }

    fn inline_table_close(&mut self, _: Span, _: &mut dyn ErrorSink) {
        self.close();
    }

    fn array_open(&mut self, span: Span, _: &mut dyn ErrorSink) -> bool {
        self.open(span)
    }

    fn array_close(&mut self, _: Span, _: &mut dyn ErrorSink) {
        self.close();
    }

    fn simple_key(&mut self, span: Span, _: Option<Encoding>, _: &mut dyn ErrorSink) {
        let is_dotted = std::mem::take(&mut self.is_dotted);
        match (self.in_header, is_dotted) {
            (true, _) => self.header += 1,
            (false, true) => self.key += 1,
            (false, false) => self.key = 1,
        }
        self.check(span);
    }

    fn key_sep(&mut self, _: Span, _: &mut dyn ErrorSink) {
        self.is_dotted = true;
    }
}
