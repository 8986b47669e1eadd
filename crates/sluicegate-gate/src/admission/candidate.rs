//! The candidates of admission, and the steps that each of them takes.

use std::borrow::{Borrow, Cow};
use std::time::SystemTime;

use sluicegate::http::{Extracted, Misread, RequestHead, check_method};
use sluicegate_core::{Charge, MissingKey, Stage, Subject};

use super::{Admitted, AdmittedRequest, Entrance, Refusal, ruling};
use crate::access::Ruling;
use crate::auth::{Forwarder, Identity};
use crate::charging::charge_named;
use crate::external::{HeaderSpelling, SpelledHeaders};
use crate::settling::settle_refused;

/// Something that asks to be admitted.
pub trait Candidate {
    /// What the front door is told when the candidate may go on.
    type Admitted: Borrow<Admitted>;

    /// Takes the steps that apply to the candidate.
    fn pass(
        self,
        entrance: Entrance<'_>,
    ) -> impl Future<Output = Result<Self::Admitted, Refusal>> + Send;
}

/// A request as its client sent it; its cost is one unit. It takes all five steps.
pub struct SentRequest<'a> {
    /// The request.
    pub head: RequestHead<'a>,
    /// How the names of its headers were written.
    pub spelling: HeaderSpelling<'a>,
}

/// A request as a caller of the decision service describes it. Its principal is named by that
/// caller, who has verified it, so credentials are not looked at.
pub struct DescribedRequest<'a> {
    /// The description: method, host, path, address and principal.
    pub subject: &'a Subject<'a>,
    /// The headers that the limits service may be told about.
    pub headers: SpelledHeaders<'a>,
    /// Units to charge to each limit; zero with [`Purpose::Peek`](super::Purpose::Peek).
    pub cost: u64,
}

/// Charges that the caller names. Bans and lists decide about the `subjects` first.
pub struct NamedCharges<'a> {
    /// The callers that bans and access lists decide about; may be empty.
    pub subjects: &'a [Subject<'a>],
    /// Or the reason why there are none.
    pub charges: Result<&'a [Charge<'a>], &'a MissingKey>,
}

impl Candidate for SentRequest<'_> {
    type Admitted = AdmittedRequest;

    async fn pass(self, entrance: Entrance<'_>) -> Result<AdmittedRequest, Refusal> {
        let Entrance { gate, snapshot, .. } = entrance;
        let headers = SpelledHeaders {
            lines: self.head.headers,
            spelling: self.spelling,
        };
        // A target to rewrite means that the request is forwarded from here.
        let forwarder = match self.head.target {
            Some(_) => Forwarder::Proxy,
            None => Forwarder::Gateway,
        };
        let read = self.head.read(&snapshot.key_headers, &snapshot.policy);
        let read = read.map_err(Refusal::Misread)?;
        let extracted = read.extracted;
        if let Some(record) = entrance.record {
            record.note_caller(&extracted);
        }
        let ruling = extracted
            .client_ip
            .and_then(|address| ruling::of_address(gate, snapshot, address));
        if ruling == Some(Ruling::Deny) {
            return Err(Refusal::Banned);
        }
        let is_exempt = ruling == Some(Ruling::Allow);
        let admitted = match (snapshot.auth.is_configured(), is_exempt) {
            (false, true) => Admitted::default(),
            (false, false) => {
                let subject = extracted.subject();
                entrance
                    .charge_stage(&subject, headers, Stage::Whole, 1)
                    .await?
            }
            // In a box: a request without credentials needs no room for this.
            (true, _) => {
                let admission =
                    admit_with_credentials(entrance, &extracted, headers, forwarder, is_exempt);
                Box::pin(admission).await?
            }
        };
        Ok(AdmittedRequest {
            admitted,
            client_ip: extracted.client_ip,
            host: extracted.host.map(Cow::into_owned),
            rewritten_target: read.rewritten_target,
        })
    }
}

/// Steps three to five where credentials are configured.
async fn admit_with_credentials(
    entrance: Entrance<'_>,
    extracted: &Extracted<'_>,
    headers: SpelledHeaders<'_>,
    forwarder: Forwarder,
    is_exempt: bool,
) -> Result<Admitted, Refusal> {
    let subject = extracted.subject();
    let mut before = match is_exempt {
        true => Admitted::default(),
        false => {
            entrance
                .charge_stage(&subject, headers, Stage::BeforePrincipal, 1)
                .await?
        }
    };
    let pending = before.pending.take();
    let admitted = admit_principal(entrance, subject, headers, forwarder, is_exempt, before).await;
    match (admitted, pending) {
        (admitted, None) => admitted,
        (Ok(mut admitted), Some(pending)) => {
            admitted.pending = Some(match admitted.pending {
                Some(later) => pending.and(*later),
                None => pending,
            });
            Ok(admitted)
        }
        // Our own answer counts like a server's: wrong credentials are a failed login too.
        (Err(refusal), Some(pending)) => {
            settle_refused(entrance.gate, &pending, refusal.status().as_u16()).await;
            Err(refusal)
        }
    }
}

/// Steps four and five; `before` is what step three admitted.
async fn admit_principal(
    entrance: Entrance<'_>,
    mut subject: Subject<'_>,
    headers: SpelledHeaders<'_>,
    forwarder: Forwarder,
    is_exempt: bool,
    mut before: Admitted,
) -> Result<Admitted, Refusal> {
    let Entrance { gate, snapshot, .. } = entrance;
    let now = SystemTime::now();
    let authenticated = snapshot
        .auth
        .authenticate(headers.lines, now, forwarder)
        .await;
    before.unverified = authenticated.unverified;
    let principal = match authenticated.identity {
        Identity::Anonymous => Ok(None),
        Identity::Known(principal) => Ok(Some(principal)),
        Identity::Refused(unauthorized) => Err(Refusal::Unauthorized(unauthorized)),
        Identity::Unverifiable(missing) => Err(Refusal::KeysUnavailable(missing)),
    };
    let principal = match principal {
        Ok(principal) => principal,
        Err(refusal) if is_exempt => return Err(refusal),
        Err(refusal) => return charge_guess(entrance, &subject, headers, refusal).await,
    };
    if let (Some(record), Some(principal)) = (entrance.record, &principal) {
        record.note_principal(&principal.id);
    }
    let ruling = principal
        .as_deref()
        .and_then(|principal| ruling::of_principal(gate, snapshot, principal, is_exempt));
    match ruling {
        Some(Ruling::Deny) => return Err(Refusal::Banned),
        Some(Ruling::Allow) => return Ok(before),
        None if is_exempt => return Ok(before),
        None => {}
    }
    subject.principal = principal.as_deref();
    let after = entrance
        .charge_stage(&subject, headers, Stage::AfterPrincipal, 1)
        .await?;
    let decision = match (before.decision, after.decision) {
        (Some(before), Some(after)) => Some(before.and(&after)),
        (before, after) => before.or(after),
    };
    Ok(Admitted {
        decision,
        is_unchecked: before.is_unchecked || after.is_unchecked,
        routing: after.routing.or(before.routing),
        unverified: before.unverified,
        pending: after.pending,
    })
}

/// Refuses a caller without a valid credential. Whoever guesses is charged, too; the limits of known
/// callers stay as they are.
async fn charge_guess(
    entrance: Entrance<'_>,
    subject: &Subject<'_>,
    headers: SpelledHeaders<'_>,
    refusal: Refusal,
) -> Result<Admitted, Refusal> {
    let guess = entrance.charge_stage(subject, headers, Stage::Unauthorized, 1);
    if let Some(pending) = guess.await?.pending {
        settle_refused(entrance.gate, &pending, refusal.status().as_u16()).await;
    }
    Err(refusal)
}

impl Candidate for DescribedRequest<'_> {
    type Admitted = Admitted;

    async fn pass(self, entrance: Entrance<'_>) -> Result<Admitted, Refusal> {
        let Entrance { gate, snapshot, .. } = entrance;
        check_method(self.subject.method).map_err(Refusal::Misread)?;
        let twin = snapshot
            .key_headers
            .find_ambiguous(&snapshot.policy, self.headers.lines);
        if let Some(twin) = twin {
            return Err(Refusal::Misread(Misread::AmbiguousHeader(twin)));
        }
        match ruling::of_caller(gate, snapshot, self.subject) {
            Some(Ruling::Deny) => return Err(Refusal::Banned),
            Some(Ruling::Allow) => return Ok(Admitted::default()),
            None => {}
        }
        entrance
            .charge_stage(self.subject, self.headers, Stage::Whole, self.cost)
            .await
    }
}

impl Candidate for NamedCharges<'_> {
    type Admitted = Admitted;

    async fn pass(self, entrance: Entrance<'_>) -> Result<Admitted, Refusal> {
        let Entrance { gate, snapshot, .. } = entrance;
        let mut is_exempt = false;
        for subject in self.subjects {
            match ruling::of_caller(gate, snapshot, subject) {
                Some(Ruling::Deny) => return Err(Refusal::Banned),
                Some(Ruling::Allow) => is_exempt = true,
                None => {}
            }
        }
        if is_exempt {
            return Ok(Admitted::default());
        }
        let charges = self
            .charges
            .map_err(|missing| Refusal::Unidentified(missing.clone()))?;
        let verdict = charge_named(gate, snapshot, charges).await;
        let subject = self
            .subjects
            .iter()
            .find(|subject| subject.client_ip.is_some());
        entrance.conclude(verdict, subject, charges)
    }
}
