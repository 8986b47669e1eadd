//! Charges that wait for the answer to their request.
//!
//! A limit may count by the answer ([`Counting`]): its units are taken, or given back, when the
//! server has answered. Until then the request may end in any way, so the charges are kept apart
//! from it. Whoever admits a request holds its [`PendingCharges`] and settles them once: with the
//! answer, or without one when the caller went away before it came.

use std::sync::Arc;

use sluicegate_core::{
    Answer, AnswerSet, Charge, Counting, DetachedCharge, Draw, List, Policy, Timestamp,
};

/// The charges of an admitted request that its answer decides about.
///
/// ```
/// use sluicegate::{Answer, AnswerSet, Limit, Limiter, Quota, Subject};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let failed = AnswerSet::of(["401"])?;
/// let limiter = Limiter::local([Limit::new("logins", Quota::per_hour(1)).count_when(failed)])?;
/// for status in [200, 200, 401] {
///     let (verdict, pending) = limiter.check_pending(&Subject::ANONYMOUS, 1).await;
///     assert!(verdict.is_forwarded());
///     let pending = pending.expect("the limit waits for the answer");
///     limiter.settle(&pending, Some(Answer::http(status))).await;
/// }
/// assert!(!limiter.check(&Subject::ANONYMOUS, 1).await.is_forwarded());
/// # Ok(())
/// # })
/// # }
/// ```
#[derive(Debug)]
pub struct PendingCharges {
    /// The policy that the charges were made from.
    policy: Arc<Policy>,
    /// A time before the decision, so that no refund is worth too much.
    since: Timestamp,
    /// Those to take by the answer, and those to give back by it; their limits tell which.
    charges: Vec<DetachedCharge>,
}

impl PendingCharges {
    /// Those charges of an admitted request that wait for its answer; `None` when none does.
    ///
    /// The decision was asked for at `since`, and `is_taken` tells whether the store took the charge
    /// at an index: what it did not take is not given back.
    pub fn of(
        policy: &Arc<Policy>,
        charges: &[Charge<'_>],
        since: Timestamp,
        is_taken: impl Fn(usize) -> bool,
    ) -> Option<Box<Self>> {
        let waits = |(index, charge): &(usize, &Charge<'_>)| match charge.key.limit().counting {
            _ if charge.cost == 0 => false,
            Counting::Always => false,
            Counting::When(_) => charge.draw == Draw::Look,
            Counting::RefundWhen(_) => is_taken(*index),
        };
        let waiting = charges.iter().enumerate().filter(waits);
        let waiting: Vec<_> = waiting.map(|(_, charge)| charge.detach()).collect();
        (!waiting.is_empty()).then(|| {
            Box::new(Self {
                policy: Arc::clone(policy),
                since,
                charges: waiting,
            })
        })
    }

    /// Joins the charges of two stages of one request under one policy.
    #[must_use]
    pub fn and(mut self: Box<Self>, later: Self) -> Box<Self> {
        self.charges.extend(later.charges);
        self
    }

    /// True when the trailers of this answer matter.
    pub fn waits_for_trailers(&self, answer: Answer) -> bool {
        self.answers()
            .any(|answers| answers.waits_for_trailers(answer))
    }

    /// True when there is nothing to do after this answer.
    pub fn is_settled_by(&self, answer: Option<Answer>) -> bool {
        !self.charges.iter().any(|charge| {
            let counting = &self.policy.limit_at(charge.limit_index()).counting;
            is_counted(counting, answer) || is_given_back(counting, answer)
        })
    }

    /// A time before the charges were decided.
    pub(crate) fn since(&self) -> Timestamp {
        self.since
    }

    /// The charges to take after this answer, each on its own: the request has passed.
    pub(crate) fn to_take(&self, answer: Option<Answer>) -> List<Charge<'_>> {
        let due = self.due(|counting| is_counted(counting, answer));
        let alone = |charge| Charge {
            enforced: false,
            ..charge
        };
        due.map(alone).collect()
    }

    /// The charges to give back after this answer.
    pub(crate) fn to_give_back(&self, answer: Option<Answer>) -> List<Charge<'_>> {
        self.due(|counting| is_given_back(counting, answer))
            .collect()
    }

    fn due(&self, is_due: impl Fn(&Counting) -> bool) -> impl Iterator<Item = Charge<'_>> {
        self.charges.iter().filter_map(move |charge| {
            let limit = self.policy.limit_at(charge.limit_index());
            is_due(&limit.counting).then(|| charge.on(limit))
        })
    }

    fn answers(&self) -> impl Iterator<Item = &AnswerSet> {
        let limits = self.charges.iter();
        let limits = limits.map(|charge| self.policy.limit_at(charge.limit_index()));
        limits.filter_map(|limit| limit.counting.answers())
    }
}

/// True when units are taken after this answer. A caller who goes away before the answer pays:
/// hanging up must not make a guess free.
fn is_counted(counting: &Counting, answer: Option<Answer>) -> bool {
    match counting {
        Counting::When(answers) => answer.is_none_or(|answer| answers.has(answer)),
        Counting::Always | Counting::RefundWhen(_) => false,
    }
}

/// True when units are given back after this answer.
fn is_given_back(counting: &Counting, answer: Option<Answer>) -> bool {
    match counting {
        Counting::RefundWhen(answers) => answer.is_some_and(|answer| answers.has(answer)),
        Counting::Always | Counting::When(_) => false,
    }
}
