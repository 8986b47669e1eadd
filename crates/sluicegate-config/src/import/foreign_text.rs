//! Text files of other programs: words with their positions, and mistakes at them.

use crate::mistakes::{Mistake, Mistakes, Position};
use crate::redact;

/// A word of a file, without its quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: String,
    pub(super) at: Position,
}

/// The text of one file, and the mistakes found in it.
#[derive(Debug)]
pub(super) struct ForeignText {
    pub(super) name: String,
    pub(super) text: String,
    mistakes: Vec<Mistake>,
}

impl ForeignText {
    pub(super) fn new(name: &str, text: &str) -> Self {
        Self {
            name: name.to_owned(),
            text: text.to_owned(),
            mistakes: Vec::new(),
        }
    }

    /// Notes a mistake at a position.
    pub(super) fn mistake(&mut self, at: &Position, message: impl Into<String>) {
        self.mistakes
            .push(Mistake::new(Some(at.clone()), "", message));
    }

    /// The mistakes; `None` when there are none.
    pub(super) fn mistakes(&mut self) -> Option<Mistakes> {
        let mistakes = std::mem::take(&mut self.mistakes);
        (!mistakes.is_empty())
            .then(|| Mistakes::new(&self.name, redact::redacted(&self.text), mistakes))
    }

    /// `name:line` for notes.
    pub(super) fn place(&self, at: &Position) -> String {
        format!("{}:{}", self.name, at.line)
    }
}
