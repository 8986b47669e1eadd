//! Conditions of HAProxy: named and anonymous ACLs, joined by "and", "or" and "not".
//!
//! A condition becomes alternatives, each a list of facts: each list becomes a limit of its own.

use std::path::Path;

use super::facts::{Fact, fact};
use crate::import::alternatives::{Alternatives, Negate, both, contrary};
use crate::import::foreign_text::Word;

/// A fact, or its contrary.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Literal {
    pub(super) is_negated: bool,
    pub(super) fact: Fact,
    /// The text, for messages.
    pub(super) text: String,
}

impl Negate for Literal {
    fn negated(&self) -> Self {
        Self {
            is_negated: !self.is_negated,
            ..self.clone()
        }
    }
}

/// A condition: any of these lists.
pub(super) type Condition = Alternatives<Literal>;

/// The ACLs of a section. Definitions of one name are alternatives.
#[derive(Debug, Default)]
pub(super) struct Acls {
    defined: Vec<(String, Literal)>,
}

impl Acls {
    /// Reads `acl NAME CRITERION …`.
    pub(super) fn define(&mut self, words: &[Word], base_dir: &Path) -> Result<(), String> {
        let [_, name, criterion @ ..] = words else {
            return Err("acl: needs a name and a criterion".to_owned());
        };
        if criterion.is_empty() {
            return Err(format!("acl {}: needs a criterion", name.text));
        }
        self.defined
            .push((name.text.clone(), literal(criterion, base_dir)));
        Ok(())
    }

    /// Reads the words behind `if` or `unless`. An error is a message.
    pub(super) fn condition(
        &self,
        words: &[Word],
        is_negated: bool,
        base_dir: &Path,
    ) -> Result<Condition, String> {
        let mut alternatives: Condition = Vec::new();
        let mut all: Condition = vec![Vec::new()];
        let mut rest = words;
        while let Some((word, after)) = rest.split_first() {
            rest = after;
            if matches!(word.text.as_str(), "||" | "or" | "OR") {
                alternatives.append(&mut all);
                all = vec![Vec::new()];
                continue;
            }
            let (negated, name) = match word.text.strip_prefix('!') {
                Some("") => match rest.split_first() {
                    Some((next, after)) => {
                        rest = after;
                        (true, next.text.as_str())
                    }
                    None => return Err("\"!\" stands at the end of the condition".to_owned()),
                },
                Some(name) => (true, name),
                None => (false, word.text.as_str()),
            };
            let term = match name {
                "{" => {
                    let Some(end) = rest.iter().position(|word| word.text == "}") else {
                        return Err("expected \"}\" after \"{\"".to_owned());
                    };
                    let inside = &rest[..end];
                    rest = &rest[end + 1..];
                    vec![vec![literal(inside, base_dir)]]
                }
                name => self.named(name)?,
            };
            all = both(&all, &if negated { contrary(&term) } else { term });
        }
        alternatives.append(&mut all);
        Ok(if is_negated {
            contrary(&alternatives)
        } else {
            alternatives
        })
    }

    fn named(&self, name: &str) -> Result<Condition, String> {
        let found: Condition = self
            .defined
            .iter()
            .filter(|(own, _)| own == name)
            .map(|(_, literal)| vec![literal.clone()])
            .collect();
        if !found.is_empty() {
            return Ok(found);
        }
        let fact = Fact::predefined(name).ok_or_else(|| format!("no acl is called {name:?}"))?;
        Ok(vec![vec![Literal {
            is_negated: false,
            fact,
            text: name.to_owned(),
        }]])
    }
}

fn literal(words: &[Word], base_dir: &Path) -> Literal {
    let words: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    let (fact, is_negated) = fact(&words, base_dir);
    Literal {
        is_negated,
        fact,
        text: words.join(" "),
    }
}
