//! Replies that are errors: which of them send the requests on, and where.
//!
//! **Invariant:** a request is sent again only after an error that proves that Redis did nothing:
//! `NOSCRIPT`, `MOVED`, `ASK`, `TRYAGAIN` and `READONLY`. After any other error it fails, because
//! sending it again could count it twice.

use std::time::Duration;

use tokio::time::Instant;

use super::{Traffic, TrafficEvent, fail};
use crate::redis::call::{Call, ScriptForm};
use crate::redis::lane::LaneCounters;
use crate::redis::request::{RequestError, StoreRequest};
use crate::redis::server_error::ServerError;

/// How long a slot that is moving is given before a node is asked about it again.
const REDIRECT_PAUSE: Duration = Duration::from_millis(2);

impl Traffic {
    /// Sends a call again to a node that does not know its script. The first such call brings the
    /// source; calls behind it use the digest, which the node knows by then. A call that meets
    /// `NOSCRIPT` a second time brings the source itself.
    pub(super) fn send_again(&mut self, mut call: Call, out: &mut Vec<u8>) {
        let form = if self.reloading_script && call.noscript_count == 0 {
            ScriptForm::Digest
        } else {
            ScriptForm::Text
        };
        if form == ScriptForm::Text {
            self.reloading_script = true;
            LaneCounters::add(&self.lane.counters.reloads, 1);
        }
        call.noscript_count = call.noscript_count.saturating_add(1);
        self.batches_sent += 1;
        call.batch = self.batches_sent;
        if call.requests.first().is_some_and(|request| request.asking) {
            self.send(
                Call::asking(self.batches_sent, call.sent),
                ScriptForm::Digest,
                out,
            );
        }
        self.send(call, form, out);
    }

    /// Places the requests of a call that failed: another node, a little later, or an error.
    pub(super) fn handle_server_error(
        &mut self,
        call: Call,
        server_error: ServerError,
        error: String,
        now: Instant,
    ) -> Option<TrafficEvent> {
        let mut requests = call.requests;
        if matches!(
            server_error,
            ServerError::Moved { .. } | ServerError::AskRedirect { .. }
        ) {
            self.delay_redirected(&mut requests, now);
        }
        match server_error {
            ServerError::Moved { slot, host, port } => Some(TrafficEvent::Moved {
                slot,
                host,
                port,
                requests,
            }),
            ServerError::AskRedirect { host, port } => Some(TrafficEvent::Redirected {
                host,
                port,
                requests,
            }),
            ServerError::ReadOnly => Some(TrafficEvent::Demoted { requests }),
            ServerError::TryAgain => {
                requests
                    .into_iter()
                    .for_each(|request| self.try_again(request, now));
                None
            }
            ServerError::Away => {
                fail(requests, &RequestError::Unavailable(error.clone()));
                Some(TrafficEvent::Away(error))
            }
            ServerError::NoScript | ServerError::Other => {
                fail(requests, &RequestError::Unavailable(error));
                None
            }
        }
    }

    /// Takes out the requests that bounce between nodes which disagree about a slot, and tries them
    /// here again a moment later. Every other redirection is still followed at once.
    fn delay_redirected(&mut self, requests: &mut Vec<StoreRequest>, now: Instant) {
        let has_bounced = |request: &mut StoreRequest| {
            request.hops >= StoreRequest::HOPS_IN_A_ROW && request.hops % 2 == 1
        };
        let bounced = requests
            .extract_if(.., has_bounced)
            .filter_map(|request| request.redirected(false));
        self.delayed
            .extend(bounced.map(|request| (now + REDIRECT_PAUSE, request)));
    }

    /// Tries a request again whose call had keys on both ends of a moving slot. Alone, or a moment
    /// later, most requests pass. The rest is sent key by key.
    fn try_again(&mut self, request: StoreRequest, now: Instant) {
        const TRIES: u8 = 3;
        let is_split =
            request.hops >= TRIES && request.charges().is_some_and(|charges| charges.len() > 1);
        if is_split {
            return request.respond(Err(RequestError::SplitKeys));
        }
        let asking = request.asking;
        let at = if request.hops == 0 {
            now
        } else {
            now + REDIRECT_PAUSE
        };
        self.delayed
            .extend(request.redirected(asking).map(|request| (at, request)));
    }
}
