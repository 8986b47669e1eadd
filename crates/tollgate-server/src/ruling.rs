//! What is asked about a well-formed request before it goes on: lists, limits, credentials, and the limits that need those.
//!
//! The proxy and the decision service ask the same, in the same order.

use std::time::SystemTime;

use http::HeaderMap;
use tollgate::Verdict;
use tollgate::http::Extracted;
use tollgate_core::{Decision, Principal, Stage};

use crate::access::Ruling;
use crate::auth::{Identity, Unauthorized};
use crate::live::{Gate, Live};

/// Why a well-formed request may not go on.
pub(crate) enum Stop {
    /// Its caller is on the list of those who do not pass.
    Denied,
    /// Its credential is missing or wrong.
    Unauthorized(Unauthorized),
    /// A limit is spent, or nobody knows.
    Verdict(Verdict),
}

/// Whether a request may go on, and what its limits said. Whoever it is from is told to `meet`, once that is known.
pub(crate) async fn ruling(
    gate: &Gate,
    live: &Live,
    extracted: &Extracted<'_>,
    headers: &HeaderMap,
    meet: impl FnOnce(&Principal) + Send,
) -> Result<Option<Decision>, Stop> {
    let by_address = extracted.client_ip.and_then(|address| live.access.of_address(address));
    if by_address == Some(Ruling::Deny) {
        return Err(Stop::Denied);
    }
    let is_exempt = by_address == Some(Ruling::Allow);
    if !live.auth.is_configured() {
        return if is_exempt { Ok(None) } else { charge(gate, live, extracted, Stage::Whole, None).await };
    }
    Box::pin(ruling_with_principal(gate, live, extracted, headers, meet, is_exempt)).await
}

async fn ruling_with_principal(
    gate: &Gate,
    live: &Live,
    extracted: &Extracted<'_>,
    headers: &HeaderMap,
    meet: impl FnOnce(&Principal) + Send,
    is_exempt: bool,
) -> Result<Option<Decision>, Stop> {
    let first = if is_exempt { None } else { charge(gate, live, extracted, Stage::BeforePrincipal, None).await? };
    let principal = match live.auth.authenticate(headers, SystemTime::now()) {
        Identity::Anonymous => None,
        Identity::Known(principal) => Some(principal),
        Identity::Refused(unauthorized) => return Err(Stop::Unauthorized(unauthorized)),
    };
    if let Some(known) = &principal {
        meet(known);
    }
    match principal.as_deref().and_then(|known| live.access.of_principal(&known.id)) {
        Some(Ruling::Deny) => return Err(Stop::Denied),
        Some(Ruling::Allow) => return Ok(first),
        None if is_exempt => return Ok(None),
        None => {}
    }
    let second = charge(gate, live, extracted, Stage::AfterPrincipal, principal.as_deref()).await?;
    Ok(match (first, second) {
        (Some(first), Some(second)) => Some(first.and(&second)),
        (first, second) => first.or(second),
    })
}

async fn charge(
    gate: &Gate,
    live: &Live,
    extracted: &Extracted<'_>,
    stage: Stage,
    principal: Option<&Principal>,
) -> Result<Option<Decision>, Stop> {
    let mut subject = extracted.subject();
    subject.principal = principal;
    let verdict = gate.limiter.check_at(&live.policy, stage, &subject, 1).await;
    if let Some(decision) = verdict.decision() {
        live.counts.count(decision);
    }
    match verdict {
        Verdict::Forward(decision) => Ok(Some(decision)),
        Verdict::ForwardUnchecked(_) => Ok(None),
        verdict => Err(Stop::Verdict(verdict)),
    }
}
