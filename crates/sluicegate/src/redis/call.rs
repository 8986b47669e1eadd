//! A call: one command on the wire and everybody who waits for its answer.

use sluicegate_core::{RedisClock, Timestamp};
use smallvec::SmallVec;
use tokio::time::Instant;

use super::ask::{Ask, Work};
use super::script::{self, Now, Script};
use super::wire;

/// One command that was written and not answered yet.
pub(super) struct Call {
    /// Calls that were written together have the same number.
    pub(super) launch: u64,
    pub(super) sent: Instant,
    pub(super) asks: Vec<Ask>,
    pub(super) kind: CallKind,
    /// Times the node did not know the script.
    pub(super) unknown: u8,
}

/// Which command it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallKind {
    /// The decide script, over the charges of all asks.
    Decide,
    /// The refund script, for one ask.
    Refund,
    /// `DEL`, for one ask.
    Delete,
    /// `GET`, for one ask.
    Get,
    /// `SET`, for one ask.
    Put,
    /// The swap script, for one ask.
    Swap,
    /// `ASKING`, which goes before a call to a node that a slot is on its way to. Nobody waits for it.
    Asking,
}

/// How a script is named in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// By its digest.
    Digest,
    /// By its text, which the node then remembers.
    Text,
}

impl Call {
    /// A call over all of `asks`, which are of the same kind.
    pub(super) fn new(launch: u64, asks: Vec<Ask>, sent: Instant) -> Self {
        let kind = CallKind::of(&asks[0]);
        Self {
            launch,
            sent,
            asks,
            kind,
            unknown: 0,
        }
    }

    pub(super) fn asking(launch: u64, sent: Instant) -> Self {
        Self {
            launch,
            sent,
            asks: Vec::new(),
            kind: CallKind::Asking,
            unknown: 0,
        }
    }

    /// Appends the command; `body` is room for the part of it that has to be counted first.
    pub(super) fn write(
        &self,
        out: &mut Vec<u8>,
        body: &mut Vec<u8>,
        form: Form,
        clock: RedisClock,
    ) {
        body.clear();
        let strings = self.write_body(body, clock);
        match (self.kind.script(), form) {
            (Some(script), form) => {
                wire::begin(out, 2 + strings);
                match form {
                    Form::Digest => wire::bulk(out, b"EVALSHA"),
                    Form::Text => wire::bulk(out, b"EVAL"),
                }
                let name = if form == Form::Digest {
                    script.sha.as_bytes()
                } else {
                    script.source.as_bytes()
                };
                wire::bulk(out, name);
            }
            (None, _) => {
                wire::begin(out, 1 + strings);
                wire::bulk(out, self.kind.command());
            }
        }
        out.extend_from_slice(body);
    }

    /// Everything after the script; returns how many strings that is.
    fn write_body(&self, body: &mut Vec<u8>, clock: RedisClock) -> usize {
        let now = now(&self.asks, clock, self.sent);
        match self.asks.first().map(|ask| &ask.work) {
            Some(Work::Decide(_)) => {
                let requests: SmallVec<[&[_]; 256]> =
                    self.asks.iter().filter_map(Ask::items).collect();
                script::write_decide(body, &requests, now)
            }
            Some(Work::Refund { item, drawn }) => script::write_refund(body, item, *drawn, now),
            Some(Work::Delete { key, .. }) => {
                wire::bulk(body, key.as_bytes());
                1
            }
            Some(Work::Get { key }) => {
                wire::bulk(body, key.as_bytes());
                1
            }
            Some(Work::Put { key, value, ttl_ms }) => {
                wire::bulk(body, key.as_bytes());
                wire::bulk(body, value);
                wire::bulk(body, b"PX");
                wire::bulk(body, ttl_ms.to_string().as_bytes());
                4
            }
            Some(Work::Swap {
                key,
                read,
                value,
                ttl_ms,
            }) => {
                let ttl_ms = ttl_ms.to_string();
                for word in [b"1", key.as_bytes(), read, value, ttl_ms.as_bytes()] {
                    wire::bulk(body, word);
                }
                5
            }
            None => 0,
        }
    }
}

impl CallKind {
    fn of(ask: &Ask) -> Self {
        match ask.work {
            Work::Decide(_) => Self::Decide,
            Work::Refund { .. } => Self::Refund,
            Work::Delete { .. } => Self::Delete,
            Work::Get { .. } => Self::Get,
            Work::Put { .. } => Self::Put,
            Work::Swap { .. } => Self::Swap,
        }
    }

    fn script(self) -> Option<&'static Script> {
        match self {
            Self::Decide => Some(script::decide_script()),
            Self::Refund => Some(script::refund_script()),
            Self::Swap => Some(script::swap_script()),
            Self::Delete | Self::Get | Self::Put | Self::Asking => None,
        }
    }

    /// The name of its command.
    fn command(self) -> &'static [u8] {
        match self {
            Self::Get => b"GET",
            Self::Put => b"SET",
            Self::Asking => b"ASKING",
            Self::Delete => b"DEL",
            Self::Decide | Self::Refund | Self::Swap => b"EVALSHA",
        }
    }
}

impl Ask {
    pub(super) fn items(&self) -> Option<&[super::Item]> {
        match &self.work {
            Work::Decide(items) => Some(items),
            Work::Refund { .. }
            | Work::Delete { .. }
            | Work::Get { .. }
            | Work::Put { .. }
            | Work::Swap { .. } => None,
        }
    }
}

/// The time that the script goes by.
fn now(asks: &[Ask], clock: RedisClock, sent: Instant) -> Now {
    let by_callers_clock =
        |at: &dyn Fn(&Ask) -> Timestamp| asks.iter().map(at).max().unwrap_or_default();
    match clock {
        RedisClock::Server => Now::Server,
        RedisClock::Replica => Now::Replica(by_callers_clock(&|ask| ask.by_callers_clock(sent))),
        RedisClock::Given => Now::Given(by_callers_clock(&|ask| ask.asked_at)),
    }
}
