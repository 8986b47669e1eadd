//! Reads the lines of a transcript.
//!
//! A line is a declaration (`limit a: 1 per 1s burst 3`) or a request (`at 0s spend 1 => allowed`);
//! the first word tells which. Errors are for the author of a transcript: each names the word that
//! was expected and the one that was found.

use sluicegate_core::{Factor, LegacyLimit, Nanos, Quota, parse_duration};

use super::request::TranscriptRequest;

/// One line, unless it is blank or a comment.
#[derive(Debug)]
pub(super) enum Statement {
    /// A limit is added to the policy, or has other numbers from now on.
    Declare(LimitDeclaration),
    /// A caller asks the store for something.
    Request(TranscriptRequest),
}

/// A limit of the transcript's policy.
#[derive(Debug)]
pub(super) struct LimitDeclaration {
    pub(super) name: String,
    /// `None` is unlimited.
    pub(super) quota: Option<Quota>,
    /// True after `shadow`: watched, not enforced.
    pub(super) is_shadow: bool,
    /// True after `now`: the limit exists already and gets this quota.
    pub(super) is_reload: bool,
}

/// Reads one line; `None` for comments and blank lines.
pub(super) fn statement(line: &str) -> Result<Option<Statement>, String> {
    let content = line.split('#').next().unwrap_or_default();
    let mut words = WordReader::new(content);
    match words.peek() {
        None => Ok(None),
        Some("as" | "at" | "from") => TranscriptRequest::parse(content)
            .map(Statement::Request)
            .map(Some),
        Some(_) => declaration(&mut words).map(Statement::Declare).map(Some),
    }
}

/// Reads `[now] [shadow] KIND [NAME:] …`.
fn declaration(words: &mut WordReader<'_>) -> Result<LimitDeclaration, String> {
    const KINDS: [&str; 5] = ["limit", "leaky", "fixed", "sliding", "legacy"];
    let is_reload = words.skip("now");
    let is_shadow = words.skip("shadow");
    let kind = match words.peek() {
        Some(kind) if KINDS.contains(&kind) => words.next("a limit")?,
        Some(_) if is_shadow => "limit",
        other => {
            let other = other.unwrap_or_default();
            return Err(format!(
                "expected {}, at, from or as (got {other:?})",
                KINDS.join(", ")
            ));
        }
    };
    let name = words.name().unwrap_or("a").to_owned();
    let quota = match kind {
        "limit" => Some(token_bucket(words)?),
        "leaky" => leaky_bucket(words)?,
        "legacy" => legacy(words)?,
        windowed => Some(window(windowed, words)?),
    };
    words.end()?;
    Ok(LimitDeclaration {
        name,
        quota,
        is_shadow,
        is_reload,
    })
}

/// Reads `1 per 1s burst 3`.
fn token_bucket(words: &mut WordReader<'_>) -> Result<Quota, String> {
    let (count, period) = words.rate()?;
    words.expect("burst")?;
    let burst = words.number("a burst")?;
    Quota::new(count, period, burst).map_err(|refused| refused.to_string())
}

/// Reads `2 per 1s size 5`, with `factor 2` for a caller's factor.
fn leaky_bucket(words: &mut WordReader<'_>) -> Result<Option<Quota>, String> {
    let (drip_size, drip_rate) = words.rate()?;
    words.expect("size")?;
    let size = words.number("a size")?;
    let quota =
        Quota::leaky_bucket(size, drip_rate, drip_size).map_err(|refused| refused.to_string())?;
    if !words.skip("factor") {
        return Ok(Some(quota));
    }
    let factor = words.next("a factor")?;
    let number: f64 = factor
        .parse()
        .map_err(|_| format!("expected a factor (got {factor:?})"))?;
    let factor = Factor::new(number).map_err(|refused| refused.to_string())?;
    Ok(factor.apply(quota))
}

/// Reads `100 per 1m` of a fixed or sliding window.
fn window(kind: &str, words: &mut WordReader<'_>) -> Result<Quota, String> {
    let (limit, window) = words.rate()?;
    let quota = match kind {
        "fixed" => Quota::fixed_window(limit, window),
        _ => Quota::sliding_window(limit, window),
    };
    quota.map_err(|refused| refused.to_string())
}

/// Reads `max 3 duration 1s min_interval 100ms`, each of which may be left out.
fn legacy(words: &mut WordReader<'_>) -> Result<Option<Quota>, String> {
    let mut legacy = LegacyLimit::default();
    while let Some(word) = words.peek() {
        // Always there: it was peeked at.
        words.next("a word")?;
        match word {
            "max" => legacy.max = Some(words.number("a count")?),
            "duration" => legacy.duration = Some(words.duration()?),
            "min_interval" => legacy.min_interval = Some(words.duration()?),
            other => {
                return Err(format!(
                    "expected max, duration or min_interval (got {other:?})"
                ));
            }
        }
    }
    legacy.quota().map_err(|refused| refused.to_string())
}

/// The words of a statement, from left to right.
#[derive(Clone)]
pub(super) struct WordReader<'a> {
    rest: std::iter::Peekable<std::str::SplitWhitespace<'a>>,
}

impl<'a> WordReader<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            rest: text.split_whitespace().peekable(),
        }
    }

    /// The next word, which stays there.
    pub(super) fn peek(&mut self) -> Option<&'a str> {
        self.rest.peek().copied()
    }

    /// Takes the next word; `expected` describes it in the error at the end of the line.
    pub(super) fn next(&mut self, expected: &str) -> Result<&'a str, String> {
        self.rest
            .next()
            .ok_or_else(|| format!("expected {expected} at the end of the line"))
    }

    /// Takes this word if it comes next, and returns true if it did.
    pub(super) fn skip(&mut self, word: &str) -> bool {
        self.rest.next_if_eq(&word).is_some()
    }

    /// Takes this word, and nothing else.
    pub(super) fn expect(&mut self, word: &str) -> Result<(), String> {
        let got = self.next(word)?;
        if got == word {
            Ok(())
        } else {
            Err(format!("expected {word} (got {got:?})"))
        }
    }

    /// Takes a word that ends in a colon, without the colon.
    pub(super) fn name(&mut self) -> Option<&'a str> {
        self.rest
            .next_if(|word| word.ends_with(':'))
            .map(|word| word.trim_end_matches(':'))
    }

    /// Takes a whole number; `what` describes it in the error.
    pub(super) fn number(&mut self, what: &str) -> Result<u64, String> {
        let got = self.next(what)?;
        got.parse()
            .map_err(|_| format!("expected {what} (got {got:?})"))
    }

    /// Takes a duration such as `50ms`.
    pub(super) fn duration(&mut self) -> Result<Nanos, String> {
        let got = self.next("a duration")?;
        parse_duration(got).map_err(|refused| refused.to_string())
    }

    /// Takes `10 per 1s`.
    fn rate(&mut self) -> Result<(u64, Nanos), String> {
        let count = self.number("a count")?;
        self.expect("per")?;
        Ok((count, self.duration()?))
    }

    /// Refuses words that are left over.
    pub(super) fn end(&mut self) -> Result<(), String> {
        match self.rest.next() {
            None => Ok(()),
            Some(got) => Err(format!("expected the end of the line (got {got:?})")),
        }
    }
}
