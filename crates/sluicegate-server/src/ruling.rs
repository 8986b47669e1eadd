//! What is asked about a well-formed request before it goes on: lists, limits, credentials, and the limits that need those.
//!
//! The proxy and the decision service ask the same, in the same order.

use std::sync::Arc;
use std::time::SystemTime;

use http::HeaderMap;
use sluicegate::Verdict;
use sluicegate::http::Extracted;
use sluicegate_core::{Decision, Principal, Stage};

use crate::access::Ruling;
use crate::auth::{Identity, Unauthorized};
use crate::external::ExternalLimits;
use crate::live::{Gate, Live};
use crate::outside::Ruled;

/// Why a well-formed request may not go on.
pub(crate) enum Stop {
    /// Its caller is on the list of those who do not pass.
    Denied,
    /// Its credential is missing or wrong.
    Unauthorized(Unauthorized),
    /// A limit is spent, or nobody knows.
    Verdict(Verdict),
}

/// A request that may go on.
#[derive(Default)]
pub(crate) struct Passed {
    /// What its limits said, if any was asked.
    pub(crate) decision: Option<Decision>,
    /// What the limits service said about the caller besides numbers.
    pub(crate) told: Option<Arc<ExternalLimits>>,
}

/// Whether a request may go on, and what its limits said. Whoever it is from is told to `meet`, once that is known.
pub(crate) async fn ruling(
    gate: &Gate,
    live: &Live,
    extracted: &Extracted<'_>,
    headers: &HeaderMap,
    meet: impl FnOnce(&Principal) + Send,
) -> Result<Passed, Stop> {
    let by_address = extracted
        .client_ip
        .and_then(|address| gate.ruling_of_address(live, address));
    if by_address == Some(Ruling::Deny) {
        return Err(Stop::Denied);
    }
    let is_exempt = by_address == Some(Ruling::Allow);
    if !live.auth.is_configured() {
        return match is_exempt {
            true => Ok(Passed::default()),
            false => charge(gate, live, extracted, headers, Stage::Whole, None).await,
        };
    }
    Box::pin(ruling_with_principal(
        gate, live, extracted, headers, meet, is_exempt,
    ))
    .await
}

async fn ruling_with_principal(
    gate: &Gate,
    live: &Live,
    extracted: &Extracted<'_>,
    headers: &HeaderMap,
    meet: impl FnOnce(&Principal) + Send,
    is_exempt: bool,
) -> Result<Passed, Stop> {
    let first = match is_exempt {
        true => Passed::default(),
        false => charge(gate, live, extracted, headers, Stage::BeforePrincipal, None).await?,
    };
    let principal = match live.auth.authenticate(headers, SystemTime::now()) {
        Identity::Anonymous => None,
        Identity::Known(principal) => Some(principal),
        Identity::Refused(unauthorized) => return Err(Stop::Unauthorized(unauthorized)),
    };
    if let Some(known) = &principal {
        meet(known);
    }
    match principal
        .as_deref()
        .and_then(|known| gate.ruling_of_principal(live, &known.id))
    {
        Some(Ruling::Deny) => return Err(Stop::Denied),
        Some(Ruling::Allow) => return Ok(first),
        None if is_exempt => return Ok(first),
        None => {}
    }
    let second = charge(
        gate,
        live,
        extracted,
        headers,
        Stage::AfterPrincipal,
        principal.as_deref(),
    )
    .await?;
    let decision = match (first.decision, second.decision) {
        (Some(first), Some(second)) => Some(first.and(&second)),
        (first, second) => first.or(second),
    };
    Ok(Passed {
        decision,
        told: second.told.or(first.told),
    })
}

async fn charge(
    gate: &Gate,
    live: &Live,
    extracted: &Extracted<'_>,
    headers: &HeaderMap,
    stage: Stage,
    principal: Option<&Principal>,
) -> Result<Passed, Stop> {
    let mut subject = extracted.subject();
    subject.principal = principal;
    let Ruled { verdict, told } = gate.check(live, stage, &subject, headers, 1).await;
    if let Some(decision) = verdict.decision() {
        live.counts.count(decision);
    }
    match verdict {
        Verdict::Forward(decision) => Ok(Passed {
            decision: Some(decision),
            told,
        }),
        Verdict::ForwardUnchecked(_) => Ok(Passed {
            decision: None,
            told,
        }),
        verdict => Err(Stop::Verdict(verdict)),
    }
}
