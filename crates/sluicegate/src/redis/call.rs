//! A call: one command on the wire, and the requests that wait for its reply.
//!
//! `traffic` groups requests into calls and keeps the calls in the order in which they were
//! written, because that is the order of the replies. The arguments of scripts are written by
//! `script`.

use sluicegate_core::{RedisClock, Timestamp};
use smallvec::SmallVec;
use tokio::time::Instant;

use super::request::{Operation, StoreRequest};
use super::script::{self, RedisScript, ScriptTime};
use super::wire;

/// One command that was written and whose reply has not come yet.
pub(super) struct Call {
    /// Number of the batch that it was written in. Calls of one batch are in flight together.
    pub(super) batch: u64,
    /// When it was written to the buffer of the connection.
    pub(super) sent: Instant,
    /// The requests in it, in the order of their results in the reply. Empty for `ASKING`.
    pub(super) requests: Vec<StoreRequest>,
    pub(super) kind: CallKind,
    /// Number of times that the node replied `NOSCRIPT` to it.
    pub(super) noscript_count: u8,
}

/// The command of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallKind {
    /// The decide script, for the charges of all its requests.
    Decide,
    /// The refund script, for one request.
    Refund,
    /// `DEL`, for one request.
    Delete,
    /// `GET`, for one request.
    Get,
    /// `SET`, for one request.
    Put,
    /// The swap script, for one request.
    Swap,
    /// `ASKING`, which precedes a call to a node that a slot is moving to. No request waits for it.
    Asking,
}

/// How a script is named in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScriptForm {
    /// By its digest, which is short but unknown to a node that restarted.
    Digest,
    /// By its source, which the node then remembers.
    Text,
}

impl Call {
    /// A call for all of `requests`, which have the same kind of operation.
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

    /// The `ASKING` that precedes a call.
    pub(super) fn asking(batch: u64, sent: Instant) -> Self {
        Self {
            batch,
            sent,
            requests: Vec::new(),
            kind: CallKind::Asking,
            noscript_count: 0,
        }
    }

    /// Appends the command to `out`. `body` is a buffer to reuse: the arguments are written there
    /// first, because RESP puts their number before them.
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

    /// Appends everything after the name of the command or script; returns the number of strings.
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
            Some(Operation::Refund { charge, charged }) => {
                script::write_refund(body, charge, *charged, now)
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
                for argument in [b"1", key.as_bytes(), read, value, ttl_ms.as_bytes()] {
                    wire::write_bulk(body, argument);
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

    /// Name of the command. Scripts do not come here: they go by `EVALSHA` or `EVAL`.
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

/// The clock argument of a script. A call of several requests takes the latest of their times.
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
