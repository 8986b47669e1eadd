//! Plays statements against a store, through a policy and its charges, as a request would be.
//!
//! The player owns all that a transcript changes: the clock, the policy, and the store behind it.
//! Limits of a transcript are keyed by the caller's name ([`KeyPart::Principal`]), so that `as ann`
//! and `as bob` have counters of their own.

use std::sync::Arc;

use sluicegate_core::{
    Charge, Decision, Draw, KeyPart, Limit, LimitOutcome, List, Mode, Nanos, Outcome, Policy,
    Timestamp,
};

use super::LineProblem;
use super::answer::{ExpectedAnswer, StoreAnswer};
use super::parse::{LimitDeclaration, Statement};
use super::request::{SpendAmounts, TranscriptOperation, TranscriptRequest};
use crate::clock::ManualClock;
use crate::store::Store;

/// A store, a clock and a policy in the middle of a transcript.
pub(super) struct TranscriptPlayer<S> {
    store: S,
    /// Set to the instant of each request; transcripts may set it back.
    clock: ManualClock,
    /// Replaced by every declaration.
    policy: Arc<Policy>,
    /// Answers compared so far.
    answers: usize,
}

impl<S: Store> TranscriptPlayer<S> {
    pub(super) fn new(store: S) -> Self {
        let policy = Policy::new([]).expect("no limit, no mistake");
        Self {
            store,
            clock: ManualClock::default(),
            policy: Arc::new(policy),
            answers: 0,
        }
    }

    /// The number of answers that were compared.
    pub(super) fn answers(&self) -> usize {
        self.answers
    }

    /// Plays one line.
    pub(super) async fn play(&mut self, statement: Statement) -> Result<(), LineProblem> {
        match statement {
            Statement::Declare(declaration) => {
                self.declare(declaration).map_err(LineProblem::Unreadable)
            }
            Statement::Request(request) => self.play_request(request).await,
        }
    }

    /// Adds a limit to the policy, or gives it another quota; the counters stay, as they do when a
    /// configuration is reloaded.
    fn declare(&mut self, declaration: LimitDeclaration) -> Result<(), String> {
        let LimitDeclaration {
            name,
            quota,
            is_shadow,
            is_reload,
        } = declaration;
        let mut limits = self.policy.limits().to_vec();
        let mode = if is_shadow {
            Mode::Shadow
        } else {
            Mode::Enforce
        };
        let limit = Limit {
            quota,
            mode,
            ..Limit::unlimited(&name).key([KeyPart::Principal])
        };
        match (
            limits.iter_mut().find(|known| known.name == name),
            is_reload,
        ) {
            (Some(known), true) => *known = limit,
            (None, false) => limits.push(limit),
            (Some(_), false) => {
                return Err(format!("there is a limit {name:?} already; now changes it"));
            }
            (None, true) => return Err(format!("there is no limit {name:?} to change")),
        }
        self.policy = Arc::new(Policy::new(limits).map_err(|mistakes| mistakes.to_string())?);
        Ok(())
    }

    /// Makes a request as often as the transcript says, and compares the answer.
    async fn play_request(&mut self, request: TranscriptRequest) -> Result<(), LineProblem> {
        let Some(expected) = &request.expected else {
            self.set_clock_to(request.times.instants());
            return self.reset(&request).await;
        };
        self.answers += 1;
        if expected.is_count() {
            return self.count(&request, expected).await;
        }
        self.set_clock_to(request.times.instants());
        let answer = self.answer(&request).await?;
        let fits = expected
            .describes(&answer)
            .map_err(LineProblem::Unreadable)?;
        if fits {
            Ok(())
        } else {
            Err(differs(expected, answer.to_string()))
        }
    }

    /// Makes many requests and compares how many were allowed.
    async fn count(
        &mut self,
        request: &TranscriptRequest,
        expected: &ExpectedAnswer,
    ) -> Result<(), LineProblem> {
        let mut allowed = 0;
        for at in request.times.instants() {
            self.clock.set(at);
            allowed += u64::from(self.answer(request).await?.is_allowed());
        }
        if expected.counts(allowed) {
            Ok(())
        } else {
            Err(differs(expected, format!("{allowed} allowed")))
        }
    }

    /// Sets the clock to the last of these instants, by way of the others.
    fn set_clock_to(&self, instants: impl Iterator<Item = Timestamp>) {
        for at in instants {
            self.clock.set(at);
        }
    }

    /// Asks the store once.
    async fn answer(&self, request: &TranscriptRequest) -> Result<StoreAnswer, LineProblem> {
        let parts = [request.caller.as_str()];
        let charges = self
            .charges(&request.operation, &parts)
            .map_err(LineProblem::Unreadable)?;
        let outcomes = match &request.operation {
            TranscriptOperation::Refund { age, .. } => self.refund(&charges, *age).await?,
            _ => self
                .store
                .decide(&charges, &self.clock)
                .await
                .map_err(LineProblem::Store)?,
        };
        // A store that drops an answer would otherwise pass every comparison of the others.
        if outcomes.len() != charges.len() {
            let got = format!("{} answers to {} charges", outcomes.len(), charges.len());
            return Err(LineProblem::Differs {
                expected: "an answer to each charge".to_owned(),
                got,
            });
        }
        Ok(self.describe(&charges, &outcomes))
    }

    async fn refund(
        &self,
        charges: &[Charge<'_>],
        age: Nanos,
    ) -> Result<List<Outcome>, LineProblem> {
        let mut outcomes = List::Empty;
        for charge in charges {
            outcomes.push(
                self.store
                    .refund(charge, age, &self.clock)
                    .await
                    .map_err(LineProblem::Store)?,
            );
        }
        Ok(outcomes)
    }

    /// Forgets the counters of a caller.
    async fn reset(&self, request: &TranscriptRequest) -> Result<(), LineProblem> {
        let parts = [request.caller.as_str()];
        for charge in self
            .charges(&request.operation, &parts)
            .map_err(LineProblem::Unreadable)?
        {
            self.store
                .reset(&charge, &self.clock)
                .await
                .map_err(LineProblem::Store)?;
        }
        Ok(())
    }

    /// The charges of a caller: none on limits that are unlimited.
    fn charges<'a>(
        &'a self,
        verb: &TranscriptOperation,
        parts: &'a [&'a str],
    ) -> Result<Vec<Charge<'a>>, String> {
        let each = |draw: Draw, cost: u64, which: &Option<String>| match which {
            Some(name) => vec![(draw, cost, name.clone())],
            None => self
                .policy
                .limits()
                .iter()
                .map(|limit| (draw, cost, limit.name.clone()))
                .collect(),
        };
        let amounts = match verb {
            TranscriptOperation::Spend(SpendAmounts::OfEach(cost)) => {
                each(Draw::Take, *cost, &None)
            }
            TranscriptOperation::Look(SpendAmounts::OfEach(cost)) => each(Draw::Look, *cost, &None),
            TranscriptOperation::Spend(SpendAmounts::Of(amounts))
            | TranscriptOperation::Look(SpendAmounts::Of(amounts)) => amounts.clone(),
            TranscriptOperation::Peek(which) | TranscriptOperation::Reset(which) => {
                each(Draw::Take, 0, which)
            }
            TranscriptOperation::Refund { cost, which, .. } => each(Draw::Take, *cost, which),
        };
        if amounts.is_empty() {
            return Err("there is no limit yet".to_owned());
        }
        let charge = |(draw, cost, name): &(Draw, u64, String)| {
            let charge = self.policy.charge_named(name, parts, *cost).transpose()?;
            Some(charge.map(|charge| Charge {
                draw: *draw,
                ..charge
            }))
        };
        amounts
            .iter()
            .filter_map(charge)
            .collect::<Result<_, _>>()
            .map_err(|missing| missing.to_string())
    }

    /// The answer in the words of transcripts; which limits deny, and for how long, is worked out
    /// by [`Decision`], as for every request.
    fn describe(&self, charges: &[Charge<'_>], outcomes: &[Outcome]) -> StoreAnswer {
        let charged = charges
            .iter()
            .zip(outcomes)
            .map(|(charge, outcome)| LimitOutcome {
                limit_index: charge.limit_index,
                quota: charge.quota,
                outcome: *outcome,
                enforced: charge.enforced,
            });
        let decision = Decision::new(Arc::clone(&self.policy), charged.map(Some).collect());
        let watched = decision
            .outcomes()
            .filter(|(limit, _)| limit.mode == Mode::Shadow);
        StoreAnswer {
            denied_by: decision
                .denials()
                .map(|(limit, _)| limit.name.clone())
                .collect(),
            would_deny: watched
                .filter(|(_, charged)| !charged.outcome.is_allowed())
                .map(|(limit, _)| limit.name.clone())
                .collect(),
            retry_after: decision.retry_after(),
            outcomes: decision
                .outcomes()
                .map(|(limit, charged)| (limit.name.clone(), charged.outcome))
                .collect(),
        }
    }
}

/// The problem of an answer that is not the expected one.
fn differs(expected: &ExpectedAnswer, got: String) -> LineProblem {
    LineProblem::Differs {
        expected: expected.text().to_owned(),
        got,
    }
}
