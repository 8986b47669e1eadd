//! The requests of a transcript: which caller asks, when, for what, and the expected answer.
//!
//! Reads lines like `as ann: at 1s spend 2 of a => denied, retry in 5ms`. The words are taken off
//! one by one by [`WordReader`]; an error is a sentence about the word that does not fit.

use sluicegate_core::{Draw, Nanos, Timestamp};

use super::answer::ExpectedAnswer;
use super::parse::WordReader;

/// A line that asks the store for something.
#[derive(Debug)]
pub(super) struct TranscriptRequest {
    /// The key of the counters: the name behind `as`.
    pub(super) caller: String,
    pub(super) times: RequestTimes,
    pub(super) operation: TranscriptOperation,
    /// `None` for a reset, which has no answer.
    pub(super) expected: Option<ExpectedAnswer>,
}

/// The instants at which a request is made.
#[derive(Debug)]
pub(super) enum RequestTimes {
    /// Once.
    At(Timestamp),
    /// So many times at one instant.
    Times { at: Timestamp, times: u64 },
    /// At regular instants, both ends included. The step is longer than zero and `from` is not
    /// after `to`.
    Every {
        from: Timestamp,
        to: Timestamp,
        step: Nanos,
    },
}

/// The operation of the store that is tried.
#[derive(Debug)]
pub(super) enum TranscriptOperation {
    Spend(SpendAmounts),
    /// A decision of charges that only look.
    Look(SpendAmounts),
    /// A decision of cost zero.
    Peek(LimitChoice),
    Refund {
        cost: u64,
        which: LimitChoice,
        /// Zero where the transcript names no age.
        age: Nanos,
    },
    Reset(LimitChoice),
}

/// Units to spend.
#[derive(Debug)]
pub(super) enum SpendAmounts {
    /// The same of every limit.
    OfEach(u64),
    /// So much of each limit named here.
    Of(Vec<(Draw, u64, String)>),
}

/// The limit of this name; `None` is all limits.
pub(super) type LimitChoice = Option<String>;

impl TranscriptRequest {
    /// Reads `[as NAME:] at … VERB [=> …]`.
    pub(super) fn parse(statement: &str) -> Result<Self, String> {
        let (request, answer) = match statement.split_once("=>") {
            Some((request, answer)) => (request, Some(answer)),
            None => (statement, None),
        };
        let mut words = WordReader::new(request);
        let caller = match words.skip("as") {
            true => words.name().ok_or("expected a name and a colon after as")?,
            // Transcripts with one caller need not name it.
            false => "someone",
        };
        let times = RequestTimes::parse(&mut words)?;
        let operation = TranscriptOperation::parse(&mut words)?;
        words.end()?;
        let expected = match (answer, &operation) {
            (None, TranscriptOperation::Reset(_)) => None,
            (Some(_), TranscriptOperation::Reset(_)) => {
                return Err("a reset has no answer".to_owned());
            }
            (None, _) => return Err("expected => and the answer".to_owned()),
            (Some(answer), _) => Some(ExpectedAnswer::parse(answer)?),
        };
        // One request has an answer, many requests have a count.
        match (&times, &expected) {
            (RequestTimes::At(_), Some(expected)) if expected.is_count() => {
                Err("expected allowed or denied: a count is the answer to many charges".to_owned())
            }
            (RequestTimes::Times { .. } | RequestTimes::Every { .. }, expected)
                if !expected.as_ref().is_some_and(ExpectedAnswer::is_count) =>
            {
                Err("expected a count of allowed charges".to_owned())
            }
            _ => Ok(Self {
                caller: caller.to_owned(),
                times,
                operation,
                expected,
            }),
        }
    }
}

impl RequestTimes {
    /// Reads `at 1s`, `at 1s 50 times` or `from 0s to 1m every 50ms`.
    fn parse(words: &mut WordReader<'_>) -> Result<Self, String> {
        let instant = |words: &mut WordReader<'_>| {
            words
                .duration()
                .map(|span| Timestamp::from_nanos(span.get()))
        };
        if words.skip("from") {
            let from = instant(words)?;
            words.expect("to")?;
            let to = instant(words)?;
            words.expect("every")?;
            let step = words.duration()?;
            return match step {
                Nanos::ZERO => Err("expected a step longer than zero".to_owned()),
                _ if to < from => Err("expected an end after the beginning".to_owned()),
                step => Ok(Self::Every { from, to, step }),
            };
        }
        words.expect("at")?;
        let at = instant(words)?;
        // A bare number behind the instant can only be a number of times.
        if !words
            .peek()
            .is_some_and(|word| word.bytes().all(|byte| byte.is_ascii_digit()))
        {
            return Ok(Self::At(at));
        }
        let times = words.number("a number of times")?;
        words.expect("times")?;
        Ok(Self::Times { at, times })
    }

    /// Every instant, in order. Ends at the last instant there is, where a step would not move on.
    pub(super) fn instants(&self) -> Box<dyn Iterator<Item = Timestamp> + Send> {
        match *self {
            Self::At(at) => Box::new(std::iter::once(at)),
            Self::Times { at, times } => Box::new((0..times).map(move |_| at)),
            Self::Every { from, to, step } => {
                let next = move |at: &Timestamp| {
                    Some(at.after(step)).filter(|next| *next <= to && next > at)
                };
                Box::new(std::iter::successors(Some(from), next))
            }
        }
    }
}

impl TranscriptOperation {
    /// Reads `spend 1 of a`, `look 1`, `peek`, `refund 2 drawn 50ms ago` or `reset`.
    fn parse(words: &mut WordReader<'_>) -> Result<Self, String> {
        match words.next("spend, look, peek, refund or reset")? {
            "spend" => SpendAmounts::parse(words, Draw::Take).map(Self::Spend),
            "look" => SpendAmounts::parse(words, Draw::Look).map(Self::Look),
            "peek" => which(words).map(Self::Peek),
            "refund" => {
                let cost = words.number("units")?;
                let which = which(words)?;
                let age = if words.skip("drawn") {
                    age(words)?
                } else {
                    Nanos::ZERO
                };
                Ok(Self::Refund { cost, which, age })
            }
            "reset" => which(words).map(Self::Reset),
            other => Err(format!(
                "expected spend, look, peek, refund or reset (got {other:?})"
            )),
        }
    }
}

impl SpendAmounts {
    /// Reads `1`, `1 of a and 2 of b` or `1 of a and look 2 of b`.
    fn parse(words: &mut WordReader<'_>, draw: Draw) -> Result<Self, String> {
        let first = words.number("units")?;
        if !words.skip("of") {
            return Ok(Self::OfEach(first));
        }
        let mut amounts = vec![(draw, first, words.next("a limit")?.to_owned())];
        while words.skip("and") {
            let draw = if words.skip("look") { Draw::Look } else { draw };
            let cost = words.number("units")?;
            words.expect("of")?;
            amounts.push((draw, cost, words.next("a limit")?.to_owned()));
        }
        Ok(Self::Of(amounts))
    }
}

/// Reads `of a`, or nothing.
fn which(words: &mut WordReader<'_>) -> Result<LimitChoice, String> {
    if words.skip("of") {
        words.next("a limit").map(|name| Some(name.to_owned()))
    } else {
        Ok(None)
    }
}

/// Reads `50ms ago`.
fn age(words: &mut WordReader<'_>) -> Result<Nanos, String> {
    let age = words.duration()?;
    words.expect("ago")?;
    Ok(age)
}
