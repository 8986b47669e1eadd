//! Plays statements against a store, through a policy and its charges as a request would be.

use std::sync::Arc;

use sluicegate_core::{
    Charge, Decision, KeyPart, Limit, LimitOutcome, List, Mode, Nanos, Outcome, Policy, Timestamp,
};

use super::Problem;
use super::ask::{Amounts, Ask, Verb};
use super::expect::{Answer, Expected};
use super::parse::{Declaration, Statement};
use crate::clock::ManualClock;
use crate::store::Store;

/// A store, a clock and a policy in the middle of a transcript.
pub(super) struct Player<S> {
    store: S,
    clock: ManualClock,
    policy: Arc<Policy>,
    answers: usize,
}

impl<S: Store> Player<S> {
    pub(super) fn new(store: S) -> Self {
        let policy = Policy::new([]).expect("no limit, no mistake");
        Self {
            store,
            clock: ManualClock::default(),
            policy: Arc::new(policy),
            answers: 0,
        }
    }

    /// How many answers were compared.
    pub(super) fn answers(&self) -> usize {
        self.answers
    }

    pub(super) async fn play(&mut self, statement: Statement) -> Result<(), Problem> {
        match statement {
            Statement::Declare(declaration) => {
                self.declare(declaration).map_err(Problem::Unreadable)
            }
            Statement::Ask(ask) => self.ask(ask).await,
        }
    }

    fn declare(&mut self, declaration: Declaration) -> Result<(), String> {
        let Declaration {
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

    async fn ask(&mut self, ask: Ask) -> Result<(), Problem> {
        let Some(expected) = &ask.expected else {
            self.clock_to(ask.when.instants());
            return self.reset(&ask).await;
        };
        self.answers += 1;
        if expected.is_count() {
            return self.count(&ask, expected).await;
        }
        self.clock_to(ask.when.instants());
        let answer = self.answer(&ask).await?;
        let fits = expected.describes(&answer).map_err(Problem::Unreadable)?;
        if fits {
            Ok(())
        } else {
            Err(differs(expected, answer.to_string()))
        }
    }

    async fn count(&mut self, ask: &Ask, expected: &Expected) -> Result<(), Problem> {
        let mut allowed = 0;
        for at in ask.when.instants() {
            self.clock.set(at);
            allowed += u64::from(self.answer(ask).await?.is_allowed());
        }
        if expected.counts(allowed) {
            Ok(())
        } else {
            Err(differs(expected, format!("{allowed} allowed")))
        }
    }

    fn clock_to(&self, instants: impl Iterator<Item = Timestamp>) {
        for at in instants {
            self.clock.set(at);
        }
    }

    async fn answer(&self, ask: &Ask) -> Result<Answer, Problem> {
        let parts = [ask.caller.as_str()];
        let charges = self
            .charges(&ask.verb, &parts)
            .map_err(Problem::Unreadable)?;
        let outcomes = match &ask.verb {
            Verb::Refund { age, .. } => self.refund(&charges, *age).await?,
            _ => self
                .store
                .decide(&charges, &self.clock)
                .await
                .map_err(Problem::Store)?,
        };
        if outcomes.len() != charges.len() {
            let got = format!("{} answers to {} charges", outcomes.len(), charges.len());
            return Err(Problem::Differs {
                expected: "an answer to each charge".to_owned(),
                got,
            });
        }
        Ok(self.describe(&charges, &outcomes))
    }

    async fn refund(&self, charges: &[Charge<'_>], age: Nanos) -> Result<List<Outcome>, Problem> {
        let mut outcomes = List::Empty;
        for charge in charges {
            outcomes.push(
                self.store
                    .refund(charge, age, &self.clock)
                    .await
                    .map_err(Problem::Store)?,
            );
        }
        Ok(outcomes)
    }

    async fn reset(&self, ask: &Ask) -> Result<(), Problem> {
        let parts = [ask.caller.as_str()];
        for charge in self
            .charges(&ask.verb, &parts)
            .map_err(Problem::Unreadable)?
        {
            self.store
                .reset(&charge.key, &self.clock)
                .await
                .map_err(Problem::Store)?;
        }
        Ok(())
    }

    /// The charges of a caller: none on limits that are unlimited.
    fn charges<'a>(&'a self, verb: &Verb, parts: &'a [&'a str]) -> Result<Vec<Charge<'a>>, String> {
        let each = |cost: u64, which: &Option<String>| match which {
            Some(name) => vec![(cost, name.clone())],
            None => self
                .policy
                .limits()
                .iter()
                .map(|limit| (cost, limit.name.clone()))
                .collect(),
        };
        let amounts = match verb {
            Verb::Spend(Amounts::OfEach(cost)) => each(*cost, &None),
            Verb::Spend(Amounts::Of(amounts)) => amounts.clone(),
            Verb::Peek(which) | Verb::Reset(which) => each(0, which),
            Verb::Refund { cost, which, .. } => each(*cost, which),
        };
        if amounts.is_empty() {
            return Err("there is no limit yet".to_owned());
        }
        let charge =
            |(cost, name): &(u64, String)| self.policy.charge_named(name, parts, *cost).transpose();
        amounts
            .iter()
            .filter_map(charge)
            .collect::<Result<_, _>>()
            .map_err(|missing| missing.to_string())
    }

    fn describe(&self, charges: &[Charge<'_>], outcomes: &[Outcome]) -> Answer {
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
        Answer {
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

fn differs(expected: &Expected, got: String) -> Problem {
    Problem::Differs {
        expected: expected.text().to_owned(),
        got,
    }
}
