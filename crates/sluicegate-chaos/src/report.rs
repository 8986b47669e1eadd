//! The findings of a scenario: facts, and promises that held or broke.

use std::fmt;

/// How long a scenario runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// A few seconds, for the test suite.
    Short,
    /// As the acceptance page says.
    Long,
}

impl Length {
    /// One of two values.
    pub fn pick<T>(self, short: T, long: T) -> T {
        match self {
            Self::Short => short,
            Self::Long => long,
        }
    }
}

/// The facts that a scenario measured, and the promises that did not hold.
#[derive(Clone, Debug)]
pub struct Report {
    name: String,
    facts: Vec<String>,
    broken: Vec<String>,
}

impl Report {
    /// An empty report.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            facts: Vec::new(),
            broken: Vec::new(),
        }
    }

    /// Notes what was measured.
    pub fn fact(&mut self, fact: impl fmt::Display) -> &mut Self {
        self.facts.push(fact.to_string());
        self
    }

    /// Notes a promise, and that it was broken unless `held`.
    pub fn promise(&mut self, held: bool, promise: impl fmt::Display) -> &mut Self {
        match held {
            true => self.facts.push(format!("held: {promise}")),
            false => self.broken.push(promise.to_string()),
        }
        self
    }

    /// Takes over what another report found.
    pub fn include(&mut self, other: Self) -> &mut Self {
        self.facts.extend(
            other
                .facts
                .into_iter()
                .map(|fact| format!("{}: {fact}", other.name)),
        );
        self.broken.extend(
            other
                .broken
                .into_iter()
                .map(|broken| format!("{}: {broken}", other.name)),
        );
        self
    }

    /// True when every promise held.
    pub fn holds(&self) -> bool {
        self.broken.is_empty()
    }

    /// Panics with the whole report when a promise was broken.
    pub fn assert_holds(&self) {
        assert!(self.holds(), "{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.name)?;
        self.facts
            .iter()
            .try_for_each(|fact| writeln!(f, "  {}", fact.replace('\n', "\n    ")))?;
        self.broken
            .iter()
            .try_for_each(|broken| writeln!(f, "  BROKEN: {}", broken.replace('\n', "\n    ")))
    }
}
