//! The words of an answer, and the comparison with the answer of a store.
//!
//! A transcript names what it is about and leaves the rest out, so an expectation is a list of
//! clauses, each of which must hold. The one thing that may not be left out is a denial by a shadow
//! limit: it changes nothing that the caller sees, and would never be noticed.

use std::fmt;

use sluicegate_core::{Nanos, Outcome};

use super::parse::WordReader;

/// The answer that a transcript expects.
#[derive(Debug)]
pub(super) struct ExpectedAnswer {
    /// As written, with single spaces: shown when the store answers otherwise.
    text: String,
    clauses: Vec<AnswerClause>,
}

/// One property of an answer.
#[derive(Debug)]
enum AnswerClause {
    Allowed,
    /// By exactly these limits, in the order of the policy; an empty list names none and fits any.
    Denied {
        by: Vec<String>,
    },
    /// Units left, of the only limit or of this one.
    Left(u64, Option<String>),
    /// Time until full, of the only limit or of this one.
    Full(Nanos, Option<String>),
    /// The wait until the request passes; `None` when no wait helps (`never`).
    Retry(Option<Nanos>),
    /// A shadow limit that denied.
    WouldDeny(String),
    /// The number of requests that passed, of many.
    AllowedCount(u64),
}

impl ExpectedAnswer {
    /// Reads the clauses behind `=>`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let clauses = text
            .split(',')
            .map(AnswerClause::parse)
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            text: text.split_whitespace().collect::<Vec<_>>().join(" "),
            clauses,
        })
    }

    /// The expectation as it was written.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns true for a count of requests, false for one answer.
    pub(super) fn is_count(&self) -> bool {
        matches!(self.clauses.as_slice(), [AnswerClause::AllowedCount(_)])
    }

    /// Returns true when the expected number of requests was allowed.
    pub(super) fn counts(&self, allowed: u64) -> bool {
        match self.clauses.as_slice() {
            [AnswerClause::AllowedCount(expected)] => *expected == allowed,
            _ => false,
        }
    }

    /// Returns true when every clause holds. Shadow limits that deny must all be mentioned, in the
    /// order of the policy. An error means that a clause makes no sense for this answer.
    pub(super) fn describes(&self, answer: &StoreAnswer) -> Result<bool, String> {
        let mentioned = self.clauses.iter().filter_map(|clause| {
            if let AnswerClause::WouldDeny(name) = clause {
                Some(name)
            } else {
                None
            }
        });
        let mut fits = mentioned.eq(&answer.would_deny);
        for clause in &self.clauses {
            fits &= clause.describes(answer)?;
        }
        Ok(fits)
    }
}

impl AnswerClause {
    /// Reads one clause; the statements are listed in `conformance.rs`.
    fn parse(text: &str) -> Result<Self, String> {
        let mut words = WordReader::new(text);
        let clause = match words.next("an answer")? {
            "allowed" => Self::Allowed,
            "denied" => Self::Denied {
                by: denied_by(&mut words)?,
            },
            "never" => Self::Retry(None),
            "retry" => {
                words.expect("in")?;
                Self::Retry(Some(words.duration()?))
            }
            "full" => {
                let span = if words.skip("in") {
                    words.duration()?
                } else {
                    Nanos::ZERO
                };
                Self::Full(span, of(&mut words)?)
            }
            // A number or the name of a limit; the next word tells which.
            first => match (first.parse(), words.next("left, allowed or would deny")?) {
                (Ok(units), "left") => Self::Left(units, of(&mut words)?),
                (Ok(count), "allowed") => Self::AllowedCount(count),
                (Err(_), "would") => {
                    words.expect("deny")?;
                    Self::WouldDeny(first.to_owned())
                }
                (_, second) => {
                    return Err(format!(
                        "expected an answer (got {:?})",
                        format!("{first} {second}")
                    ));
                }
            },
        };
        words.end()?;
        Ok(clause)
    }

    /// Returns true when this property holds for the answer.
    fn describes(&self, answer: &StoreAnswer) -> Result<bool, String> {
        Ok(match self {
            Self::Allowed => answer.is_allowed(),
            Self::Denied { by } => {
                !answer.is_allowed() && (by.is_empty() || *by == answer.denied_by)
            }
            Self::Left(units, of) => answer.of(of.as_deref())?.remaining() == *units,
            Self::Full(span, of) => answer.of(of.as_deref())?.reset_after() == *span,
            Self::Retry(wait) => !answer.is_allowed() && answer.retry_after == *wait,
            // Compared as a list, by the caller.
            Self::WouldDeny(_) => true,
            Self::AllowedCount(_) => return Err("expected one answer, not a count".to_owned()),
        })
    }
}

/// The answer of a store, in the words of transcripts.
#[derive(Debug)]
pub(super) struct StoreAnswer {
    /// The enforced limits that denied.
    pub(super) denied_by: Vec<String>,
    /// The shadow limits that denied.
    pub(super) would_deny: Vec<String>,
    /// The wait after which the whole request passes; `None` when no wait helps.
    pub(super) retry_after: Option<Nanos>,
    /// Each charge by the name of its limit.
    pub(super) outcomes: Vec<(String, Outcome)>,
}

impl StoreAnswer {
    /// Returns true when no enforced limit denied.
    pub(super) fn is_allowed(&self) -> bool {
        self.denied_by.is_empty()
    }

    /// The outcome at the limit of this name; without a name, at the only limit there is.
    fn of(&self, name: Option<&str>) -> Result<Outcome, String> {
        let found = match (name, self.outcomes.as_slice()) {
            (None, [(_, only)]) => Some(*only),
            (None, []) => {
                return Err("nothing was charged, so there is nothing to compare".to_owned());
            }
            (None, _) => return Err("expected of and a limit: several were charged".to_owned()),
            (Some(name), outcomes) => outcomes
                .iter()
                .find(|(own, _)| own == name)
                .map(|(_, outcome)| *outcome),
        };
        found.ok_or_else(|| format!("limit {:?} was not charged", name.unwrap_or_default()))
    }
}

/// Everything that a transcript could expect of this answer, in the same words: ready to be copied
/// into a transcript once it is known to be right.
impl fmt::Display for StoreAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let several = self.outcomes.len() > 1;
        match self.is_allowed() {
            true => f.write_str("allowed")?,
            false if several => write!(f, "denied by {}", self.denied_by.join(" and "))?,
            false => f.write_str("denied")?,
        }
        for name in &self.would_deny {
            write!(f, ", {name} would deny")?;
        }
        match self.retry_after {
            None => f.write_str(", never")?,
            Some(Nanos::ZERO) => {}
            Some(wait) => write!(f, ", retry in {wait}")?,
        }
        for (name, outcome) in &self.outcomes {
            let of = if several {
                format!(" of {name}")
            } else {
                String::new()
            };
            write!(
                f,
                ", {} left{of}, full in {}{of}",
                outcome.remaining(),
                outcome.reset_after()
            )?;
        }
        Ok(())
    }
}

/// Reads `by a and b`, or nothing.
fn denied_by(words: &mut WordReader<'_>) -> Result<Vec<String>, String> {
    let mut by = Vec::new();
    let mut next = words.skip("by");
    while next {
        by.push(words.next("a limit")?.to_owned());
        next = words.skip("and");
    }
    Ok(by)
}

/// Reads `of a`, or nothing.
fn of(words: &mut WordReader<'_>) -> Result<Option<String>, String> {
    if words.skip("of") {
        words.next("a limit").map(|name| Some(name.to_owned()))
    } else {
        Ok(None)
    }
}
