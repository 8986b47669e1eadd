//! Admission: the one way from a question at a front door to its answer.
//!
//! Every front door is three steps: parse → [`admit`] → write. What happens in between is here and
//! nowhere else, in this order:
//!
//! 1. The request is read in the one way that every server reads it, or refused.
//! 2. Bans and access lists decide about the client's address.
//! 3. Limits that need no principal are charged, all or nothing.
//! 4. Credentials are verified; bans and lists decide about the principal.
//! 5. Limits that need the principal are charged, all or nothing.
//!
//! A caller on the allow list skips the limits, never the credentials. Questions of the decision
//! service that name their charges or their principal take the steps that apply to them. Counting,
//! sampling, the facts for access log and span, and the `RATE_LIMIT` line happen in here, once.

mod record;

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use http::{HeaderMap, StatusCode, Uri};
use sluicegate::http::{Extracted, Misread, RateLimitLine, RequestHead};
use sluicegate::{StoreError, Verdict};
use sluicegate_core::{
    Charge, Decision, FailureStatus, MissingKey, PartValue, Principal, Stage, Subject,
};

pub use self::record::{AdmissionRecord, CallerFacts};
use crate::access::Ruling;
use crate::auth::{Identity, Unauthorized};
use crate::charging::{Charged, charge_named, charge_request};
use crate::external::ExternalLimits;
use crate::gate::Gate;
use crate::snapshot::Snapshot;
use crate::telemetry::metrics::{DecisionAnswer, DecisionProtocol};

/// A question at a front door.
pub struct AdmissionRequest<'a> {
    /// The request, description or charges to decide about.
    pub candidate: Candidate<'a>,
    /// Spend the units, or only ask about them.
    pub purpose: Purpose,
    /// The protocol of the decision service that the question came in; `None` for the proxy, whose
    /// requests are counted when they end.
    pub protocol: Option<DecisionProtocol>,
    /// Where the facts for access log and span are noted, if anybody wants them.
    pub record: Option<&'a AdmissionRecord>,
}

/// What is to be admitted.
pub enum Candidate<'a> {
    /// A request as its client sent it; its cost is one unit.
    Request(RequestHead<'a>),
    /// A request as a caller of the decision service describes it. Its principal is named by that
    /// caller, who has verified it, so credentials are not looked at.
    Described {
        /// The description: method, host, path, address and principal.
        subject: &'a Subject<'a>,
        /// The headers that the limits service may be told about.
        headers: &'a HeaderMap,
        /// Units to charge to each limit; zero with [`Purpose::Peek`].
        cost: u64,
    },
    /// Charges that the caller names. Bans and lists decide about the `subjects` first.
    Charges {
        /// The callers that bans and access lists decide about; may be empty.
        subjects: &'a [Subject<'a>],
        /// Or the reason why there are none.
        charges: Result<&'a [Charge<'a>], MissingKey>,
    },
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

/// The answer to a question.
pub enum Admission {
    /// The request may go on.
    Admitted(Admitted),
    /// The request ends here; `refusal_response.rs` writes it for HTTP.
    Refused(Refusal),
}

/// A request that may go on.
#[derive(Default)]
pub struct Admitted {
    /// The decision of its limits; `None` when none was asked.
    pub decision: Option<Decision>,
    /// The store is away and a failure policy let the request pass unchecked.
    pub is_unchecked: bool,
    /// The limits service's answer, where it names a server or a timeout for the caller.
    pub routing: Option<Arc<ExternalLimits>>,
    /// The client's address, after trusted proxies were walked; of a [`Candidate::Request`].
    pub client_ip: Option<IpAddr>,
    /// The host in its one spelling; of a [`Candidate::Request`].
    pub host: Option<String>,
    /// The target with the path as it was limited; `None` when it was sent like that.
    pub rewritten_target: Option<Uri>,
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
            Self::Unavailable { .. } => DecisionAnswer::Unavailable,
        }
    }
}

impl Admission {
    /// The label that counts it.
    pub(crate) fn label(&self) -> DecisionAnswer {
        match self {
            Self::Admitted(_) => DecisionAnswer::Allowed,
            Self::Refused(refusal) => refusal.label(),
        }
    }

    /// The decision of the limits, where they made one.
    pub fn decision(&self) -> Option<&Decision> {
        match self {
            Self::Admitted(admitted) => admitted.decision.as_ref(),
            Self::Refused(Refusal::Limited(decision)) => Some(decision),
            Self::Refused(_) => None,
        }
    }
}

/// Decides whether a request may go on.
pub async fn admit(gate: &Gate, snapshot: &Snapshot, question: AdmissionRequest<'_>) -> Admission {
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
    let decided = match candidate {
        Candidate::Request(head) => entrance.admit_request(head).await,
        Candidate::Described {
            subject,
            headers,
            cost,
        } => entrance.admit_described(subject, headers, cost).await,
        Candidate::Charges { subjects, charges } => entrance.admit_charges(subjects, charges).await,
    };
    let admission = match decided {
        Ok(admitted) => Admission::Admitted(admitted),
        Err(refusal) => Admission::Refused(refusal),
    };
    if let Some(protocol) = protocol {
        gate.metrics.decision(protocol, admission.label());
    }
    if let Some(record) = record {
        record.note_answer(admission.label(), admission.decision());
    }
    admission
}

/// One admission on its way.
#[derive(Clone, Copy)]
struct Entrance<'a> {
    gate: &'a Gate,
    snapshot: &'a Snapshot,
    purpose: Purpose,
    record: Option<&'a AdmissionRecord>,
}

impl Entrance<'_> {
    /// Takes a request through all five steps.
    async fn admit_request(self, head: RequestHead<'_>) -> Result<Admitted, Refusal> {
        let Self { snapshot, .. } = self;
        let headers = head.headers;
        let read = head.read(&snapshot.key_headers, &snapshot.policy);
        let read = read.map_err(Refusal::Misread)?;
        let extracted = read.extracted;
        if let Some(record) = self.record {
            record.note_caller(&extracted);
        }
        let ruling = extracted
            .client_ip
            .and_then(|address| ruling_of_address(self.gate, snapshot, address));
        if ruling == Some(Ruling::Deny) {
            return Err(Refusal::Banned);
        }
        let is_exempt = ruling == Some(Ruling::Allow);
        let admitted = match (snapshot.auth.is_configured(), is_exempt) {
            (false, true) => Admitted::default(),
            (false, false) => {
                self.charge_stage(&extracted.subject(), headers, Stage::Whole)
                    .await?
            }
            // In a box: a request without credentials needs no room for this.
            (true, _) => {
                Box::pin(self.admit_with_credentials(&extracted, headers, is_exempt)).await?
            }
        };
        Ok(Admitted {
            client_ip: extracted.client_ip,
            host: extracted.host.map(Cow::into_owned),
            rewritten_target: read.rewritten_target,
            ..admitted
        })
    }

    /// Steps three to five where credentials are configured.
    async fn admit_with_credentials(
        self,
        extracted: &Extracted<'_>,
        headers: &HeaderMap,
        is_exempt: bool,
    ) -> Result<Admitted, Refusal> {
        let Self { gate, snapshot, .. } = self;
        let mut subject = extracted.subject();
        let before = match is_exempt {
            true => Admitted::default(),
            false => {
                self.charge_stage(&subject, headers, Stage::BeforePrincipal)
                    .await?
            }
        };
        let principal = match snapshot.auth.authenticate(headers, SystemTime::now()) {
            Identity::Anonymous => None,
            Identity::Known(principal) => Some(principal),
            Identity::Refused(unauthorized) => return Err(Refusal::Unauthorized(unauthorized)),
        };
        if let (Some(record), Some(principal)) = (self.record, &principal) {
            record.note_principal(&principal.id);
        }
        let ruling = principal
            .as_deref()
            .and_then(|principal| ruling_of_principal(gate, snapshot, principal));
        match ruling {
            Some(Ruling::Deny) => return Err(Refusal::Banned),
            Some(Ruling::Allow) => return Ok(before),
            None if is_exempt => return Ok(before),
            None => {}
        }
        subject.principal = principal.as_deref();
        let after = self
            .charge_stage(&subject, headers, Stage::AfterPrincipal)
            .await?;
        let decision = match (before.decision, after.decision) {
            (Some(before), Some(after)) => Some(before.and(&after)),
            (before, after) => before.or(after),
        };
        Ok(Admitted {
            decision,
            is_unchecked: before.is_unchecked || after.is_unchecked,
            routing: after.routing.or(before.routing),
            ..Admitted::default()
        })
    }

    async fn admit_described(
        self,
        subject: &Subject<'_>,
        headers: &HeaderMap,
        cost: u64,
    ) -> Result<Admitted, Refusal> {
        let Self { gate, snapshot, .. } = self;
        if let Some(twin) = snapshot
            .key_headers
            .find_ambiguous(&snapshot.policy, headers)
        {
            return Err(Refusal::Misread(Misread::AmbiguousHeader(twin)));
        }
        match ruling_of_caller(gate, snapshot, subject) {
            Some(Ruling::Deny) => return Err(Refusal::Banned),
            Some(Ruling::Allow) => return Ok(Admitted::default()),
            None => {}
        }
        let charges = snapshot.policy.charges_at(Stage::Whole, subject, cost);
        let charges = charges.map_err(Refusal::Unidentified)?;
        let charged = charge_request(gate, snapshot, subject, headers, &charges).await;
        self.conclude(charged, Some(subject), &charges)
    }

    async fn admit_charges(
        self,
        subjects: &[Subject<'_>],
        charges: Result<&[Charge<'_>], MissingKey>,
    ) -> Result<Admitted, Refusal> {
        let Self { gate, snapshot, .. } = self;
        let mut is_exempt = false;
        for subject in subjects {
            match ruling_of_caller(gate, snapshot, subject) {
                Some(Ruling::Deny) => return Err(Refusal::Banned),
                Some(Ruling::Allow) => is_exempt = true,
                None => {}
            }
        }
        if is_exempt {
            return Ok(Admitted::default());
        }
        let charges = charges.map_err(Refusal::Unidentified)?;
        let charged = Charged {
            verdict: charge_named(gate, snapshot, charges).await,
            routing: None,
        };
        let subject = subjects.iter().find(|subject| subject.client_ip.is_some());
        self.conclude(charged, subject, charges)
    }

    /// Charges a request to the limits of one stage.
    async fn charge_stage(
        self,
        subject: &Subject<'_>,
        headers: &HeaderMap,
        stage: Stage,
    ) -> Result<Admitted, Refusal> {
        let Self { gate, snapshot, .. } = self;
        let charges = snapshot.policy.charges_at(stage, subject, 1);
        let charges = charges.map_err(Refusal::Unidentified)?;
        let charged = charge_request(gate, snapshot, subject, headers, &charges).await;
        self.conclude(charged, Some(subject), &charges)
    }

    /// Makes a verdict final: a denial by a limit, and nothing else, writes the `RATE_LIMIT` line.
    fn conclude(
        self,
        charged: Charged,
        subject: Option<&Subject<'_>>,
        charges: &[Charge<'_>],
    ) -> Result<Admitted, Refusal> {
        let Charged { verdict, routing } = charged;
        let (decision, is_unchecked) = match verdict {
            Verdict::Forward(decision) => (Some(decision), false),
            Verdict::ForwardUnchecked(_) => (None, true),
            Verdict::Reject(decision) => {
                self.write_rate_limit_line(subject, charges);
                return Err(Refusal::Limited(decision));
            }
            Verdict::Unavailable { status, error } => {
                return Err(Refusal::Unavailable { status, error });
            }
            Verdict::Unidentified(missing) => return Err(Refusal::Unidentified(missing)),
        };
        if let (Purpose::Peek(cost), Some(decision)) = (self.purpose, &decision)
            && !has_room(decision, cost)
        {
            return Err(Refusal::Limited(decision.clone()));
        }
        Ok(Admitted {
            decision,
            is_unchecked,
            routing,
            ..Admitted::default()
        })
    }

    /// Writes the line that fail2ban reads. It is about an address: a counter that is named by
    /// anything else has none, and no line.
    fn write_rate_limit_line(self, subject: Option<&Subject<'_>>, charges: &[Charge<'_>]) {
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
        let line = RateLimitLine::new(subject, StatusCode::TOO_MANY_REQUESTS);
        self.gate.access_log.rate_limit_line(&line);
    }
}

/// True when every enforced limit has so many units left.
fn has_room(decision: &Decision, cost: u64) -> bool {
    let mut enforced = decision.outcomes().filter(|(_, charged)| charged.enforced);
    enforced.all(|(_, charged)| charged.outcome.remaining() >= cost)
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

/// The ruling of bans and lists on an address; a ban comes before everything else.
fn ruling_of_address(gate: &Gate, snapshot: &Snapshot, address: IpAddr) -> Option<Ruling> {
    let banned = gate.overrides.with_bans();
    let banned = banned.and_then(|overrides| overrides.bans().of_address(address));
    banned.or_else(|| snapshot.access.of_address(address))
}

/// The ruling of bans and lists on a principal.
fn ruling_of_principal(gate: &Gate, snapshot: &Snapshot, principal: &Principal) -> Option<Ruling> {
    let banned = gate.overrides.with_bans();
    let banned = banned.and_then(|overrides| overrides.bans().of_principal(&principal.id));
    banned.or_else(|| snapshot.access.of_principal(&principal.id))
}

/// The ruling of bans and lists on the address and the principal of a subject.
pub fn ruling_of_caller(gate: &Gate, snapshot: &Snapshot, subject: &Subject<'_>) -> Option<Ruling> {
    let principal = subject.principal.map(|known| known.id.as_str());
    let banned = gate.overrides.with_bans();
    let banned =
        banned.and_then(|overrides| overrides.bans().of_caller(subject.client_ip, principal));
    banned.or_else(|| snapshot.access.of_caller(subject.client_ip, principal))
}
