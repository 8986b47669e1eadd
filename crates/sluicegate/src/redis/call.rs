//! A call: one command on the wire and everybody who waits for its answer.

use sluicegate_core::Timestamp;
use smallvec::SmallVec;
use tokio::time::Instant;

use super::options::RedisClock;
use super::request::{Operation, StoreRequest};
use super::script::{self, RedisScript, ScriptTime};
use super::wire;

/// One command that was written and not answered yet.
pub(super) struct Call {
    /// Calls that were written together have the same number.
    pub(super) batch: u64,
    pub(super) sent: Instant,
    pub(super) requests: Vec<StoreRequest>,
    pub(super) kind: CallKind,
    /// Times the node did not know the script.
    pub(super) noscript_count: u8,
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
pub(super) enum ScriptForm {
    /// By its digest.
    Digest,
    /// By its text, which the node then remembers.
    Text,
}

impl Call {
    /// A call over all of `asks`, which are of the same kind.
    pub(super) fn new(batch: u64, requests: Vec<StoreRequest>, sent: Instant) -> Self {
        let kind = CallKind::of(&requests[0]);
        Self {
            batch,
            sent,
            requests,
            kind,
            noscript_count: 0,
        }
    }

    pub(super) fn asking(batch: u64, sent: Instant) -> Self {
        Self {
            batch,
            sent,
            requests: Vec::new(),
            kind: CallKind::Asking,
            noscript_count: 0,
        }
    }

    /// Appends the command; `body` is room for the part of it that has to be counted first.
    pub(super) fn write(
        &self,
        out: &mut Vec<u8>,
        body: &mut Vec<u8>,
        form: ScriptForm,
        clock: RedisClock,
    ) {
        body.clear();
        let strings = self.write_body(body, clock);
        match (self.kind.script(), form) {
            (Some(script), form) => {
                wire::write_array_header(out, 2 + strings);
                match form {
                    ScriptForm::Digest => wire::write_bulk(out, b"EVALSHA"),
                    ScriptForm::Text => wire::write_bulk(out, b"EVAL"),
                }
                let name = if form == ScriptForm::Digest {
                    script.sha.as_bytes()
                } else {
                    script.source.as_bytes()
                };
                wire::write_bulk(out, name);
            }
            (None, _) => {
                wire::write_array_header(out, 1 + strings);
                wire::write_bulk(out, self.kind.command());
            }
        }
        out.extend_from_slice(body);
    }

    /// Everything after the script; returns how many strings that is.
    fn write_body(&self, body: &mut Vec<u8>, clock: RedisClock) -> usize {
        let now = now(&self.requests, clock, self.sent);
        match self.requests.first().map(|request| &request.operation) {
            Some(Operation::Decide(_)) => {
                let requests: SmallVec<[&[_]; 256]> = self
                    .requests
                    .iter()
                    .filter_map(StoreRequest::charges)
                    .collect();
                script::write_decide(body, &requests, now)
            }
            Some(Operation::Refund { charge, drawn }) => {
                script::write_refund(body, charge, *drawn, now)
            }
            Some(Operation::Delete { key, .. }) => {
                wire::write_bulk(body, key.as_bytes());
                1
            }
            Some(Operation::Get { key }) => {
                wire::write_bulk(body, key.as_bytes());
                1
            }
            Some(Operation::Put { key, value, ttl_ms }) => {
                wire::write_bulk(body, key.as_bytes());
                wire::write_bulk(body, value);
                wire::write_bulk(body, b"PX");
                wire::write_bulk(body, ttl_ms.to_string().as_bytes());
                4
            }
            Some(Operation::Swap {
                key,
                read,
                value,
                ttl_ms,
            }) => {
                let ttl_ms = ttl_ms.to_string();
                for word in [b"1", key.as_bytes(), read, value, ttl_ms.as_bytes()] {
                    wire::write_bulk(body, word);
                }
                5
            }
            None => 0,
        }
    }
}

impl CallKind {
    fn of(request: &StoreRequest) -> Self {
        match request.operation {
            Operation::Decide(_) => Self::Decide,
            Operation::Refund { .. } => Self::Refund,
            Operation::Delete { .. } => Self::Delete,
            Operation::Get { .. } => Self::Get,
            Operation::Put { .. } => Self::Put,
            Operation::Swap { .. } => Self::Swap,
        }
    }

    fn script(self) -> Option<&'static RedisScript> {
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

impl StoreRequest {
    pub(super) fn charges(&self) -> Option<&[super::StoreCharge]> {
        match &self.operation {
            Operation::Decide(charges) => Some(charges),
            Operation::Refund { .. }
            | Operation::Delete { .. }
            | Operation::Get { .. }
            | Operation::Put { .. }
            | Operation::Swap { .. } => None,
        }
    }
}

/// The time that the script goes by.
fn now(requests: &[StoreRequest], clock: RedisClock, sent: Instant) -> ScriptTime {
    let callers_time =
        |at: &dyn Fn(&StoreRequest) -> Timestamp| requests.iter().map(at).max().unwrap_or_default();
    match clock {
        RedisClock::Server => ScriptTime::Server,
        RedisClock::Replica => {
            ScriptTime::Replica(callers_time(&|request| request.callers_time(sent)))
        }
        RedisClock::Given => ScriptTime::Given(callers_time(&|request| request.submitted_at)),
    }
}
