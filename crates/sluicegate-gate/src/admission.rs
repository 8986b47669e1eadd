//! Admission: the one way from a question at a front door to its answer.
//!
//! Every front door is three steps: parse → [`admit`] → write. What happens in between is here and
//! nowhere else, in this order:
//!
//! 1. The request is read in the one way that every server reads it, or refused.
//! 2. Bans and access lists decide about the client's address.
//! 3. Limits that are charged whoever the caller is are charged, all or nothing.
//! 4. Credentials are verified; bans and lists decide about the principal.
//! 5. Limits that need the principal, and those whose place they do not take, are charged, all or
//!    nothing. A wrong credential is charged like no credential before it is refused, so that
//!    guessing is limited: a denial comes before the 401.
//!
//! A caller on the allow list skips the limits, never the credentials. Questions of the decision
//! service that name their charges or their principal take the steps that apply to them. Counting,
//! sampling, the facts for access log and span, and the `RATE_LIMIT` line happen in here, once.

mod candidate;
mod denials;
mod record;
mod ruling;

use std::borrow::Borrow;
use std::net::IpAddr;
use std::sync::Arc;

use http::{StatusCode, Uri};
use sluicegate::http::{Misread, RateLimitLine, Rejection};
use sluicegate::{PendingCharges, StoreError, Verdict};
use sluicegate_core::{Charge, Decision, FailureStatus, MissingKey, PartValue, Stage, Subject};

pub use self::candidate::{Candidate, DescribedRequest, NamedCharges, SentRequest};
pub use self::record::{AdmissionRecord, CallerFacts};
pub use self::ruling::{automatic_ban_of, of_caller as ruling_of_caller};
use crate::auth::{KeysUnavailable, Unauthorized, UnverifiedHeaders};
use crate::charging::{ChargedRequest, charge_request};
use crate::external::{ExternalLimits, SpelledHeaders};
use crate::gate::Gate;
use crate::snapshot::Snapshot;
use crate::telemetry::metrics::{DecisionAnswer, DecisionProtocol};

/// A question at a front door.
pub struct AdmissionRequest<'a, C> {
    /// The request, description or charges to decide about.
    pub candidate: C,
    /// Spend the units, or only ask about them.
    pub purpose: Purpose,
    /// The protocol of the decision service that the question came in; `None` for the proxy, whose
    /// requests are counted when they end.
    pub protocol: Option<DecisionProtocol>,
    /// Where the facts for access log and span are noted, if anybody wants them.
    pub record: Option<&'a AdmissionRecord>,
}

/// What a question is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The units are taken if they are there.
    Spend,
    /// Nothing is taken; the answer tells whether so many units would pass now. The candidate's own
    /// cost is zero.
    Peek(u64),
}

/// A candidate that may go on.
#[derive(Default)]
pub struct Admitted {
    /// The decision of its limits; `None` when none was asked.
    pub decision: Option<Decision>,
    /// The store is away and a failure policy let the request pass unchecked.
    pub is_unchecked: bool,
    /// The limits service's answer, where it names a server or a timeout for the caller.
    pub routing: Option<Arc<ExternalLimits>>,
    /// Credentials that were not found valid; whoever forwards the request removes them.
    pub unverified: UnverifiedHeaders,
    /// The charges that wait for the answer. A front door that sees it settles them (`settling.rs`);
    /// one that does not drops them, and such limits are only looked at.
    pub pending: Option<Box<PendingCharges>>,
}

impl Admitted {
    /// True when a limit has counted the candidate.
    pub fn is_counted(&self) -> bool {
        let decision = self.decision.as_ref();
        decision.is_some_and(|decision| decision.outcomes().next().is_some())
    }
}

/// A request that may go on, and what was read in it on the way.
pub struct AdmittedRequest {
    /// What its limits decided.
    pub admitted: Admitted,
    /// The client's address, after trusted proxies were walked.
    pub client_ip: Option<IpAddr>,
    /// The host in its one spelling.
    pub host: Option<String>,
    /// The target with the path as it was limited; `None` when it was sent like that.
    pub rewritten_target: Option<Uri>,
}

impl Borrow<Admitted> for AdmittedRequest {
    fn borrow(&self) -> &Admitted {
        &self.admitted
    }
}

/// Why a request may not go on.
#[derive(Debug)]
pub enum Refusal {
    /// Servers may read the request differently: its path, or the twin of a key header.
    Misread(Misread),
    /// The caller is banned, or on the list of those who do not pass.
    Banned,
    /// The credential is missing or wrong.
    Unauthorized(Unauthorized),
    /// The token cannot be verified, because the keys of its issuer are missing.
    KeysUnavailable(KeysUnavailable),
    /// A limit is spent.
    Limited(Decision),
    /// The store is away and the failure policy is closed.
    Unavailable {
        /// The status to answer with.
        status: FailureStatus,
        /// The reason why the store gave no decision.
        error: StoreError,
    },
    /// The request lacks what a limit is keyed by.
    Unidentified(MissingKey),
}

impl Refusal {
    /// The label that counts it.
    pub fn label(&self) -> DecisionAnswer {
        match self {
            Self::Misread(_) | Self::Unidentified(_) => DecisionAnswer::Refused,
            Self::Banned => DecisionAnswer::Denied,
            Self::Unauthorized(_) => DecisionAnswer::Unauthorized,
            Self::Limited(_) => DecisionAnswer::Limited,
            Self::Unavailable { .. } | Self::KeysUnavailable(_) => DecisionAnswer::Unavailable,
        }
    }

    /// The response that tells of it; `None` for bans and credentials.
    pub(crate) fn rejection(&self) -> Option<Rejection<'_>> {
        match self {
            Self::Misread(misread) => Some(misread.into()),
            Self::Limited(decision) => Some(Rejection::Limited(decision)),
            Self::Unavailable { status, .. } => Some(Rejection::Unavailable(*status)),
            Self::Unidentified(missing) => Some(Rejection::Unidentified(missing)),
            Self::Banned | Self::Unauthorized(_) | Self::KeysUnavailable(_) => None,
        }
    }

    /// The status of the response, for callers that are not gRPC.
    pub fn status(&self) -> StatusCode {
        match (self, self.rejection()) {
            (_, Some(rejection)) => rejection.status(),
            (Self::Unauthorized(_), None) => StatusCode::UNAUTHORIZED,
            (Self::KeysUnavailable(_), None) => StatusCode::SERVICE_UNAVAILABLE,
            (_, None) => StatusCode::FORBIDDEN,
        }
    }

    /// The decision of the limits, where they made one.
    pub fn decision(&self) -> Option<&Decision> {
        match self {
            Self::Limited(decision) => Some(decision),
            _ => None,
        }
    }
}

/// Decides whether a candidate may go on. `Refusal` is written for HTTP by `refusal_response.rs`.
pub async fn admit<C: Candidate>(
    gate: &Gate,
    snapshot: &Snapshot,
    question: AdmissionRequest<'_, C>,
) -> Result<C::Admitted, Refusal> {
    let AdmissionRequest {
        candidate,
        purpose,
        protocol,
        record,
    } = question;
    let entrance = Entrance {
        gate,
        snapshot,
        purpose,
        record,
    };
    let decided = candidate.pass(entrance).await;
    if protocol.is_some() || record.is_some() {
        let (label, decision) = match &decided {
            Ok(admitted) => (DecisionAnswer::Allowed, admitted.borrow().decision.as_ref()),
            Err(refusal) => (refusal.label(), refusal.decision()),
        };
        if let Some(protocol) = protocol {
            gate.metrics.decision(protocol, label);
        }
        if let Some(record) = record {
            record.note_answer(label, decision);
        }
    }
    decided
}

/// One admission on its way.
#[derive(Clone, Copy)]
pub struct Entrance<'a> {
    gate: &'a Gate,
    snapshot: &'a Snapshot,
    purpose: Purpose,
    record: Option<&'a AdmissionRecord>,
}

impl Entrance<'_> {
    /// Charges a request to the limits of one stage.
    async fn charge_stage(
        self,
        subject: &Subject<'_>,
        headers: SpelledHeaders<'_>,
        stage: Stage,
        cost: u64,
    ) -> Result<Admitted, Refusal> {
        let Self { gate, snapshot, .. } = self;
        let charges = snapshot.policy.charges_at(stage, subject, cost);
        let charges = charges.map_err(Refusal::Unidentified)?;
        let charged = charge_request(gate, snapshot, subject, headers, &charges).await;
        let ChargedRequest {
            verdict,
            routing,
            pending,
        } = charged;
        let mut admitted = self.conclude(verdict, Some(subject), &charges)?;
        (admitted.routing, admitted.pending) = (routing, pending);
        Ok(admitted)
    }

    /// Makes a verdict final: a denial by a limit, and nothing else, writes the `RATE_LIMIT` line.
    fn conclude(
        self,
        verdict: Verdict,
        subject: Option<&Subject<'_>>,
        charges: &[Charge<'_>],
    ) -> Result<Admitted, Refusal> {
        let (decision, is_unchecked) = match verdict {
            Verdict::Forward(decision) => (Some(decision), false),
            Verdict::ForwardUnchecked(_) => (None, true),
            Verdict::Reject(decision) => {
                self.write_rate_limit_line(subject, charges, &decision);
                let client_ip = subject.and_then(|subject| subject.client_ip);
                denials::count(self.gate, self.snapshot, &decision, charges, client_ip);
                return Err(Refusal::Limited(decision));
            }
            Verdict::Unavailable { status, error } => {
                return Err(Refusal::Unavailable { status, error });
            }
            Verdict::Unidentified(missing) => return Err(Refusal::Unidentified(missing)),
        };
        if let (Purpose::Peek(cost), Some(decision)) = (self.purpose, &decision)
            && !has_room(decision, subject, cost)
        {
            return Err(Refusal::Limited(decision.clone()));
        }
        Ok(Admitted {
            decision,
            is_unchecked,
            ..Admitted::default()
        })
    }

    /// Writes the line that fail2ban reads. It is about an address: a counter that is named by
    /// anything else has none, and no line.
    fn write_rate_limit_line(
        self,
        subject: Option<&Subject<'_>>,
        charges: &[Charge<'_>],
        decision: &Decision,
    ) {
        if !self.snapshot.log_rejections {
            return;
        }
        let named = Subject {
            client_ip: charges.iter().find_map(address_in_key),
            ..Subject::ANONYMOUS
        };
        let subject = match subject {
            Some(subject) => subject,
            None if named.client_ip.is_some() => &named,
            None => return,
        };
        let line = RateLimitLine::new(subject, Rejection::Limited(decision).status());
        self.gate.access_log.rate_limit_line(&line);
    }
}

/// True when every enforced limit has as many units left as a request of this cost takes there;
/// without a subject the charges were named.
fn has_room(decision: &Decision, subject: Option<&Subject<'_>>, cost: u64) -> bool {
    let mut enforced = decision.outcomes().filter(|(_, charged)| charged.enforced);
    enforced.all(|(limit, charged)| {
        let units = match subject {
            Some(subject) => limit.units_of_request(subject, cost).unwrap_or(u64::MAX),
            None => limit.units_by_name(cost),
        };
        charged.outcome.remaining() >= units
    })
}

/// The address that a counter is about; `None` where the counter is a whole network's.
fn address_in_key(charge: &Charge<'_>) -> Option<IpAddr> {
    charge.key.parts().find_map(|part| match part {
        PartValue::Address(address) => {
            let is_whole = charge.key.limit().prefixes.are_whole(address);
            is_whole.then_some(address)
        }
        _ => None,
    })
}
