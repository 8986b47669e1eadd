//! The statements of HAProxy that count and reject requests, read from one section.

use std::path::Path;

use super::condition::{Acls, Condition};
use super::syntax::{HaproxySection, millis};
use crate::import::foreign_text::{ForeignText, Word};

/// A stick table.
#[derive(Debug)]
pub(super) struct StickTable {
    pub(super) name: String,
    /// The period of `http_req_rate` in milliseconds, if the table stores it.
    pub(super) period: Option<u64>,
    /// True for `type ip`, which has no room for IPv6 addresses.
    pub(super) is_ipv4: bool,
}

/// `track-scN KEY table NAME if …`
#[derive(Debug)]
pub(super) struct Tracking {
    pub(super) number: String,
    pub(super) key: String,
    pub(super) table: Option<String>,
    pub(super) condition: Condition,
    pub(super) at: RulePoint,
}

/// The moment at which a rule is run: its layer (connection, content, request), then its line.
pub(super) type RulePoint = (u8, usize);

/// A rule that rejects requests.
#[derive(Debug)]
pub(super) struct Rejecting {
    /// Place and text.
    pub(super) origin: String,
    /// The way it rejects: `with 403`, `by closing the connection`.
    pub(super) answer: String,
    pub(super) condition: Condition,
    /// Conditions of rules before it that let requests pass.
    pub(super) passed_before: Vec<Condition>,
    pub(super) at: RulePoint,
    pub(super) line: Word,
}

/// The rules of one section.
#[derive(Debug, Default)]
pub(super) struct SectionRules {
    pub(super) tables: Vec<StickTable>,
    pub(super) trackings: Vec<Tracking>,
    pub(super) rejecting: Vec<Rejecting>,
    /// `use_backend NAME if …`, and `default_backend NAME` with an empty condition.
    pub(super) backends: Vec<(String, Condition)>,
    passing: Vec<(u8, Condition)>,
    acls: Acls,
}

impl SectionRules {
    /// Reads a section; mistakes are noted in the file.
    pub(super) fn read(section: &HaproxySection, file: &mut ForeignText, base_dir: &Path) -> Self {
        let mut rules = Self::default();
        for (order, words) in section.statements.iter().enumerate() {
            let Err(message) = rules.read_statement(section, words, order, file, base_dir) else {
                continue;
            };
            if let Some(first) = words.first() {
                file.mistake(&first.at.clone(), message);
            }
        }
        rules
    }

    fn read_statement(
        &mut self,
        section: &HaproxySection,
        words: &[Word],
        order: usize,
        file: &ForeignText,
        base_dir: &Path,
    ) -> Result<(), String> {
        let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        match texts.as_slice() {
            ["stick-table", rest @ ..] => self.tables.push(table(&section.name, rest)?),
            ["table", name, rest @ ..] if section.kind == "peers" => {
                self.tables
                    .push(table(&format!("{}/{name}", section.name), rest)?);
            }
            ["acl", ..] => self.acls.define(words, base_dir)?,
            ["use_backend", name, ..] => {
                let condition = self.condition(words, base_dir)?;
                self.backends.push(((*name).to_owned(), condition));
            }
            ["default_backend", name, ..] => {
                self.backends.push(((*name).to_owned(), vec![Vec::new()]));
            }
            ["http-request", action, ..] => {
                self.read_rule(words, 2, action, (2, order), file, base_dir)?
            }
            [
                "tcp-request",
                layer @ ("connection" | "session" | "content"),
                action,
                ..,
            ] => {
                let layer = u8::from(*layer == "content");
                self.read_rule(words, 3, action, (layer, order), file, base_dir)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Reads a rule whose arguments begin at the word number `from`.
    fn read_rule(
        &mut self,
        words: &[Word],
        from: usize,
        action: &str,
        at: RulePoint,
        file: &ForeignText,
        base_dir: &Path,
    ) -> Result<(), String> {
        let arguments: Vec<&str> = words[from..]
            .iter()
            .map(|word| word.text.as_str())
            .collect();
        let behind = |name: &str| {
            let at = arguments.iter().position(|word| *word == name)?;
            arguments.get(at + 1).map(ToString::to_string)
        };
        let status = behind("deny_status").or_else(|| behind("status"));
        let number = action.strip_prefix("track-sc");
        let answer = match (rejection(action, status.as_deref()), number) {
            (Some(answer), _) => answer,
            (None, None) => {
                if matches!(action, "allow" | "accept") {
                    let condition = self.condition(words, base_dir)?;
                    self.passing.push((at.0, condition));
                }
                return Ok(());
            }
            (None, Some(number)) => {
                let key = arguments
                    .first()
                    .ok_or_else(|| format!("{action}: needs a key"))?;
                self.trackings.push(Tracking {
                    number: number.to_owned(),
                    key: (*key).to_owned(),
                    table: behind("table"),
                    condition: self.condition(words, base_dir)?,
                    at,
                });
                return Ok(());
            }
        };
        let Some(first) = words.first() else {
            return Ok(());
        };
        let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        let passed_before = self.passing.iter().filter(|(layer, _)| *layer == at.0);
        self.rejecting.push(Rejecting {
            origin: format!("{}: {}", file.place(&first.at), texts.join(" ")),
            answer,
            passed_before: passed_before
                .map(|(_, condition)| condition.clone())
                .collect(),
            condition: self.condition(words, base_dir)?,
            at,
            line: first.clone(),
        });
        Ok(())
    }

    /// The condition of a statement; without one it always holds.
    fn condition(&self, words: &[Word], base_dir: &Path) -> Result<Condition, String> {
        let Some(at) = words
            .iter()
            .position(|word| matches!(word.text.as_str(), "if" | "unless"))
        else {
            return Ok(vec![Vec::new()]);
        };
        let condition = &words[at + 1..];
        if condition.is_empty() {
            return Err(format!("expected a condition after {:?}", words[at].text));
        }
        self.acls
            .condition(condition, words[at].text == "unless", base_dir)
    }
}

/// The way in which an action rejects a request; `None` when it does not.
fn rejection(action: &str, status: Option<&str>) -> Option<String> {
    match action {
        "deny" => Some(format!("with {}", status.unwrap_or("403"))),
        "return" => Some(format!("with {}", status.unwrap_or("200"))),
        "tarpit" => Some("with 500, after a pause".to_owned()),
        "reject" | "silent-drop" => Some("by closing the connection".to_owned()),
        _ => None,
    }
}

/// Reads the arguments of a stick table.
fn table(name: &str, words: &[&str]) -> Result<StickTable, String> {
    let behind = |key: &str| {
        let at = words.iter().position(|word| *word == key)?;
        words.get(at + 1).copied()
    };
    let kind = behind("type").ok_or("stick-table: needs a type")?;
    let stored = words
        .windows(2)
        .filter(|pair| pair[0] == "store")
        .flat_map(|pair| pair[1].split(','));
    let mut period = None;
    for store in stored {
        let Some(text) = store.trim().strip_prefix("http_req_rate") else {
            continue;
        };
        let text = text.trim_start_matches('(').trim_end_matches(')');
        let read = millis(text);
        if read.is_none() {
            return Err(format!(
                "stick-table: expected http_req_rate with a period such as 10s (got {text:?})"
            ));
        }
        period = read;
    }
    Ok(StickTable {
        name: name.to_owned(),
        period,
        is_ipv4: kind == "ip",
    })
}
