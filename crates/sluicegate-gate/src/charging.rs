//! Charging: takes the charges of a request under the terms that hold for each of them.
//!
//! The terms of a charge come from three places, each before the one after it: an operator's
//! override, the limits service, the limit itself. What the engine then decides is recorded once,
//! here: in the counters of the limit, among the top keys and in the decision stream.

use std::sync::Arc;

use sluicegate::{Clock, Engine, PendingCharges, Settlement, Store, StoreError, Verdict};
use sluicegate_core::{Charge, Counting, Draw, List, Nanos, Outcome, Quota, Subject};

use crate::external::{ExternalLimits, SpelledHeaders};
use crate::gate::Gate;
use crate::snapshot::Snapshot;
use crate::terms::{ExternalTerms, OnBehalf, TermedCharge};

/// The result of charging a request.
pub(crate) struct ChargedRequest {
    pub(crate) verdict: Verdict,
    /// The limits service's answer, where it names a server or a timeout for the caller.
    pub(crate) routing: Option<Arc<ExternalLimits>>,
    /// The charges that wait for the answer to the request.
    pub(crate) pending: Option<Box<PendingCharges>>,
}

/// Charges a request to limits, all or nothing. Charges that the terms leave unlimited are dropped.
pub(crate) async fn charge_request(
    gate: &Gate,
    snapshot: &Snapshot,
    subject: &Subject<'_>,
    headers: SpelledHeaders<'_>,
    charges: &[Charge<'_>],
) -> ChargedRequest {
    let Some(external) = &snapshot.external else {
        if awaits_answer(snapshot, charges) {
            let awaiting = Box::pin(take_awaiting(gate, snapshot, charges, None));
            return awaiting.await.routed(None);
        }
        let verdict = take(gate, snapshot, charges, None, UnlimitedCharge::Drop).await;
        return ChargedRequest::of(verdict);
    };
    let request = OnBehalf {
        subject: Some(subject),
        headers,
    };
    let terms = match ExternalTerms::remembered(external, charges, &request) {
        Some(terms) => terms,
        // In a box: most requests need no room for this.
        None => Box::pin(ExternalTerms::ask(external, charges, &request)).await,
    };
    if awaits_answer(snapshot, charges) {
        let awaiting = Box::pin(take_awaiting(gate, snapshot, charges, Some(&terms)));
        return awaiting.await.routed(terms.routing());
    }
    let verdict = take(gate, snapshot, charges, Some(&terms), UnlimitedCharge::Drop).await;
    ChargedRequest::of(verdict).routed(terms.routing())
}

impl ChargedRequest {
    fn of(verdict: Verdict) -> Self {
        Self {
            verdict,
            routing: None,
            pending: None,
        }
    }

    fn routed(self, routing: Option<Arc<ExternalLimits>>) -> Self {
        Self { routing, ..self }
    }
}

/// True when a charge of a request waits for its answer. Without such limits that is one load.
fn awaits_answer(snapshot: &Snapshot, charges: &[Charge<'_>]) -> bool {
    let waits = |charge: &Charge<'_>| charge.key.limit().counting != Counting::Always;
    snapshot.policy.awaits_answers() && charges.iter().any(waits)
}

/// Takes charges of which some wait for the answer, and returns those.
async fn take_awaiting<'a>(
    gate: &Gate,
    snapshot: &Snapshot,
    charges: &[Charge<'a>],
    terms: Option<&'a ExternalTerms>,
) -> ChargedRequest {
    let changed = under_terms(gate, charges, terms, UnlimitedCharge::Drop);
    let charges = changed.as_deref().unwrap_or(charges);
    let since = gate.engine.clock().now();
    let settlement = gate.engine.decide(charges).await;
    record(gate, snapshot, charges, &settlement);
    let pending = PendingCharges::of(&snapshot.policy, charges, since, |index| {
        settlement.is_taken(index)
    });
    let verdict = settlement.into_verdict(&snapshot.policy, charges);
    ChargedRequest {
        pending: pending.filter(|_| verdict.is_forwarded()),
        ..ChargedRequest::of(verdict)
    }
}

/// Takes charges that a caller names, all or nothing. Every charge has an entry in the decision: one
/// that the terms leave unlimited is looked at and takes nothing.
pub(crate) async fn charge_named(
    gate: &Gate,
    snapshot: &Snapshot,
    charges: &[Charge<'_>],
) -> Verdict {
    match &snapshot.external {
        None => take(gate, snapshot, charges, None, UnlimitedCharge::Look).await,
        Some(external) => {
            // In a box: without a limits service no room is needed for this.
            Box::pin(async {
                let terms = ExternalTerms::ask(external, charges, &OnBehalf::nobody()).await;
                take(gate, snapshot, charges, Some(&terms), UnlimitedCharge::Look).await
            })
            .await
        }
    }
}

/// What becomes of a charge that the terms leave without a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnlimitedCharge {
    /// It is dropped: nobody asks for its outcome.
    Drop,
    /// It takes nothing, and its outcome has an entry.
    Look,
}

/// Takes charges under the terms that hold for them and records what was decided.
#[inline]
async fn take<'a>(
    gate: &Gate,
    snapshot: &Snapshot,
    charges: &[Charge<'a>],
    terms: Option<&'a ExternalTerms>,
    unlimited: UnlimitedCharge,
) -> Verdict {
    let changed = under_terms(gate, charges, terms, unlimited);
    let charges = changed.as_deref().unwrap_or(charges);
    let settlement = gate.engine.decide(charges).await;
    record(gate, snapshot, charges, &settlement);
    settlement.into_verdict(&snapshot.policy, charges)
}

/// The charges under the terms that hold for each of them: an operator's override, else the answer of
/// the limits service, else the limit's own. `None` when all of them have their limit's own.
fn under_terms<'a>(
    gate: &Gate,
    charges: &[Charge<'a>],
    terms: Option<&'a ExternalTerms>,
    unlimited: UnlimitedCharge,
) -> Option<List<Charge<'a>>> {
    let overrides = gate.overrides.with_overrides();
    if terms.is_none() && overrides.is_none() {
        return None;
    }
    let under_terms = charges.iter().enumerate().filter_map(|(index, charge)| {
        let TermedCharge {
            mut charge,
            mut is_limited,
        } = match terms {
            Some(terms) => terms.of_charge(index, *charge),
            None => TermedCharge::of_limit(*charge),
        };
        let overridden = overrides.as_ref().and_then(|set| set.of_charge(&charge));
        if let Some((quota, _)) = overridden {
            is_limited = quota.is_some();
            charge.quota = quota.unwrap_or(charge.quota);
        }
        match (is_limited, unlimited) {
            (true, _) => Some(charge),
            (false, UnlimitedCharge::Drop) => None,
            (false, UnlimitedCharge::Look) => Some(Charge { cost: 0, ..charge }),
        }
    });
    Some(under_terms.collect())
}

/// Counts what each limit decided, and samples it. A charge of nothing is a look, which leaves no
/// trace; a look before the answer leaves one only where it denied the request.
fn record(gate: &Gate, snapshot: &Snapshot, charges: &[Charge<'_>], settlement: &Settlement) {
    for (index, charge) in charges.iter().enumerate() {
        let Some(outcome) = settlement.outcome(index) else {
            continue;
        };
        if charge.cost > 0 && (charge.draw == Draw::Take || !outcome.is_allowed()) {
            record_one(gate, snapshot, charge, outcome);
        }
    }
}

/// Counts and samples one charge. A charge of another configuration is counted as well.
pub(crate) fn record_one(gate: &Gate, snapshot: &Snapshot, charge: &Charge<'_>, outcome: &Outcome) {
    snapshot.counts.count(charge, outcome);
    gate.top_keys.record(&charge.key, !outcome.is_allowed());
    gate.decision_stream.record(charge, outcome);
}

/// Gives back the units of charges that were drawn `age` ago.
pub async fn refund(
    gate: &Gate,
    snapshot: &Snapshot,
    charges: &[Charge<'_>],
    age: Nanos,
) -> Verdict {
    let terms = ask_service(snapshot, charges).await;
    let changed = under_terms(gate, charges, terms.as_ref(), UnlimitedCharge::Look);
    let charges = changed.as_deref().unwrap_or(charges);
    let settlement = gate.engine.refund(charges, age).await;
    settlement.into_verdict(&snapshot.policy, charges)
}

/// Forgets the counters of charges.
pub async fn reset(
    gate: &Gate,
    snapshot: &Snapshot,
    charges: &[Charge<'_>],
) -> Result<(), StoreError> {
    let terms = ask_service(snapshot, charges).await;
    let changed = under_terms(gate, charges, terms.as_ref(), UnlimitedCharge::Look);
    gate.engine
        .reset(changed.as_deref().unwrap_or(charges))
        .await
}

/// The limits service's answers about counters; `None` without a service.
async fn ask_service(snapshot: &Snapshot, charges: &[Charge<'_>]) -> Option<ExternalTerms> {
    match &snapshot.external {
        None => None,
        Some(external) => Some(ExternalTerms::ask(external, charges, &OnBehalf::nobody()).await),
    }
}

/// Where the quota of a charge comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TermsSource {
    /// The configuration.
    Config,
    /// The configuration; a limits service may say otherwise and was not asked.
    ConfigUnasked,
    /// The limits service.
    External,
    /// An operator's override.
    Override,
}

impl TermsSource {
    /// The source as APIs name it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Config | Self::ConfigUnasked => "config",
            Self::External => "external",
            Self::Override => "override",
        }
    }
}

/// A charge that was looked at: the terms that hold for it and the state of its counter.
pub struct Inspection {
    /// The quota in force; `None` when the charge is not limited.
    pub quota: Option<Quota>,
    /// The place that the quota comes from.
    pub source: TermsSource,
    /// The counter's name.
    pub key: String,
    /// The outcome that the charge would have; nothing is taken. `None` when it is not limited.
    pub outcome: Option<Result<Outcome, StoreError>>,
}

/// Looks at a charge: nothing is taken, counted or sampled.
pub async fn inspect(
    gate: &Gate,
    snapshot: &Snapshot,
    charge: Charge<'_>,
    request: &OnBehalf<'_>,
) -> Inspection {
    let terms = match &snapshot.external {
        None => ExternalTerms::of_limit(),
        Some(external) => ExternalTerms::ask(external, &[charge], request).await,
    };
    let mut source = match terms.at(0) {
        None => TermsSource::Config,
        Some(_) => TermsSource::External,
    };
    let TermedCharge {
        mut charge,
        is_limited,
    } = terms.of_charge(0, charge);
    let mut quota = is_limited.then_some(charge.quota);
    if let Some((overridden, _)) = gate.overrides.current().of_charge(&charge) {
        (quota, source) = (overridden, TermsSource::Override);
    }
    let key = charge.key.to_string();
    let outcome = match quota {
        None => None,
        Some(quota) => {
            charge.quota = quota;
            Some(look(&gate.engine, charge).await)
        }
    };
    Inspection {
        quota,
        source,
        key,
        outcome,
    }
}

/// The outcome that a charge would have; the counter stays as it is.
pub async fn look<S: Store, C: Clock>(
    engine: &Engine<S, C>,
    charge: Charge<'_>,
) -> Result<Outcome, StoreError> {
    let charge = Charge {
        enforced: true,
        draw: Draw::Look,
        ..charge
    };
    let settlement = engine.decide(&[charge]).await;
    match (settlement.outcome(0), &settlement) {
        (Some(outcome), _) => Ok(*outcome),
        (None, Settlement::Unavailable { error, .. } | Settlement::Unchecked(error)) => {
            Err(error.clone())
        }
        (None, Settlement::Decided(_) | Settlement::Owed(_) | Settlement::Degraded(_)) => Err(
            StoreError::Unavailable("the limit was not asked".to_owned()),
        ),
    }
}
