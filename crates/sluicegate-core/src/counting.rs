//! When a limit counts a request: when it comes, or by the answer that it gets.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

/// When a limit counts a request.
///
/// ```
/// use sluicegate_core::{AnswerSet, Counting, Limit, Quota};
///
/// // Five failed logins a minute; those that succeed are free.
/// let failed = AnswerSet::of(["401", "403"])?;
/// let logins = Limit::per_client("logins", Quota::per_minute(5)).count_when(failed);
/// assert_eq!(logins.counting, Counting::When(failed));
/// # Ok::<(), sluicegate_core::AnswerPatternError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counting {
    /// When it comes.
    #[default]
    Always,
    /// When it was answered like this. Until then the counter is only looked at: the request is
    /// denied when there is no room for it.
    When(AnswerSet),
    /// When it comes; the units are given back when it was answered like this.
    RefundWhen(AnswerSet),
}

impl Counting {
    /// The answers that matter; `None` where none does.
    pub fn answers(&self) -> Option<&AnswerSet> {
        match self {
            Self::Always => None,
            Self::When(answers) | Self::RefundWhen(answers) => Some(answers),
        }
    }
}

/// The answer to a request, as far as counting depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status of HTTP.
    pub status: u16,
    /// The status of gRPC, in the header or in the trailers; `None` for other answers.
    pub grpc_status: Option<u16>,
}

impl Answer {
    /// An answer that is not one of gRPC.
    pub const fn http(status: u16) -> Self {
        Self {
            status,
            grpc_status: None,
        }
    }
}

/// A set of answers, by their statuses.
///
/// ```
/// use sluicegate_core::{Answer, AnswerSet};
///
/// let set = AnswerSet::of(["404", "5xx"])?;
/// assert!(set.has(Answer::http(404)) && set.has(Answer::http(503)));
/// assert!(!set.has(Answer::http(400)));
/// assert_eq!(set.to_string(), "404 or 5xx");
/// # Ok::<(), sluicegate_core::AnswerPatternError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnswerSet {
    /// A bit for each status of HTTP, from 100 on.
    http: [u64; WORDS],
    /// A bit for each status of gRPC.
    grpc: u32,
}

/// Words of 64 bits for the statuses 100 to 599.
const WORDS: usize = (STATUS_MAX - STATUS_MIN) as usize / 64 + 1;
const STATUS_MIN: u16 = 100;
const STATUS_MAX: u16 = 599;
/// The greatest status of gRPC: `UNAUTHENTICATED`.
const GRPC_MAX: u16 = 16;

impl AnswerSet {
    /// The answers with these statuses of HTTP: `404`, or `4xx` for all that begin with 4.
    pub fn of<'a>(statuses: impl IntoIterator<Item = &'a str>) -> Result<Self, AnswerPatternError> {
        let patterns = statuses.into_iter().map(str::parse::<AnswerPattern>);
        patterns.collect()
    }

    /// The same set, with these answers too.
    #[must_use]
    pub fn with(mut self, pattern: AnswerPattern) -> Self {
        match pattern {
            AnswerPattern::Status(status) => self.add(status),
            AnswerPattern::Class(class) => {
                (class * 100..=class * 100 + 99).for_each(|status| self.add(status));
            }
            AnswerPattern::Grpc(status) => self.grpc |= 1 << status,
        }
        self
    }

    /// True when the answer is one of these.
    pub fn has(&self, answer: Answer) -> bool {
        let of_grpc = |status: u16| status <= GRPC_MAX && self.grpc & (1 << status) != 0;
        self.has_status(answer.status) || answer.grpc_status.is_some_and(of_grpc)
    }

    /// True when nothing is in it.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// True when the trailers of an answer matter, unless its status decides already.
    pub fn waits_for_trailers(&self, answer: Answer) -> bool {
        self.grpc != 0 && !self.has(answer)
    }

    fn add(&mut self, status: u16) {
        let index = usize::from(status - STATUS_MIN);
        self.http[index / 64] |= 1 << (index % 64);
    }

    fn has_status(&self, status: u16) -> bool {
        let Some(index) = status.checked_sub(STATUS_MIN).map(usize::from) else {
            return false;
        };
        status <= STATUS_MAX && self.http[index / 64] & (1 << (index % 64)) != 0
    }

    fn has_class(&self, class: u16) -> bool {
        (class * 100..=class * 100 + 99).all(|status| self.has_status(status))
    }
}

impl FromIterator<AnswerPattern> for AnswerSet {
    fn from_iter<I: IntoIterator<Item = AnswerPattern>>(patterns: I) -> Self {
        patterns.into_iter().fold(Self::default(), Self::with)
    }
}

/// `401, 403 or 5xx`, with the statuses of gRPC behind: `5xx or the gRPC status 16`.
impl fmt::Display for AnswerSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        for class in 1..=5 {
            if self.has_class(class) {
                words.push(format!("{class}xx"));
                continue;
            }
            let statuses = class * 100..=class * 100 + 99;
            words.extend(
                statuses
                    .filter(|status| self.has_status(*status))
                    .map(|status| status.to_string()),
            );
        }
        let of_grpc = (0..=GRPC_MAX).filter(|status| self.grpc & (1 << status) != 0);
        words.extend(of_grpc.map(|status| format!("the gRPC status {status}")));
        match words.split_last() {
            None => f.write_str("no answer"),
            Some((only, [])) => f.write_str(only),
            Some((last, others)) => write!(f, "{} or {last}", others.join(", ")),
        }
    }
}

/// A status, or all that begin with the same digit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerPattern {
    /// A status of HTTP, 100 to 599.
    Status(u16),
    /// The hundred statuses of HTTP that begin with this digit, 1 to 5.
    Class(u16),
    /// A status of gRPC, 0 to 16.
    Grpc(u16),
}

impl AnswerPattern {
    /// A status of HTTP.
    pub fn status(status: u64) -> Result<Self, AnswerPatternError> {
        match u16::try_from(status) {
            Ok(status @ STATUS_MIN..=STATUS_MAX) => Ok(Self::Status(status)),
            _ => Err(AnswerPatternError {
                got: status.to_string(),
            }),
        }
    }

    /// A status of gRPC; `None` when there is none with this number.
    pub fn grpc(status: u64) -> Option<Self> {
        let status = u16::try_from(status).ok()?;
        (status <= GRPC_MAX).then_some(Self::Grpc(status))
    }
}

/// Reads `404` or `4xx`.
impl FromStr for AnswerPattern {
    type Err = AnswerPatternError;

    fn from_str(text: &str) -> Result<Self, AnswerPatternError> {
        let error = || AnswerPatternError {
            got: format!("{text:?}"),
        };
        match text.as_bytes() {
            [class @ b'1'..=b'5', b'x', b'x'] => Ok(Self::Class(u16::from(class - b'0'))),
            [first, rest @ ..] if first.is_ascii_digit() && rest.iter().all(u8::is_ascii_digit) => {
                text.parse().map_or_else(|_| Err(error()), Self::status)
            }
            _ => Err(error()),
        }
    }
}

/// A text that is neither a status nor a class of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerPatternError {
    got: String,
}

impl fmt::Display for AnswerPatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { got } = self;
        write!(
            f,
            "expected a status from 100 to 599, or a class of them such as 5xx (got {got})"
        )
    }
}

impl Error for AnswerPatternError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(patterns: &[&str]) -> AnswerSet {
        AnswerSet::of(patterns.iter().copied()).unwrap()
    }

    #[test]
    fn a_set_has_its_statuses_and_classes_and_no_others() {
        let some = set(&["100", "401", "5xx", "599"]);
        for status in 0..=u16::MAX {
            let expected = matches!(status, 100 | 401 | 500..=599);
            assert_eq!(some.has(Answer::http(status)), expected, "{status}");
        }
        let all = set(&["1xx", "2xx", "3xx", "4xx", "5xx"]);
        for status in 0..=u16::MAX {
            let expected = matches!(status, 100..=599);
            assert_eq!(all.has(Answer::http(status)), expected, "{status}");
        }
    }

    #[test]
    fn statuses_of_grpc_are_apart_from_those_of_http() {
        let refused = set(&["404"]).with(AnswerPattern::grpc(16).unwrap());
        let grpc = |grpc_status| Answer {
            status: 200,
            grpc_status: Some(grpc_status),
        };
        for status in 0..=u16::MAX {
            assert_eq!(refused.has(grpc(status)), status == 16, "{status}");
        }
        assert!(refused.waits_for_trailers(Answer::http(200)));
        assert!(!refused.waits_for_trailers(Answer::http(404)));
        assert!(!set(&["404"]).waits_for_trailers(Answer::http(200)));
        assert_eq!(AnswerPattern::grpc(17), None);
    }

    #[test]
    fn a_set_is_told_in_words() {
        for (patterns, words) in [
            (&[][..], "no answer"),
            (&["401"], "401"),
            (&["5xx", "403", "401"], "401, 403 or 5xx"),
        ] {
            assert_eq!(set(patterns).to_string(), words);
        }
        let both = set(&["5xx"]).with(AnswerPattern::Grpc(16));
        assert_eq!(both.to_string(), "5xx or the gRPC status 16");
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "", "99", "600", "6xx", "0xx", "5XX", "5x", "xx", "4040", "+404", "-1", "a",
        ] {
            let error = text.parse::<AnswerPattern>().unwrap_err().to_string();
            assert!(
                error.starts_with("expected a status from 100 to 599"),
                "{text}: {error}"
            );
        }
        assert!("99999999999999999999999".parse::<AnswerPattern>().is_err());
    }
}
