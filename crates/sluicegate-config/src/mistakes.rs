//! Mistakes in a configuration, each with its position in the text.
//!
//! They are written in two ways: one line each for logs and scripts, and with the line of the file
//! underlined for people at a terminal.

use std::error::Error;
use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

/// A position in the text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    /// The line, from 1.
    pub(crate) line: u64,
    /// The column in characters, from 1.
    pub(crate) column: u64,
    /// Start and end in bytes of the whole text.
    pub(crate) span: (usize, usize),
}

/// One mistake: the place, the fact and the way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    at: Option<Position>,
    path: String,
    message: String,
}

impl Mistake {
    pub(crate) fn new(
        at: Option<Position>,
        path: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            at,
            path: path.into(),
            message: message.into(),
        }
    }

    /// The path of the value, such as `limits[2].burst`; empty for the text as a whole.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The value that was expected, and the one that was found.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Line and column, from 1; `None` for the text as a whole.
    pub fn place(&self) -> Option<(u64, u64)> {
        self.at.as_ref().map(|at| (at.line, at.column))
    }
}

/// Written as `limits[2].burst: must be at least 1 (got 0)`.
impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.message),
            path => write!(f, "{path}: {}", self.message),
        }
    }
}

/// Every mistake in a configuration, in the order of the text; never empty.
///
/// No message contains a value that came from the environment or from another file: they may be
/// secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistakes {
    source_name: String,
    /// The text with its passwords redacted.
    source_text: String,
    list: Vec<Mistake>,
}

impl Mistakes {
    pub(crate) fn new(source_name: &str, source_text: String, mut list: Vec<Mistake>) -> Self {
        list.sort_by(|one, other| one.at.cmp(&other.at));
        list.dedup();
        Self {
            source_name: source_name.to_owned(),
            source_text,
            list,
        }
    }

    /// One mistake about the text as a whole.
    pub(crate) fn whole(source_name: &str, message: impl Into<String>) -> Self {
        Self::new(
            source_name,
            String::new(),
            vec![Mistake::new(None, "", message)],
        )
    }

    /// The name of the text, such as that of the file.
    pub fn source_name(&self) -> &str {
        &self.source_name
    }

    /// Each mistake, in the order of the text.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Mistake> {
        self.list.iter()
    }

    /// Each mistake under the line it is in, and their number; with colours for a terminal.
    pub fn render(&self, color: bool) -> String {
        /// More are counted but not shown: nobody reads so many at once.
        const SHOWN_MAX: usize = 100;
        let renderer = if color {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        let mut rendered = String::new();
        for mistake in self.list.iter().take(SHOWN_MAX) {
            rendered.push_str(&self.render_one(mistake, &renderer));
            rendered.push_str("\n\n");
        }
        let more = match self.list.len().checked_sub(SHOWN_MAX) {
            Some(more @ 1..) => format!(", {more} of them not shown"),
            _ => String::new(),
        };
        let count = match self.list.len() {
            1 => "1 mistake".to_owned(),
            count => format!("{count} mistakes"),
        };
        rendered + &format!("{}: {count}{more}\n", self.source_name)
    }

    fn render_one(&self, mistake: &Mistake, renderer: &Renderer) -> String {
        let Some((at, line)) = mistake
            .at
            .as_ref()
            .and_then(|at| Some((at, self.line_of(at)?)))
        else {
            let title = Level::ERROR.primary_title(self.located(mistake));
            return renderer.render(&[Group::with_title(title)]);
        };
        let text = &self.source_text[line.clone()];
        let end = at.span.1.clamp(at.span.0, line.end) - line.start;
        let annotation = AnnotationKind::Primary.span(at.span.0 - line.start..end);
        let line_start = usize::try_from(at.line).unwrap_or(usize::MAX);
        let snippet = Snippet::source(text)
            .line_start(line_start)
            .path(self.source_name.as_str())
            .annotation(annotation);
        renderer.render(&[Level::ERROR
            .primary_title(mistake.to_string())
            .element(snippet)])
    }

    /// The mistake with its position:
    /// `sluicegate.yaml:12:7: limits[2].burst: must be at least 1 (got 0)`
    fn located(&self, mistake: &Mistake) -> String {
        match mistake.place() {
            Some((line, column)) => format!("{}:{line}:{column}: {mistake}", self.source_name),
            None => format!("{}: {mistake}", self.source_name),
        }
    }

    /// The line in which a position begins, without its line end; `None` when it is too long to be
    /// shown.
    fn line_of(&self, at: &Position) -> Option<Range<usize>> {
        const LENGTH_MAX: usize = 400;
        let before = self.source_text.get(..at.span.0)?;
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        let length = self.source_text[at.span.0..]
            .find(['\n', '\r'])
            .unwrap_or(self.source_text.len() - at.span.0);
        let end = at.span.0 + length;
        // Redaction keeps every byte offset. Should it ever not, the line is left out instead of
        // cut within a character.
        let is_sound = self
            .source_text
            .is_char_boundary(at.span.1.clamp(at.span.0, end));
        (is_sound && end - start <= LENGTH_MAX).then_some(start..end)
    }
}

/// One line each: `sluicegate.yaml:12:7: limits[2].burst: must be at least 1 (got 0)`.
impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, mistake) in self.list.iter().enumerate() {
            let end = if number == 0 { "" } else { "\n" };
            write!(f, "{end}{}", self.located(mistake))?;
        }
        Ok(())
    }
}

impl Error for Mistakes {}
