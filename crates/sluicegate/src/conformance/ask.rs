//! Who asks when for what, and the answer that is expected.

use sluicegate_core::{Nanos, Timestamp};

use super::expect::Expected;
use super::parse::Words;

/// Something that is asked of the store.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) caller: String,
    pub(super) when: When,
    pub(super) verb: Verb,
    /// `None` for a reset, which has no answer.
    pub(super) expected: Option<Expected>,
}

/// The instants at which it is asked.
#[derive(Debug)]
pub(super) enum When {
    /// Once.
    At(Timestamp),
    /// So many times at one instant.
    Times { at: Timestamp, times: u64 },
    /// At regular instants, both ends included.
    Every {
        from: Timestamp,
        to: Timestamp,
        step: Nanos,
    },
}

/// What is asked for.
#[derive(Debug)]
pub(super) enum Verb {
    Spend(Amounts),
    Peek(Which),
    Refund { cost: u64, which: Which, age: Nanos },
    Reset(Which),
}

/// Units to spend.
#[derive(Debug)]
pub(super) enum Amounts {
    /// The same of every limit.
    OfEach(u64),
    /// Of these limits by name.
    Of(Vec<(u64, String)>),
}

/// All limits, or the one of this name.
pub(super) type Which = Option<String>;

impl Ask {
    /// Reads `[as NAME:] at … VERB [=> …]`.
    pub(super) fn parse(said: &str) -> Result<Self, String> {
        let (asked, answer) = match said.split_once("=>") {
            Some((asked, answer)) => (asked, Some(answer)),
            None => (said, None),
        };
        let mut words = Words::new(asked);
        let caller = match words.skip("as") {
            true => words.name().ok_or("expected a name and a colon after as")?,
            false => "someone",
        };
        let when = When::parse(&mut words)?;
        let verb = Verb::parse(&mut words)?;
        words.end()?;
        let expected = match (answer, &verb) {
            (None, Verb::Reset(_)) => None,
            (Some(_), Verb::Reset(_)) => return Err("a reset has no answer".to_owned()),
            (None, _) => return Err("expected => and the answer".to_owned()),
            (Some(answer), _) => Some(Expected::parse(answer)?),
        };
        match (&when, &expected) {
            (When::At(_), Some(expected)) if expected.is_count() => {
                Err("expected allowed or denied: a count is the answer to many charges".to_owned())
            }
            (When::Times { .. } | When::Every { .. }, expected)
                if !expected.as_ref().is_some_and(Expected::is_count) =>
            {
                Err("expected a count of allowed charges".to_owned())
            }
            _ => Ok(Self {
                caller: caller.to_owned(),
                when,
                verb,
                expected,
            }),
        }
    }
}

impl When {
    fn parse(words: &mut Words<'_>) -> Result<Self, String> {
        let instant = |words: &mut Words<'_>| {
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

    /// Every instant, in order.
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

impl Verb {
    fn parse(words: &mut Words<'_>) -> Result<Self, String> {
        match words.next("spend, peek, refund or reset")? {
            "spend" => Amounts::parse(words).map(Self::Spend),
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
                "expected spend, peek, refund or reset (got {other:?})"
            )),
        }
    }
}

impl Amounts {
    /// `1` or `1 of a and 2 of b`.
    fn parse(words: &mut Words<'_>) -> Result<Self, String> {
        let first = words.number("units")?;
        if !words.skip("of") {
            return Ok(Self::OfEach(first));
        }
        let mut amounts = vec![(first, words.next("a limit")?.to_owned())];
        while words.skip("and") {
            let cost = words.number("units")?;
            words.expect("of")?;
            amounts.push((cost, words.next("a limit")?.to_owned()));
        }
        Ok(Self::Of(amounts))
    }
}

fn which(words: &mut Words<'_>) -> Result<Which, String> {
    if words.skip("of") {
        words.next("a limit").map(|name| Some(name.to_owned()))
    } else {
        Ok(None)
    }
}

fn age(words: &mut Words<'_>) -> Result<Nanos, String> {
    let age = words.duration()?;
    words.expect("ago")?;
    Ok(age)
}
