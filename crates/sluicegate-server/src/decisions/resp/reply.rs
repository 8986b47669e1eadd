//! Replies in RESP2 and RESP3, and the five numbers of redis-cell that tell a decision.

use sluicegate::{Decision, Nanos, StoreError};
use sluicegate_gate::admission::{Admitted, Refusal};

/// The version of the protocol that a client chose with `HELLO`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum RespVersion {
    /// The version of a client that sent no `HELLO`.
    #[default]
    Resp2,
    /// Has maps, and a null of its own.
    Resp3,
}

impl RespVersion {
    pub(super) const fn number(self) -> i64 {
        match self {
            Self::Resp2 => 2,
            Self::Resp3 => 3,
        }
    }
}

/// A reply to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RespReply {
    /// A word, such as `OK`.
    Word(&'static str),
    /// Any bytes.
    Bytes(Vec<u8>),
    /// A number.
    Number(i64),
    /// The decision on a counter.
    Counter(CounterReply),
    /// Several replies in a row.
    List(Vec<RespReply>),
    /// Names and values; RESP2 writes them as a list.
    Map(Vec<(&'static str, RespReply)>),
    /// Nothing.
    Null,
    /// An error: a code in capitals, and a sentence.
    Error(&'static str, String),
}

impl RespReply {
    /// The error for a command with invalid arguments.
    pub(super) fn wrong(what: impl Into<String>) -> Self {
        Self::Error("ERR", what.into())
    }

    /// The error for a store that is away, where the failure policy lets nothing pass.
    pub(super) fn unavailable(error: &StoreError) -> Self {
        Self::Error("UNAVAILABLE", error.to_string())
    }

    /// Appends the reply to `out`.
    pub(super) fn write(&self, protocol: RespVersion, out: &mut Vec<u8>) {
        match self {
            Self::Word(word) => {
                out.push(b'+');
                out.extend_from_slice(word.as_bytes());
                end_line(out);
            }
            Self::Bytes(bytes) => write_bytes(bytes, out),
            Self::Number(number) => write_number(b':', *number, out),
            Self::Counter(reply) => reply.write(out),
            Self::List(items) => {
                write_number(b'*', count(items.len()), out);
                items.iter().for_each(|item| item.write(protocol, out));
            }
            Self::Map(entries) => {
                match protocol {
                    RespVersion::Resp2 => write_number(b'*', 2 * count(entries.len()), out),
                    RespVersion::Resp3 => write_number(b'%', count(entries.len()), out),
                }
                for (name, value) in entries {
                    write_bytes(name.as_bytes(), out);
                    value.write(protocol, out);
                }
            }
            Self::Null => out.extend_from_slice(match protocol {
                RespVersion::Resp2 => b"$-1\r\n",
                RespVersion::Resp3 => b"_\r\n",
            }),
            Self::Error(kind, words) => {
                out.push(b'-');
                out.extend_from_slice(kind.as_bytes());
                out.push(b' ');
                // The sentence may quote the client, whose bytes must not end the line.
                out.extend(
                    words
                        .bytes()
                        .map(|byte| if byte.is_ascii_control() { b' ' } else { byte }),
                );
                end_line(out);
            }
        }
    }
}

/// The decision on a counter as five numbers, where -1 means that there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CounterReply {
    pub(super) is_denied: bool,
    /// The most that can be spent at once.
    pub(super) limit: i64,
    /// The units left of it.
    pub(super) remaining: i64,
    /// Seconds until the same charge passes, rounded up; -1 when it passed, and when it never will.
    pub(super) retry_after: i64,
    /// Seconds until the counter is full again, rounded up.
    pub(super) reset_after: i64,
}

impl CounterReply {
    /// The numbers for a charge that passes because nothing limits it or the store is away.
    pub(super) fn pass(limit: i64) -> Self {
        Self {
            is_denied: false,
            limit,
            remaining: -1,
            retry_after: -1,
            reset_after: -1,
        }
    }

    /// The numbers of a decision's first outcome; `limit` is written when there is none.
    pub(super) fn of(decision: &Decision, is_denied: bool, limit: i64) -> Self {
        let Some((_, charged)) = decision.outcomes().next() else {
            return Self::pass(limit);
        };
        let outcome = &charged.outcome;
        let wait = outcome.retry_after().filter(|_| is_denied);
        Self {
            is_denied,
            limit: number(charged.quota.limit()),
            remaining: number(outcome.remaining()),
            retry_after: wait.map_or(-1, seconds),
            reset_after: seconds(outcome.reset_after()),
        }
    }

    fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"*5\r\n");
        for number in [
            i64::from(self.is_denied),
            self.limit,
            self.remaining,
            self.retry_after,
            self.reset_after,
        ] {
            write_number(b':', number, out);
        }
    }
}

impl RespReply {
    /// The reply to a check of one counter; `limit` is written when no decision was made.
    pub(super) fn to_check(admission: Result<Admitted, Refusal>, limit: i64) -> Self {
        match admission {
            Ok(Admitted {
                decision: Some(decision),
                ..
            }) => Self::Counter(CounterReply::of(&decision, false, limit)),
            Ok(_) => Self::Counter(CounterReply::pass(limit)),
            Err(Refusal::Limited(decision)) => {
                Self::Counter(CounterReply::of(&decision, true, limit))
            }
            Err(refusal) => Self::refusal(&refusal),
        }
    }

    /// The reply to a peek: a refusal tells that the cost would not pass now, not when it will.
    pub(super) fn to_peek(admission: Result<Admitted, Refusal>) -> Self {
        match admission {
            Err(Refusal::Limited(decision)) => Self::Counter(CounterReply {
                is_denied: true,
                ..CounterReply::of(&decision, false, -1)
            }),
            admission => Self::to_check(admission, -1),
        }
    }

    fn refusal(refusal: &Refusal) -> Self {
        match refusal {
            Refusal::Unavailable { error, .. } => Self::unavailable(error),
            Refusal::Unidentified(missing) => Self::wrong(missing.to_string()),
            // A counter has no address, credentials or path, so these do not occur.
            Refusal::Limited(_)
            | Refusal::Banned
            | Refusal::Unauthorized(_)
            | Refusal::KeysUnavailable(_)
            | Refusal::Misread(_) => Self::Error("DENIED", "the caller may not pass".to_owned()),
        }
    }
}

fn seconds(span: Nanos) -> i64 {
    number(span.as_secs_ceil())
}

pub(super) fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn count(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    write_number(b'$', count(bytes.len()), out);
    out.extend_from_slice(bytes);
    end_line(out);
}

fn write_number(kind: u8, number: i64, out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    end_line(out);
}

fn end_line(out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(reply: &RespReply, protocol: RespVersion) -> String {
        let mut out = Vec::new();
        reply.write(protocol, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_reply_is_written_as_its_protocol_has_it() {
        let map = RespReply::Map(vec![("a", RespReply::Number(1)), ("b", RespReply::Null)]);
        assert_eq!(
            written(&map, RespVersion::Resp2),
            "*4\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n$-1\r\n"
        );
        assert_eq!(
            written(&map, RespVersion::Resp3),
            "%2\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n_\r\n"
        );
        let list = RespReply::List(vec![
            RespReply::Word("OK"),
            RespReply::Bytes(b"x\r\n".to_vec()),
        ]);
        assert_eq!(
            written(&list, RespVersion::Resp3),
            "*2\r\n+OK\r\n$3\r\nx\r\n\r\n"
        );
        let answer = CounterReply {
            is_denied: true,
            limit: 16,
            remaining: 0,
            retry_after: 2,
            reset_after: 32,
        };
        assert_eq!(
            written(&RespReply::Counter(answer), RespVersion::Resp2),
            "*5\r\n:1\r\n:16\r\n:0\r\n:2\r\n:32\r\n"
        );
    }

    #[test]
    fn what_a_caller_wrote_does_not_end_the_line_of_a_refusal() {
        assert_eq!(
            written(&RespReply::wrong("a\r\n+OK\r\n"), RespVersion::Resp2),
            "-ERR a  +OK  \r\n"
        );
    }
}
